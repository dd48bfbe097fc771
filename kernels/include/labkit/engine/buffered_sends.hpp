// Sends that rely on buffering: whether a run would also complete if every standard send waited for its receive.
//
// A standard send may return before its receive is posted, and MPI leaves it to the library whether it does. What a
// rank does after such a send hangs on that: it would not have come there. An event that hangs on a send is a node
// here; a node is resolved (and gone) when it would have happened without buffering, too. A send is resolved when
// its receive is posted and everything that this post, and the send itself, hang on is resolved. A receive whose
// post hangs on the very send that it is for closes a cycle: with synchronous sends the ranks of the cycle wait for
// each other. What a rank learns from a test, a probe or a receive from any source binds it to nothing, as another
// message could have come: such dependencies are left out, so that a cycle is always one.
//
// A message carries what its sender hung on; waiting for it hands that on. Nothing is kept of what is resolved, and
// a run without open sends costs a comparison a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

class BufferedSends {
 public:
  /// One send of a cycle: its rank would wait for `dest`.
  struct Send {
    Rank rank = -1;
    Rank dest = -1;
    std::int32_t tag = 0;
    Context context = 0;
    std::uint64_t bytes = 0;
    std::int32_t place = -1;  ///< the caller's number of the line
  };
  using Cycle = std::vector<Send>;

  explicit BufferedSends(std::size_t ranks) : hangs_on_(ranks), has_looked_(ranks, false) {}

  /// Whether nothing hangs on a send: what is reported below then needs no report, but for the program's own sends.
  [[nodiscard]] bool is_idle() const { return open_ == 0; }
  /// A send or receive of an actor takes a slot; of a send of the program the place is kept.
  void posted(Rank actor, std::uint32_t slot, std::int32_t place = -1);
  /// An actor begins to wait for a send of the program (`send.bytes` and so on describe it).
  void waits(Rank actor, std::uint32_t slot, const Send& send, bool is_matched);
  /// A send has found its receive.
  void matched(std::uint32_t send, std::uint32_t receive);
  /// An actor has waited for a receive, or for an agent of its own.
  void received(Rank actor, std::uint32_t slot);
  /// A rank has looked whether a message is there: what it does next may depend on that, and nothing binds it any more.
  void looked(Rank rank) { has_looked_[static_cast<std::size_t>(rank)] = true; }
  /// An agent begins with what its rank hangs on; when it is over it hands on what it hangs on itself.
  void begun(Rank rank, Rank agent);
  void ended(Rank agent, std::uint32_t slot);
  void followed(Rank rank, Rank agent);

  [[nodiscard]] const std::vector<Cycle>& cycles() const { return cycles_; }

 private:
  /// A node, as long as it is open.
  struct Handle {
    std::uint32_t index = kNone;
    std::uint32_t generation = 0;
  };
  struct Slot {
    Handle hangs_on;           ///< what the post hangs on; of a receive that has matched: what its message does
    Handle node;               ///< a send that is waited for
    Handle receive_hangs_on;   ///< a send that has matched before it was waited for
    std::int32_t place = -1;
  };
  struct Node {
    std::uint32_t generation = 0;
    std::uint32_t missing = 0;     ///< what must be resolved before it
    std::uint32_t visited = 0;     ///< in which search
    std::uint32_t came_from = kNone;
    Handle before;                 ///< what it hangs on: of a send the program's order
    Handle also;                   ///< of a send its receive
    std::vector<Handle> followers;
    Send send;                     ///< rank -1: two others together
  };

  static constexpr std::size_t kMostCycles = 64;
  static constexpr std::uint64_t kMostSteps = 10'000'000;  ///< of all searches: then nothing is looked for any more

  [[nodiscard]] bool is_open(Handle handle) const {
    return handle.index != kNone && nodes_[handle.index].generation == handle.generation;
  }
  Slot& slot_of(std::uint32_t slot);
  Handle& of(Rank actor);
  Handle make(Handle before, std::uint32_t missing);
  /// What hangs on both.
  Handle together(Handle one, Handle other);
  void follow(Handle follower, Handle leader);
  void resolve(Handle handle);
  /// Whether a node hangs on another; `came_from` then leads back from there.
  bool hangs(Handle from, Handle on);
  void keep_cycle(Handle send);

  std::vector<Handle> hangs_on_;  // by actor
  std::vector<bool> has_looked_;  // by rank
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> stack_;
  std::vector<Handle> resolving_;
  std::size_t open_ = 0;
  std::uint32_t search_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<Cycle> cycles_;
};

}  // namespace labkit
