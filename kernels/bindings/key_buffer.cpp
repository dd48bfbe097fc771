#include "key_buffer.hpp"

#include <cstring>
#include <functional>

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

/// The letter of a one-letter format in native byte order, 0 for any other.
char letter_of(const char* format) {
  if (format == nullptr) return 'B';
  if (*format == '@' || *format == '=' || *format == '<') ++format;  // NumPy writes '<' only where it is native
  return format[0] != '\0' && format[1] == '\0' ? format[0] : '\0';
}

}  // namespace

KeyBuffer::KeyBuffer(nb::handle array, const char* what, bool is_writable) {
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (is_writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
  const char letter = letter_of(view_.format);
  is_signed_ = letter != '\0' && std::strchr("bhilqn", letter) != nullptr;
  const bool is_unsigned = letter != '\0' && std::strchr("BHILQN", letter) != nullptr;
  if (view_.ndim == 1 && (is_signed_ || is_unsigned)) return;
  const std::string format = view_.format == nullptr ? "B" : view_.format;
  const int dimensions = view_.ndim;
  PyBuffer_Release(&view_);  // no destructor runs when a constructor throws
  throw nb::type_error((std::string(what) + " must be a one-dimensional array of integers in native byte order, got " +
                        std::to_string(dimensions) + " dimensions of format " + format)
                           .c_str());
}

std::span<const std::int64_t> KeyBuffer::integers(const char* what) const {
  if (!is_signed_ || view_.itemsize != 8) throw nb::type_error((std::string(what) + " must be of int64").c_str());
  return as<std::int64_t>();
}

std::span<std::int64_t> KeyBuffer::writable_integers(const char* what) const {
  static_cast<void>(integers(what));
  return as_writable<std::int64_t>();
}

void KeyBuffer::require_size(std::size_t size, const char* what) const {
  if (this->size() == size) return;
  throw nb::value_error((std::string(what) + " must have " + std::to_string(size) + " elements, got " +
                         std::to_string(this->size()))
                            .c_str());
}

void KeyBuffer::require_apart(const KeyBuffer& other) const {
  const auto* begin = static_cast<const char*>(view_.buf);
  const auto* other_begin = static_cast<const char*>(other.view_.buf);
  const std::less<const char*> before;
  if (before(begin, other_begin + other.view_.len) && before(other_begin, begin + view_.len)) {
    throw nb::value_error("the output shares memory with an input");
  }
}

}  // namespace labkit::bindings
