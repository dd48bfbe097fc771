// The extension types behind labkit.MPI: layout, construction, attributes.
// Python.h first: structmember.h needs it.
#include <Python.h>
#include <structmember.h>

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "mpi/mpi_objects.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace nb = nanobind;
namespace {

template <class Object>
Object* as(PyObject* object) {
  return reinterpret_cast<Object*>(object);
}

// Heap types own a reference to themselves from each instance.
void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool take_source(PyTypeObject* base, PyObject* args, PyObject* kwargs, const char* name, PyObject*& source) {
  const char* names[] = {name, nullptr};
  source = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &source)) return false;
  if (source == Py_None) source = nullptr;
  if (source == nullptr || PyObject_TypeCheck(source, base)) return true;
  PyErr_Format(PyExc_TypeError, "%s: expected a %s, got %s", name, base->tp_name, Py_TYPE(source)->tp_name);
  return false;
}

// --- Comm -------------------------------------------------------------------------------------------

PyObject* comm_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* source = nullptr;
  if (!take_source(comm_type(), args, kwargs, "comm", source)) return nullptr;
  auto* self = as<CommObject>(type->tp_alloc(type, 0));
  if (self == nullptr || source == nullptr) return reinterpret_cast<PyObject*>(self);
  const auto* from = as<CommObject>(source);
  self->kind = from->kind;
  self->context = from->context;
  self->hub_serial = from->hub_serial;
  if (from->members != nullptr) self->members = new std::shared_ptr<const Members>(*from->members);
  if (from->remote != nullptr) self->remote = new std::shared_ptr<const Members>(*from->remote);
  return reinterpret_cast<PyObject*>(self);
}

void comm_dealloc(PyObject* self) {
  delete as<CommObject>(self)->members;
  delete as<CommObject>(self)->remote;
  free_object(self);
}

PyObject* comm_compare(PyObject* left, PyObject* right, int operation) {
  if ((operation != Py_EQ && operation != Py_NE) || !PyObject_TypeCheck(right, comm_type())) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  const auto* a = as<CommObject>(left);
  const auto* b = as<CommObject>(right);
  const bool is_same = a->kind == b->kind && a->context == b->context && a->hub_serial == b->hub_serial;
  return PyBool_FromLong(is_same == (operation == Py_EQ));
}

Py_hash_t comm_hash(PyObject* self) { return static_cast<Py_hash_t>(as<CommObject>(self)->context) + 1; }
int comm_bool(PyObject* self) { return as<CommObject>(self)->kind != CommKind::null; }

// In a thread that a rank has started the numbers are the rank's. False: not in one, or a Python error.
bool number_in_thread(const CommObject* comm, bool wants_rank, long& out) {
  if (python_side().owner_of_thread == nullptr) return false;
  const nb::object owner = nb::steal(PyObject_CallNoArgs(python_side().owner_of_thread));
  if (!owner.is_valid() || owner.is_none()) return false;
  Hub* hub = nb::cast<Hub*>(owner[0]);
  if (!check_comm(comm, hub)) return false;
  out = wants_rank ? comm_rank_of(comm, hub, nb::cast<Rank>(owner[1])) : comm_size(comm, hub);
  return true;
}

// Outside any run the world is this one process, as with mpi4py outside mpiexec.
PyObject* comm_number(PyObject* self, bool wants_rank) {
  auto* comm = as<CommObject>(self);
  Hub* hub = Hub::active();
  if (hub == nullptr || hub->current() < 0) {
    if (long number = 0; number_in_thread(comm, wants_rank, number)) return PyLong_FromLong(number);
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (comm->kind == CommKind::null || comm->kind == CommKind::group) {
      return raise_mpi(kErrComm, "null, or of a run that has ended");
    }
    return PyLong_FromLong(wants_rank ? 0 : 1);
  }
  if (!check_comm(comm, hub)) return nullptr;
  if (hub->needs_care() && hub->refusal() != nullptr) {
    return raise_mpi(kErrOther, "%s: %s", wants_rank ? "Get_rank" : "Get_size", hub->refusal()->c_str());
  }
  return PyLong_FromLong(wants_rank ? comm_rank(comm, hub) : comm_size(comm, hub));
}

PyObject* comm_get_rank(PyObject* self, void*) { return comm_number(self, true); }
PyObject* comm_get_size(PyObject* self, void*) { return comm_number(self, false); }
PyObject* comm_rank_method(PyObject* self, PyObject*) { return comm_number(self, true); }
PyObject* comm_size_method(PyObject* self, PyObject*) { return comm_number(self, false); }

PyObject* comm_context(PyObject* self, void*) {
  const auto* comm = as<CommObject>(self);
  const Hub* hub = Hub::active();
  const bool is_running = hub != nullptr && hub->current() >= 0;
  return PyLong_FromUnsignedLong(is_running ? context_of(comm, hub) : comm->context);
}

std::shared_ptr<const Members>* members_of(PyObject* ranks) {
  PyObject* sequence = PySequence_Fast(ranks, "world_ranks must be a sequence");
  if (sequence == nullptr) return nullptr;
  auto members = std::make_shared<Members>();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    const long rank = PyLong_AsLong(PySequence_Fast_GET_ITEM(sequence, i));
    members->places.emplace(static_cast<Rank>(rank), static_cast<std::int32_t>(i));
    members->world_ranks.push_back(static_cast<Rank>(rank));
  }
  Py_DECREF(sequence);
  return PyErr_Occurred() == nullptr ? new std::shared_ptr<const Members>(std::move(members)) : nullptr;
}

// _become(kind, context, world_ranks, remote_ranks): how labkit.comm makes a handle what it is.
PyObject* comm_become(PyObject* self, PyObject* args) {
  const char* kind = nullptr;
  unsigned int context = 0;
  PyObject* ranks = Py_None;
  PyObject* remote = nullptr;
  if (!PyArg_ParseTuple(args, "sI|OO", &kind, &context, &ranks, &remote)) return nullptr;
  auto* comm = as<CommObject>(self);
  delete std::exchange(comm->members, nullptr);
  delete std::exchange(comm->remote, nullptr);
  comm->context = context;
  comm->hub_serial = 0;
  const std::string_view name(kind);
  comm->kind = name == "world"  ? CommKind::world
               : name == "self" ? CommKind::self
               : name == "null" ? CommKind::null
                                : CommKind::group;
  if (comm->kind != CommKind::group) Py_RETURN_NONE;
  Hub* hub = Hub::active();
  comm->members = members_of(ranks);
  if (comm->members == nullptr) return nullptr;
  if (remote != nullptr && (comm->remote = members_of(remote)) == nullptr) return nullptr;
  comm->hub_serial = hub == nullptr ? 0 : hub->serial();
  Py_RETURN_NONE;
}

// _use_private_context(): from the program's messages to those that collectives are made of.
PyObject* comm_use_private_context(PyObject* self, PyObject*) {
  as<CommObject>(self)->context |= 1U;
  Py_RETURN_NONE;
}

// _use_context(number): to messages of its own, between the same ranks.
PyObject* comm_use_context(PyObject* self, PyObject* number) {
  const unsigned long context = PyLong_AsUnsignedLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  as<CommObject>(self)->context = static_cast<Context>(context);
  Py_RETURN_NONE;
}

PyObject* comm_world_ranks(PyObject* self, PyObject*) {
  auto* comm = as<CommObject>(self);
  Hub* hub = enter("world_ranks");
  if (hub == nullptr || !check_comm(comm, hub)) return nullptr;
  const std::int32_t size = comm_size(comm, hub);
  PyObject* list = PyList_New(size);
  for (std::int32_t i = 0; list != nullptr && i < size; ++i) {
    Rank world = i + (comm->kind == CommKind::world ? hub->world_first() : 0);
    if (comm->kind == CommKind::self) world = hub->current();
    if (comm->kind == CommKind::group) world = (*comm->members)->world_ranks[static_cast<std::size_t>(i)];
    PyList_SET_ITEM(list, i, PyLong_FromLong(world));
  }
  return list;
}

PyObject* comm_remote_ranks(PyObject* self, PyObject*) {
  auto* comm = as<CommObject>(self);
  if (comm->remote == nullptr) Py_RETURN_NONE;
  const auto& ranks = (*comm->remote)->world_ranks;
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(ranks.size()));
  for (std::size_t i = 0; list != nullptr && i < ranks.size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyLong_FromLong(ranks[i]));
  }
  return list;
}

PyGetSetDef comm_getset[] = {
    {"rank", comm_get_rank, nullptr, "Rank of the running process in this communicator.", nullptr},
    {"size", comm_get_size, nullptr, "Number of processes in this communicator.", nullptr},
    {"_context", comm_context, nullptr, "The engine's number of this communicator.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef plain_methods[] = {
    {"Get_rank", comm_rank_method, METH_NOARGS,
     "Get_rank($self)\n--\n\nRank of the running process in this communicator."},
    {"Get_size", comm_size_method, METH_NOARGS,
     "Get_size($self)\n--\n\nNumber of processes in this communicator."},
    {"_become", comm_become, METH_VARARGS, "Make this handle a communicator (kind, context, world_ranks)."},
    {"_use_private_context", comm_use_private_context, METH_NOARGS, "Turn to the messages of collectives."},
    {"_use_context", comm_use_context, METH_O, "Turn to the messages of this context."},
    {"_world_ranks", comm_world_ranks, METH_NOARGS, "World ranks of the members, in order."},
    {"_remote_ranks", comm_remote_ranks, METH_NOARGS, "World ranks of the other group; None of one group."},
    {nullptr, nullptr, 0, nullptr}};

// --- Status -----------------------------------------------------------------------------------------

PyObject* status_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* source = nullptr;
  if (!take_source(status_type(), args, kwargs, "status", source)) return nullptr;
  auto* self = as<StatusObject>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->source = kAnySource;
  self->tag = kAnyTag;
  if (source != nullptr) {
    const auto* from = as<StatusObject>(source);
    self->source = from->source;
    self->tag = from->tag;
    self->error = from->error;
    self->bytes = from->bytes;
    self->is_cancelled = from->is_cancelled;
  }
  return reinterpret_cast<PyObject*>(self);
}

PyMemberDef status_members[] = {
    {"source", T_INT, offsetof(StatusObject, source), 0, "Rank the message came from."},
    {"tag", T_INT, offsetof(StatusObject, tag), 0, "Tag of the message."},
    {"error", T_INT, offsetof(StatusObject, error), 0, "Error class."},
    {"_bytes", T_LONGLONG, offsetof(StatusObject, bytes), 0, "Bytes received."},
    {"_is_cancelled", T_BOOL, offsetof(StatusObject, is_cancelled), 0, "Whether the request was cancelled."},
    {nullptr, 0, 0, 0, nullptr}};

// --- Request and Message ----------------------------------------------------------------------------

PyObject* request_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* source = nullptr;
  if (!take_source(request_type(), args, kwargs, "request", source)) return nullptr;
  auto* self = as<RequestObject>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->use = RequestUse::null;
  if (source != nullptr && request_of(source)->use != RequestUse::null) {
    self->alias = Py_NewRef(reinterpret_cast<PyObject*>(request_of(source)));
  }
  return reinterpret_cast<PyObject*>(self);
}

void request_dealloc(PyObject* self) {
  auto* request = as<RequestObject>(self);
  Hub* hub = Hub::active();  // a handle that outlives its run has nothing left to give back
  const bool is_open = request->use == RequestUse::send || request->use == RequestUse::receive ||
                       request->use == RequestUse::object_receive || request->use == RequestUse::operation;
  if (is_open && hub != nullptr && hub->serial() == request->hub_serial) {
    hub->buffers_in_use().end(request->in_use);
    hub->drop(request->id, request->payload);
  }
  Py_CLEAR(request->comm);
  Py_CLEAR(request->result);
  Py_CLEAR(request->alias);
  Py_CLEAR(request->unkept);
  delete request->progress;
  forget_buffer(request->watched);
  free_object(self);
}

/// The communicator of a request under way; None of any other.
PyObject* request_comm(PyObject* self, void*) {
  PyObject* comm = request_of(self)->comm;
  return Py_NewRef(comm == nullptr ? Py_None : comm);
}

PyGetSetDef request_getset[] = {{"_comm", request_comm, nullptr, "The communicator, while it is under way.", nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

int request_bool(PyObject* self) { return request_of(self)->use != RequestUse::null; }

PyObject* message_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* source = nullptr;
  if (!take_source(message_type(), args, kwargs, "message", source)) return nullptr;
  auto* self = as<MessageObject>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->is_taken = 1;
  if (source != nullptr) {  // the message goes with the new handle
    auto* from = as<MessageObject>(source);
    self->comm = Py_XNewRef(from->comm);
    self->hub_serial = from->hub_serial;
    self->envelope = from->envelope;
    self->is_taken = from->is_taken;
    self->is_no_proc = from->is_no_proc;
  }
  return reinterpret_cast<PyObject*>(self);
}

void message_dealloc(PyObject* self) {
  Py_CLEAR(as<MessageObject>(self)->comm);
  free_object(self);
}

int message_bool(PyObject* self) { return as<MessageObject>(self)->is_taken == 0; }

PyObject* status_address(PyObject* self, void*) { return PyLong_FromVoidPtr(&as<StatusObject>(self)->source); }

PyGetSetDef status_getset[] = {{"_address", status_address, nullptr, "Where source, tag and error lie, three ints.", nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};

/// Which message it is: the same for all handles of one.
PyObject* message_number(PyObject* self, void*) {
  const RequestId send = as<MessageObject>(self)->envelope.send;
  return Py_BuildValue("KI", static_cast<unsigned long long>(as<MessageObject>(self)->hub_serial) << 32U | send.index,
                       static_cast<unsigned int>(send.generation));
}

PyObject* message_comm(PyObject* self, void*) {
  PyObject* comm = as<MessageObject>(self)->comm;
  return Py_NewRef(comm == nullptr ? Py_None : comm);
}

PyGetSetDef message_getset[] = {{"_comm", message_comm, nullptr, "The communicator.", nullptr},
                                {"_number", message_number, nullptr, "Which message it is.", nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef message_members[] = {
    {"_is_no_proc", T_BOOL, offsetof(MessageObject, is_no_proc), 0, "Whether it is MESSAGE_NO_PROC."},
    {"_is_taken", T_BOOL, offsetof(MessageObject, is_taken), 0, "Whether it is MESSAGE_NULL."},
    {nullptr, 0, 0, 0, nullptr}};

PyTypeObject* make_type(const char* name, std::size_t size, PyType_Slot* slots) {
  PyType_Spec spec = {name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

PyTypeObject* comm_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(comm_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(comm_dealloc)},
                                {Py_tp_richcompare, reinterpret_cast<void*>(comm_compare)},
                                {Py_tp_hash, reinterpret_cast<void*>(comm_hash)},
                                {Py_nb_bool, reinterpret_cast<void*>(comm_bool)},
                                {Py_tp_getset, comm_getset},
                                {Py_tp_methods, comm_methods()},
                                {0, nullptr}};
  static PyTypeObject* type = make_type("labkit._kernels.CommBase", sizeof(CommObject), slots);
  return type;
}

PyMethodDef* comm_plain_methods() { return plain_methods; }

PyTypeObject* status_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(status_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_object)},
                                {Py_tp_members, status_members},
                                {Py_tp_getset, status_getset},
                                {0, nullptr}};
  static PyTypeObject* type = make_type("labkit._kernels.StatusBase", sizeof(StatusObject), slots);
  return type;
}

PyTypeObject* request_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(request_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(request_dealloc)},
                                {Py_nb_bool, reinterpret_cast<void*>(request_bool)},
                                {Py_tp_getset, request_getset},
                                {Py_tp_methods, request_methods()},
                                {0, nullptr}};
  static PyTypeObject* type = make_type("labkit._kernels.RequestBase", sizeof(RequestObject), slots);
  return type;
}

PyTypeObject* message_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(message_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(message_dealloc)},
                                {Py_nb_bool, reinterpret_cast<void*>(message_bool)},
                                {Py_tp_members, message_members},
                                {Py_tp_getset, message_getset},
                                {Py_tp_methods, message_methods()},
                                {0, nullptr}};
  static PyTypeObject* type = make_type("labkit._kernels.MessageBase", sizeof(MessageObject), slots);
  return type;
}

}  // namespace labkit::bindings
