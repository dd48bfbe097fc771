#include "mpi_posts.hpp"

#include "python_side.hpp"

namespace labkit::bindings {
namespace {

// How much an object receive takes: everything, or mpi4py's room for irecv (32 KiB unless given).
bool object_capacity(PyObject* buffer, bool is_blocking, std::uint64_t& capacity) {
  capacity = is_blocking ? ~0ULL : 32768;
  if (buffer == nullptr || buffer == Py_None) return true;
  if (PyIndex_Check(buffer)) {
    const Py_ssize_t bytes = PyNumber_AsSsize_t(buffer, PyExc_OverflowError);
    if (bytes < 0 && PyErr_Occurred() != nullptr) return false;
    capacity = static_cast<std::uint64_t>(bytes < 0 ? 0 : bytes);
    return true;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) return false;
  capacity = static_cast<std::uint64_t>(view.len);
  PyBuffer_Release(&view);
  return true;
}

}  // namespace

bool take_tag(PyObject* value, int otherwise, bool may_be_any, int& tag) {
  if (!take_int(value, "tag", otherwise, tag)) return false;
  if (tag >= 0 || (may_be_any && tag == kAnyTag)) return true;
  raise_mpi(kErrTag, "tag=%d is not allowed: tags are 0 to %d%s", tag, kTagUpperBound,
            may_be_any ? ", or ANY_TAG" : "");
  return false;
}

bool post_send(Hub* hub, CommObject* comm, PyObject* data, PyObject* dest, PyObject* tag_value, SendMode mode,
               bool is_object, bool is_blocking, Posted& out) {
  int rank = 0;
  int tag = 0;
  if (!take_int(dest, "dest", 0, rank) || !take_tag(tag_value, 0, false, tag)) return false;
  out.is_no_proc = rank == kProcNull;
  if (out.is_no_proc) return check_comm(comm, hub);
  if (!to_world(comm, hub, rank, "dest", out.peer)) return false;
  PyObject* bytes = nullptr;
  if (is_object && (bytes = pickle_dumps(data)) == nullptr) return false;
  Payload* payload = hub->payloads().take();
  bool is_good = true;
  if (is_object) {
    hold_bytes(bytes, *payload);
    Py_DECREF(bytes);
  } else {
    is_good = pin_buffer(data, false, *payload);
  }
  if (!is_good) {
    hub->payloads().give(payload);
    return false;
  }
  SendPost post{hub->current(), out.peer, tag, comm->context, payload->bytes, payload, hub, mode, is_blocking, false};
  out.id = hub->engine().send(post);
  return true;
}

bool take_peer(Hub* hub, CommObject* comm, PyObject* source, Posted& out) {
  int rank = 0;
  if (!take_int(source, "source", kAnySource, rank)) return false;
  out.is_no_proc = rank == kProcNull;
  if (!check_comm(comm, hub)) return false;
  out.peer = kAnySource;
  return out.is_no_proc || rank == kAnySource || to_world(comm, hub, rank, "source", out.peer);
}

bool post_receive(Hub* hub, CommObject* comm, PyObject* buffer, PyObject* source, PyObject* tag_value, bool is_object,
                  bool is_blocking, Posted& out) {
  int tag = 0;
  if (!take_tag(tag_value, kAnyTag, true, tag) || !take_peer(hub, comm, source, out)) return false;
  if (out.is_no_proc) return true;
  Payload* payload = hub->payloads().take();
  payload->is_object = is_object;
  if (!(is_object ? object_capacity(buffer, is_blocking, payload->bytes) : pin_buffer(buffer, true, *payload))) {
    hub->payloads().give(payload);
    return false;
  }
  out.payload = payload;
  out.id = hub->engine().receive(
      {hub->current(), out.peer, tag, comm->context, payload->bytes, payload, hub, false});
  return true;
}

int shown_tag(PyObject* tag, int otherwise) {
  int value = otherwise;
  if (!take_int(tag, "tag", otherwise, value)) PyErr_Clear();
  return value;
}

PyObject* make_request(CommObject* comm, Hub* hub, const Posted& posted, RequestUse use) {
  auto* type = reinterpret_cast<PyTypeObject*>(python_side().request_type);
  auto* request = reinterpret_cast<RequestObject*>(type->tp_alloc(type, 0));
  if (request == nullptr) return nullptr;
  request->comm = Py_NewRef(reinterpret_cast<PyObject*>(comm));
  request->hub_serial = hub->serial();
  request->id = posted.id;
  request->payload = posted.payload;
  request->use = use;
  if (posted.is_no_proc) {  // complete at once, and from nobody
    request->use = RequestUse::finished;
    request->status.source = use == RequestUse::send ? kAnySource : kProcNull;
    request->status.tag = kAnyTag;
  }
  return reinterpret_cast<PyObject*>(request);
}

}  // namespace labkit::bindings
