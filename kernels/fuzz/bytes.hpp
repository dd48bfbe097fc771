// Choices out of a fuzzer's bytes. Whoever has used them up gets zeros: every input is a whole story.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace labkit::fuzz {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  [[nodiscard]] bool is_empty() const { return at_ == end_; }
  std::uint8_t byte() { return at_ == end_ ? 0 : *at_++; }
  bool flag() { return (byte() & 1u) != 0; }
  /// 0 .. limit - 1; limit at most 256.
  std::size_t below(std::size_t limit) { return byte() % limit; }
  template <typename T, std::size_t N>
  const T& one_of(const std::array<T, N>& values) {
    return values[below(N)];
  }
  /// Any eight bytes: not-a-number, infinity and the smallest numbers are among them.
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  double any_double() {
    const std::uint64_t bits = word();
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  /// Mostly an index that is there, sometimes one that is not.
  std::int32_t index(std::size_t count) {
    const std::uint8_t choice = byte();
    if (choice == 255) return -1;
    if (choice == 254) return static_cast<std::int32_t>(word());
    return static_cast<std::int32_t>(choice % (count + 1));
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace labkit::fuzz
