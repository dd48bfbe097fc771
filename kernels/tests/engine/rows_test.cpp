// The recorder's tables: rows in order over the borders of their parts, and empty when read out.
#include "labkit/engine/rows.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using labkit::Rows;

namespace {

struct HalfMebibyte {
  std::uint64_t number;
  std::uint64_t rest[1 << 16];  // half a MiB: a part has 65
};

}  // namespace

TEST_CASE("rows are found and drained in order, in parts, and can be added anew") {
  Rows<HalfMebibyte> rows;
  CHECK(rows.empty());
  rows.drain([](const HalfMebibyte*, std::size_t, std::size_t) { FAIL("there is no part"); });
  for (const std::uint64_t size : {1, 65, 66, 200}) {
    HalfMebibyte row{};
    for (row.number = 0; row.number < size; ++row.number) {
      rows.push_back(row);
      CHECK(rows.back().number == row.number);
    }
    REQUIRE(rows.size() == size);
    rows.back().number += 1000;
    CHECK(rows[size - 1].number == size + 999);
    std::vector<std::uint64_t> found;
    std::size_t expected_first = 0;
    rows.drain([&](const HalfMebibyte* part, std::size_t count, std::size_t first) {
      CHECK(first == expected_first);
      expected_first += count;
      for (std::size_t i = 0; i < count; ++i) found.push_back(part[i].number);
    });
    CHECK(rows.empty());
    REQUIRE(found.size() == size);
    CHECK(found.back() == size + 999);
    for (std::uint64_t i = 0; i + 1 < size; ++i) CHECK(found[i] == i);
  }
}
