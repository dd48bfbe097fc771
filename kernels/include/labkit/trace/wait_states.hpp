// Where ranks waited for others, and for whom: wait states by the definitions of EXPERT and Scalasca.
//
// What is read are calls, messages and recorded waits of a run; what is found are rows that do not overlap on a
// rank, but for completions. A wait ends when what it waits for could begin: when the other side's call begins.
// What follows is the message's or the collective's own time, and no wait state. A rank that was blocked behind other
// messages meanwhile, in the same call or in those before it, waits later: no longer than the other side was late, and
// than its message blocked it behind those.
//
// F. Wolf, B. Mohr: Automatic performance analysis of hybrid MPI/OpenMP applications. J. Systems Architecture 49,
// 2003. doi:10.1016/S1383-7621(03)00102-4
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

/// Who needs whom in a collective call.
enum class Pattern : std::uint8_t { none, all, barrier, from_root, to_root, prefix, neighbors, fence };

/// What a wait is called; others, given from outside, have numbers of their own.
enum class WaitState : std::uint8_t {
  late_sender,
  wrong_order_same_source,   ///< a message of the same source was there, and was received later
  wrong_order_other_source,
  late_receiver,
  early_reduce,              ///< the root until the first of the others came
  wait_at_n_to_one,          ///< and from then until the last of them
  early_scan,
  late_broadcast,
  wait_at_nxn,
  nxn_completion,
  wait_at_barrier,
  barrier_completion,
  late_member,               ///< of a tree: who passes on came late
  wait_at_neighbors,
  wait_at_fence,
  given                      ///< the first number of those that are given
};

/// The calls of all ranks: by rank, then by begin.
struct CallColumns {
  std::span<const std::int32_t> rank;
  std::span<const double> begin_s, end_s;
  std::span<const std::int32_t> joint;     ///< number of the collective; -1: none
  std::span<const std::uint8_t> pattern;   ///< `Pattern`
  std::span<const std::uint8_t> is_begun;  ///< a collective that only begins here: nobody waits in this call
  std::span<const std::int32_t> root;      ///< rank of the run; -1: none
  std::span<const std::int32_t> position;  ///< in the communicator
  std::span<const std::int32_t> phase{};   ///< name of the innermost phase, -1: none; empty: only times tell
};

struct MessageColumns {
  std::span<const std::int32_t> source, destination, context;
  std::span<const double> send_posted_s, recv_posted_s;
  std::span<const std::int32_t> sent_in{};  ///< row of the call that sent it; -1: none. Empty: the time tells
};

/// What was recorded: a rank had nothing to do until a message, or something that it had begun, was over.
struct BlockedColumns {
  std::span<const std::int32_t> rank;
  std::span<const double> begin_s, end_s;
  std::span<const std::int32_t> message;  ///< row; -1: none (a probe)
  std::span<const std::int32_t> begun;    ///< row of the call that began the collective; -1: none
  std::span<const double> ready_s;        ///< when it could begin and whose turn that was, where that is known
  std::span<const std::int32_t> origin;   ///< (a real run); else empty
};

/// A wait of a rank for another.
struct Wait {
  Time begin_s = 0.0;
  Time until_s = 0.0;
  std::int32_t rank = 0;
  std::int32_t cause = -1;        ///< the rank that came late; the rank itself of completions; -1: not known
  std::int32_t call = -1;         ///< row of the call that waited
  std::int32_t message = -1;      ///< row
  std::int32_t cause_call = -1;   ///< row of the call that came late
  std::uint8_t state = 0;         ///< `WaitState`, or a given one's number
  Time came_s = -1.0;             ///< when that call began, where the wait is over later; -1: it is over then
  [[nodiscard]] Time seconds() const { return until_s - begin_s; }
  /// When the cause had come: what it did until then has made it late.
  [[nodiscard]] Time cause_came_s() const { return came_s < 0.0 ? until_s : came_s; }
  [[nodiscard]] bool is_completion() const {
    return state == static_cast<std::uint8_t>(WaitState::nxn_completion) ||
           state == static_cast<std::uint8_t>(WaitState::barrier_completion);
  }
};

/// All of these were in a collective at a time: from there on their clocks can be compared.
struct Meeting {
  Time at_s;
  std::uint32_t first, count;  ///< of `WaitStates::members`
};

struct WaitStates {
  std::vector<Wait> waits;              ///< by rank, then by begin; completions among them
  std::vector<Meeting> meetings;        ///< by time
  std::vector<std::int32_t> members;    ///< ranks, ascending in each meeting
};

/// Throws std::invalid_argument where columns differ in length, a rank or row is out of range, or calls are not in
/// order. `given` waits (of windows, say) are put among those found; of waits that overlap the
/// one that began first counts.
WaitStates find_wait_states(std::int32_t ranks, const CallColumns& calls, const MessageColumns& messages,
                            const BlockedColumns& blocked, std::span<const Wait> given = {});

}  // namespace labkit
