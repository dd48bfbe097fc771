// One-dimensional arrays of integers from Python, checked: contiguous, native byte order, one of eight types.
//
// The buffer protocol costs a tenth of what an nb::ndarray costs: these kernels are called for ten keys too.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <string>

namespace labkit::bindings {

class KeyBuffer {
 public:
  /// Pins the array. Raises TypeError or ValueError, naming `what`, for anything else.
  KeyBuffer(nanobind::handle array, const char* what, bool is_writable = false);
  ~KeyBuffer() { PyBuffer_Release(&view_); }
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(view_.len / view_.itemsize); }
  [[nodiscard]] bool is_signed() const { return is_signed_; }
  [[nodiscard]] std::size_t item_bytes() const { return static_cast<std::size_t>(view_.itemsize); }
  [[nodiscard]] bool has_type_of(const KeyBuffer& other) const {
    return is_signed_ == other.is_signed_ && view_.itemsize == other.view_.itemsize;
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return {static_cast<const T*>(view_.buf), size()};
  }
  /// Of a writable buffer.
  template <class T>
  [[nodiscard]] std::span<T> as_writable() const {
    return {static_cast<T*>(view_.buf), size()};
  }
  /// As int64; raises TypeError for another type.
  [[nodiscard]] std::span<const std::int64_t> integers(const char* what) const;
  [[nodiscard]] std::span<std::int64_t> writable_integers(const char* what) const;

  /// Refuse another length than `size`.
  void require_size(std::size_t size, const char* what) const;
  /// Refuse an output that shares memory with an input.
  void require_apart(const KeyBuffer& other) const;

 private:
  Py_buffer view_{};
  bool is_signed_ = false;
};

/// Call f with a zero of the buffer's element type.
template <class F>
auto with_key_type(const KeyBuffer& keys, F f) {
  switch (keys.item_bytes()) {
    case 1: return keys.is_signed() ? f(std::int8_t{}) : f(std::uint8_t{});
    case 2: return keys.is_signed() ? f(std::int16_t{}) : f(std::uint16_t{});
    case 4: return keys.is_signed() ? f(std::int32_t{}) : f(std::uint32_t{});
    default: return keys.is_signed() ? f(std::int64_t{}) : f(std::uint64_t{});
  }
}

/// Lets other threads run while many keys are worked on. The arrays stay pinned; a thread that changes the
/// keys meanwhile spoils the result, nothing else: every kernel stays inside its arrays whatever the keys.
class Unlocked {
 public:
  explicit Unlocked(std::size_t keys) : state_(keys >= kWorthIt ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  static constexpr std::size_t kWorthIt = std::size_t{1} << 18;
  PyThreadState* state_;
};

}  // namespace labkit::bindings
