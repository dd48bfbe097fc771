// _kernels.CallPlaces: from which place of the program a call was made, at a fraction of Python's cost.
#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/call_places.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

/// Numbers of call paths, known by the code of their functions and the instruction of the innermost one.
class CallPlaces {
 public:
  CallPlaces(nb::object kind_of, nb::object number_of, std::size_t most)
      : kind_of_(std::move(kind_of)), number_of_(std::move(number_of)), most_(most) {}

  std::int32_t here() {
    nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    while (frame.is_valid()) {
      const int found = kind(code_of(frame));
      if (found == 0) break;
      if (found == 3) return -1;
      nb::object above = back(frame);
      if (!above.is_valid()) break;
      frame = std::move(above);
    }
    return frame.is_valid() ? number(std::move(frame)) : -1;
  }

  /// Of a call that another one stands in for, so many frames of Python further out; -1: a call made it.
  std::int32_t outside(int frames) {
    nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    for (; frames > 0 && frame.is_valid(); --frames) frame = back(frame);
    return frame.is_valid() && kind(code_of(frame)) != 1 ? number(std::move(frame)) : -1;
  }

  std::int32_t number(nb::object frame) {
    key_.clear();
    key_.push_back(static_cast<std::uintptr_t>(PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
    nb::object above = frame;
    while (above.is_valid() && key_.size() <= most_) {
      PyCodeObject* code = code_of(above);
      if (kind(code) == 2) break;
      key_.push_back(reinterpret_cast<std::uintptr_t>(code));
      above = back(above);
    }
    if (const auto found = numbers_.find(key_); found != numbers_.end()) return found->second;
    const auto made = nb::cast<std::int32_t>(number_of_(frame));
    numbers_.emplace(key_, made);
    return made;
  }

 private:
  struct Hash {
    std::size_t operator()(const std::vector<std::uintptr_t>& key) const {
      std::uint64_t sum = 0;
      for (const std::uintptr_t part : key) sum = (sum ^ part) * 0x9E3779B97F4A7C15ull + (sum >> 29);
      return static_cast<std::size_t>(sum);
    }
  };

  /// Of a frame that runs, and so holds it.
  static PyCodeObject* code_of(const nb::object& frame) {
    PyCodeObject* code = PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.ptr()));
    Py_DECREF(code);
    return code;
  }
  static nb::object back(const nb::object& frame) {
    return nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
  }
  /// Code once seen is kept: another one must not get its address.
  int kind(PyCodeObject* code) {
    const auto found = kinds_.find(code);
    if (found != kinds_.end()) return found->second.second;
    nb::object kept = nb::borrow(reinterpret_cast<PyObject*>(code));
    const int made = nb::cast<int>(kind_of_(kept.attr("co_filename")));
    kinds_.emplace(code, std::pair(std::move(kept), made));
    return made;
  }

  nb::object kind_of_;
  nb::object number_of_;
  std::size_t most_;
  std::unordered_map<PyCodeObject*, std::pair<nb::object, int>> kinds_;
  std::unordered_map<std::vector<std::uintptr_t>, std::int32_t, Hash> numbers_;
  std::vector<std::uintptr_t> key_;
};

const Registration registration(60, [](nb::module_& module) {
  nb::class_<CallPlaces>(module, "CallPlaces", "Numbers of the places in a program that make calls.")
      .def(nb::init<nb::object, nb::object, std::size_t>(), "kind_of"_a, "number_of"_a, "most"_a,
           "`kind_of` tells of a file whether it is the program's (0), a call's (1), calls the program (2) or makes calls itself (3); "
           "`number_of` numbers the place of a frame that was not seen before.")
      .def("here", &CallPlaces::here, "The number of the place that made the present call.")
      .def("outside", &CallPlaces::outside, "frames"_a,
           "The number of the place so many frames further out, -1 if a call is there.")
      .def("number", &CallPlaces::number, "frame"_a, "The number of a frame's place.");
});

}  // namespace

std::int32_t place_of_call(PyObject* places) { return nb::inst_ptr<CallPlaces>(nb::handle(places))->here(); }

}  // namespace labkit::bindings
