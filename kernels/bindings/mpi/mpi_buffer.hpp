// labkit.MPI.buffer: a type of its own, because only compiled types export memory before Python 3.12.
#pragma once

#include <Python.h>

namespace labkit::bindings {

PyTypeObject* buffer_type();

/// A base of classes in Python that have memory.
PyTypeObject* exporter_type();

}  // namespace labkit::bindings
