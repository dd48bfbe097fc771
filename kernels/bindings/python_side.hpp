// The names of labkit.comm that the compiled side calls: registered once, when labkit.comm loads.
#pragma once

#include <Python.h>

#include <exception>

namespace labkit::bindings {

/// Borrowed from the module for the life of the process.
struct PythonSide {
  PyObject* request_type = nullptr;   ///< labkit.MPI.Request
  PyObject* status_type = nullptr;    ///< labkit.MPI.Status
  PyObject* message_type = nullptr;   ///< labkit.MPI.Message
  PyObject* message_no_proc = nullptr;  ///< labkit.MPI.MESSAGE_NO_PROC
  PyObject* make_error = nullptr;     ///< (error class, text) -> labkit.MPI.Exception
  PyObject* make_outside = nullptr;   ///< (what) -> the error of a call outside any run
  PyObject* owner_of_thread = nullptr;  ///< () -> (hub, rank) whose thread this is, or None
  PyObject* make_ended = nullptr;     ///< () -> the error that unwinds a rank when its run ends
  PyObject* parse_buffer = nullptr;   ///< (spec, is_writable) -> (object or None, offset, bytes[, layout, address])
  PyObject* unpacked = nullptr;       ///< (layout, bytes): a receive of a datatype with gaps is over; what that costs
  PyObject* foreign_memory = nullptr;   ///< (array of another library) -> (NumPy array on its memory, is it a device's)
  PyObject* in_place = nullptr;       ///< labkit.MPI.IN_PLACE
  PyObject* datatypes = nullptr;      ///< the tuple of MPI's own datatypes
  PyObject* find_format = nullptr;    ///< (format) -> Datatype, or raises
  PyObject* dumps = nullptr;          ///< (object) -> bytes
  PyObject* loads = nullptr;          ///< (bytes) -> object
  PyObject* protocol = nullptr;       ///< second argument of dumps, or None
};

PythonSide& python_side();

/// Raise labkit.MPI.Exception of an error class. Returns nullptr.
PyObject* raise_mpi(int error_class, const char* format, ...);

/// Raise labkit.errors.ScheduleError.
void raise_schedule_fault(const std::exception& fault);

/// MPI's error classes, with the numbers of Open MPI's ABI (what Python sees is only their names).
enum ErrorClass : int {
  kErrBuffer = 1, kErrCount = 2, kErrType = 3, kErrTag = 4, kErrComm = 5, kErrRank = 6, kErrRequest = 7,
  kErrRoot = 8, kErrTruncate = 15, kErrOther = 16, kErrInStatus = 18,
};

/// Constants of the interface, as Python sees them.
inline constexpr int kProcNull = -2;
inline constexpr int kTagUpperBound = 2147483647;

}  // namespace labkit::bindings
