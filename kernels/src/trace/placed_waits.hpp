// How much of a rank's blocked time is a wait for the late side of a message, and where on its time line that lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "labkit/trace/wait_states.hpp"

namespace labkit {

/// A rank was blocked until a message was over whose other side may have come late.
struct Blocking {
  Wait wait;             ///< from and until when it was blocked, without what came between; the rest as it will be told
  Time came_s;           ///< when the other side's call began
  std::int32_t own_call; ///< the row of the call that posted the rank's own side; -1: not known
};

/// Stretches of a rank's time, each behind those before it.
class Spans {
 public:
  /// What overlaps is cut off the later one, and what is empty is left out.
  void add(Time begin_s, Time until_s);
  /// How much of an interval lies in them.
  [[nodiscard]] Time between(Time from_s, Time until_s) const;
  /// When the last is over; far before all time where there is none.
  [[nodiscard]] Time over_s() const {
    return spans_.empty() ? std::numeric_limits<Time>::lowest() : spans_.back().until_s;
  }

 private:
  struct Span {
    Time begin_s, until_s;
    Time before_s;  ///< the sum of those before it
  };
  std::vector<Span> spans_;
};

/// Puts waits on the ranks' time lines, so that none of their time counts twice.
///
/// A rank that waits for several messages is blocked behind the slowest one first, whoever is late. What a late side
/// has cost is therefore no more than what its message blocked the rank behind those that were over before, and no
/// more than the lateness that the rank has not yet waited for, here or for others. Late is who comes after the
/// waiting call has begun; and who comes after the message's own post on this side, for as long as it was not
/// itself held in calls, and as the waiting rank was blocked: who computes or posts messages meanwhile does not wait.
class PlacedWaits {
 public:
  /// Takes waits whose times are known, of those of a rank that overlap the one that began first counts; and when ranks
  /// were blocked, in the order of the ends.
  PlacedWaits(std::int32_t ranks, const CallColumns& calls, const BlockedColumns& blocked,
              std::span<const std::size_t> by_end, std::vector<Wait>& known);

  /// Takes what a rank was blocked for, in the order of the ends.
  void add(const Blocking& blocking);

  /// All that are not empty, by rank, then by begin.
  [[nodiscard]] std::vector<Wait> taken();

 private:
  /// Puts the known waits of a rank that begin by then among the others.
  void go_on(std::int32_t rank, Time until_s);
  void put(Wait wait);
  /// How long a rank was out of calls, or waited for others.
  [[nodiscard]] Time kept_away(std::int32_t rank, Time from_s, Time until_s);
  /// Since when a rank could have been waiting: it had posted its side.
  [[nodiscard]] Time ready_since(const Blocking& blocking, Time enter_s) const;

  const CallColumns& calls_;
  std::vector<Wait> known_;         ///< by rank, then by begin
  std::vector<std::size_t> next_;   ///< by rank: of the known
  std::vector<std::size_t> last_;   ///< by rank: behind the known
  std::vector<Spans> called_;       ///< by rank: in calls
  std::vector<Spans> blocked_;      ///< by rank: blocked in them
  std::vector<Spans> waited_;       ///< by rank: waits that are placed
  std::vector<Wait> placed_;
};

}  // namespace labkit
