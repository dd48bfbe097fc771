// What every rank called, in order: a run written down as a time-independent trace.
//
// The engine reports posts, waits and computations of its callers (Engine::set_call_log). While a rank is in
// a collective call its messages are the schedule's, not the program's: the caller brackets them with
// begin_collective and end_collective. A receive from any source is written with the source that it got: a
// replay repeats what happened. Calls are kept as such (24 bytes) until all requests of a rank before them are
// matched and waited for; then they are lines, in loops where they repeat (folded_calls.hpp).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "labkit/engine/folded_calls.hpp"
#include "labkit/engine/request.hpp"
#include "labkit/engine/types.hpp"

namespace labkit {

class CallLog {
 public:
  /// Throws std::invalid_argument unless every rank's speed is given.
  explicit CallLog(std::vector<double> speed_flops);

  // --- what the engine reports -------------------------------------------------------------------
  void posted(const Request& request, std::uint32_t slot, SendMode mode, bool is_blocking);
  void matched(const Request& receive, std::uint32_t slot);
  void waited(Rank rank, std::span<const RequestId> ids);
  void computed(Rank rank, double seconds) { passed(rank, seconds, Kind::compute); }
  /// Time that a call itself costs: the same on every machine.
  void slept(Rank rank, double seconds) { passed(rank, seconds, Kind::sleep); }
  void probed(Rank rank, Rank source, std::int32_t tag, Context context);
  /// The post never had a partner: a replay must not look for one.
  void cancelled(Rank owner, std::uint32_t slot);

  // --- what the caller reports -------------------------------------------------------------------
  /// The rank calls a collective; `text` is its action, without the rank.
  void begin_collective(Rank rank, std::string text);
  void end_collective(Rank rank) { at(rank).is_silent = false; }
  /// A communicator's members, as they are declared in the trace.
  void declare(Rank rank, std::string text);

  /// All actions of a rank as lines, `init` and `finalize` included.
  [[nodiscard]] std::string lines(Rank rank);
  [[nodiscard]] std::uint64_t calls() const;

 private:
  enum class Kind : std::uint8_t { compute, sleep, send, isend, recv, wait, text, comment, probe, nothing };
  struct Call {
    union {
      double seconds;        ///< compute, sleep
      std::uint64_t bytes;   ///< posts
      std::uint64_t first;   ///< wait: index into waits; text, comment: into texts
    };
    std::int32_t peer = 0;   ///< posts; wait: how many
    std::int32_t tag = 0;
    std::uint32_t context : 24 = 0;
    std::uint32_t mode : 6 = 0;
    std::uint32_t is_matched : 1 = 1;
    std::uint32_t is_waited : 1 = 1;
    Kind kind = Kind::compute;
    Call() : bytes(0) {}
  };
  struct RankLog {
    std::vector<Call> calls;           ///< those not folded yet; the first is the `folded`-th of all
    std::uint32_t folded = 0;
    std::uint32_t unsettled = 0;       ///< of posts: those without a match and those not waited for
    FoldedCalls lines;
    std::vector<std::uint32_t> waits;  ///< indices of posts
    std::vector<std::string> texts;
    bool is_silent = false;
    bool is_copying = false;
  };
  class Writer;

  /// The call that posted a slot's request; null where it is not logged, or a line by now.
  Call* post_of(RankLog& log, std::uint32_t slot);
  void settle(RankLog& log, Rank rank);
  void fold(RankLog& log, Rank rank);
  RankLog& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void passed(Rank rank, double seconds, Kind kind);
  std::vector<RankLog> ranks_;
  std::vector<double> speed_flops_;
  std::vector<std::uint32_t> call_of_slot_;  ///< slab slot -> the owner's call that posted it; kNone: not logged
};

}  // namespace labkit
