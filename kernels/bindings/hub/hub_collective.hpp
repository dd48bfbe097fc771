// The collective calls under way in a hub: who has come to which, what they agreed on, the engine's part.
#pragma once

#include <nanobind/nanobind.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "labkit/schedule/collective.hpp"

namespace labkit::bindings {

class Hub;

/// The members of a communicator that is neither the world nor a rank alone.
struct Members {
  std::vector<Rank> world_ranks;
  std::unordered_map<Rank, std::int32_t> places;
};

/// Which call it is. `owner` tells the calls of COMM_SELF apart, which every rank numbers for itself.
struct CollectiveKey {
  Context context = 0;
  std::uint32_t number = 0;
  Rank owner = -1;
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

/// What the ranks of a call agree on. Calls that are alike share one (see quick_calls.hpp).
struct Agreement {
  nanobind::object name;   ///< as the program spells it
  nanobind::object facts;  ///< dict: what all ranks must give alike
  std::shared_ptr<Program> program;
  std::shared_ptr<const Reduction> reduction;
  std::int32_t element_bytes = 1;  ///< of the rank that came first: where a message may be cut
  bool has_data = true;            ///< false: phantom buffers
};

/// One call on one communicator, from the first rank that comes to the last that leaves.
struct SharedCall {
  CollectiveKey key;
  Rank first = 0;
  std::int32_t size = 0;
  std::shared_ptr<const Members> members;      ///< nullptr: the world, or a rank alone
  Agreement terms;                             ///< filled by the first rank
  nanobind::object made;                       ///< dict: communicators that come of it
  std::shared_ptr<const Agreement> agreement;  ///< the terms, where another call may have the same
  std::shared_ptr<RankReductions> operators;   ///< of a reduction by an operator of the program's own
  std::shared_ptr<Collective> collective;      ///< of a call that is a schedule
  std::vector<bool> has_come;                  ///< by rank of the communicator
  std::int32_t come = 0;
  std::int32_t through = 0;

  [[nodiscard]] Rank world(std::int32_t rank) const {
    if (members != nullptr) return members->world_ranks[static_cast<std::size_t>(rank)];
    return key.owner >= 0 ? key.owner : rank;
  }
  /// Tuple of the world ranks that have not come; the same object until another one comes.
  nanobind::tuple absent();
  /// A rank gives its operator: the first one's is everybody's, unless it is the program's own.
  void give(std::int32_t rank, std::shared_ptr<const Reduction> reduction);
  /// The run has ended: drop references into Python.
  void forget();

 private:
  nanobind::tuple absent_;
  std::int32_t absent_at_ = -1;
  bool is_forgotten_ = false;
};

/// A rank that comes to a call.
struct Arrival {
  Rank world = 0;
  std::int32_t rank = 0;  ///< in the communicator
  std::int32_t size = 0;
  std::shared_ptr<const Members> members;
};

class CollectiveTable {
 public:
  /// Of a world of ranks, and spare ones besides.
  CollectiveTable(std::size_t world, std::size_t spare_ranks) : world_(world), of_rank_(world + spare_ranks) {}
  /// The number that a rank's next call on a context has.
  std::uint32_t& number(Context context, Rank rank);
  /// The call of this key, nullptr until the first rank has come.
  [[nodiscard]] SharedCall* find(const CollectiveKey& key) const;
  /// One more rank comes. The first one's call has no terms yet.
  std::shared_ptr<SharedCall> arrive(const CollectiveKey& key, const Arrival& who);
  /// The call a rank is in, or nullptr.
  [[nodiscard]] std::shared_ptr<SharedCall> of(Rank rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  /// The rank is out of its call.
  void leave(Rank rank) { of_rank_[static_cast<std::size_t>(rank)].reset(); }

  /// The engine's part of a call, begun by the first rank.
  [[gnu::noinline]] Collective& begun(Hub& hub, SharedCall& call);  // its stack is not that of a waiting rank
  /// One more rank has ended its part; the last one ends the call.
  void through(SharedCall& call);
  /// The run has ended: drop references into Python, which could lead back to the hub.
  void forget();

 private:
  std::size_t world_;
  std::map<CollectiveKey, std::shared_ptr<SharedCall>> calls_;
  std::vector<std::shared_ptr<SharedCall>> of_rank_;
  std::vector<std::vector<std::uint32_t>> numbers_;  // [context][rank]
  std::shared_ptr<BytePool> memory_ = std::make_shared<BytePool>();
  std::vector<std::shared_ptr<Collective>> lingering_;  // all ranks through, messages still under way
};

}  // namespace labkit::bindings
