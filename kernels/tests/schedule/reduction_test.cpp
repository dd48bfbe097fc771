// Predefined operations: order of operands, wrap-around, half precision, pairs.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "labkit/schedule/reduction.hpp"

namespace labkit::reduction_test {


namespace {

template <class T>
T combined(const char* operation, const char* type, T left, T right) {
  const auto reduction = native_reduction(operation, type);
  REQUIRE(reduction != nullptr);
  T target = right;
  reduction->apply(reinterpret_cast<const std::byte*>(&left), reinterpret_cast<std::byte*>(&target), sizeof(T), true);
  T other = left;
  reduction->apply(reinterpret_cast<const std::byte*>(&right), reinterpret_cast<std::byte*>(&other), sizeof(T), false);
  CHECK(std::memcmp(&target, &other, sizeof(T)) == 0);  // both say left op right
  return target;
}

}  // namespace

TEST_CASE("integers wrap around") {
  CHECK(combined<std::int32_t>("sum", "i4", std::numeric_limits<std::int32_t>::max(), 1) ==
        std::numeric_limits<std::int32_t>::min());
  CHECK(combined<std::int16_t>("prod", "i2", 32767, 32767) == 1);
  CHECK(combined<std::uint16_t>("prod", "u2", 65535, 65535) == 1);
  CHECK(combined<std::uint8_t>("sum", "u1", 200, 100) == 44);
}

TEST_CASE("replace takes the left operand, no_op the right one") {
  CHECK(combined<double>("replace", "f8", 1.0, 2.0) == 1.0);
  CHECK(combined<double>("no_op", "f8", 1.0, 2.0) == 2.0);
}

TEST_CASE("half precision rounds to nearest even, also subnormal, and overflows to infinity") {
  CHECK(combined<std::uint16_t>("sum", "f2", 0x3c00, 0x1400) == 0x3c01);  // 1 + 2^-10
  CHECK(combined<std::uint16_t>("sum", "f2", 0x3c00, 0x1000) == 0x3c00);  // 1 + 2^-11: a tie, to even
  CHECK(combined<std::uint16_t>("sum", "f2", 0x7bff, 0x7bff) == 0x7c00);
  CHECK(combined<std::uint16_t>("sum", "f2", 0x0001, 0x0001) == 0x0002);  // smallest subnormal, twice
  CHECK(combined<std::uint16_t>("prod", "f2", 0x0400, 0x3800) == 0x0200);  // 2^-14 / 2
  CHECK(combined<std::uint16_t>("max", "f2", 0xc000, 0x3c00) == 0x3c00);
}

TEST_CASE("locations: the smaller index among equal values") {
  struct Pair {
    float value;
    std::int32_t index;
  };
  CHECK(combined<Pair>("maxloc", "f4+i4", {2.0F, 7}, {2.0F, 3}).index == 3);
  CHECK(combined<Pair>("minloc", "f4+i4", {1.0F, 7}, {2.0F, 3}).index == 7);
}

TEST_CASE("each rank's operands are combined by its own operator") {
  RankReductions own(3);
  own.give(0, native_reduction("sum", "i4"));
  own.give(2, native_reduction("prod", "i4"));
  const std::int32_t seven = 7;
  const auto at = [&](std::int32_t rank) {
    std::int32_t target = 5;
    own.apply_at(rank, reinterpret_cast<const std::byte*>(&seven), reinterpret_cast<std::byte*>(&target), 4, true);
    return target;
  };
  CHECK(at(0) == 12);
  CHECK(at(2) == 35);
}

TEST_CASE("what MPI does not define is not there") {
  CHECK(native_reduction("band", "f8") == nullptr);
  CHECK(native_reduction("max", "c16") == nullptr);
  CHECK(native_reduction("sum", "b1") == nullptr);
  CHECK(native_reduction("maxloc", "f8") == nullptr);
  CHECK(native_reduction("sum", "S4") == nullptr);
  CHECK(native_reduction("average", "f8") == nullptr);
}

}  // namespace labkit::reduction_test
