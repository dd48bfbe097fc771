// Collective calls of the ranks: each is one run of a schedule by the engine's own interpreter.
#include "hub_collective.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "mpi_objects.hpp"
#include "python_side.hpp"

namespace labkit::bindings {

std::shared_ptr<Collective> CollectiveTable::open(Hub& hub, const CollectiveKey& key, const CollectiveCall& what) {
  auto& slot = open_[key];
  if (slot.call == nullptr) {
    std::erase_if(lingering_, [](const auto& call) { return call->is_over(); });
    CollectiveSetup setup;
    setup.world_ranks = what.world_ranks;
    setup.context = key.context + 1;
    setup.tag = static_cast<std::int32_t>(key.number & 0x7fffffffU);
    setup.has_data = what.has_data;
    setup.reduction = what.reduction;
    setup.memory = memory_;
    slot.call = std::make_shared<Collective>(hub.engine(), what.program, std::move(setup));
  }
  return slot.call;
}

void CollectiveTable::leave(const CollectiveKey& key) {
  const auto found = open_.find(key);
  if (found == open_.end() || ++found->second.left < found->second.call->program().size()) return;
  found->second.call->forget_callbacks();
  if (!found->second.call->is_over()) lingering_.push_back(found->second.call);
  open_.erase(found);
}

void CollectiveTable::forget_callbacks() {
  for (const auto& [key, entry] : open_) entry.call->forget_callbacks();
}

namespace {

class Leaving {
 public:
  Leaving(CollectiveTable& table, const CollectiveKey& key) : table_(table), key_(key) {}
  ~Leaving() { table_.leave(key_); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  CollectiveTable& table_;
  CollectiveKey key_;
};

}  // namespace

bool Hub::run_collective(const CollectiveKey& key, const CollectiveCall& what, std::int32_t rank,
                         std::vector<BoundBuffer> buffers, const char* name) {
  const std::shared_ptr<Collective> call = collectives_.open(*this, key, what);
  const Leaving leaving(collectives_, key);  // however it ends: a failed operator must not keep the call
  bool is_through = false;
  {
    Busy busy(*this);
    is_through = call->enter(rank, std::move(buffers));
  }
  if (!is_through && !block({name, kProcNull, kAnyTag, 0})) return false;
  call->rethrow(rank);
  const std::string& fault = call->fault(rank);
  if (fault.empty()) return true;
  raise_mpi(kErrTruncate, "%s: %s", name, fault.c_str());
  return false;
}

}  // namespace labkit::bindings
