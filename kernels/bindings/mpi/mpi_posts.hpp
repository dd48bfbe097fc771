// Posting: from a call's Python arguments to a request in the engine. Shared by all calls.
#pragma once

#include <Python.h>

#include <deque>
#include <exception>
#include <string>

#include "mpi/mpi_objects.hpp"

namespace labkit::bindings {

/// One send or receive: prepared from the program's arguments, then posted.
struct Posted {
  RequestId id;
  Payload* payload = nullptr;  ///< a send's belongs to the engine once posted
  Rank peer = 0;               ///< world rank
  int tag = 0;
  bool is_no_proc = false;     ///< PROC_NULL: nothing is posted
};

/// Each sets a Python error and returns false for arguments that MPI refuses. Nothing is posted yet, so
/// that a call of two messages posts both or none.
bool take_tag(PyObject* value, int otherwise, bool may_be_any, int& tag);
bool take_peer(Hub* hub, CommObject* comm, PyObject* source, Posted& out);
bool prepare_send(Hub* hub, CommObject* comm, PyObject* data, PyObject* dest, PyObject* tag, bool is_object,
                  Posted& out);
bool prepare_receive(Hub* hub, CommObject* comm, PyObject* buffer, PyObject* source, PyObject* tag, bool is_object,
                     bool is_blocking, Posted& out);

/// By the running rank, or an agent of its own.
void post_send(Hub* hub, CommObject* comm, SendMode mode, bool is_blocking, Posted& out, Rank agent = -1);
void post_receive(Hub* hub, CommObject* comm, Posted& out, Rank agent = -1);

/// The handle of a non-blocking call.
PyObject* make_request(CommObject* comm, Hub* hub, const Posted& posted, RequestUse use);
PyObject* make_operation_request(CommObject* comm, Hub* hub, const std::shared_ptr<Progress>& progress);

inline CommObject* comm_of(PyObject* self) { return reinterpret_cast<CommObject*>(self); }

/// An engine's exception as a Python error; returns nullptr.
inline PyObject* raise_cpp(const std::exception& error) {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, error.what());
  return nullptr;
}

using Args = PyObject* const*;

/// A docstring in which `inspect.signature` finds the parameters; made once for each method.
inline const char* with_signature(const char* name, const char* parameters, const char* doc) {
  static std::deque<std::string> kept;
  return kept.emplace_back(std::string(name) + "($self" + (*parameters == 0 ? "" : ", ") + parameters + ")\n--\n\n" + doc).c_str();
}

template <class Function>
PyMethodDef entry(const char* name, Function* function, const char* doc, int flags = 0) {
  auto* plain = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
  return {name, plain, METH_FASTCALL | METH_KEYWORDS | flags, doc};
}

}  // namespace labkit::bindings
