// Where waiting comes from: delays, what they cost others directly and by waits that were passed on, and the
// critical path.
//
// When rank A waits for rank B, both are looked at since the last time that they met (a wait of one for the other,
// or a collective of both in which all need all): whatever B did longer than A in that time, by call path, has made
// it late. Had B itself waited longer than A, that part of the cost goes back to those waits, and with them to whom
// they were for. A cost is direct where the wait is for the rank that did it, and indirect where waits passed it on.
// All costs add up to all waiting: what B did longer is never nothing, because both are compared from one instant.
//
// D. Boehme, M. Geimer, L. Arnold, F. Voigtlaender, F. Wolf: Identifying the root causes of wait states in
// large-scale parallel applications. ACM Transactions on Parallel Computing 3, 2016. doi:10.1145/2934661
// There B's waits count whole; here, as every other activity, by how much they are longer than A's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "labkit/trace/wait_states.hpp"

namespace labkit {

/// Phases of the ranks as they were entered; those of a rank lie in each other or behind each other.
struct SpanColumns {
  std::span<const std::int32_t> rank;
  std::span<const std::int32_t> name;
  std::span<const double> begin_s, end_s;
  /// How many phases of the rank are around each; then the rows of a rank are in the order in which it entered them,
  /// where they begin at once. Empty: only their times tell.
  std::span<const std::int32_t> depth{};
};

/// A call path: where in the tree of phases, and which call there.
struct CallPath {
  std::int32_t node;  ///< of `Timeline::nodes`
  std::int32_t what;  ///< the caller's number of a call; `kComputation`, `kNotBegun`
};
inline constexpr std::int32_t kComputation = -1, kNotBegun = -2;

/// A phase in the phase above it; the first one is the program.
struct PhaseNode {
  std::int32_t above, name;
};

/// How often a rank was in a call path: its calls there, or its stretches of computation.
struct Visits {
  std::int32_t rank, path;
  std::uint64_t count;
};

/// What each rank did from 0 to its end, without a gap: call paths, and waits.
struct Timeline {
  std::vector<PhaseNode> nodes;
  std::vector<CallPath> paths;
  std::vector<std::size_t> first;      ///< by rank, one more than ranks: its pieces
  std::vector<double> begin_s;         ///< by piece; it ends where the next of the rank begins
  std::vector<std::uint32_t> what;     ///< by piece: its path, or with `kWaiting` the wait
  std::vector<double> end_s;           ///< by rank
  std::vector<std::int32_t> wait_path; ///< by wait: the path of its call
  std::vector<std::int32_t> call_path; ///< by call
  std::vector<Visits> visits;          ///< by rank and path
  static constexpr std::uint32_t kWaiting = 0x80000000U;

  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(end_s.size()); }
  [[nodiscard]] double end_of(std::int32_t rank, std::size_t piece) const {
    return piece + 1 < first[static_cast<std::size_t>(rank) + 1] ? begin_s[piece + 1] : end_s[static_cast<std::size_t>(rank)];
  }
};

/// `what` numbers the calls' kinds; `begins_s` is when ranks began, empty where all began at 0. Throws
/// std::invalid_argument for columns that do not fit together.
Timeline make_timeline(const CallColumns& calls, std::span<const std::int32_t> what, const SpanColumns& phases,
                       const WaitStates& found, std::span<const double> begins_s, std::span<const double> ends_s);

/// What a piece of a rank's time line made others wait.
struct Delay {
  std::int32_t rank, path;
  Time begin_s, end_s;
  Time direct_s, indirect_s;
};

/// Sums over a rank's time in a call path.
struct PathTotals {
  std::int32_t rank, path;
  Time seconds;          ///< waits left out
  Time waiting_s;
  Time critical_s;       ///< of them on the critical path
};

/// A stretch of the critical path on one rank.
struct CriticalStretch {
  std::int32_t rank;
  Time begin_s, end_s;
};

struct DelayCosts {
  std::vector<Time> direct_s;         ///< by wait: of its own time what the cause's activity explains
  std::vector<Time> passed_s;         ///< by wait: what others waited because of it
  std::vector<Delay> delays;          ///< by rank and time; those that cost anything
  std::vector<PathTotals> totals;     ///< by rank and path
  std::vector<CriticalStretch> path;  ///< from 0 to the end
};

/// Of ranks that others spawned, `begins_s` says when they began and `begun_by` who has spawned them (one of a smaller
/// number; -1: nobody): there the critical path goes on. Both are empty where there are none. Throws
/// std::invalid_argument for what is not of these ranks.
DelayCosts find_delay_costs(const WaitStates& found, const Timeline& timeline, std::span<const double> begins_s = {},
                            std::span<const std::int32_t> begun_by = {});

}  // namespace labkit
