// Radix kernels: count the digits of keys, and scatter keys by one digit.
#pragma once

#include <cstdint>
#include <span>

namespace labkit::local {

/// Some bits of a key read as an unsigned word of the same order.
struct Digit {
  int shift;  ///< lowest bit, 0 to the key's bits - 1
  int bits;   ///< width, 1 to 16; bits above the key are 0
  [[nodiscard]] std::size_t count() const { return std::size_t{1} << bits; }
};

/// counts[d] = how many keys have digit d, for all of counts.
template <class T>
void count_digits(std::span<const T> keys, Digit digit, std::span<std::int64_t> counts);

/// Write the keys in the order of their digit, stably. `out` has as many keys and overlaps nothing.
/// False: `counts` are not the digit counts of these keys; `out` then holds nothing useful.
template <class T>
[[nodiscard]] bool scatter_by_digit(std::span<const T> keys, Digit digit, std::span<const std::int64_t> counts,
                                    T* out);

}  // namespace labkit::local
