// _kernels.code_of_thread: whose code a thread runs, looked at without touching it.
//
// Python code that holds another thread's frames may lose the interpreter's lock meanwhile; the thread then goes
// on, and what its functions held outlives them until the frames are let go. Here the lock is never given up
// between taking the frames and letting them go, so the thread cannot notice.
#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

PyThreadState* state_of(unsigned long thread) {
  PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  while (state != nullptr && state->thread_id != thread) state = PyThreadState_Next(state);
  return state;
}

/// The garbage collector would run finalizers, which are Python code.
class NoCollection {
 public:
  NoCollection() : was_enabled_(PyGC_Disable()) {}
  ~NoCollection() {
    if (was_enabled_ != 0) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  int was_enabled_;
};

nb::list code_of_thread(unsigned long thread, std::size_t most) {
  std::vector<std::pair<nb::object, nb::object>> found;  // globals, code; innermost first
  if (PyThreadState* state = state_of(thread)) {
    const NoCollection no_collection;
    nb::object frame = nb::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(state)));
    while (frame.is_valid() && found.size() < most) {
      auto* one = reinterpret_cast<PyFrameObject*>(frame.ptr());
      found.emplace_back(nb::steal(PyFrame_GetGlobals(one)),
                         nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(one))));
      frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(one)));
    }
  }
  nb::list result;
  for (const auto& [globals, code] : found) {
    PyObject* name = PyDict_GetItemString(globals.ptr(), "__name__");  // borrowed; clears what it raises
    result.append(nb::make_tuple(name == nullptr ? nb::none() : nb::borrow(name), code.attr("co_filename")));
  }
  return result;
}

const Registration frames(60, [](nb::module_& module) {
  module.def("code_of_thread", &code_of_thread, nb::arg("thread"), nb::arg("most"),
             "The names of the module and of the file of the code that a thread runs, of at most so many frames, "
             "the innermost first.");
});

}  // namespace
}  // namespace labkit::bindings
