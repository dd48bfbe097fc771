// The compiled halves of labkit.MPI's Comm, Request, Message and Status: what their hot methods need.
//
// Plain extension types with vectorcall methods: a blocking pair of calls must cost a few
// microseconds in all. labkit.comm derives its classes from them and adds everything else.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hub/hub.hpp"
#include "labkit/engine/engine.hpp"

namespace labkit::bindings {

enum class CommKind : std::uint8_t { null, world, self, group };

struct CommObject {
  PyObject_HEAD
  std::shared_ptr<const Members>* members;  ///< only of a group
  std::shared_ptr<const Members>* remote;   ///< only of an intercommunicator: whom messages come from and go to
  std::uint64_t hub_serial;                 ///< only of a group: the run it belongs to
  Context context;
  CommKind kind;
};

struct StatusObject {
  PyObject_HEAD
  int source;
  int tag;
  int error;
  long long bytes;
  char is_cancelled;
};

/// inactive: a persistent request that has not been started.
enum class RequestUse : std::uint8_t { null, send, receive, object_receive, operation, finished, inactive };

/// The buffer of a send that goes on: the beginning of it may not change before its Wait.
struct Watched {
  Py_buffer view;
  const char* data;
  std::uint64_t bytes;
  std::uint64_t sum;
};
/// Nullptr where it cannot be looked at; no Python error is left.
Watched* watch_buffer(const Payload& send);
[[nodiscard]] bool has_changed(const Watched& watched);
void forget_buffer(Watched*& watched);

struct RequestObject {
  PyObject_HEAD
  PyObject* comm;
  PyObject* result;        ///< of a finished request: what wait() returns
  PyObject* alias;         ///< of a copied handle: the request that it stands for
  std::uint64_t hub_serial;
  RequestId id;
  Payload* payload;        ///< a receive's
  Status status;           ///< of a finished request
  std::shared_ptr<Progress>* progress;  ///< an operation's
  Watched* watched;        ///< a send's buffer, where it is looked whether it changes; or nullptr
  BuffersInUse::Handle in_use;  ///< of its memory, while that is not the program's
  PyObject* unkept;        ///< weak references to buffers that mpi4py's request would not keep; or nullptr
  RequestUse use;
  char is_persistent;
};

/// The request that a handle stands for.
inline RequestObject* request_of(PyObject* self) {
  auto* request = reinterpret_cast<RequestObject*>(self);
  return request->alias == nullptr ? request : reinterpret_cast<RequestObject*>(request->alias);
}

struct MessageObject {
  PyObject_HEAD
  PyObject* comm;
  std::uint64_t hub_serial;
  Envelope envelope;
  char is_taken;
  char is_no_proc;
};

PyTypeObject* comm_type();
PyTypeObject* status_type();
PyTypeObject* request_type();
PyTypeObject* message_type();

// --- shared by the methods -------------------------------------------------------------------------

/// The hub whose rank runs now; nullptr with a Python error outside any run or when the run is ending.
Hub* enter(const char* name);

/// Positional and keyword arguments into `out` (nullptr: not given). `names` ends with nullptr.
bool take_args(const char* function, const char* const* names, Py_ssize_t required, PyObject* const* args,
               Py_ssize_t count, PyObject* kwnames, PyObject** out);

/// An integer argument; `otherwise` when it was not given.
bool take_int(PyObject* value, const char* what, int otherwise, int& out);

std::int32_t comm_size(const CommObject* comm, Hub* hub);
std::int32_t comm_rank(const CommObject* comm, Hub* hub);
std::int32_t comm_rank_of(const CommObject* comm, Hub* hub, Rank world);
/// The number of its messages; a spawned world's is none of the first world's.
Context context_of(const CommObject* comm, const Hub* hub);
/// World rank of a rank of the communicator. False: a Python error (wrong rank, null communicator).
bool to_world(const CommObject* comm, Hub* hub, int rank, const char* what, Rank& out);
/// Rank in the communicator (of an intercommunicator: in the other group) of a world rank.
std::int32_t from_world(const CommObject* comm, Hub* hub, Rank world);
/// Refuse the null communicator and one of another run.
bool check_comm(const CommObject* comm, Hub* hub);

/// The Status given by the program, or nullptr for none. False: a Python error.
bool take_status(PyObject* value, StatusObject*& out);
void fill_status(StatusObject* out, const CommObject* comm, Hub* hub, const Status& status);
void fill_no_proc(StatusObject* out);

PyObject* pickle_dumps(PyObject* object);
PyObject* pickle_loads(PyObject* bytes);

/// What a receive gave: raises on truncation; gives the payload and the handle back.
/// `result` is the unpickled object of an object receive, else None.
PyObject* finish_receive(Hub* hub, const CommObject* comm, RequestId id, Payload* payload, bool is_object,
                         StatusObject* status);

PyMethodDef* comm_methods();
PyMethodDef* comm_plain_methods();
void add_probes(std::vector<PyMethodDef>& methods);
PyMethodDef* request_methods();
PyMethodDef* message_methods();

}  // namespace labkit::bindings
