// Which call of a rank a time lies in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "labkit/trace/wait_states.hpp"

namespace labkit {

class CallIndex {
 public:
  CallIndex(std::int32_t ranks, const CallColumns& calls) : calls_(calls), first_(static_cast<std::size_t>(ranks) + 1) {
    const std::size_t count = calls.rank.size();
    for (const std::size_t size : {calls.begin_s.size(), calls.end_s.size(), calls.joint.size(), calls.pattern.size(),
                                   calls.is_begun.size(), calls.root.size(), calls.position.size()}) {
      if (size != count) throw std::invalid_argument("the columns of the calls differ in length");
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t rank = calls.rank[i];
      if (rank < 0 || rank >= ranks) throw std::invalid_argument("a call is of a rank that there is not");
      if (i > 0 && (calls.rank[i - 1] > rank || (calls.rank[i - 1] == rank && calls.begin_s[i - 1] > calls.begin_s[i]))) {
        throw std::invalid_argument("calls must stand by rank, then by begin");
      }
      ++first_[static_cast<std::size_t>(rank) + 1];
    }
    for (std::size_t r = 0; r + 1 < first_.size(); ++r) first_[r + 1] += first_[r];
  }

  [[nodiscard]] std::size_t first(std::int32_t rank) const { return first_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t last(std::int32_t rank) const { return first_[static_cast<std::size_t>(rank) + 1]; }

  /// Behind the calls of a rank that began by then.
  [[nodiscard]] std::size_t before(std::int32_t rank, double when_s) const {
    const auto begin = calls_.begin_s.begin();
    return static_cast<std::size_t>(std::upper_bound(begin + static_cast<std::ptrdiff_t>(first(rank)),
                                                     begin + static_cast<std::ptrdiff_t>(last(rank)), when_s) -
                                    begin);
  }

  /// The last call of a rank that began by then and was not over before; -1 where there is none.
  [[nodiscard]] std::int32_t at(std::int32_t rank, double when_s) const {
    const std::size_t behind = before(rank, when_s);
    if (behind == first(rank)) return -1;
    const std::size_t row = behind - 1;
    return calls_.end_s[row] >= when_s ? static_cast<std::int32_t>(row) : -1;
  }

 private:
  const CallColumns& calls_;
  std::vector<std::size_t> first_;
};

}  // namespace labkit
