#include "labkit/local/digits.hpp"

#include "labkit/local/words.hpp"
#include "scatter.hpp"

namespace labkit::local {
namespace {

/// The digit of the i-th key.
template <class T>
auto digit_reader(const T* keys, Digit digit) {
  const auto mask = static_cast<std::uint32_t>(digit.count() - 1);
  return [keys, shift = digit.shift, mask](std::size_t i) {
    return static_cast<std::size_t>(static_cast<std::uint32_t>(to_word(keys[i]) >> shift) & mask);
  };
}

}  // namespace

template <class T>
void count_digits(std::span<const T> keys, Digit digit, std::span<std::int64_t> counts) {
  count_numbers(keys.size(), counts, digit_reader(keys.data(), digit));
}

template <class T>
bool scatter_by_digit(std::span<const T> keys, Digit digit, std::span<const std::int64_t> counts, T* out) {
  return scatter_stably(keys, counts, out, digit_reader(keys.data(), digit));
}

#define LABKIT_INSTANTIATE(T)                                                              \
  template void count_digits<T>(std::span<const T>, Digit, std::span<std::int64_t>);       \
  template bool scatter_by_digit<T>(std::span<const T>, Digit, std::span<const std::int64_t>, T*);
LABKIT_FOR_KEY_TYPES(LABKIT_INSTANTIATE)
#undef LABKIT_INSTANTIATE

}  // namespace labkit::local
