// Keys as unsigned words: the types that the node-local kernels are built for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace labkit::local {

/// The key as an unsigned number of the same order: a signed key's top bit is turned around.
template <class T>
constexpr std::make_unsigned_t<T> to_word(T key) {
  using Word = std::make_unsigned_t<T>;
  if constexpr (std::is_signed_v<T>) {
    return static_cast<Word>(static_cast<Word>(key) ^ static_cast<Word>(Word{1} << (8 * sizeof(T) - 1)));
  } else {
    return key;
  }
}

}  // namespace labkit::local

/// Instantiate for every key type: LABKIT_FOR_KEY_TYPES(MACRO), where MACRO(T) is one declaration.
#define LABKIT_FOR_KEY_TYPES(MACRO) \
  MACRO(std::int8_t)                \
  MACRO(std::int16_t)               \
  MACRO(std::int32_t)               \
  MACRO(std::int64_t)               \
  MACRO(std::uint8_t)               \
  MACRO(std::uint16_t)              \
  MACRO(std::uint32_t)              \
  MACRO(std::uint64_t)
