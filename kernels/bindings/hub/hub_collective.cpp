// Collective calls of the ranks: each is one run of a schedule by the engine's own interpreter.
#include "hub/hub_collective.hpp"

#include <algorithm>
#include <utility>

#include "hub/hub.hpp"
#include "mpi/mpi_objects.hpp"
#include "python_side.hpp"

namespace nb = nanobind;

namespace labkit::bindings {

nb::tuple SharedCall::absent() {
  if (absent_at_ == come) return absent_;
  nb::list missing;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    if (!has_come[static_cast<std::size_t>(rank)]) missing.append(world(rank));
  }
  absent_ = nb::tuple(missing);
  absent_at_ = come;
  return absent_;
}

void SharedCall::give(std::int32_t rank, std::shared_ptr<const Reduction> reduction) {
  if (reduction != nullptr && reduction->is_of_rank()) {
    if (operators == nullptr) operators = std::make_shared<RankReductions>(static_cast<std::size_t>(size));
    operators->give(rank, std::move(reduction));
    reduction = operators;
  }
  if (collective == nullptr) terms.reduction = std::move(reduction);
}

void SharedCall::forget() {
  if (is_forgotten_) return;
  is_forgotten_ = true;
  if (collective != nullptr) collective->forget_callbacks();
  terms.name.reset();
  terms.facts.reset();
  terms.reduction.reset();
  operators.reset();
  made.reset();
  absent_.reset();
  absent_at_ = -1;
  agreement.reset();
}

std::uint32_t& CollectiveTable::number(Context context, Rank rank) {
  const auto index = static_cast<std::size_t>(context);
  if (numbers_.size() <= index) numbers_.resize(index + 1);
  auto& numbers = numbers_[index];
  if (numbers.size() <= static_cast<std::size_t>(rank)) {  // few communicators have spawned ranks
    numbers.resize(static_cast<std::size_t>(rank) < world_ ? world_ : of_rank_.size(), 0);
  }
  return numbers[static_cast<std::size_t>(rank)];
}

SharedCall* CollectiveTable::find(const CollectiveKey& key) const {
  const auto found = calls_.find(key);
  return found == calls_.end() ? nullptr : found->second.get();
}

std::shared_ptr<SharedCall> CollectiveTable::arrive(const CollectiveKey& key, const Arrival& who) {
  std::shared_ptr<SharedCall>& slot = calls_[key];
  if (slot == nullptr) {
    slot = std::make_shared<SharedCall>();
    slot->key = key;
    slot->first = who.world;
    slot->size = who.size;
    slot->members = who.members;
    slot->has_come.resize(static_cast<std::size_t>(who.size), false);
  }
  const std::shared_ptr<SharedCall> call = slot;
  call->has_come[static_cast<std::size_t>(who.rank)] = true;
  of_rank_[static_cast<std::size_t>(who.world)] = call;
  // A call that is made of messages is over for the table when all have come: nobody looks for it again.
  if (++call->come == call->size && call->collective == nullptr) calls_.erase(key);
  return call;
}

Collective& CollectiveTable::begun(Hub& hub, SharedCall& call) {
  if (call.collective == nullptr) {
    std::erase_if(lingering_, [](const auto& one) { return one->is_over(); });
    CollectiveSetup setup;
    if (call.members != nullptr) setup.world_ranks = call.members->world_ranks;
    if (call.key.owner >= 0) setup.world_ranks = {call.key.owner};
    setup.context = call.key.context + 1;
    setup.tag = static_cast<std::int32_t>(call.key.number & 0x7fffffffU);
    setup.has_data = call.terms.has_data;
    setup.reduction = call.terms.reduction;
    setup.memory = memory_;
    call.collective = std::make_shared<Collective>(hub.engine(), call.terms.program, std::move(setup));
  }
  return *call.collective;
}

void CollectiveTable::through(SharedCall& call) {
  if (++call.through < call.size) return;
  if (call.collective != nullptr) {
    call.collective->forget_callbacks();
    if (!call.collective->is_over()) lingering_.push_back(call.collective);
  }
  calls_.erase(call.key);
}

void CollectiveTable::forget() {
  // The calls themselves stay until the engine is gone, which may still deliver their messages.
  for (const auto& [key, call] : calls_) call->forget();
  for (const auto& call : of_rank_) {
    if (call != nullptr) call->forget();
  }
}

namespace {

class Leaving {
 public:
  Leaving(CollectiveTable& table, SharedCall& call, Rank rank) : table_(table), call_(call), rank_(rank) {}
  ~Leaving() {
    table_.through(call_);
    table_.leave(rank_);
  }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  CollectiveTable& table_;
  SharedCall& call_;
  Rank rank_;
};

}  // namespace

bool Hub::run_collective(const std::shared_ptr<SharedCall>& shared, std::int32_t rank, std::vector<BoundBuffer> buffers,
                         const char* name) {
  const Leaving leaving(collectives_, *shared, current_);  // however it ends: a failed operator must not keep the call
  if (buffers_in_use_.is_used(current_)) {
    for (const BoundBuffer& buffer : buffers) use_memory(name, buffer);
  }
  Collective& call = collectives_.begun(*this, *shared);
  bool is_through = false;
  {
    Busy busy(*this);
    is_through = call.enter(rank, std::move(buffers));
  }
  if (!is_through && !block({name, kProcNull, kAnyTag, 0})) return false;
  return is_sound(call, rank, name);
}

bool Hub::is_sound(Collective& call, std::int32_t rank, const char* name) {
  call.rethrow(rank);
  const std::string& fault = call.fault(rank);
  if (fault.empty()) return true;
  raise_mpi(kErrTruncate, "%s: %s", name, fault.c_str());
  return false;
}

}  // namespace labkit::bindings
