// Probes, and the messages that matched probes take out of the queue.
#include <array>
#include <utility>

#include "mpi/mpi_posts.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace {

// --- probes -----------------------------------------------------------------------------------------

struct ProbeKind {
  const char* name;
  bool is_waiting;
  bool is_matched;
};

inline constexpr std::array kProbes = {
    ProbeKind{"Probe", true, false},   ProbeKind{"probe", true, false},   ProbeKind{"Iprobe", false, false},
    ProbeKind{"iprobe", false, false}, ProbeKind{"Mprobe", true, true},   ProbeKind{"mprobe", true, true},
    ProbeKind{"Improbe", false, true}, ProbeKind{"improbe", false, true}};

PyObject* make_message(CommObject* comm, Hub* hub, const Envelope& envelope, bool is_no_proc) {
  auto* type = reinterpret_cast<PyTypeObject*>(python_side().message_type);
  auto* message = reinterpret_cast<MessageObject*>(type->tp_alloc(type, 0));
  if (message == nullptr) return nullptr;
  message->comm = Py_NewRef(reinterpret_cast<PyObject*>(comm));
  message->hub_serial = hub->serial();
  message->envelope = envelope;
  message->is_no_proc = is_no_proc ? 1 : 0;
  if (!is_no_proc) hub->engine().claim(envelope.send);
  return reinterpret_cast<PyObject*>(message);
}

// Look once, after the call's own cost and when the engine has caught up; a waiting probe blocks.
bool look(Hub* hub, const ProbeKind& kind, const Posted& posted, int tag, Context context, Envelope& envelope,
          bool& is_found) {
  Engine& engine = hub->engine();
  const Rank me = hub->current();
  const Call call{kind.name, posted.peer, tag, 0};
  if (!kind.is_waiting && !engine.poll(me, hub->poll_cost(engine.model().iprobe_s)) && !hub->block(call)) return false;
  if (!engine.sync(me) && !hub->block(call)) return false;
  if (!kind.is_waiting || posted.peer == kAnySource) engine.note_look(me);
  is_found = engine.probe(me, posted.peer, tag, context, envelope);
  while (kind.is_waiting && !is_found) {
    if (!engine.wait_probe(me, posted.peer, tag, context) && !hub->block(call)) return false;
    is_found = engine.probe(me, posted.peer, tag, context, envelope);
  }
  if (kind.is_waiting && engine.call_log() != nullptr) {
    engine.call_log()->probed(me, envelope.source, envelope.tag, context);
  }
  return true;
}

template <std::size_t which>
PyObject* probe_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr ProbeKind kind = kProbes[which];
  static const char* const names[] = {"source", "tag", "status", nullptr};
  PyObject* values[3] = {};
  Hub* hub = enter(kind.name);
  StatusObject* status = nullptr;
  int tag = 0;
  Posted posted;
  CommObject* comm = comm_of(self);
  if (hub == nullptr || !take_args(kind.name, names, 0, args, count, kwnames, values) ||
      !take_status(values[2], status) || !take_tag(values[1], kAnyTag, true, tag) ||
      !take_peer(hub, comm, values[0], posted)) {
    return nullptr;
  }
  try {
    Envelope envelope;
    bool is_found = true;
    if (posted.is_no_proc) {
      fill_no_proc(status);
      if (!kind.is_matched) Py_RETURN_TRUE;
      return make_message(comm, hub, envelope, true);
    }
    if (!look(hub, kind, posted, tag, comm->context, envelope, is_found)) return nullptr;
    if (is_found && hub->needs_care() && posted.peer == kAnySource) hub->saw_any(envelope.source, envelope.tag);
    if (is_found) fill_status(status, comm, hub, {envelope.source, envelope.tag, envelope.bytes, false, false});
    if (!kind.is_matched) return PyBool_FromLong(is_found);
    if (!is_found) Py_RETURN_NONE;
    return make_message(comm, hub, envelope, false);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

// --- matched messages -------------------------------------------------------------------------------

bool post_matched(Hub* hub, MessageObject* message, PyObject* buffer, bool is_object, Posted& out) {
  out.is_no_proc = message->is_no_proc != 0;
  if (message->is_taken != 0) {
    raise_mpi(kErrRequest, "this message was received already (MESSAGE_NULL)");
    return false;
  }
  if (out.is_no_proc) {  // the constant MESSAGE_NO_PROC stays what it is
    message->is_taken = reinterpret_cast<PyObject*>(message) == python_side().message_no_proc ? 0 : 1;
    return true;
  }
  auto* comm = reinterpret_cast<CommObject*>(message->comm);
  Payload* payload = hub->payloads().take();
  payload->is_object = is_object;
  payload->bytes = message->envelope.bytes;
  if (!is_object && !pin_buffer(buffer, true, *payload)) {
    hub->payloads().give(payload);
    return false;
  }
  message->is_taken = 1;
  out.payload = payload;
  out.peer = message->envelope.source;
  out.id = hub->engine().receive_claimed({hub->current(), message->envelope.source, message->envelope.tag,
                                          comm->context, payload->bytes, payload, hub, false},
                                         message->envelope.send);
  return true;
}

template <bool is_object, bool is_blocking>
PyObject* matched_receive(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr const char* name = is_blocking ? (is_object ? "Message.recv" : "Message.Recv")
                                           : (is_object ? "Message.irecv" : "Message.Irecv");
  static const char* const buffer_names[] = {"buf", "status", nullptr};
  static const char* const object_names[] = {"status", nullptr};
  PyObject* values[2] = {};
  Hub* hub = enter(name);
  StatusObject* status = nullptr;
  if (hub == nullptr ||
      !take_args(name, is_object ? object_names : buffer_names, is_object ? 0 : 1, args, count, kwnames, values) ||
      !take_status(values[is_object ? 0 : 1], status)) {
    return nullptr;
  }
  try {
    auto* message = reinterpret_cast<MessageObject*>(self);
    auto* comm = reinterpret_cast<CommObject*>(message->comm);
    Posted posted;
    if (!post_matched(hub, message, values[0], is_object, posted)) return nullptr;
    if (!is_blocking) {
      const RequestUse use = is_object ? RequestUse::object_receive : RequestUse::receive;
      return make_request(comm, hub, posted, use);
    }
    if (posted.is_no_proc) {
      fill_no_proc(status);
      Py_RETURN_NONE;
    }
    if (!hub->engine().wait(hub->current(), posted.id) && !hub->block({name, posted.peer, kAnyTag, 0})) {
      return nullptr;
    }
    return finish_receive(hub, comm, posted.id, posted.payload, is_object, status);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

constexpr const char* kProbeDoc = "Look for a message, as mpi4py's method of this name.";
constexpr const char* kReceiveDoc = "Receive the message that a probe matched, as mpi4py's method of this name.";

template <std::size_t... which>
void push_probes(std::vector<PyMethodDef>& methods, std::index_sequence<which...>) {
  (methods.push_back(entry(
       kProbes[which].name, &probe_method<which>,
       with_signature(kProbes[which].name, "source=-1, tag=-1, status=None", kProbeDoc))),
   ...);
}

}  // namespace

void add_probes(std::vector<PyMethodDef>& methods) {
  push_probes(methods, std::make_index_sequence<kProbes.size()>{});
}

PyMethodDef* message_methods() {
  const auto doc = [](const char* name, const char* parameters) {
    return with_signature(name, parameters, kReceiveDoc);
  };
  static PyMethodDef methods[] = {entry("Recv", &matched_receive<false, true>, doc("Recv", "buf, status=None")),
                                  entry("recv", &matched_receive<true, true>, doc("recv", "status=None")),
                                  entry("Irecv", &matched_receive<false, false>, doc("Irecv", "buf")),
                                  entry("irecv", &matched_receive<true, false>, doc("irecv", "")),
                                  {nullptr, nullptr, 0, nullptr}};
  return methods;
}

}  // namespace labkit::bindings
