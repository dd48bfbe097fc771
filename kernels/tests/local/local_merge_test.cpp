// Merging against std::stable_sort: every type, 1 to 40 runs, unequal lengths, ties, extremes, unsorted runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "labkit/local/merge.hpp"
#include "random.hpp"

namespace labkit::local_merge_test {

using namespace labkit::local;
using labkit::test::Random;

namespace {

/// Keys of one of three kinds: few different ones, extremes among them, all bits.
template <class T>
std::vector<T> random_keys(Random& random, std::size_t n) {
  const std::size_t kind = random.below(3);
  std::vector<T> keys(n);
  for (T& key : keys) {
    key = static_cast<T>(kind == 0 ? random.next() % 3 : random.next());
    if (kind == 1 && random.below(4) == 0) key = std::numeric_limits<T>::max();
    if (kind == 1 && random.below(4) == 0) key = std::numeric_limits<T>::min();
  }
  return keys;
}

/// 0 = bounds[0] <= ... <= bounds[runs] = n.
std::vector<std::int64_t> random_bounds(Random& random, std::size_t n, std::size_t runs) {
  std::vector<std::int64_t> bounds{0};
  for (std::size_t i = 1; i < runs; ++i) bounds.push_back(static_cast<std::int64_t>(random.below(n + 1)));
  std::sort(bounds.begin(), bounds.end());
  bounds.push_back(static_cast<std::int64_t>(n));
  return bounds;
}

template <class T>
void sort_runs(std::vector<T>& keys, const std::vector<std::int64_t>& bounds) {
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    std::sort(keys.begin() + bounds[i], keys.begin() + bounds[i + 1]);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("runs merge as a stable sort would", T, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                   std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = random.below(round % 10 == 0 ? 3000 : 150);
    auto keys = random_keys<T>(random, n);
    const auto bounds = random_bounds(random, n, 1 + random.below(40));
    sort_runs(keys, bounds);

    std::vector<std::int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      return keys[static_cast<std::size_t>(i)] < keys[static_cast<std::size_t>(j)];
    });
    std::vector<std::int64_t> places(n);
    REQUIRE(merge_order<T>(keys.data(), bounds, places.data()) == MergeOutcome::done);
    CHECK(places == order);

    std::vector<T> merged(n);
    REQUIRE(merge_runs<T>(keys.data(), bounds, merged.data()) == MergeOutcome::done);
    std::sort(keys.begin(), keys.end());
    CHECK(merged == keys);
  }
}

TEST_CASE("no runs, one run, and runs of one key") {
  std::vector<std::int64_t> out(5);
  CHECK(merge_runs<std::int64_t>(nullptr, std::vector<std::int64_t>{0}, out.data()) == MergeOutcome::done);
  CHECK(merge_runs<std::int64_t>(nullptr, std::vector<std::int64_t>{0, 0, 0}, out.data()) == MergeOutcome::done);
  const std::vector<std::int64_t> keys{3, 1, 2, 0, 4};
  CHECK(merge_runs<std::int64_t>(keys.data(), std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}, out.data()) ==
        MergeOutcome::done);
  CHECK(out == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("a long run beside short ones") {
  for (const std::int64_t n : {100, 1000, 65'537}) {
    std::vector<std::int64_t> keys(static_cast<std::size_t>(n));
    std::iota(keys.begin(), keys.end() - 3, 0);
    keys[keys.size() - 3] = -1;
    keys[keys.size() - 2] = n / 2;
    keys[keys.size() - 1] = n;
    std::vector<std::int64_t> out(keys.size());
    const std::vector<std::int64_t> bounds{0, n - 3, n - 2, n - 1, n};
    REQUIRE(merge_runs<std::int64_t>(keys.data(), bounds, out.data()) == MergeOutcome::done);
    std::sort(keys.begin(), keys.end());
    CHECK(out == keys);
  }
}

TEST_CASE("runs that are not sorted lose no key and touch nothing else") {
  Random random(7);
  int found_out = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = random.below(400);
    auto keys = random_keys<std::int32_t>(random, n);
    const auto bounds = random_bounds(random, n, 1 + random.below(6));
    std::vector<std::int32_t> merged(n);
    if (merge_runs<std::int32_t>(keys.data(), bounds, merged.data()) == MergeOutcome::not_sorted) {
      ++found_out;
      continue;
    }
    std::sort(keys.begin(), keys.end());
    std::sort(merged.begin(), merged.end());
    CHECK(merged == keys);
  }
  CHECK(found_out > 0);
}

}  // namespace labkit::local_merge_test
