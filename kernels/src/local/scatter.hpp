// Stable scatter by a small number, shared by digits and buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace labkit::local {

/// out gets keys in the order of number_of(i). False: the counts are not those of the numbers.
///
/// Wrong counts write nothing outside `out`: a place is compared with the length, and with where its
/// number's places should have ended when all is done.
template <class T, class NumberOf>
bool scatter_stably(std::span<const T> keys, std::span<const std::int64_t> counts, T* out, NumberOf number_of) {
  const std::uint64_t n = keys.size();
  std::vector<std::uint64_t> next(counts.size());
  std::uint64_t sum = 0;
  for (std::size_t number = 0; number < counts.size(); ++number) {
    next[number] = sum;
    sum += static_cast<std::uint64_t>(counts[number]);  // wraps for a negative count, which is found below
  }
  if (sum != n) return false;
  std::uint64_t* const places = next.data();
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t place = places[number_of(i)]++;
    if (place >= n) return false;
    out[place] = keys[i];
  }
  sum = 0;
  for (std::size_t number = 0; number < counts.size(); ++number) {
    sum += static_cast<std::uint64_t>(counts[number]);
    if (next[number] != sum) return false;
  }
  return true;
}

/// counts[number_of(i)]++ for all i < n. Neighboring keys often share a number, and the second would wait
/// for the first one's store: four tables take turns where they are small beside the keys.
template <class NumberOf>
void count_numbers(std::size_t n, std::span<std::int64_t> counts, NumberOf number_of) {
  constexpr std::size_t kTables = 4;
  for (std::int64_t& count : counts) count = 0;
  std::size_t i = 0;
  if (n >= 4 * kTables * counts.size() && n <= UINT32_MAX) {
    const std::size_t width = counts.size();
    std::vector<std::uint32_t> tables(kTables * width);
    std::uint32_t* const first = tables.data();
    for (; i + kTables <= n; i += kTables) {
      ++first[number_of(i)];
      ++first[width + number_of(i + 1)];
      ++first[2 * width + number_of(i + 2)];
      ++first[3 * width + number_of(i + 3)];
    }
    for (std::size_t number = 0; number < width; ++number) {
      for (std::size_t table = 0; table < kTables; ++table) counts[number] += first[table * width + number];
    }
  }
  for (; i < n; ++i) ++counts[number_of(i)];
}

}  // namespace labkit::local
