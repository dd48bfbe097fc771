// IEEE half precision, computed in single: every operation is rounded once, as NumPy does it.
#pragma once

#include <bit>
#include <cstdint>

namespace labkit {

class Half {
 public:
  Half() = default;
  Half(float value) : bits_(round_to_bits(value)) {}  // NOLINT: conversions are meant to be silent
  Half(bool value) : Half(value ? 1.0F : 0.0F) {}     // NOLINT
  explicit Half(int value) : Half(static_cast<float>(value)) {}
  operator float() const { return to_float(bits_); }  // NOLINT

 private:
  static float to_float(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // zero and subnormals, exact
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  static std::uint16_t round_to_bits(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((all >> 16) & 0x8000U);
    const std::uint32_t magnitude = all & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to infinity
    if (magnitude < 0x38800000U) {
      // Subnormal in half: adding 0.5 aligns the wanted bits and rounds to nearest even.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
  }
  std::uint16_t bits_ = 0;
};

}  // namespace labkit
