// Sends, receives and both at once: mpi4py's names and arguments.
#include <array>
#include <utility>

#include "mpi/mpi_posts.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace {

// --- sends ------------------------------------------------------------------------------------------

struct SendKind {
  const char* name;
  SendMode mode;
  bool is_object;
  bool is_blocking;
};

inline constexpr std::array kSends = {
    SendKind{"Send", SendMode::standard, false, true},       SendKind{"send", SendMode::standard, true, true},
    SendKind{"Ssend", SendMode::synchronous, false, true},   SendKind{"ssend", SendMode::synchronous, true, true},
    SendKind{"Bsend", SendMode::buffered, false, true},      SendKind{"bsend", SendMode::buffered, true, true},
    SendKind{"Isend", SendMode::standard, false, false},     SendKind{"isend", SendMode::standard, true, false},
    SendKind{"Issend", SendMode::synchronous, false, false}, SendKind{"issend", SendMode::synchronous, true, false},
    SendKind{"Ibsend", SendMode::buffered, false, false},    SendKind{"ibsend", SendMode::buffered, true, false},
    SendKind{"Rsend", SendMode::standard, false, true},      SendKind{"Irsend", SendMode::standard, false, false}};

/// Watch the memory of a send that goes on; without a request (a Python error) forget it.
void keep_buffer(Hub* hub, PyObject* made, Watched* watched) {
  if (made == nullptr) return forget_buffer(watched);
  auto* request = reinterpret_cast<RequestObject*>(made);
  request->watched = watched;
  request->in_use = hub->buffers_in_use().begin(hub->current(), watched->data, watched->bytes, nullptr);
}

/// A receive that goes on into plain memory, which is watched from before it is posted: its message may be there.
PyObject* post_into(Hub* hub, CommObject* comm, const char* name, Posted& posted) {
  struct Using {
    BuffersInUse& all;
    BuffersInUse::Handle handle;
    ~Using() { all.end(handle); }
  } use{hub->buffers_in_use(), 0};
  Payload& payload = *posted.payload;
  if (use.all.is_used(hub->current())) hub->use_memory(name, payload, MemoryUse::received_later);
  payload.is_used = true;
  use.handle = use.all.begin(hub->current(), payload.data, payload.bytes, &payload);
  if (use.all.needs_line(payload)) use.all.set_line(payload, hub->current(), hub->place_of_send(comm->context));
  post_receive(hub, comm, posted);
  PyObject* request = make_request(comm, hub, posted, RequestUse::receive);
  if (request != nullptr) reinterpret_cast<RequestObject*>(request)->in_use = std::exchange(use.handle, 0);
  return request;
}

template <std::size_t which>
PyObject* send_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr SendKind kind = kSends[which];
  static const char* const buffer_names[] = {"buf", "dest", "tag", nullptr};
  static const char* const object_names[] = {"obj", "dest", "tag", nullptr};
  PyObject* values[3] = {};
  Hub* hub = enter(kind.name);
  if (hub == nullptr ||
      !take_args(kind.name, kind.is_object ? object_names : buffer_names, 2, args, count, kwnames, values)) {
    return nullptr;
  }
  try {
    CommObject* comm = comm_of(self);
    Posted posted;
    if (!prepare_send(hub, comm, values[0], values[1], values[2], kind.is_object, posted)) return nullptr;
    const bool is_watched = !kind.is_object && !posted.is_no_proc && hub->is_watching() && posted.payload->has_view;
    if (is_watched && hub->buffers_in_use().is_used(hub->current())) hub->use_memory(kind.name, *posted.payload, MemoryUse::read);
    if (!kind.is_blocking) {
      const bool is_kept = is_watched && !phantom_memory().holds(posted.payload->data) && kind.mode != SendMode::buffered;
      Watched* watched = is_kept ? watch_buffer(*posted.payload) : nullptr;
      post_send(hub, comm, kind.mode, false, posted);
      PyObject* request = make_request(comm, hub, posted, RequestUse::send);
      if (watched != nullptr) keep_buffer(hub, request, watched);
      return request;
    }
    post_send(hub, comm, kind.mode, true, posted);
    if (posted.is_no_proc) Py_RETURN_NONE;
    if (!hub->engine().wait(hub->current(), posted.id) &&
        !hub->block({kind.name, posted.peer, posted.tag, 0})) {
      return nullptr;
    }
    hub->engine().release(posted.id);
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

// --- receives ---------------------------------------------------------------------------------------

template <bool is_object>
PyObject* receive_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr const char* name = is_object ? "recv" : "Recv";
  static const char* const names[] = {"buf", "source", "tag", "status", nullptr};
  PyObject* values[4] = {};
  Hub* hub = enter(name);
  StatusObject* status = nullptr;
  if (hub == nullptr || !take_args(name, names, is_object ? 0 : 1, args, count, kwnames, values) ||
      !take_status(values[3], status)) {
    return nullptr;
  }
  try {
    CommObject* comm = comm_of(self);
    Posted posted;
    if (!prepare_receive(hub, comm, values[0], values[1], values[2], is_object, true, posted)) return nullptr;
    if (!is_object && !posted.is_no_proc && hub->buffers_in_use().is_used(hub->current())) {
      hub->use_memory(name, *posted.payload, MemoryUse::written);
    }
    if (!posted.is_no_proc) posted.payload->asks_source = status != nullptr;
    post_receive(hub, comm, posted);
    if (posted.is_no_proc) {
      fill_no_proc(status);
      Py_RETURN_NONE;
    }
    if (!hub->engine().wait(hub->current(), posted.id) &&
        !hub->block({name, posted.peer, posted.tag, 0})) {
      return nullptr;
    }
    return finish_receive(hub, comm, posted.id, posted.payload, is_object, status);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

template <bool is_object>
PyObject* ireceive_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr const char* name = is_object ? "irecv" : "Irecv";
  static const char* const names[] = {"buf", "source", "tag", nullptr};
  PyObject* values[3] = {};
  Hub* hub = enter(name);
  if (hub == nullptr || !take_args(name, names, is_object ? 0 : 1, args, count, kwnames, values)) return nullptr;
  try {
    Posted posted;
    CommObject* comm = comm_of(self);
    if (!prepare_receive(hub, comm, values[0], values[1], values[2], is_object, false, posted)) return nullptr;
    const RequestUse use = is_object ? RequestUse::object_receive : RequestUse::receive;
    const bool is_watched = !is_object && !posted.is_no_proc && hub->is_watching() && posted.payload->has_view &&
                            posted.payload->layout == nullptr && !phantom_memory().holds(posted.payload->data);
    if (is_watched) return post_into(hub, comm, name, posted);
    post_receive(hub, comm, posted);
    return make_request(comm, hub, posted, use);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

// --- both at once -----------------------------------------------------------------------------------

/// Whether two buffers have a byte in common.
bool overlap(const Payload& one, const Payload& other) {
  if (one.bytes == 0 || other.bytes == 0 || one.layout != nullptr || other.layout != nullptr || other.is_object) return false;
  if (phantom_memory().holds(one.data)) return false;
  return one.data < other.data + other.bytes && other.data < one.data + one.bytes;
}

PyObject* exchange(Hub* hub, CommObject* comm, const char* name, PyObject* data, PyObject* dest, PyObject* sendtag,
                   PyObject* buffer, PyObject* source, PyObject* recvtag, bool is_object, StatusObject* status) {
  Posted received;
  Posted sent;
  if (!prepare_send(hub, comm, data, dest, sendtag, is_object, sent)) return nullptr;
  if (!prepare_receive(hub, comm, buffer, source, recvtag, is_object, true, received)) {
    hub->payloads().give(sent.payload);
    return nullptr;
  }
  if (hub->is_watching() && !sent.is_no_proc && !received.is_no_proc && overlap(*sent.payload, *received.payload)) {
    hub->warn("overlap", sent.peer, name, sent.payload->bytes);
  }
  if (!is_object && hub->buffers_in_use().is_used(hub->current())) {
    if (!sent.is_no_proc) hub->use_memory(name, *sent.payload, MemoryUse::read);
    if (!received.is_no_proc) hub->use_memory(name, *received.payload, MemoryUse::written);
  }
  // The send goes first, as in SMPI: its overhead delays the receive. With oneself it is a copy and costs nothing.
  const bool is_own = !sent.is_no_proc && sent.peer == hub->current() && received.peer == sent.peer;
  if (!received.is_no_proc) received.payload->asks_source = status != nullptr;
  post_send(hub, comm, is_own ? SendMode::copy : SendMode::standard, false, sent);
  post_receive(hub, comm, received);
  const std::array ids = {received.id, sent.id};
  const Rank peer = received.is_no_proc ? kProcNull : received.peer;
  if (!hub->engine().wait_all(hub->current(), ids) && !hub->block({name, peer, received.tag, 0})) {
    return nullptr;
  }
  if (!sent.is_no_proc) hub->engine().release(sent.id);
  if (!received.is_no_proc) return finish_receive(hub, comm, received.id, received.payload, is_object, status);
  fill_no_proc(status);
  Py_RETURN_NONE;
}

template <bool is_object>
PyObject* sendrecv_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr const char* name = is_object ? "sendrecv" : "Sendrecv";
  static const char* const names[] = {is_object ? "sendobj" : "sendbuf", "dest",    "sendtag", "recvbuf", "source",
                                      "recvtag",                         "status", nullptr};
  PyObject* values[7] = {};
  Hub* hub = enter(name);
  StatusObject* status = nullptr;
  if (hub == nullptr || !take_args(name, names, 2, args, count, kwnames, values) || !take_status(values[6], status)) {
    return nullptr;
  }
  if (values[3] == nullptr) values[3] = Py_None;
  try {
    return exchange(hub, comm_of(self), name, values[0], values[1], values[2], values[3], values[4], values[5],
                    is_object, status);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

// The message leaves as a copy, so that the arriving one may overwrite the buffer.
PyObject* sendrecv_replace_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  static const char* const names[] = {"buf", "dest", "sendtag", "source", "recvtag", "status", nullptr};
  PyObject* values[6] = {};
  Hub* hub = enter("Sendrecv_replace");
  StatusObject* status = nullptr;
  if (hub == nullptr || !take_args("Sendrecv_replace", names, 2, args, count, kwnames, values) ||
      !take_status(values[5], status)) {
    return nullptr;
  }
  try {
    int dest = 0;
    if (!take_int(values[1], "dest", 0, dest)) return nullptr;
    PyObject* copy = Py_NewRef(Py_None);
    if (dest != kProcNull) {
      Payload* payload = hub->payloads().take();
      const bool is_writable = pin_buffer(values[0], true, *payload);
      hub->payloads().give(payload);
      Py_DECREF(copy);
      if (!is_writable) return nullptr;
      payload = hub->payloads().take();  // packed, which what is received into is not
      copy = pin_buffer(values[0], false, *payload)
                 ? PyBytes_FromStringAndSize(payload->data, static_cast<Py_ssize_t>(payload->bytes))
                 : nullptr;
      hub->payloads().give(payload);
      if (copy == nullptr) return nullptr;
    }
    PyObject* result = exchange(hub, comm_of(self), "Sendrecv_replace", copy, values[1], values[2], values[0],
                                values[3], values[4], false, status);
    Py_DECREF(copy);
    return result;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

constexpr const char* kSendDoc = "Send a message, as mpi4py's method of this name.";
constexpr const char* kReceiveDoc = "Receive a message, as mpi4py's method of this name.";
constexpr const char* kExchangeDoc = "Send one message and receive another, as mpi4py's method of this name.";

template <std::size_t... which>
void add_sends(std::vector<PyMethodDef>& methods, std::index_sequence<which...>) {
  (methods.push_back(entry(kSends[which].name, &send_method<which>,
                           with_signature(kSends[which].name,
                                          kSends[which].is_object ? "obj, dest, tag=0" : "buf, dest, tag=0",
                                          kSendDoc))),
   ...);
}

}  // namespace

PyMethodDef* comm_methods() {
  static std::vector<PyMethodDef> methods = [] {
    std::vector<PyMethodDef> all;
    add_sends(all, std::make_index_sequence<kSends.size()>{});
    add_probes(all);
    const auto add = [&all](const char* name, auto* function, const char* parameters, const char* doc) {
      all.push_back(entry(name, function, with_signature(name, parameters, doc)));
    };
    add("Recv", &receive_method<false>, "buf, source=-1, tag=-1, status=None", kReceiveDoc);
    add("recv", &receive_method<true>, "buf=None, source=-1, tag=-1, status=None", kReceiveDoc);
    add("Irecv", &ireceive_method<false>, "buf, source=-1, tag=-1", kReceiveDoc);
    add("irecv", &ireceive_method<true>, "buf=None, source=-1, tag=-1", kReceiveDoc);
    add("Sendrecv", &sendrecv_method<false>,
        "sendbuf, dest, sendtag=0, recvbuf=None, source=-1, recvtag=-1, status=None", kExchangeDoc);
    add("sendrecv", &sendrecv_method<true>,
        "sendobj, dest, sendtag=0, recvbuf=None, source=-1, recvtag=-1, status=None", kExchangeDoc);
    add("Sendrecv_replace", &sendrecv_replace_method,
        "buf, dest, sendtag=0, source=-1, recvtag=-1, status=None", kExchangeDoc);
    for (PyMethodDef* method = comm_plain_methods(); method->ml_name != nullptr; ++method) all.push_back(*method);
    all.push_back({nullptr, nullptr, 0, nullptr});
    return all;
  }();
  return methods.data();
}

}  // namespace labkit::bindings
