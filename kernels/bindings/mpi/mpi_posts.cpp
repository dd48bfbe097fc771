#include "mpi/mpi_posts.hpp"

#include <utility>

#include "python_side.hpp"

namespace labkit::bindings {
namespace {

bool room_of(PyObject* buffer, std::uint64_t& bytes) {
  if (PyObject_CheckBuffer(buffer) == 0) {  // another library's array
    PyObject* found = PyObject_CallOneArg(python_side().foreign_memory, buffer);
    const bool is_found = found != nullptr && room_of(PyTuple_GET_ITEM(found, 0), bytes);
    Py_XDECREF(found);
    return is_found;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(buffer, &view, PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) != 0) PyErr_SetString(PyExc_BufferError, "buf: a contiguous and writable buffer is needed");
    return false;
  }
  bytes = static_cast<std::uint64_t>(view.len);
  PyBuffer_Release(&view);
  return true;
}

// How much an object receive takes: everything, or mpi4py's room for irecv (32 KiB unless given).
bool object_capacity(const Hub& hub, PyObject* buffer, bool is_blocking, std::uint64_t& capacity) {
  capacity = is_blocking ? ~0ULL : hub.irecv_room();
  if (buffer == nullptr || buffer == Py_None) return true;
  if (PyIndex_Check(buffer)) {  // of an array it is a buffer, unless it has no dimension
    const Py_ssize_t bytes = PyNumber_AsSsize_t(buffer, PyExc_OverflowError);
    const bool is_array = bytes < 0 && PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0;
    if (is_array) PyErr_Clear();
    if (bytes < 0 && PyErr_Occurred() != nullptr) return false;
    if (is_array) return room_of(buffer, capacity);
    capacity = static_cast<std::uint64_t>(bytes < 0 ? 0 : bytes);
    return true;
  }
  return room_of(buffer, capacity);
}

/// MPI libraries before MPI 4 count elements in 31 bits, and mpi4py on top of them.
void check_count(Hub* hub, const Payload& payload) {
  constexpr std::uint64_t kMost = 0x7fffffff;
  if (payload.bytes <= kMost || payload.item_bytes == 0 || !hub->is_watching()) return;
  const std::uint64_t count = payload.bytes / payload.item_bytes;
  if (count > kMost) hub->warn("count", -1, "", count);
}

}  // namespace

bool take_tag(PyObject* value, int otherwise, bool may_be_any, int& tag) {
  if (!take_int(value, "tag", otherwise, tag)) return false;
  if (tag >= 0 || (may_be_any && tag == kAnyTag)) return true;
  raise_mpi(kErrTag, "tag=%d is not allowed: tags are 0 to %d%s", tag, kTagUpperBound,
            may_be_any ? ", or ANY_TAG" : "");
  return false;
}

bool prepare_send(Hub* hub, CommObject* comm, PyObject* data, PyObject* dest, PyObject* tag, bool is_object,
                  Posted& out) {
  int rank = 0;
  if (!take_int(dest, "dest", 0, rank) || !take_tag(tag, 0, false, out.tag)) return false;
  out.is_no_proc = rank == kProcNull;
  if (out.is_no_proc) return check_comm(comm, hub);
  if (!to_world(comm, hub, rank, "dest", out.peer)) return false;
  PyObject* bytes = nullptr;
  if (is_object && (bytes = pickle_dumps(data)) == nullptr) return false;
  out.payload = hub->payloads().take();
  if (is_object) {
    hold_bytes(bytes, *out.payload);
    out.payload->item_bytes = 1;
    Py_DECREF(bytes);
    return true;
  }
  if (pin_buffer(data, false, *out.payload)) return true;
  hub->payloads().give(std::exchange(out.payload, nullptr));
  return false;
}

void post_send(Hub* hub, CommObject* comm, SendMode mode, bool is_blocking, Posted& out, Rank agent) {
  if (out.is_no_proc) return;
  check_count(hub, *out.payload);
  Payload* payload = std::exchange(out.payload, nullptr);  // the engine's from now on
  const std::int32_t place = agent < 0 && mode != SendMode::copy ? hub->place_of_send(comm->context) : -1;
  out.id = hub->engine().send({agent < 0 ? hub->current() : agent, out.peer, out.tag, comm->context, payload->bytes, payload, hub, mode,
                               is_blocking, false, place});
}

bool take_peer(Hub* hub, CommObject* comm, PyObject* source, Posted& out) {
  int rank = 0;
  if (!take_int(source, "source", kAnySource, rank)) return false;
  out.is_no_proc = rank == kProcNull;
  if (!check_comm(comm, hub)) return false;
  out.peer = kAnySource;
  return out.is_no_proc || rank == kAnySource || to_world(comm, hub, rank, "source", out.peer);
}

bool prepare_receive(Hub* hub, CommObject* comm, PyObject* buffer, PyObject* source, PyObject* tag, bool is_object,
                     bool is_blocking, Posted& out) {
  const bool is_deprecated = is_object && is_blocking && buffer != nullptr && buffer != Py_None;
  if (is_deprecated && PyErr_WarnEx(PyExc_UserWarning, "the 'buf' argument is deprecated", 1) < 0) return false;
  if (!take_tag(tag, kAnyTag, true, out.tag) || !take_peer(hub, comm, source, out)) return false;
  if (out.is_no_proc) return true;
  out.payload = hub->payloads().take();
  out.payload->is_object = is_object;
  if (is_object ? object_capacity(*hub, buffer, is_blocking, out.payload->bytes) : pin_buffer(buffer, true, *out.payload)) {
    return true;
  }
  hub->payloads().give(std::exchange(out.payload, nullptr));
  return false;
}

void post_receive(Hub* hub, CommObject* comm, Posted& out, Rank agent) {
  if (out.is_no_proc) return;
  out.id = hub->engine().receive(
      {agent < 0 ? hub->current() : agent, out.peer, out.tag, comm->context, out.payload->bytes, out.payload, hub, false});
}

PyObject* make_request(CommObject* comm, Hub* hub, const Posted& posted, RequestUse use) {
  auto* type = reinterpret_cast<PyTypeObject*>(python_side().request_type);
  auto* request = reinterpret_cast<RequestObject*>(type->tp_alloc(type, 0));
  if (request == nullptr) return nullptr;
  request->comm = Py_XNewRef(reinterpret_cast<PyObject*>(comm));
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

PyObject* make_operation_request(CommObject* comm, Hub* hub, const std::shared_ptr<Progress>& progress) {
  Posted posted;
  posted.id = progress->operation().request;
  PyObject* made = make_request(comm, hub, posted, RequestUse::operation);
  if (made != nullptr) {
    reinterpret_cast<RequestObject*>(made)->progress = new std::shared_ptr<Progress>(progress);
  }
  return made;
}

}  // namespace labkit::bindings
