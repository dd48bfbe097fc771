// Receives from any source that could have got another rank's message.
//
// Such a receive races where a message of another rank, with other bytes, that it would have taken as well had been
// sent before the receive was complete: nothing of that message can hang on what the receive got, so that on another
// day it comes first. A receive that asks for its source, or whose message names it, is left alone: its program
// handles any order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hub/findings.hpp"
#include "labkit/engine/request.hpp"

namespace labkit::bindings {

class Races {
 public:
  /// A receive, a rank's own from any source if `is_wild`, has found its message, of `sum` (sum_of_beginning). Is that
  /// one that another receive could have got?
  void matched(const Request& send, const Request& receive, RequestId id, std::uint64_t sum, bool is_wild);
  /// Whether a rank has received from any source: only then is it worth a call of `matched`.
  [[nodiscard]] bool is_watched(Rank rank) const {
    return static_cast<std::size_t>(rank) < by_rank_.size() && by_rank_[static_cast<std::size_t>(rank)].next > 0 && is_open(rank);
  }
  /// Whether a rank's races are still looked for: no more once many have been found.
  [[nodiscard]] bool is_open(Rank rank) const {
    return static_cast<std::size_t>(rank) >= by_rank_.size() || by_rank_[static_cast<std::size_t>(rank)].found < kMostFound;
  }
  /// The rank has waited for it; place -1: it knows the source.
  void finished(Rank rank, RequestId id, Time completion_s, std::int32_t place);
  /// A message waits in the queue that a receive, which finds another one now, could have taken.
  void found_rival(Rank rank, RequestId id, Rank rival);
  [[nodiscard]] const Findings& findings() const { return findings_; }

 private:
  /// A receive from any source that has found its message.
  struct Taken {
    RequestId id;              ///< null: nothing stands here
    Time completion_s = kNever;
    std::uint64_t sum = 0;
    Context context = 0;
    std::int32_t tag = 0;      ///< as posted
    std::int32_t place = -1;   ///< once it has been waited for
    Rank source = -1;
    Rank rival = -1;
  };
  /// The last ones of a rank: those before were complete earlier.
  struct Last {
    std::array<Taken, 4> taken;
    std::uint32_t next = 0;
    std::uint32_t found = 0;
  };
  static constexpr std::uint32_t kMostFound = 64;
  Taken* find(Rank rank, RequestId id);
  void add(Rank rank, const Taken& taken, Rank rival);

  std::vector<Last> by_rank_;
  Findings findings_;
};

}  // namespace labkit::bindings
