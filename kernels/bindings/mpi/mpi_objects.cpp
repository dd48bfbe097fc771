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

PyObject* finish_receive(Hub* hub, const CommObject* comm, RequestId id, Payload* payload, bool is_object,
                         StatusObject* status_out) {
  Engine& engine = hub->engine();
  Status status = engine.status(id);
  if (hub->needs_care() && engine.request(id).peer == kAnySource) hub->saw_any(status.source, status.tag);
  PyObject* received = std::exchange(payload->received, nullptr);
  const std::uint64_t capacity = payload->bytes;
  const bool is_unfilled = payload->is_unfilled;
  if (hub->is_watching()) {
    const char kinds[3] = {payload->sent_kind, payload->kind, 0};
    if (payload->sent_kind != 0) hub->warn("elements", from_world(comm, hub, payload->rival), kinds, status.bytes);
    if (payload->has_rival && status_out == nullptr) {
      hub->warn("race", from_world(comm, hub, payload->rival), "", static_cast<std::uint64_t>(from_world(comm, hub, status.source)));
    }
  }
  PyObject* layout = payload->owner == nullptr ? nullptr : Py_NewRef(payload->owner);
  engine.release(id);
  hub->payloads().give(payload);
  const std::uint64_t sent = status.bytes;
  if (status.is_truncated) status.bytes = capacity;
  fill_status(status_out, comm, hub, status);
  if (layout != nullptr && !charge_unpacking(layout, status.bytes)) return nullptr;
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
  return object;
}

// --- buffers of sends that go on --------------------------------------------------------------------

namespace {

/// Of its first kilobyte: what a program changes too early it mostly changes from the beginning on.
std::uint64_t sum_of(const Py_buffer& view) {
  constexpr std::size_t kMost = 1024;
  const std::size_t bytes = std::min(static_cast<std::size_t>(view.len), kMost);
  const char* data = static_cast<const char*>(view.buf);
  std::uint64_t sum = bytes;
  for (std::size_t at = 0; at < bytes; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min(sizeof word, bytes - at));
    sum = (sum ^ word) * 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 32U;
  }
  return sum;
}

}  // namespace

Watched* watch_buffer(PyObject* buffer) {
  auto watched = std::make_unique<Watched>();
  if (PyObject_GetBuffer(buffer, &watched->view, PyBUF_ANY_CONTIGUOUS) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  watched->sum = sum_of(watched->view);
  return watched.release();
}

bool has_changed(const Watched& watched) { return sum_of(watched.view) != watched.sum; }

void forget_buffer(Watched*& watched) {
  if (watched == nullptr) return;
  PyBuffer_Release(&watched->view);
  delete std::exchange(watched, nullptr);
}

}  // namespace labkit::bindings
