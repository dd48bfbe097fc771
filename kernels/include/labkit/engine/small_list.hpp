// A list that keeps up to two elements in place and moves to the heap beyond: most links carry a
// flow or two, and a heap block per link costs memory and a cache miss per visit.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

namespace labkit {

template <class T>
class SmallList {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 8);

 public:
  SmallList() = default;
  SmallList(const SmallList&) = delete;
  SmallList& operator=(const SmallList&) = delete;
  ~SmallList() {
    if (is_on_heap()) std::free(heap_);
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* begin() { return is_on_heap() ? heap_ : inside_; }
  [[nodiscard]] T* end() { return begin() + size_; }
  [[nodiscard]] const T* begin() const { return is_on_heap() ? heap_ : inside_; }
  [[nodiscard]] const T* end() const { return begin() + size_; }
  T& operator[](std::uint32_t i) { return begin()[i]; }
  [[nodiscard]] const T& front() const { return *begin(); }
  [[nodiscard]] const T& back() const { return begin()[size_ - 1]; }
  void push_back(const T& value) {
    if (size_ == capacity_) grow();
    begin()[size_++] = value;
  }
  void pop_back() { --size_; }

 private:
  static constexpr std::uint32_t kInside = 2;
  [[nodiscard]] bool is_on_heap() const { return capacity_ > kInside; }
  void grow() {
    const std::uint32_t capacity = 4 * capacity_;
    T* block = static_cast<T*>(std::malloc(capacity * sizeof(T)));
    if (block == nullptr) throw std::bad_alloc();
    std::memcpy(block, begin(), size_ * sizeof(T));
    if (is_on_heap()) std::free(heap_);
    heap_ = block;
    capacity_ = capacity;
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kInside;
  union {
    T inside_[kInside];
    T* heap_;
  };
};

}  // namespace labkit
