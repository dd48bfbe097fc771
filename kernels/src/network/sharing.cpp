#include "labkit/network/sharing.hpp"

#include <algorithm>

namespace labkit {
namespace {

// Measured on linear alltoalls, equal and unequal, together and from random starts, on stars and fat trees
// of 16 to 256 hosts, and with 8 and 16 ranks a host (engine_bench: `unsynchronized`, `hosts`). Around these
// values little changes: 16 to 128, 2 to 16, 5000 to 80000, 2 to 16 cost within a tenth of each other, but
// 64 instead of 32 loses 1.7 times with 8 ranks a host, kWastedPerFlow = 1 loses 5 times on synchronized
// fat trees (they go over for nothing), kLeastWaste = 80000 1.5 times at 24 hosts.
constexpr std::uint64_t kFilledPerChange = 32;  // a repair costs about as much as filling so many flows
constexpr std::uint64_t kWastedPerFlow = 4;     // going over costs about as much as filling a flow so often
constexpr std::uint64_t kLeastWaste = 20000;
constexpr std::uint64_t kBatchShare = 4;        // a batch is large when it changes a quarter of the flows

}  // namespace

Sharing::Sharing(const std::vector<Link>& links, SharingOptions options)
    : options_(options), table_(links), filling_(table_) {}

void Sharing::activate(FlowId id, double work) {
  table_.activate(id);
  ++changes_;
  if (is_incremental_) {
    if (works_.size() < table_.size()) works_.resize(table_.size());
    works_[id] = work;
    starts_.push_back(id);
    table_.flow(id).is_dirty = true;
  } else {
    filling_.added(id);
  }
}

void Sharing::resize(FlowId id, std::uint32_t count, double work, Time now) {
  table_.flow(id).count = count;
  ++changes_;
  if (is_waiting(id)) {
    works_[id] = work;
  } else if (is_incremental_) {
    incremental_->resize(id, work, now);
  } else {
    filling_.added(id);
  }
}

void Sharing::deactivate(FlowId id, Time now) {
  ++changes_;
  if (is_waiting(id)) {
    std::erase(starts_, id);
    table_.flow(id).is_dirty = false;
  } else if (is_incremental_) {
    incremental_->end(id, now);
  }
  table_.deactivate(id);
  if (!is_incremental_) filling_.removed(id);
}

void Sharing::remove(FlowId id, Time now) {
  if (table_.flow(id).is_active) deactivate(id, now);
  table_.free(id);
}

void Sharing::set_bound(FlowId id, double bound) {
  if (!table_.flow(id).is_active) {
    table_.flow(id).bound = bound;
    return;
  }
  ++changes_;
  table_.deactivate(id);  // the lists of fat pipes know who could fill them
  filling_.removed(id);
  table_.flow(id).bound = bound;
  table_.activate(id);
  filling_.added(id);
}

void Sharing::change_link(LinkId id, double capacity, const std::function<void(FlowId, double&, double&)>& change) {
  FlowTable::Link& link = table_.link(static_cast<std::uint32_t>(id));
  std::vector<FlowId> flows;
  for (const FlowTable::Member& member : link.members) flows.push_back(member.flow);
  changes_ += flows.size();
  for (const FlowId flow : flows) {  // the lists of fat pipes know who could fill them
    table_.deactivate(flow);
    filling_.removed(flow);
  }
  link.capacity = capacity;
  for (const FlowId number : flows) {
    FlowTable::Flow& flow = table_.flow(number);
    double weight = 1.0 / flow.inverse_weight;
    change(number, weight, flow.bound);
    flow.inverse_weight = 1.0 / weight;
    table_.activate(number);
    filling_.added(number);
  }
}

// --- filling ------------------------------------------------------------------------------------

const std::vector<FlowId>& Sharing::solve() {
  const std::uint64_t before = filling_.flows_filled();
  const std::vector<FlowId>& changed = filling_.solve();
  weigh(filling_.flows_filled() - before);
  changes_ = 0;
  return changed;
}

const std::vector<FlowId>& Sharing::solve_all() {
  changes_ = 0;
  starts_.clear();
  wants_incremental_ = false;
  return filling_.solve_all();
}

/// Adds up what filling did beyond what repairs would have cost.
void Sharing::weigh(std::uint64_t filled) {
  const std::uint64_t worth = kFilledPerChange * changes_;
  if (filled > worth) {
    wasted_ += filled - worth;
  } else {
    wasted_ -= std::min(wasted_, worth - filled);
  }
  wants_incremental_ = options_.solver == Solver::incremental ||
                       wasted_ > kLeastWaste + kWastedPerFlow * table_.active_count();
  if (options_.solver == Solver::filling || table_.has_coupling_pipes()) wants_incremental_ = false;
}

// --- repairs ------------------------------------------------------------------------------------

void Sharing::begin_incremental() {
  is_incremental_ = true;
  wants_incremental_ = false;
  wasted_ = 0;
  if (!incremental_) incremental_ = std::make_unique<Incremental>(table_, options_.tolerance);
  if (options_.repair_limit > 0) incremental_->set_repair_limit(options_.repair_limit);
  incremental_->begin();
}

bool Sharing::wants_filling() const {
  if (table_.has_coupling_pipes()) return true;
  return options_.solver == Solver::automatic && kBatchShare * changes_ >= table_.active_count();
}

void Sharing::repair(Time now) {
  changes_ = 0;
  for (const FlowId id : starts_) {
    table_.flow(id).is_dirty = false;
    incremental_->start(id, works_[id], now);
  }
  starts_.clear();
  if (!incremental_->solve(now)) rebuild(now);
}

/// The repairs do not come to an end: fill everything.
void Sharing::rebuild(Time now) {
  ++rebuilds_;
  works_.assign(table_.size(), 0.0);
  for (FlowId id = 0; id < table_.size(); ++id) {
    if (table_.flow(id).is_active) works_[id] = incremental_->work_left(id, now);
  }
  filling_.solve_all();
  incremental_->begin();
  for (FlowId id = 0; id < table_.size(); ++id) {
    if (table_.flow(id).is_active) incremental_->adopt(id, works_[id], now);
  }
  incremental_->finish(now);
}

}  // namespace labkit
