// The collective calls under way in a hub, by communicator and number.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "labkit/collective.hpp"

namespace labkit::bindings {

class Hub;

/// Which call it is. `owner` tells the calls of COMM_SELF apart, which every rank numbers for itself.
struct CollectiveKey {
  Context context = 0;
  std::uint32_t number = 0;
  Rank owner = -1;
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

/// What the first rank that comes says about the call.
struct CollectiveCall {
  std::shared_ptr<Program> program;
  std::shared_ptr<const Reduction> reduction;
  std::vector<Rank> world_ranks;  ///< empty: the world
  bool has_data = true;           ///< false: buffers of a size only
};

class CollectiveTable {
 public:
  std::shared_ptr<Collective> open(Hub& hub, const CollectiveKey& key, const CollectiveCall& what);
  /// One more rank is through; the last one ends the call.
  void leave(const CollectiveKey& key);
  /// The run has ended: drop references into Python, which could lead back to the hub.
  void forget_callbacks();

 private:
  struct Entry {
    std::shared_ptr<Collective> call;
    std::int32_t left = 0;
  };
  std::map<CollectiveKey, Entry> open_;
  std::shared_ptr<BytePool> memory_ = std::make_shared<BytePool>();
  std::vector<std::shared_ptr<Collective>> lingering_;  // all ranks through, messages still under way
};

}  // namespace labkit::bindings
