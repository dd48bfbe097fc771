// Searching sorted keys for many limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace labkit::local {

/// counts[i] = how many of the sorted keys are below limits[i], or up to it where is_including(i).
///
/// All searches halve the same range at the same time, so several go on abreast, each step a load and an
/// addition without a branch: limits in any order cost what sorted ones do. Keys up to x are those below x + 1.
template <class T, class IsIncluding>
void count_up_to(std::span<const T> keys, std::span<const T> limits, IsIncluding is_including, std::int64_t* counts) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  const auto search = [&](std::size_t first, auto lanes) {
    constexpr std::size_t kLanes = decltype(lanes)::value;
    T limit[kLanes];
    std::size_t base[kLanes] = {};
    for (std::size_t k = 0; k < kLanes; ++k) {
      const T given = limits[first + k];
      limit[k] = static_cast<T>(given + static_cast<T>(is_including(first + k) && given != kLargest));
    }
    for (std::size_t length = keys.size(); length > 1; length -= length / 2) {
      const T* const probe = keys.data() + (length / 2 - 1);
      for (std::size_t k = 0; k < kLanes; ++k) {
        base[k] += static_cast<std::size_t>(probe[base[k]] < limit[k]) * (length / 2);
      }
    }
    for (std::size_t k = 0; k < kLanes; ++k) {
      const bool counts_last = !keys.empty() && keys[base[k]] < limit[k];
      const bool counts_all = is_including(first + k) && limits[first + k] == kLargest;
      counts[first + k] = static_cast<std::int64_t>(counts_all ? keys.size() : base[k] + (counts_last ? 1 : 0));
    }
  };
  constexpr std::size_t kAbreast = 8;
  std::size_t i = 0;
  for (; i + kAbreast <= limits.size(); i += kAbreast) search(i, std::integral_constant<std::size_t, kAbreast>{});
  for (; i < limits.size(); ++i) search(i, std::integral_constant<std::size_t, 1>{});
}

}  // namespace labkit::local
