// Seeded noise of the processors: slow ranks, and the operating system's detours.
//
// Time is cut into slots of one period; in each slot of each rank lies one detour, at a place
// drawn, which lasts between 0 and twice its mean. A rank that works stands still
// during a detour; one that waits does not notice. The detours are a fixed function of (seed,
// rank, slot), so that the same noise meets every program, and nothing is kept per rank. Work that
// goes on after a million slots meets the sum of the others at once: their mean, and a deviation drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

class Noise {
 public:
  Noise() = default;
  /// slowdown: factor >= 1 of all work by rank; empty: none. period_s 0: no detours. The mean may be at
  /// most half a period, so that each detour fits its slot. Throws std::invalid_argument.
  Noise(std::uint64_t seed, double period_s, double mean_s, std::vector<double> slowdown)
      : seed_(seed), period_s_(mean_s > 0.0 ? period_s : 0.0), mean_s_(mean_s), slowdown_(std::move(slowdown)) {
    if (!(mean_s >= 0.0) || !(period_s >= 0.0) || !(2.0 * mean_s <= period_s || mean_s == 0.0)) {
      throw std::invalid_argument("a detour lasts at most half of its period in the mean");
    }
    for (const double factor : slowdown_) {
      if (!(factor > 0.0)) throw std::invalid_argument("a slowdown must be above 0");
    }
  }
  [[nodiscard]] bool fits(std::size_t ranks) const { return slowdown_.empty() || slowdown_.size() == ranks; }
  [[nodiscard]] bool is_used() const { return period_s_ > 0.0 || !slowdown_.empty(); }
  /// When work of so many seconds ends that the rank begins at `at`.
  [[nodiscard]] Time after(Rank rank, Time at, double seconds) const {
    if (!slowdown_.empty()) seconds *= slowdown_[static_cast<std::size_t>(rank)];
    Time end = at + seconds;
    if (!(end < kNever)) {
      throw std::invalid_argument("rank " + std::to_string(rank) + " works for " + std::to_string(seconds) +
                                  " s under this noise: that is too long to be simulated");
    }
    if (period_s_ == 0.0 || seconds == 0.0) return end;
    if (!(at / period_s_ < kMostSlot)) return end + sum_of_detours(rank, 0, seconds);
    const auto slot = static_cast<std::uint64_t>(at / period_s_);
    const std::uint64_t first = slot > 0 ? slot - 1 : 0;  // the division may have rounded up
    for (std::uint64_t k = first;; ++k) {
      if (k - first == kSlotsOneByOne) {
        const Time begins = static_cast<double>(k) * period_s_;
        return end > begins ? end + sum_of_detours(rank, k, end - begins) : end;
      }
      const std::uint64_t word = drawn(rank, k);
      const double lasts = 2.0 * mean_s_ * unit(mixed(word));
      const Time begins = static_cast<double>(k) * period_s_ + unit(word) * (period_s_ - lasts);
      if (begins >= end) return end;
      if (begins + lasts <= at) continue;
      end += begins < at ? begins + lasts - at : lasts;
    }
  }

 private:
  static std::uint64_t mixed(std::uint64_t z) {  // splitmix64
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  [[nodiscard]] std::uint64_t drawn(Rank rank, std::uint64_t slot) const {
    return mixed(mixed(mixed(seed_) + static_cast<std::uint64_t>(rank)) + slot);
  }
  /// Of work of so many seconds from a slot on. The sum of n detours, each evenly distributed, has this deviation; twelve
  /// even numbers make a normal one.
  [[nodiscard]] double sum_of_detours(Rank rank, std::uint64_t slot, double seconds) const {
    const double slots = seconds / (period_s_ - mean_s_);
    double deviate = -6.0;
    for (std::uint64_t i = 0; i < 12; ++i) deviate += unit(mixed(drawn(rank, slot) + i));
    return std::max(0.0, slots * mean_s_ + mean_s_ * std::sqrt(slots / 3.0) * deviate);
  }
  static double unit(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

  static constexpr std::uint64_t kSlotsOneByOne = 1 << 20;
  static constexpr double kMostSlot = 0x1p52;  // then slots are shorter than what a time can tell apart

  std::uint64_t seed_ = 0;
  double period_s_ = 0.0;
  double mean_s_ = 0.0;
  std::vector<double> slowdown_;
};

}  // namespace labkit
