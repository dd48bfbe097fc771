#include "mpi/mpi_objects.hpp"


#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <utility>

#include "python_side.hpp"

namespace labkit::bindings {

PythonSide& python_side() {
  static PythonSide side;
  return side;
}

PyObject* raise_mpi(int error_class, const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  PyObject* text = PyUnicode_FromFormatV(format, rest);
  va_end(rest);
  if (text == nullptr) return nullptr;
  PyObject* error = PyObject_CallFunction(python_side().make_error, "iN", error_class, text);
  if (error != nullptr) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  return nullptr;
}

void raise_schedule_fault(const std::exception& fault) {
  const nanobind::object type = nanobind::module_::import_("labkit.errors").attr("ScheduleError");
  PyErr_SetString(type.ptr(), fault.what());
}

Hub* enter(const char* name) {
  Hub* hub = Hub::active();
  if (hub != nullptr && hub->current() >= 0 && !hub->is_busy()) {
    if (!hub->needs_care()) return hub->catch_up_host() ? hub : nullptr;
    if (hub->is_ending()) {
      hub->raise_ending();
      return nullptr;
    }
    const std::string* why = hub->refusal();
    if (why == nullptr) {
      hub->be_late();
      return hub->catch_up_host() ? hub : nullptr;
    }
    raise_mpi(kErrOther, "%s: %s", name, why->c_str());
    return nullptr;
  }
  PyObject* error = PyObject_CallFunction(python_side().make_outside, "s", name);
  if (error != nullptr) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  return nullptr;
}

bool take_args(const char* function, const char* const* names, Py_ssize_t required, PyObject* const* args,
               Py_ssize_t count, PyObject* kwnames, PyObject** out) {
  Py_ssize_t most = 0;
  while (names[most] != nullptr) ++most;
  if (count > most) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zd arguments (%zd given)", function, most, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) out[i] = args[i];
  const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    Py_ssize_t place = 0;
    while (place < most && PyUnicode_CompareWithASCIIString(name, names[place]) != 0) ++place;
    if (place == most) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
      return false;
    }
    if (out[place] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, name);
      return false;
    }
    out[place] = args[count + k];
  }
  for (Py_ssize_t i = 0; i < required; ++i) {
    if (out[i] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function, names[i]);
    return false;
  }
  return true;
}

bool take_int(PyObject* value, const char* what, int otherwise, int& out) {
  if (value == nullptr) {
    out = otherwise;
    return true;
  }
  const long number = PyLong_CheckExact(value) ? PyLong_AsLong(value) : [&] {
    // as mpi4py: whatever has __int__, so a float is cut off (dest=size / 2); text and __index__ alone are not
    PyNumberMethods* methods = Py_TYPE(value)->tp_as_number;
    if (methods == nullptr || methods->nb_int == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s: an integer is required, got %s", what, Py_TYPE(value)->tp_name);
      return -1L;
    }
    PyObject* index = PyNumber_Long(value);
    if (index == nullptr) return -1L;
    const long converted = PyLong_AsLong(index);
    Py_DECREF(index);
    return converted;
  }();
  if (number == -1 && PyErr_Occurred() != nullptr) return false;
  if (number < -2147483647L - 1 || number > 2147483647L) {
    PyErr_Format(PyExc_OverflowError, "%s does not fit into a C int: %ld", what, number);
    return false;
  }
  out = static_cast<int>(number);
  return true;
}

// --- communicators ----------------------------------------------------------------------------------

std::int32_t comm_size(const CommObject* comm, Hub* hub) {
  if (comm->kind == CommKind::world) return hub->world_size();
  return comm->kind == CommKind::self ? 1 : static_cast<std::int32_t>((*comm->members)->world_ranks.size());
}

namespace {

std::int32_t place_in(const Members& members, Rank world) {
  const auto found = members.places.find(world);
  return found == members.places.end() ? -1 : found->second;
}

/// The ranks that messages of a group's communicator have as peers.
const Members& peers_of(const CommObject* comm) { return comm->remote == nullptr ? **comm->members : **comm->remote; }

}  // namespace

std::int32_t from_world(const CommObject* comm, Hub* hub, Rank world) {
  if (comm->kind == CommKind::world) return world - hub->world_first();
  return comm->kind == CommKind::self ? 0 : place_in(peers_of(comm), world);
}

Context context_of(const CommObject* comm, const Hub* hub) {
  return comm->kind == CommKind::world && hub->is_spawned() ? hub->job().context | (comm->context & 1U) : comm->context;
}

std::int32_t comm_rank(const CommObject* comm, Hub* hub) { return comm_rank_of(comm, hub, hub->current()); }

std::int32_t comm_rank_of(const CommObject* comm, Hub* hub, Rank world) {
  if (comm->kind == CommKind::world) return world - hub->world_first();
  return comm->kind == CommKind::self ? 0 : place_in(**comm->members, world);
}

bool check_comm(const CommObject* comm, Hub* hub) {
  if (comm->kind == CommKind::null) {
    raise_mpi(kErrComm, "COMM_NULL");
    return false;
  }
  if (comm->kind == CommKind::group && comm->hub_serial != hub->serial()) {
    raise_mpi(kErrComm, "this communicator belongs to another run");
    return false;
  }
  return true;
}

bool to_world(const CommObject* comm, Hub* hub, int rank, const char* what, Rank& out) {
  if (!check_comm(comm, hub)) return false;
  const bool is_inter = comm->remote != nullptr;
  const std::int32_t size = is_inter ? static_cast<std::int32_t>((*comm->remote)->world_ranks.size()) : comm_size(comm, hub);
  if (rank < 0 || rank >= size) {
    raise_mpi(kErrRank, "%s=%d is not a rank of %s, which has ranks 0 to %d", what, rank,
              is_inter ? "the other group" : "this communicator", size - 1);
    return false;
  }
  out = rank;
  if (comm->kind == CommKind::world) out += hub->world_first();
  if (comm->kind == CommKind::self) out = hub->current();
  if (comm->kind == CommKind::group) out = peers_of(comm).world_ranks[static_cast<std::size_t>(rank)];
  return true;
}

// --- status -----------------------------------------------------------------------------------------

bool take_status(PyObject* value, StatusObject*& out) {
  out = nullptr;
  if (value == nullptr || value == Py_None) return true;
  if (!PyObject_TypeCheck(value, status_type())) {
    PyErr_Format(PyExc_TypeError, "status must be an MPI.Status or None, got %s", Py_TYPE(value)->tp_name);
    return false;
  }
  out = reinterpret_cast<StatusObject*>(value);
  return true;
}

// The error stays what it was: MPI writes it in calls for several requests only.
void fill_status(StatusObject* out, const CommObject* comm, Hub* hub, const Status& status) {
  if (out == nullptr) return;
  out->source = status.source < 0 ? status.source : from_world(comm, hub, status.source);
  out->tag = status.tag;
  out->bytes = static_cast<long long>(status.bytes);
  out->is_cancelled = status.is_cancelled ? 1 : 0;
}

void fill_no_proc(StatusObject* out) {
  if (out == nullptr) return;
  out->source = kProcNull;
  out->tag = kAnyTag;
  out->bytes = 0;
  out->is_cancelled = 0;
}

// --- objects as bytes -------------------------------------------------------------------------------

PyObject* pickle_dumps(PyObject* object) {
  PyObject* args[] = {object, python_side().protocol};
  const std::size_t count = python_side().protocol == Py_None ? 1 : 2;
  PyObject* bytes = PyObject_Vectorcall(python_side().dumps, args, count, nullptr);
  if (bytes == nullptr || PyBytes_Check(bytes)) return bytes;
  PyObject* converted = PyBytes_FromObject(bytes);
  Py_DECREF(bytes);
  return converted;
}

PyObject* pickle_loads(PyObject* bytes) { return PyObject_CallOneArg(python_side().loads, bytes); }

/// What it costs to put the bytes where they belong. Takes the layout. False: a Python error.
static bool charge_unpacking(PyObject* layout, std::uint64_t bytes) {
  PyObject* done = PyObject_CallFunction(python_side().unpacked, "OK", layout, static_cast<unsigned long long>(bytes));
  Py_DECREF(layout);
  Py_XDECREF(done);
  return done != nullptr;
}

/// What to type where an object is too long: irecv takes 32 KiB unless it is told otherwise, as in mpi4py.
constexpr const char* kMoreRoom = "; give the receive more room, as its first argument: irecv(bytearray(1 << 20), ...)";

namespace {

bool is_number(PyObject* object, long number) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  return PyLong_AsLongAndOverflow(object, &overflow) == number && overflow == 0;
}

/// Whether a message is its sender's rank, or a tuple, list or dict in which that stands: its program knows whose it is.
bool names_rank(PyObject* object, long rank) {
  constexpr Py_ssize_t kMost = 8;
  if (is_number(object, rank)) return true;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    const Py_ssize_t items = std::min(PySequence_Fast_GET_SIZE(object), kMost);
    PyObject* const* item = PySequence_Fast_ITEMS(object);
    return std::any_of(item, item + items, [rank](PyObject* one) { return is_number(one, rank); });
  }
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t items = 0; PyDict_CheckExact(object) && items < kMost && PyDict_Next(object, &at, &key, &value); ++items) {
    if (is_number(key, rank) || is_number(value, rank)) return true;
  }
  return false;
}

/// The same of a buffer of integers: whether its first one is the sender's rank.
bool begins_with(const Payload& payload, long rank) {
  if (payload.layout != nullptr || payload.bytes < payload.item_bytes || phantom_memory().holds(payload.data)) return false;
  if (payload.kind == 'q') {
    std::int64_t first = 0;
    std::memcpy(&first, payload.data, sizeof first);
    return first == rank;
  }
  std::int32_t first = 0;
  if (payload.kind == 'i') std::memcpy(&first, payload.data, sizeof first);
  return payload.kind == 'i' && first == rank;
}

}  // namespace

PyObject* finish_receive(Hub* hub, const CommObject* comm, RequestId id, Payload* payload, bool is_object,
                         StatusObject* status_out) {
  Engine& engine = hub->engine();
  Status status = engine.status(id);
  const Rank me = hub->current();
  if (hub->needs_care() && engine.request(id).peer == kAnySource) hub->saw_any(status.source, status.tag);
  PyObject* received = std::exchange(payload->received, nullptr);
  const std::uint64_t capacity = payload->bytes;
  const bool is_unfilled = payload->is_unfilled;
  if (payload->sent_kind != 0 && hub->is_watching()) {
    const char kinds[3] = {payload->sent_kind, payload->kind, 0};
    hub->warn("elements", from_world(comm, hub, payload->sent_by), kinds, status.bytes);
  }
  const bool may_race = hub->races().is_watched(me) && engine.request(id).peer == kAnySource && !status.is_cancelled;
  const Time completion_s = engine.request(id).completion_s;
  bool is_known = status_out != nullptr || status.is_truncated || is_unfilled;  // from whom it is
  if (may_race && !is_object && !is_known) is_known = begins_with(*payload, from_world(comm, hub, status.source));
  PyObject* layout = payload->owner == nullptr ? nullptr : Py_NewRef(payload->owner);
  engine.release(id);
  hub->payloads().give(payload);
  const std::uint64_t sent = status.bytes;
  if (status.is_truncated) status.bytes = capacity;
  fill_status(status_out, comm, hub, status);
  if (layout != nullptr && !charge_unpacking(layout, status.bytes)) return nullptr;
  if (may_race && (is_known || !is_object)) hub->races().finished(me, id, completion_s, is_known ? -1 : hub->place_of_send(comm->context));
  if (status.is_truncated) {
    Py_XDECREF(received);
    return raise_mpi(kErrTruncate, "%llu bytes from rank %d (tag %d) do not fit into %llu bytes%s",
                     static_cast<unsigned long long>(sent), from_world(comm, hub, status.source), status.tag,
                     static_cast<unsigned long long>(capacity), is_object ? kMoreRoom : "");
  }
  if (is_unfilled) {
    Py_XDECREF(received);
    return raise_mpi(kErrType, "rank %d sent %llu bytes of a phantom buffer (labkit.sized): receive them into labkit.sized(n)",
                     from_world(comm, hub, status.source), static_cast<unsigned long long>(sent));
  }
  if (!is_object || received == nullptr) {
    Py_XDECREF(received);
    Py_RETURN_NONE;
  }
  PyObject* object = PyBytes_GET_SIZE(received) == 0 ? Py_NewRef(Py_None) : pickle_loads(received);
  Py_DECREF(received);
  if (may_race && !is_known) {
    is_known = object == nullptr || names_rank(object, from_world(comm, hub, status.source));
    hub->races().finished(me, id, completion_s, is_known ? -1 : hub->place_of_send(comm->context));
  }
  return object;
}

// --- buffers of sends that go on --------------------------------------------------------------------

Watched* watch_buffer(const Payload& send) {
  auto watched = std::make_unique<Watched>();
  if (PyObject_GetBuffer(send.view.obj, &watched->view, PyBUF_ANY_CONTIGUOUS) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  watched->data = send.data;
  watched->bytes = send.bytes;
  watched->sum = sum_of_beginning(send.data, send.bytes);  // what a program changes too early it mostly changes there
  return watched.release();
}

bool has_changed(const Watched& watched) { return sum_of_beginning(watched.data, watched.bytes) != watched.sum; }

void forget_buffer(Watched*& watched) {
  if (watched == nullptr) return;
  PyBuffer_Release(&watched->view);
  delete std::exchange(watched, nullptr);
}

}  // namespace labkit::bindings
