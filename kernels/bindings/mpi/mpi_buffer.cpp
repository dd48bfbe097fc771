// _kernels.Buffer, which is labkit.MPI.buffer: memory as bytes, by address if need be.
#include <Python.h>

#include <cstring>

#include "mpi/mpi_buffer.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace {

struct BufferObject {
  PyObject_HEAD
  Py_buffer view;
  bool is_device;  ///< memory that its owner says is a device's: moved, but not looked into
};

Py_buffer& view_of(PyObject* self) { return reinterpret_cast<BufferObject*>(self)->view; }
char* begin_of(PyObject* self) { return static_cast<char*>(view_of(self).buf); }

PyObject* make_empty() {
  PyTypeObject* type = buffer_type();
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) PyBuffer_FillInfo(&view_of(self), nullptr, nullptr, 0, 0, PyBUF_SIMPLE);
  return self;
}

PyObject* make_over(PyObject* owner, void* data, Py_ssize_t bytes, bool is_read_only) {
  PyObject* self = make_empty();
  if (self != nullptr) PyBuffer_FillInfo(&view_of(self), owner, data, bytes, is_read_only ? 1 : 0, PyBUF_SIMPLE);
  return self;
}

bool look_into(PyObject* self) {
  if (!reinterpret_cast<BufferObject*>(self)->is_device) return true;
  PyErr_SetString(PyExc_BufferError, "buffer is in the memory of a device");
  return false;
}

/// Memory of another library's array, which says where it lies by DLPack or `__cuda_array_interface__`.
PyObject* make_of(PyObject* object, bool is_writable, bool is_first = true);
PyObject* make_of_foreign(PyObject* object, bool is_writable) {
  PyObject* found = PyObject_CallOneArg(python_side().foreign_memory, object);
  if (found == nullptr) return nullptr;
  PyObject* self = make_of(PyTuple_GET_ITEM(found, 0), is_writable, false);
  if (self != nullptr) reinterpret_cast<BufferObject*>(self)->is_device = PyTuple_GET_ITEM(found, 1) == Py_True;
  Py_DECREF(found);
  return self;
}

/// Its memory by the buffer protocol, in the order of C; otherwise by DLPack: NumPy's arrays in Fortran's order.
PyObject* make_of(PyObject* object, bool is_writable, bool is_first) {
  if (PyObject_CheckBuffer(object) == 0 && python_side().foreign_memory != nullptr) return make_of_foreign(object, is_writable);
  PyObject* self = make_empty();
  if (self == nullptr) return nullptr;
  if (PyObject_GetBuffer(object, &view_of(self), is_writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) != 0) {  // as NumPy says it
      PyErr_SetString(PyExc_BufferError, is_writable ? "the memory is not contiguous or read-only" : "the memory is not contiguous");
    }
    PyBuffer_FillInfo(&view_of(self), nullptr, nullptr, 0, 0, PyBUF_SIMPLE);
    Py_DECREF(self);
    if (!is_first) return nullptr;
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);  // looking for an attribute clears the error
    const bool is_foreign = PyObject_HasAttrString(object, "__dlpack__") != 0;
    PyErr_Restore(type, value, trace);
    if (!is_foreign) return nullptr;
    PyErr_Clear();
    return make_of_foreign(object, is_writable);
  }
  return self;
}

PyObject* buffer_new(PyTypeObject*, PyObject* args, PyObject*) {
  PyObject* object = nullptr;
  if (!PyArg_ParseTuple(args, "|O", &object)) return nullptr;
  return object == nullptr ? make_empty() : make_of(object, false);
}

void buffer_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyBuffer_Release(&view_of(self));
  type->tp_free(self);
  Py_DECREF(type);
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Py_buffer& mine = view_of(self);
  return PyBuffer_FillInfo(view, self, mine.buf, mine.len, mine.readonly, flags);
}

// --- making -----------------------------------------------------------------------------------------

PyObject* allocate(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"nbytes", "clear", nullptr};
  Py_ssize_t bytes = 0;
  int is_cleared = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n|p", const_cast<char**>(names), &bytes, &is_cleared)) return nullptr;
  if (bytes < 0) return PyErr_Format(PyExc_ValueError, "expecting non-negative size");
  PyObject* memory = PyByteArray_FromStringAndSize(nullptr, bytes);
  if (memory == nullptr) return nullptr;
  if (is_cleared != 0) std::memset(PyByteArray_AS_STRING(memory), 0, static_cast<std::size_t>(bytes));
  PyObject* self = make_of(memory, true);
  Py_DECREF(memory);
  return self;
}

PyObject* from_buffer(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"obj", "readonly", nullptr};
  PyObject* object = nullptr;
  int is_read_only = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", const_cast<char**>(names), &object, &is_read_only)) return nullptr;
  PyObject* self = make_of(object, is_read_only == 0);
  if (self != nullptr) view_of(self).readonly = is_read_only;
  return self;
}

PyObject* from_address(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"address", "nbytes", "readonly", nullptr};
  PyObject* address = nullptr;
  Py_ssize_t bytes = 0;
  int is_read_only = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "On|p", const_cast<char**>(names), &address, &bytes, &is_read_only)) return nullptr;
  void* data = PyLong_AsVoidPtr(address);
  if (data == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  if (bytes < 0) return PyErr_Format(PyExc_ValueError, "expecting non-negative buffer length");
  if (bytes > 0 && data == nullptr) return PyErr_Format(PyExc_ValueError, "expecting non-NULL address");
  return make_over(nullptr, data, bytes, is_read_only != 0);
}

// --- what it says, and as a memoryview --------------------------------------------------------------

PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(view_of(self).buf); }
PyObject* get_object(PyObject* self, void*) { return Py_NewRef(view_of(self).obj == nullptr ? Py_None : view_of(self).obj); }
PyObject* get_bytes(PyObject* self, void*) { return PyLong_FromSsize_t(view_of(self).len); }
PyObject* get_read_only(PyObject* self, void*) { return PyBool_FromLong(view_of(self).readonly); }
PyObject* get_format(PyObject*, void*) { return PyUnicode_FromString("B"); }
PyObject* get_item_bytes(PyObject*, void*) { return PyLong_FromLong(1); }

PyObject* cast(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!look_into(self)) return nullptr;
  PyObject* view = PyMemoryView_FromObject(self);
  PyObject* method = view == nullptr ? nullptr : PyObject_GetAttrString(view, "cast");
  PyObject* result = method == nullptr ? nullptr : PyObject_Call(method, args, kwargs);
  Py_XDECREF(method);
  Py_XDECREF(view);
  return result;
}

PyObject* to_bytes(PyObject* self, PyObject*, PyObject*) {
  if (!look_into(self)) return nullptr;
  return PyBytes_FromStringAndSize(begin_of(self), view_of(self).len);
}

PyObject* to_read_only(PyObject* self, PyObject*) {
  PyObject* owner = view_of(self).obj;
  PyObject* made = make_of(owner == nullptr ? self : owner, false);
  if (made != nullptr) view_of(made).readonly = 1;
  return made;
}

PyObject* release(PyObject* self, PyObject*) {
  PyBuffer_Release(&view_of(self));
  PyBuffer_FillInfo(&view_of(self), nullptr, nullptr, 0, 0, PyBUF_SIMPLE);
  Py_RETURN_NONE;
}

// --- as a sequence of bytes -------------------------------------------------------------------------

Py_ssize_t length(PyObject* self) { return view_of(self).len; }

bool take_index(PyObject* self, PyObject* item, Py_ssize_t& index) {
  index = PyNumber_AsSsize_t(item, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) return false;
  if (index < 0) index += length(self);
  if (index >= 0 && index < length(self)) return true;
  PyErr_SetString(PyExc_IndexError, "index out of range");
  return false;
}

bool take_slice(PyObject* self, PyObject* item, Py_ssize_t& start, Py_ssize_t& count) {
  Py_ssize_t stop = 0;
  Py_ssize_t step = 1;
  if (!PySlice_Check(item)) {
    PyErr_SetString(PyExc_TypeError, "index must be integer or slice");
    return false;
  }
  if (PySlice_Unpack(item, &start, &stop, &step) < 0) return false;
  count = PySlice_AdjustIndices(length(self), &start, &stop, step);
  if (step == 1) return true;
  PyErr_SetString(PyExc_IndexError, "slice with step not supported");
  return false;
}

PyObject* get_item(PyObject* self, PyObject* item) {
  if (!look_into(self)) return nullptr;
  Py_ssize_t start = 0;
  Py_ssize_t count = 0;
  if (PyIndex_Check(item)) {
    if (!take_index(self, item, start)) return nullptr;
    return PyLong_FromLong(static_cast<unsigned char>(begin_of(self)[start]));
  }
  if (!take_slice(self, item, start, count)) return nullptr;
  return make_over(self, begin_of(self) + start, count, view_of(self).readonly != 0);
}

bool take_byte(PyObject* value, unsigned char& byte) {
  const long number = PyLong_AsLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr) return false;
  if (number < 0 || number > 255) {
    PyErr_Format(PyExc_OverflowError, "a byte is 0 to 255, not %ld", number);
    return false;
  }
  byte = static_cast<unsigned char>(number);
  return true;
}

int set_item(PyObject* self, PyObject* item, PyObject* value) {
  Py_ssize_t start = 0;
  Py_ssize_t count = 0;
  unsigned char byte = 0;
  if (value == nullptr || view_of(self).readonly != 0) {
    if (value == nullptr) PyErr_SetString(PyExc_NotImplementedError, "bytes of a buffer cannot be deleted");
    else PyErr_SetString(PyExc_TypeError, "buffer is read-only");
    return -1;
  }
  if (!look_into(self)) return -1;
  if (PyIndex_Check(item)) {
    if (!take_index(self, item, start) || !take_byte(value, byte)) return -1;
    begin_of(self)[start] = static_cast<char>(byte);
    return 0;
  }
  if (!take_slice(self, item, start, count)) return -1;
  if (PyIndex_Check(value)) {
    if (!take_byte(value, byte)) return -1;
    std::memset(begin_of(self) + start, byte, static_cast<std::size_t>(count));
    return 0;
  }
  Py_buffer given;
  if (PyObject_GetBuffer(value, &given, PyBUF_ANY_CONTIGUOUS) < 0) return -1;
  const bool is_fit = given.len == count;
  if (is_fit) std::memmove(begin_of(self) + start, given.buf, static_cast<std::size_t>(count));
  PyBuffer_Release(&given);
  if (is_fit) return 0;
  PyErr_SetString(PyExc_ValueError, "slice length does not match buffer");
  return -1;
}

/// What a class says is its memory: `_exported()` returns an object that has some.
int export_memory(PyObject* self, Py_buffer* view, int flags) {
  PyObject* memory = PyObject_CallMethod(self, "_exported", nullptr);
  const int result = memory == nullptr ? -1 : PyObject_GetBuffer(memory, view, flags);
  Py_XDECREF(memory);
  if (result < 0) view->obj = nullptr;
  return result;
}

template <class Function>
PyCFunction plain(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace

PyTypeObject* buffer_type() {
  static PyGetSetDef attributes[] = {{"address", get_address, nullptr, "Where it begins.", nullptr},
                                     {"obj", get_object, nullptr, "The object whose memory it is, or None.", nullptr},
                                     {"nbytes", get_bytes, nullptr, "Its length in bytes.", nullptr},
                                     {"readonly", get_read_only, nullptr, "Whether it cannot be written.", nullptr},
                                     {"format", get_format, nullptr, "Format of its elements: bytes.", nullptr},
                                     {"itemsize", get_item_bytes, nullptr, "Bytes of an element.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  constexpr int kStatic = METH_VARARGS | METH_KEYWORDS | METH_STATIC;
  constexpr int kNamed = METH_VARARGS | METH_KEYWORDS;
  static PyMethodDef methods[] = {
      {"allocate", plain(allocate), kStatic, "New memory of so many bytes."},
      {"frombuffer", plain(from_buffer), kStatic, "The memory of an object."},
      {"fromaddress", plain(from_address), kStatic, "Memory at an address."},
      {"cast", plain(cast), kNamed, "A memoryview of another format or shape."},
      {"tobytes", plain(to_bytes), kNamed, "A copy as bytes."},
      {"toreadonly", to_read_only, METH_NOARGS, "The same memory, read-only."},
      {"release", release, METH_NOARGS, "Let go of the memory."},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(buffer_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(buffer_dealloc)},
                                {Py_tp_getset, attributes},
                                {Py_tp_methods, methods},
                                {Py_tp_doc, const_cast<char*>("Memory as bytes.")},
                                {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                {Py_mp_length, reinterpret_cast<void*>(length)},
                                {Py_sq_length, reinterpret_cast<void*>(length)},
                                {Py_mp_subscript, reinterpret_cast<void*>(get_item)},
                                {Py_mp_ass_subscript, reinterpret_cast<void*>(set_item)},
                                {0, nullptr}};
  static PyTypeObject* type = [] {
    PyType_Spec spec = {"labkit.MPI.buffer", static_cast<int>(sizeof(BufferObject)), 0, Py_TPFLAGS_DEFAULT, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

PyTypeObject* exporter_type() {
  static PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("Base of classes with memory: what `_exported()` returns.")},
                                {Py_bf_getbuffer, reinterpret_cast<void*>(export_memory)},
                                {0, nullptr}};
  static PyTypeObject* type = [] {
    PyType_Spec spec = {"labkit._kernels.Exporter", static_cast<int>(sizeof(PyObject)), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

}  // namespace labkit::bindings
