// _kernels.NotedCall: blocking sends and receives of arrays on real MPI, noted without a frame of Python.
//
// It stands for a method of mpi4py's in a class. Calls of the most frequent form (an array as it is, a number for the
// other rank) are made and noted here; all others, and those that will fail, go to the method in Python, which does the
// same. In a call that is noted already the library's own method is called.
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "python/call_places.hpp"
#include "rank_log.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

enum class Kind : std::uint8_t { send, synchronous_send, buffered_send, receive };

/// Arguments after the communicator: the array, the other rank, the tag, and of a receive the status.
using Arguments = std::array<PyObject*, 4>;

struct Names {
  PyObject* handle = PyUnicode_InternFromString("handle");
  PyObject* ranks = PyUnicode_InternFromString("ranks");
  PyObject* number = PyUnicode_InternFromString("number");
  PyObject* nbytes = PyUnicode_InternFromString("nbytes");
  PyObject* source = PyUnicode_InternFromString("source");
  PyObject* tag = PyUnicode_InternFromString("tag");
  PyObject* count = PyUnicode_InternFromString("count");
  std::array<PyObject*, 4> of_send = {PyUnicode_InternFromString("buf"), PyUnicode_InternFromString("dest"), tag, nullptr};
  std::array<PyObject*, 4> of_receive = {of_send[0], source, tag, PyUnicode_InternFromString("status")};
};
const Names& names() {
  static const Names all;
  return all;
}

struct NotedCall {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* dict;
  PyObject* original;   ///< mpi4py's method
  PyObject* general;    ///< the method in Python
  PyObject* log;        ///< keeps `notes`
  PyObject* places;     ///< nullptr: places are not noted
  PyObject* known;      ///< communicators by their handle
  PyObject* status;     ///< of a receive without one
  PyObject* array;      ///< numpy.ndarray
  RankLog* notes;
  std::int32_t name;
  long no_proc;
  long any_source;
  long any_tag;
  Kind kind;
};

/// A number that is exactly one, or nothing.
bool number_of(PyObject* value, long& found) {
  if (!PyLong_CheckExact(value)) return false;
  int overflow = 0;
  found = PyLong_AsLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool attribute(PyObject* object, PyObject* name, long& found) {
  PyObject* value = PyObject_GetAttr(object, name);
  if (value == nullptr) {
    PyErr_Clear();
    return false;
  }
  const bool is_number = number_of(value, found);
  Py_DECREF(value);
  return is_number;
}

/// The arguments by their places; false where one is unknown, twice or too many.
bool sort_arguments(const NotedCall& self, PyObject* const* given, std::size_t count, PyObject* keywords, Arguments& found) {
  const std::size_t most = self.kind == Kind::receive ? 4 : 3;
  if (count < 1 || count - 1 > most) return false;
  found.fill(nullptr);
  for (std::size_t i = 1; i < count; ++i) found[i - 1] = given[i];
  const auto& allowed = self.kind == Kind::receive ? names().of_receive : names().of_send;
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t i = 0; i < named; ++i) {
    std::size_t at = 0;
    while (at < most && allowed[at] != PyTuple_GET_ITEM(keywords, i)) ++at;
    if (at == most || found[at] != nullptr) return false;
    found[at] = given[count + static_cast<std::size_t>(i)];
  }
  return found[0] != nullptr;
}

/// What a call needs to be noted.
struct Plan {
  nb::object ranks;  ///< of the world, by rank of the communicator
  long number = 0;
  long peer = 0;
  long tag = 0;
  long bytes = 0;
};

/// False where the method in Python must see to it.
bool plan(const NotedCall& self, PyObject* comm, const Arguments& given, Plan& made) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(given[0])) != self.array) return false;
  const bool receives = self.kind == Kind::receive;
  made.peer = self.any_source;
  made.tag = receives ? self.any_tag : 0;
  if (given[1] == nullptr ? !receives : !number_of(given[1], made.peer)) return false;
  if (given[2] != nullptr && !number_of(given[2], made.tag)) return false;
  if (made.peer == self.no_proc || !attribute(given[0], names().nbytes, made.bytes)) return false;
  PyObject* handle = PyObject_GetAttr(comm, names().handle);
  if (handle == nullptr) {
    PyErr_Clear();
    return false;
  }
  PyObject* known = PyDict_GetItemWithError(self.known, handle);
  Py_DECREF(handle);
  if (known == nullptr || !attribute(known, names().number, made.number)) {
    PyErr_Clear();
    return false;
  }
  made.ranks = nb::steal(PyObject_GetAttr(known, names().ranks));
  if (!made.ranks.is_valid()) PyErr_Clear();
  if (!made.ranks.is_valid() || !PyList_CheckExact(made.ranks.ptr())) return false;
  return (receives && made.peer == self.any_source) ||
         (made.peer >= 0 && made.peer < PyList_GET_SIZE(made.ranks.ptr()));
}

Rank world_rank(const nb::object& ranks, long rank) {
  if (rank < 0 || rank >= PyList_GET_SIZE(ranks.ptr())) return -1;
  return static_cast<Rank>(PyLong_AsLong(PyList_GET_ITEM(ranks.ptr(), rank)));
}

PyObject* receive(NotedCall& self, PyObject* comm, const Arguments& given, const Plan& made) {
  PyObject* status = given[3] == nullptr || given[3] == Py_None ? self.status : given[3];
  PyObject* source = PyLong_FromLong(made.peer);
  PyObject* tag = PyLong_FromLong(made.tag);
  const std::array<PyObject*, 5> all = {comm, given[0], source, tag, status};
  PyObject* result = PyObject_Vectorcall(self.original, all.data(), all.size(), nullptr);
  Py_DECREF(source);
  Py_DECREF(tag);
  long got_source = 0;
  long got_tag = 0;
  long bytes = 0;
  if (result != nullptr && attribute(status, names().source, got_source) && attribute(status, names().tag, got_tag) &&
      attribute(status, names().count, bytes)) {
    const Rank peer = made.peer == self.any_source ? -1 : world_rank(made.ranks, made.peer);
    self.notes->received(peer, made.tag == self.any_tag ? -1 : static_cast<std::int32_t>(made.tag),
                         static_cast<std::uint64_t>(made.bytes), static_cast<Context>(made.number),
                         world_rank(made.ranks, got_source), static_cast<std::int32_t>(got_tag),
                         static_cast<std::uint64_t>(bytes));
  }
  return result;
}

/// Makes the call; may throw.
PyObject* noted(NotedCall& self, PyObject* const* given, std::size_t flags, PyObject* keywords, const Arguments& sorted,
                const Plan& made) {
  self.notes->enter(self.name, self.places == nullptr ? -1 : place_of_call(self.places));
  PyObject* result = nullptr;
  if (self.kind == Kind::receive) {
    result = receive(self, given[0], sorted, made);
  } else {
    result = PyObject_Vectorcall(self.original, given, flags, keywords);
    if (result != nullptr) {
      self.notes->sent(world_rank(made.ranks, made.peer), static_cast<std::int32_t>(made.tag),
                       static_cast<std::uint64_t>(made.bytes), static_cast<Context>(made.number),
                       self.kind == Kind::synchronous_send, self.kind == Kind::buffered_send);
    }
  }
  self.notes->leave();
  return result;
}

PyObject* called(PyObject* object, PyObject* const* given, std::size_t flags, PyObject* keywords) {
  NotedCall& self = *reinterpret_cast<NotedCall*>(object);
  if (self.notes->is_busy) return PyObject_Vectorcall(self.original, given, flags, keywords);
  Arguments sorted;
  Plan made;
  if (!sort_arguments(self, given, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), keywords, sorted) ||
      !plan(self, given[0], sorted, made)) {
    return PyObject_Vectorcall(self.general, given, flags, keywords);
  }
  self.notes->is_busy = true;
  PyObject* result = nullptr;
  try {
    result = noted(self, given, flags, keywords, sorted, made);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  self.notes->is_busy = false;
  return result;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  NotedCall& self = *reinterpret_cast<NotedCall*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self.dict);
  Py_VISIT(self.original);
  Py_VISIT(self.general);
  Py_VISIT(self.log);
  Py_VISIT(self.places);
  Py_VISIT(self.known);
  Py_VISIT(self.status);
  return 0;
}

int clear(PyObject* object) {
  NotedCall& self = *reinterpret_cast<NotedCall*>(object);
  Py_CLEAR(self.dict);
  Py_CLEAR(self.original);
  Py_CLEAR(self.general);
  Py_CLEAR(self.places);
  Py_CLEAR(self.known);
  Py_CLEAR(self.status);
  Py_CLEAR(self.array);
  self.notes = nullptr;
  Py_CLEAR(self.log);
  return 0;
}

void destroy(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

/// As a function in a class: a method of the instance.
PyObject* bound(PyObject* object, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(object);
  return PyMethod_New(object, instance);
}

PyTypeObject* noted_call_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(NotedCall, call), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(NotedCall, dict), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyGetSetDef getters[] = {
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_members, members},
      {Py_tp_getset, getters},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "labkit._kernels.NotedCall", sizeof(NotedCall), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
          Py_TPFLAGS_DISALLOW_INSTANTIATION,
      slots,
  };
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

nb::object noted_call(const std::string& kind, nb::object original, nb::object general, nb::object log, nb::object places,
                      nb::object known, nb::object status, std::int32_t name, long no_proc, long any_source, long any_tag) {
  PyTypeObject* type = noted_call_type();
  if (type == nullptr) throw nb::python_error();
  auto* made = reinterpret_cast<NotedCall*>(type->tp_alloc(type, 0));
  if (made == nullptr) throw nb::python_error();
  made->call = called;
  made->kind = kind == "Recv" ? Kind::receive : kind == "Ssend" ? Kind::synchronous_send : kind == "Bsend" ? Kind::buffered_send : Kind::send;
  made->notes = nb::cast<RankLog*>(log);
  made->array = nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  made->original = original.release().ptr();
  made->general = general.release().ptr();
  made->log = log.release().ptr();
  made->places = places.is_none() ? nullptr : places.release().ptr();
  made->known = known.release().ptr();
  made->status = status.release().ptr();
  made->name = name;
  made->no_proc = no_proc;
  made->any_source = any_source;
  made->any_tag = any_tag;
  return nb::steal(reinterpret_cast<PyObject*>(made));
}

const Registration registration(62, [](nb::module_& module) {
  module.def("noted_call", &noted_call, "kind"_a, "original"_a, "general"_a, "log"_a, "places"_a.none(), "known"_a, "status"_a, "number"_a,
             "no_proc"_a, "any_source"_a, "any_tag"_a,
             "A method that makes a blocking call of mpi4py with an array and notes it; `general` makes all other calls.");
});

}  // namespace
}  // namespace labkit::bindings
