// Where in the program the present call was made, for compiled callers.
#pragma once

#include <Python.h>

#include <cstdint>

namespace labkit::bindings {

/// The number of that place; `places` is a CallPlaces.
std::int32_t place_of_call(PyObject* places);

}  // namespace labkit::bindings
