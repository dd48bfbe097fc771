#include "mpi/payload.hpp"

#include <nanobind/nanobind.h>

#include <cstdlib>
#include <cstring>

#include "python_side.hpp"

namespace labkit::bindings {
namespace {

// Formats of one letter that MPI has a datatype for; everything else is looked up in Python.
bool is_plain_format(const char* format) {
  if (format == nullptr) return true;
  if (*format == '@' || *format == '<') ++format;
  return format[0] != '\0' && format[1] == '\0' && std::strchr("?cbBhHiIlLqQfdg", format[0]) != nullptr;
}

/// The kind of elements that MPI tells apart, of a plain format: a letter for integers, floats and complex numbers
/// of each size; 0 of bytes, which go with everything.
char kind_of(const char* format, Py_ssize_t item_bytes) {
  if (format == nullptr || item_bytes <= 1) return 0;
  if (*format == '@' || *format == '<') ++format;
  if (std::strchr("hHiIlLqQ", format[0]) != nullptr) return item_bytes == 2 ? 'h' : item_bytes == 4 ? 'i' : 'q';
  return std::strchr("fdg", format[0]) != nullptr ? format[0] : '\0';
}

// NumPy refuses with a ValueError what mpi4py reports as a BufferError. Always false.
bool as_buffer_error() {
  if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) return false;
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyErr_SetObject(PyExc_BufferError, value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return false;
}

bool fill_view(PyObject* object, bool is_writable, bool wants_format, Payload& payload) {
  int flags = PyBUF_ANY_CONTIGUOUS | (is_writable ? PyBUF_WRITABLE : 0) | (wants_format ? PyBUF_FORMAT : 0);
  if (PyObject_GetBuffer(object, &payload.view, flags) < 0) return as_buffer_error();
  payload.has_view = true;
  payload.data = static_cast<char*>(payload.view.buf);
  payload.bytes = static_cast<std::uint64_t>(payload.view.len);
  return true;
}

// A list form: Python resolves it to (object or None, offset, length), in bytes; of a datatype with gaps to the
// bytes that are sent, or to (object or None, 0, length, layout, address) where they are received; of a phantom, an object
// and address 0.
// For the element's kind, if it is known, the last one is given with it.
bool pin_spec(PyObject* spec, bool is_writable, Payload& payload) {
  PyObject* args[] = {spec, is_writable ? Py_True : Py_False};
  PyObject* parsed = PyObject_Vectorcall(python_side().parse_buffer, args, 2, nullptr);
  if (parsed == nullptr) return false;
  PyObject* object = nullptr;
  PyObject* layout = nullptr;
  Py_ssize_t offset = 0;
  Py_ssize_t length = 0;
  unsigned long long address = 0;
  int kind = 0;
  bool is_good = PyArg_ParseTuple(parsed, "Onn|OKi", &object, &offset, &length, &layout, &address, &kind) != 0;
  if (layout == Py_None) layout = nullptr;
  payload.kind = static_cast<char>(kind);
  payload.item_bytes = kind == 0 ? 0 : kind == 'h' ? 2 : kind == 'i' || kind == 'f' ? 4 : kind == 'g' ? 16 : 8;
  if (is_good && PyBytes_Check(object)) {
    hold_bytes(object, payload);
  } else if (is_good && object != Py_None) {
    is_good = fill_view(object, is_writable, false, payload);
    payload.data += offset;
  }
  if (is_good && layout != nullptr) payload.owner = Py_NewRef(layout);
  if (is_good && layout != nullptr && (address != 0 || object == Py_None)) {  // else a phantom; 0 is MPI.BOTTOM
    payload.layout = nanobind::inst_ptr<ByteLayout>(layout);
    payload.data = reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  payload.bytes = static_cast<std::uint64_t>(length);
  Py_DECREF(parsed);
  return is_good;
}

}  // namespace

PhantomMemory& phantom_memory() {
  static PhantomMemory memory;
  return memory;
}

void release_view(Payload& payload) {
  if (!payload.has_view) return;
  payload.has_view = false;
  PyBuffer_Release(&payload.view);
}

bool pin_buffer(PyObject* spec, bool is_writable, Payload& payload) {
  if (!PyObject_CheckBuffer(spec)) return pin_spec(spec, is_writable, payload);
  if (!fill_view(spec, is_writable, true, payload)) return false;
  payload.item_bytes = static_cast<std::uint32_t>(payload.view.itemsize);
  if (is_plain_format(payload.view.format)) {
    payload.kind = kind_of(payload.view.format, payload.view.itemsize);
    return true;
  }
  PyObject* format = PyUnicode_FromString(payload.view.format);
  if (format == nullptr) return false;
  PyObject* datatype = PyObject_CallOneArg(python_side().find_format, format);
  Py_DECREF(format);
  Py_XDECREF(datatype);
  return datatype != nullptr;
}

void hold_bytes(PyObject* bytes, Payload& payload) {
  payload.owner = Py_NewRef(bytes);
  payload.data = PyBytes_AS_STRING(bytes);
  payload.bytes = static_cast<std::uint64_t>(PyBytes_GET_SIZE(bytes));
}

Payload* PayloadPool::take() {
  Payload* payload = free_;
  if (payload != nullptr) {
    free_ = payload->next_free;
  } else {
    payload = &storage_.emplace_back();
  }
  payload->is_in_use = true;
  return payload;
}

void PayloadPool::clear(Payload& payload) {
  release_view(payload);
  Py_CLEAR(payload.owner);
  Py_CLEAR(payload.received);
  std::free(payload.copy);
  payload.copy = nullptr;
  payload.layout = nullptr;
  payload.data = nullptr;
  payload.bytes = 0;
  payload.is_object = false;
  payload.is_delivered = false;
  payload.is_unfilled = false;
  payload.is_in_use = false;
  payload.is_used = false;
  payload.asks_source = false;
  payload.kind = payload.sent_kind = 0;
  payload.item_bytes = 0;
  payload.sent_by = -1;
  payload.clash = 0;
}

void PayloadPool::give(Payload* payload) {
  if (payload == nullptr || !payload->is_in_use) return;
  clear(*payload);
  payload->next_free = free_;
  free_ = payload;
}

PayloadPool::~PayloadPool() {
  for (Payload& payload : storage_) {
    if (payload.is_in_use) clear(payload);
  }
}

}  // namespace labkit::bindings
