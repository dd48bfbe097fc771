// What a run does that works here and fails, or differs, on a real machine, where no call of its own finds it: by line.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit::bindings {

/// The same kind of fault at one line: what it was first, and whose.
struct Finding {
  Rank source = -1;  ///< race: whose message came
  Rank rival = -1;   ///< race: whose could have come first
  std::vector<Rank> ranks;
};

/// Findings of one kind, by the number of their line (Hub::place_of_send).
class Findings {
 public:
  void add(std::int32_t place, Rank rank, Rank source = -1, Rank rival = -1) {
    if (place < 0) return;
    Finding& found = by_place_.try_emplace(place, Finding{source, rival, {}}).first->second;
    if (found.ranks.empty() || found.ranks.back() != rank) found.ranks.push_back(rank);
  }
  [[nodiscard]] const std::map<std::int32_t, Finding>& all() const { return by_place_; }

 private:
  std::map<std::int32_t, Finding> by_place_;
};

/// Of a message's first kilobyte: two that differ mostly differ there.
std::uint64_t sum_of_beginning(const char* data, std::uint64_t bytes);

}  // namespace labkit::bindings
