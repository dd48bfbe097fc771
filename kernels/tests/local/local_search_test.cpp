// Searching against std::lower_bound and std::upper_bound: every type, ties, extremes, no keys, no limits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "labkit/local/search.hpp"
#include "random.hpp"

namespace labkit::local_search_test {

using namespace labkit::local;
using labkit::test::Random;

TEST_CASE_TEMPLATE("limits are counted as a search would", T, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                   std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
  Random random(5);
  for (std::size_t n = 0; n < 300; n += n < 20 ? 1 : 47) {
    for (const std::size_t m : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{101}}) {
      const std::uint64_t mask = random.below(2) == 0 ? 7 : ~std::uint64_t{0};
      std::vector<T> keys(n), limits(m);
      for (T& key : keys) key = static_cast<T>(random.next() & mask);
      for (T& limit : limits) limit = static_cast<T>(random.next() & mask);
      if (m > 1) limits.front() = std::numeric_limits<T>::max(), limits.back() = std::numeric_limits<T>::min();
      if (n > 1) keys.front() = std::numeric_limits<T>::max(), keys.back() = std::numeric_limits<T>::min();
      std::sort(keys.begin(), keys.end());
      std::vector<std::int64_t> counts(m, -1);
      count_up_to<T>(keys, limits, [](std::size_t i) { return i % 3 == 0; }, counts.data());
      for (std::size_t i = 0; i < m; ++i) {
        const auto place = i % 3 == 0 ? std::upper_bound(keys.begin(), keys.end(), limits[i])
                                      : std::lower_bound(keys.begin(), keys.end(), limits[i]);
        CHECK(counts[i] == place - keys.begin());
      }
    }
  }
}

}  // namespace labkit::local_search_test
