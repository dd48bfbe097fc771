// Requests: Wait, Test and their kin over lists, Cancel, Free. Both of mpi4py's spellings.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/mpi_posts.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace {

CommObject* comm_of_request(const RequestObject* request) {
  return reinterpret_cast<CommObject*>(request->comm);
}

bool is_open(const RequestObject* request) {
  return request->use == RequestUse::send || request->use == RequestUse::receive ||
         request->use == RequestUse::object_receive || request->use == RequestUse::operation;
}

bool check_run(Hub* hub, const RequestObject* request) {
  if (!is_open(request) || request->hub_serial == hub->serial()) return true;
  raise_mpi(kErrRequest, "this request belongs to a run that has ended");
  return false;
}

void fill_empty(StatusObject* status) {
  if (status == nullptr) return;
  fill_no_proc(status);
  status->source = kAnySource;
}

/// What an operation that is over gave: None, or the error that it met.
PyObject* finish_operation(Hub* hub, const CommObject* comm, RequestObject* request, StatusObject* status) {
  const std::unique_ptr<std::shared_ptr<Progress>> held(std::exchange(request->progress, nullptr));
  Progress& progress = **held;
  hub->engine().release(request->id);
  fill_empty(status);
  if (const Status* learnt = progress.status(); status != nullptr && learnt != nullptr) {
    learnt->source == kProcNull ? fill_no_proc(status) : fill_status(status, comm, hub, *learnt);
  }
  if (!progress.is_sound()) return nullptr;
  const nanobind::object after = progress.take_after();
  if (!after.is_valid()) return Py_NewRef(Py_None);
  return PyObject_CallOneArg(after.ptr(), status == nullptr ? Py_None : reinterpret_cast<PyObject*>(status));
}

/// The operation no longer keeps its buffers: report those that the program had already let go of.
void report_lost(Hub* hub, PyObject* unkept, const std::string& name) {
  bool is_lost = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(unkept); ++i) {
    PyObject* buffer = PyObject_CallNoArgs(PyList_GET_ITEM(unkept, i));
    is_lost = is_lost || buffer == Py_None;
    Py_XDECREF(buffer);
  }
  Py_DECREF(unkept);
  if (is_lost) hub->warn("lost", -1, name.c_str(), 0);
}

/// The request is complete: what it gave, and the handle becomes REQUEST_NULL (or, persistent, inactive).
PyObject* finish(Hub* hub, RequestObject* request, StatusObject* status) {
  hub->buffers_in_use().end(request->in_use);
  const bool is_kept = request->is_persistent != 0 && request->use != RequestUse::null;
  const RequestUse use = std::exchange(request->use, is_kept ? RequestUse::inactive : RequestUse::null);
  PyObject* comm = std::exchange(request->comm, nullptr);
  PyObject* result = nullptr;
  if (use == RequestUse::null || use == RequestUse::inactive) {
    fill_empty(status);
    result = Py_NewRef(Py_None);
  } else if (use == RequestUse::finished) {
    fill_status(status, reinterpret_cast<CommObject*>(comm), hub, request->status);
    if (status != nullptr && request->status.source == kProcNull) status->source = kProcNull;
    result = std::exchange(request->result, nullptr);
    if (result == nullptr) result = Py_NewRef(Py_None);
  } else if (use == RequestUse::send) {
    if (request->watched != nullptr) {
      if (hub->is_watching() && has_changed(*request->watched)) hub->warn("changed", -1, "", static_cast<std::uint64_t>(request->watched->view.len));
      forget_buffer(request->watched);
    }
    const Status sent = hub->engine().status(request->id);
    hub->engine().release(request->id);
    fill_empty(status);
    if (status != nullptr) {
      status->is_cancelled = sent.is_cancelled ? 1 : 0;
      status->bytes = static_cast<long long>(request->status.bytes);  // of a file's; 0 of a message sent
    }
    result = Py_NewRef(Py_None);
  } else if (use == RequestUse::operation) {
    const std::string name = request->unkept == nullptr ? "" : (*request->progress)->name();
    result = finish_operation(hub, reinterpret_cast<CommObject*>(comm), request, status);
    if (request->unkept != nullptr) report_lost(hub, std::exchange(request->unkept, nullptr), name);
  } else {
    result = finish_receive(hub, reinterpret_cast<CommObject*>(comm), request->id,
                            std::exchange(request->payload, nullptr), use == RequestUse::object_receive, status);
  }
  Py_XDECREF(comm);
  return result;
}

Call call_of(Hub* hub, const char* name, const RequestObject* request) {
  const Request& posted = hub->engine().request(request->id);
  return {name, posted.peer, posted.tag, posted.bytes};
}

// --- one request ------------------------------------------------------------------------------------

/// Charge a test, let the engine catch up, and look. False: a Python error.
bool look(Hub* hub, const char* name, bool& is_first) {
  Engine& engine = hub->engine();
  const Rank me = hub->current();
  if (std::exchange(is_first, false)) engine.sleep(me, hub->poll_cost(engine.model().test_s));
  return engine.sync(me) || hub->block({name, kProcNull, kAnyTag, 0});
}

enum class Spelling { buffer, object };

template <Spelling spelling>
PyObject* wait_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr const char* name = spelling == Spelling::buffer ? "Wait" : "wait";
  static const char* const names[] = {"status", nullptr};
  PyObject* values[1] = {};
  Hub* hub = enter(name);
  StatusObject* status = nullptr;
  RequestObject* request = request_of(self);
  if (hub == nullptr || !take_args(name, names, 0, args, count, kwnames, values) ||
      !take_status(values[0], status) || !check_run(hub, request)) {
    return nullptr;
  }
  try {
    if (is_open(request) && !hub->engine().wait(hub->current(), request->id) &&
        !hub->block(call_of(hub, name, request))) {
      return nullptr;
    }
    PyObject* result = finish(hub, request, status);
    if (spelling == Spelling::object || result == nullptr) return result;
    Py_DECREF(result);
    Py_RETURN_TRUE;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

template <Spelling spelling>
PyObject* test_method(PyObject* self, Args args, Py_ssize_t count, PyObject* kwnames) {
  constexpr const char* name = spelling == Spelling::buffer ? "Test" : "test";
  static const char* const names[] = {"status", nullptr};
  PyObject* values[1] = {};
  Hub* hub = enter(name);
  StatusObject* status = nullptr;
  RequestObject* request = request_of(self);
  if (hub == nullptr || !take_args(name, names, 0, args, count, kwnames, values) ||
      !take_status(values[0], status) || !check_run(hub, request)) {
    return nullptr;
  }
  try {
    bool is_first = true;
    if (!look(hub, name, is_first)) return nullptr;
    const bool is_over = !is_open(request) || hub->engine().is_complete(request->id);
    PyObject* result = nullptr;
    if (is_over) {
      if (is_open(request)) hub->engine().charge(hub->current(), request->id);
      if ((result = finish(hub, request, status)) == nullptr) return nullptr;
    }
    if (spelling == Spelling::buffer) {
      Py_XDECREF(result);
      return PyBool_FromLong(is_over);
    }
    return Py_BuildValue("(NN)", PyBool_FromLong(is_over), result == nullptr ? Py_NewRef(Py_None) : result);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

PyObject* cancel_method(PyObject* self, PyObject*) {
  RequestObject* request = request_of(self);
  Hub* hub = enter("Cancel");
  if (hub == nullptr || !check_run(hub, request)) return nullptr;
  if (request->use == RequestUse::null) return raise_mpi(kErrRequest, "cannot cancel REQUEST_NULL");
  if (request->use == RequestUse::inactive) return raise_mpi(kErrRequest, "cannot cancel a request that is not started");
  if (request->use == RequestUse::operation) {
    return raise_mpi(kErrRequest, "cannot cancel %s: MPI allows it for single messages only; wait for it",
                     (*request->progress)->name().c_str());
  }
  try {
    if (!is_open(request)) Py_RETURN_NONE;
    if (!hub->engine().sync(hub->current()) && !hub->block({"Cancel", kProcNull, kAnyTag, 0})) return nullptr;
    if (!hub->engine().cancel(request->id)) Py_RETURN_NONE;
    Request& posted = hub->engine().request(request->id);
    if (request->use == RequestUse::send) {
      hub->payloads().give(static_cast<Payload*>(std::exchange(posted.payload, nullptr)));
    }
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

PyObject* free_method(PyObject* self, PyObject*) {
  RequestObject* request = request_of(self);
  Hub* hub = enter("Free");
  if (hub == nullptr || !check_run(hub, request)) return nullptr;
  if (request->use == RequestUse::null) return raise_mpi(kErrRequest, "cannot free REQUEST_NULL");
  if (request->use == RequestUse::operation) {
    return raise_mpi(kErrRequest, "cannot free %s while it is under way: MPI allows it for single messages only; wait for it",
                     (*request->progress)->name().c_str());
  }
  try {
    hub->buffers_in_use().end(request->in_use);
    if (is_open(request)) hub->drop(request->id, std::exchange(request->payload, nullptr));
    request->use = RequestUse::null;
    Py_CLEAR(request->comm);
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

// --- lists of requests: the primitives that labkit.comm builds the rest from --------------------------

/// The open requests of a sequence (null handles where there is nothing to wait for).
bool collect(Hub* hub, PyObject* fast, std::vector<RequestId>& ids) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
  ids.assign(static_cast<std::size_t>(count), RequestId{});
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast, i);
    if (!PyObject_TypeCheck(item, request_type())) {
      PyErr_Format(PyExc_TypeError, "requests must be MPI.Request objects, got %s", Py_TYPE(item)->tp_name);
      return false;
    }
    RequestObject* request = request_of(item);
    if (!check_run(hub, request)) return false;
    if (is_open(request)) ids[static_cast<std::size_t>(i)] = request->id;
  }
  return true;
}

/// _wait_list(requests, is_any, name): block until all (or one) are over; the index of the one, or -1.
PyObject* wait_list(PyObject*, Args args, Py_ssize_t count, PyObject*) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "_wait_list takes 3 arguments");
  const char* name = PyUnicode_AsUTF8(args[2]);
  Hub* hub = name == nullptr ? nullptr : enter(name);
  if (hub == nullptr) return nullptr;
  PyObject* fast = PySequence_Fast(args[0], "requests must be a sequence of MPI.Request");
  if (fast == nullptr) return nullptr;
  std::vector<RequestId> ids;
  bool is_good = collect(hub, fast, ids);
  Py_DECREF(fast);
  if (!is_good) return nullptr;
  try {
    const bool is_any = args[1] == Py_True;
    const Rank me = hub->current();
    const bool has_some = std::any_of(ids.begin(), ids.end(), [](RequestId id) { return !id.is_null(); });
    if (!has_some) return PyLong_FromLong(-1);
    Engine& engine = hub->engine();
    const bool goes_on = is_any ? engine.wait_any(me, ids) : engine.wait_all(me, ids);
    std::vector<RequestId>().swap(ids);  // nothing of this call may be needed after a switch
    // The name is the interned string of labkit.comm that args[2] holds: it outlives the call.
    if (!goes_on && !hub->block({name, kProcNull, kAnyTag, 0})) return nullptr;
    return PyLong_FromLong(is_any ? static_cast<long>(engine.any_index(me)) : -1);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

/// _look(name): charge one test and let the engine catch up.
PyObject* look_method(PyObject*, Args args, Py_ssize_t count, PyObject*) {
  const char* name = count == 1 ? PyUnicode_AsUTF8(args[0]) : "Test";
  Hub* hub = name == nullptr ? nullptr : enter(name);
  if (hub == nullptr) return nullptr;
  try {
    bool is_first = true;
    if (!look(hub, name, is_first)) return nullptr;
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

/// _is_over(): complete at the rank's clock (call _look first); None for REQUEST_NULL.
PyObject* is_over_method(PyObject* self, PyObject*) {
  RequestObject* request = request_of(self);
  if (request->use == RequestUse::null || request->use == RequestUse::inactive) Py_RETURN_NONE;
  Hub* hub = enter("Test");
  if (hub == nullptr || !check_run(hub, request)) return nullptr;
  try {
    return PyBool_FromLong(!is_open(request) || hub->engine().is_complete(request->id));
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

/// _finish(status, is_charged): what a request that is over gave.
PyObject* finish_method(PyObject* self, Args args, Py_ssize_t count, PyObject*) {
  StatusObject* status = nullptr;
  RequestObject* request = request_of(self);
  Hub* hub = enter("Wait");
  if (hub == nullptr || !take_status(count > 0 ? args[0] : nullptr, status) || !check_run(hub, request)) {
    return nullptr;
  }
  try {
    const bool is_charged = count < 2 || args[1] == Py_True;
    if (!is_charged && is_open(request)) hub->engine().charge(hub->current(), request->id);
    return finish(hub, request, status);
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

/// _peek(status): the status of a request that is over, without giving the handle back.
PyObject* peek_method(PyObject* self, PyObject* value) {
  StatusObject* status = nullptr;
  RequestObject* request = request_of(self);
  Hub* hub = enter("Get_status");
  if (hub == nullptr || !take_status(value, status) || !check_run(hub, request)) return nullptr;
  try {
    if (is_open(request) && request->use != RequestUse::send && request->use != RequestUse::operation) {
      fill_status(status, comm_of_request(request), hub, hub->engine().status(request->id));
    } else {
      fill_empty(status);
      if (request->use == RequestUse::send && status != nullptr) {
        status->is_cancelled = hub->engine().status(request->id).is_cancelled ? 1 : 0;
        status->bytes = static_cast<long long>(request->status.bytes);
      }
    }
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

/// _after(call): what to call with the status (or None) once this operation has been waited for; wait() returns
/// what it returns.
PyObject* after_method(PyObject* self, PyObject* value) {
  RequestObject* request = request_of(self);
  if (request->use != RequestUse::operation) return raise_mpi(kErrRequest, "not an operation");
  (*request->progress)->set_after(nanobind::borrow(value));
  Py_RETURN_NONE;
}

/// _complete(): a generalized request is over now. Whether it was not before.
PyObject* complete_method(PyObject* self, PyObject*) {
  RequestObject* request = request_of(self);
  Hub* hub = enter("Complete");
  if (hub == nullptr || !check_run(hub, request)) return nullptr;
  if (request->use != RequestUse::operation) return raise_mpi(kErrRequest, "this request is not under way");
  try {
    return PyBool_FromLong(hub->operations().complete(*hub, *request->progress));
  } catch (const std::exception& error) {
    return raise_cpp(error);
  }
}

/// _make_persistent(): from now on it is inactive where others are null.
PyObject* make_persistent_method(PyObject* self, PyObject*) {
  RequestObject* request = request_of(self);
  request->is_persistent = 1;
  request->use = RequestUse::inactive;
  Py_RETURN_NONE;
}

/// _take(other): an inactive (or null) request becomes what the other one is; that becomes null.
PyObject* take_method(PyObject* self, PyObject* value) {
  if (!PyObject_TypeCheck(value, request_type())) return PyErr_Format(PyExc_TypeError, "expected a Request");
  RequestObject* request = request_of(self);
  RequestObject* other = request_of(value);
  if (request->use != RequestUse::inactive && request->use != RequestUse::null) {
    return raise_mpi(kErrRequest, "only an inactive request can be started");
  }
  request->comm = std::exchange(other->comm, nullptr);
  request->result = std::exchange(other->result, nullptr);
  request->progress = std::exchange(other->progress, nullptr);
  request->payload = std::exchange(other->payload, nullptr);
  forget_buffer(request->watched);
  request->watched = std::exchange(other->watched, nullptr);
  request->in_use = std::exchange(other->in_use, 0);
  Py_XSETREF(request->unkept, std::exchange(other->unkept, nullptr));
  request->hub_serial = other->hub_serial;
  request->id = other->id;
  request->status = other->status;
  request->use = std::exchange(other->use, RequestUse::null);
  Py_RETURN_NONE;
}

/// _original(): the request that this handle stands for.
PyObject* original_method(PyObject* self, PyObject*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(request_of(self)));
}

constexpr const char* kDoc = "As mpi4py's method of this name.";

}  // namespace

PyMethodDef* request_methods() {
  static PyMethodDef methods[] = {
      entry("Wait", &wait_method<Spelling::buffer>, with_signature("Wait", "status=None", kDoc)),
      entry("wait", &wait_method<Spelling::object>, with_signature("wait", "status=None", kDoc)),
      entry("Test", &test_method<Spelling::buffer>, with_signature("Test", "status=None", kDoc)),
      entry("test", &test_method<Spelling::object>, with_signature("test", "status=None", kDoc)),
      {"Cancel", cancel_method, METH_NOARGS, with_signature("Cancel", "", kDoc)},
      {"cancel", cancel_method, METH_NOARGS, with_signature("cancel", "", kDoc)},
      {"Free", free_method, METH_NOARGS, with_signature("Free", "", kDoc)},
      entry("_wait_list", &wait_list, kDoc, METH_STATIC),
      entry("_look", &look_method, kDoc, METH_STATIC),
      {"_is_over", is_over_method, METH_NOARGS, kDoc},
      entry("_finish", &finish_method, kDoc),
      {"_peek", peek_method, METH_O, kDoc},
      {"_make_persistent", make_persistent_method, METH_NOARGS, kDoc},
      {"_take", take_method, METH_O, kDoc},
      {"_after", after_method, METH_O, kDoc},
      {"_original", original_method, METH_NOARGS, kDoc},
      {"_complete", complete_method, METH_NOARGS, kDoc},
      {nullptr, nullptr, 0, nullptr}};
  return methods;
}

}  // namespace labkit::bindings
