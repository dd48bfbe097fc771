// How much of a rank's blocked time is a wait for the late side of a message, and where on its time line that lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "call_index.hpp"
#include "labkit/trace/wait_states.hpp"

namespace labkit {

/// A rank was blocked until a message was over whose other side may have come late.
struct Blocking {
  Wait wait;             ///< from and until when it was blocked, without what came between; the rest as it will be told
  Time came_s;           ///< when the other side's call began
  std::int32_t own_call; ///< the row of the call that posted the rank's own side; -1: not known
};

/// Puts waits on the ranks' time lines, so that none of their time counts twice.
///
/// A rank that waits for several messages is blocked behind the slowest one first, whoever is late. What a late side
/// has cost is therefore no more than what its message blocked the rank behind those that were over before, and no
/// more than the lateness that the rank has not yet waited for, here or for others. Late is who comes after the
/// waiting call has begun; and who comes after the message's own post on this side, for as long as it was not
/// itself held in calls: since then the waiting rank must have done nothing but calls.
class PlacedWaits {
 public:
  /// Takes waits whose times are known; of those of a rank that overlap the one that began first counts.
  PlacedWaits(std::int32_t ranks, const CallIndex& index, const CallColumns& calls, std::vector<Wait>& known);

  /// Takes what a rank was blocked for, in the order of the ends.
  void add(const Blocking& blocking);

  /// All that are not empty, by rank, then by begin.
  [[nodiscard]] std::vector<Wait> taken();

 private:
  struct Span {
    Time begin_s, until_s;
    Time before_s;  ///< the sum of the rank's spans before this one
  };

  /// Puts the known waits of a rank that begin by then among the others.
  void go_on(std::int32_t rank, Time until_s);
  void put(Wait wait);
  /// What of a rank's time was waits.
  [[nodiscard]] Time waited(std::int32_t rank, Time from_s, Time until_s) const;
  /// How long a rank was out of calls, or waited for others.
  [[nodiscard]] Time kept_away(std::int32_t rank, Time from_s, Time until_s);
  /// Since when a rank could have been waiting: all since then were calls, and it had posted its side.
  [[nodiscard]] Time ready_since(const Blocking& blocking, Time enter_s) const;

  const CallIndex& index_;
  const CallColumns& calls_;
  std::vector<std::int32_t> unbroken_;  ///< by call: the first of those of its rank that end where the next begins
  std::vector<Wait> known_;             ///< by rank, then by begin
  std::vector<std::size_t> next_;       ///< by rank: of the known
  std::vector<std::size_t> last_;       ///< by rank: behind the known
  std::vector<std::vector<Span>> spans_;
  std::vector<Wait> placed_;
};

}  // namespace labkit
