// Digits and buckets against their definitions: every type, every width, wrong counts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "labkit/local/buckets.hpp"
#include "labkit/local/digits.hpp"
#include "random.hpp"

namespace labkit::local_partition_test {

using namespace labkit::local;
using labkit::test::Random;

namespace {

template <class T>
std::vector<T> random_keys(Random& random, std::size_t n) {
  std::vector<T> keys(n);
  const std::uint64_t mask = random.below(2) == 0 ? 3 : ~std::uint64_t{0};
  for (T& key : keys) key = static_cast<T>(random.next() & mask);
  if (n > 1) keys.front() = std::numeric_limits<T>::min();
  if (n > 1) keys.back() = std::numeric_limits<T>::max();
  return keys;
}

/// The digit by its definition: of the distance from the smallest key.
template <class T>
std::size_t digit_of(T key, Digit digit) {
  const auto distance = static_cast<std::uint64_t>(key) - static_cast<std::uint64_t>(std::numeric_limits<T>::min());
  return static_cast<std::size_t>(distance >> digit.shift & (digit.count() - 1));
}

template <class T, class Number>
std::vector<T> ordered_by(std::vector<T> keys, Number number) {
  std::stable_sort(keys.begin(), keys.end(), [&](T left, T right) { return number(left) < number(right); });
  return keys;
}

}  // namespace

TEST_CASE_TEMPLATE("digits are counted and scattered stably", T, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
  Random random(2);
  for (int bits = 1; bits <= 16; ++bits) {
    for (int shift = 0; shift < static_cast<int>(8 * sizeof(T)); shift += 1 + static_cast<int>(random.below(5))) {
      const auto keys = random_keys<T>(random, random.below(bits < 6 ? 3000 : 300));
      const Digit digit{shift, bits};
      std::vector<std::int64_t> counts(digit.count(), -1);
      count_digits<T>(keys, digit, counts);
      std::vector<std::int64_t> expected(digit.count());
      for (const T key : keys) ++expected[digit_of(key, digit)];
      CHECK(counts == expected);
      std::vector<T> out(keys.size());
      REQUIRE(scatter_by_digit<T>(keys, digit, counts, out.data()));
      CHECK(out == ordered_by(keys, [&](T key) { return digit_of(key, digit); }));
    }
  }
}

TEST_CASE("counts of other keys are refused and nothing is written outside") {
  Random random(3);
  const Digit digit{0, 2};
  for (int round = 0; round < 3000; ++round) {
    const auto keys = random_keys<std::uint8_t>(random, random.below(12));
    std::vector<std::int64_t> right(4);
    count_digits<std::uint8_t>(keys, digit, right);
    std::vector<std::int64_t> counts(4);
    for (auto& count : counts) count = static_cast<std::int64_t>(random.below(8)) - 2;
    if (round % 3 == 0) {  // right sum, wrong counts
      counts = right;
      const std::size_t from = random.below(4);
      const std::size_t to = random.below(4);
      ++counts[to];
      --counts[from];
    }
    if (round % 100 == 0) counts[random.below(4)] = std::numeric_limits<std::int64_t>::min();
    std::vector<std::uint8_t> out(keys.size());
    CHECK(scatter_by_digit<std::uint8_t>(keys, digit, counts, out.data()) == (counts == right));
  }
}

TEST_CASE_TEMPLATE("keys are classified as a search would", T, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                   std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
  Random random(4);
  for (std::size_t m = 0; m < 70; m += m < 10 ? 1 : 13) {
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{333}}) {
      const auto keys = random_keys<T>(random, n);
      auto splitters = random_keys<T>(random, m);
      std::sort(splitters.begin(), splitters.end());
      const auto bucket_of = [&](T key) {
        return std::lower_bound(splitters.begin(), splitters.end(), key) - splitters.begin();
      };
      const Classifier<T> classifier(splitters);
      REQUIRE(classifier.bucket_count() == m + 1);
      std::vector<std::int64_t> buckets(n);
      classifier.classify(keys, buckets.data());
      std::vector<std::int64_t> expected(m + 1);
      for (std::size_t i = 0; i < n; ++i) {
        CHECK(buckets[i] == bucket_of(keys[i]));
        ++expected[static_cast<std::size_t>(bucket_of(keys[i]))];
      }
      std::vector<std::int64_t> counts(m + 1, -1);
      classifier.count(keys, counts);
      CHECK(counts == expected);
      std::vector<T> out(n);
      counts.assign(m + 1, -1);
      classifier.distribute(keys, counts, out.data());
      CHECK(counts == expected);
      CHECK(out == ordered_by(keys, bucket_of));
    }
  }
}

}  // namespace labkit::local_partition_test
