// Loads, their limits, and in which order they are repaired.
#include "labkit/network/incremental.hpp"

#include <algorithm>

namespace labkit {
namespace {

constexpr double kLeastLimit = 1e-12;       // of the capacity
constexpr double kLooseShare = 8.0;         // see Limits
constexpr std::uint32_t kRecountAfter = 64;  // repairs of a link: rounding adds up in its load

}  // namespace

Incremental::Incremental(const FlowTable& table, double tolerance)
    : table_(table),
      tolerance_(std::max(tolerance, kExact)),
      self_(static_cast<std::uint32_t>(table.link_count())),
      levels_(self_, kNever),
      loads_(self_),
      links_(self_ + 1),
      keys_(self_ + 1, kNever),
      ends_(self_ + 1),
      end_places_(self_ + 1),
      repair_limit_(20 * (std::uint64_t{self_} + 16)) {
  for (std::uint32_t i = 0; i <= self_; ++i) ends_[i] = end_places_[i] = i;
  for (std::uint32_t i = 0; i < self_; ++i) {
    links_[i].capacity = table.link(i).capacity;
    links_[i].is_fatpipe = table.link(i).is_fatpipe;
    set_limits(i);
  }
}

// --- taking over --------------------------------------------------------------------------------

void Incremental::begin() {
  dirty_.clear();
  old_keys_.clear();
  loose_ = 0;
  for (std::uint32_t id = 0; id <= self_; ++id) {
    LinkState& state = links_[id];
    state.flows.clear();
    state.usage = 0.0;
    state.repairs = 0;
    state.is_dirty = state.has_old_key = state.is_loose = false;
    if (id == self_) break;
    levels_[id] = kNever;
    loads_[id].load = loads_[id].highest = 0.0;
  }
}

void Incremental::place(FlowId id) {
  if (placed_.size() < table_.size()) {
    placed_.resize(table_.size());
    bottlenecks_.resize(table_.size());
  }
  const FlowTable::Flow& flow = table_.flow(id);
  Placed& placed = placed_[id];
  double bound = flow.bound;
  for (const FlowTable::Use& use : table_.uses(flow)) {
    bound = std::min(bound, links_[use.link].capacity / table_.coefficient(use));
  }
  placed.inverse_weight = flow.inverse_weight * flow.count;
  placed.bound_level = bound / flow.inverse_weight;
  placed.first_use = flow.first_use;
  placed.uses = flow.uses;
}

void Incremental::adopt(FlowId id, double work, Time now) {
  place(id);
  Placed& placed = placed_[id];
  const std::uint32_t bottleneck = table_.flow(id).bottleneck;
  bottlenecks_[id] = bottleneck == kNone ? self_ : bottleneck;
  const double left = work / table_.flow(id).inverse_weight;
  LinkState& state = links_[bottlenecks_[id]];
  if (bottleneck == kNone) {
    state.flows.push_back({now + left / placed.bound_level, 0.0, id});
    return;
  }
  double usage = 0.0;
  for (const FlowTable::Use& use : table_.uses(table_.flow(id))) {
    if (use.link == bottleneck) usage = table_.coefficient(use) * placed.inverse_weight;
  }
  const double level = table_.flow(id).rate / table_.flow(id).inverse_weight;
  levels_[bottleneck] = state.flows.empty() ? level : std::max(levels_[bottleneck], level);
  state.usage += usage;
  state.flows.push_back({left, usage, id});
}

void Incremental::finish(Time now) {
  for (std::uint32_t id = 0; id <= self_; ++id) {
    links_[id].date = now;
    make_heap(links_[id].flows);
    update_key(id, now);
  }
  for (std::uint32_t id = 0; id < self_; ++id) {
    if (links_[id].is_fatpipe) continue;
    recount(id);
    set_limits(id);
    check(id);
  }
}

// --- loads and limits ---------------------------------------------------------------------------

void Incremental::set_limits(std::uint32_t id) {
  LinkState& state = links_[id];
  Load& load = loads_[id];
  if (state.is_fatpipe) {
    load.high = kNever;
    load.low = -kNever;
    return;
  }
  const bool is_loose = tolerance_ > kExact && table_.link(id).members.size() >= kManyFlows;
  if (is_loose != state.is_loose) {
    state.is_loose = is_loose;
    loose_ += is_loose ? 1 : std::size_t{0} - 1;
  }
  const double eps = is_loose ? tolerance_ : kExact;
  const double capacity = state.capacity;
  if (state.flows.empty()) {
    load.high = capacity + eps * capacity;
    load.low = -kNever;
    return;
  }
  const double own = (is_loose ? kLooseShare : 1.0) * state.usage * levels_[id];
  const double slack = std::max(eps * std::min(capacity, own), kLeastLimit * capacity);
  load.high = capacity + slack;
  load.low = capacity - slack;
}

/// Sums up the load afresh, and the highest level of the flows that are stopped elsewhere.
void Incremental::recount(std::uint32_t id) {
  double sum = 0.0;
  double highest = 0.0;
  for (const FlowTable::Member& member : table_.link(id).members) {
    const double level = level_of(member.flow);
    sum += table_.coefficient(table_.use(member.use)) * placed_[member.flow].inverse_weight * level;
    if (bottlenecks_[member.flow] != id) highest = std::max(highest, level);
  }
  loads_[id].load = sum;
  loads_[id].highest = highest;
  links_[id].repairs = 0;
}

/// The level at which the link will settle, roughly: the lowest are repaired first, as filling does.
double Incremental::urgency(std::uint32_t id) const {
  const LinkState& state = links_[id];
  if (state.flows.empty()) return kNever;
  const double slack = state.capacity - loads_[id].load;
  return slack >= 0.0 ? levels_[id] : levels_[id] + slack / state.usage;
}

namespace {

template <class Dirty>
bool is_later(const Dirty& a, const Dirty& b) {
  return a.level > b.level || (a.level == b.level && a.link > b.link);
}

}  // namespace

void Incremental::mark(std::uint32_t id) {
  if (links_[id].is_dirty) return;
  links_[id].is_dirty = true;
  dirty_.push_back({urgency(id), id});
  std::push_heap(dirty_.begin(), dirty_.end(), is_later<Dirty>);
}

/// A flow's level has changed by level_change, and is now `level`: so do the loads of its links.
void Incremental::add_load(const Placed& placed, double level_change, double level) {
  const double change = level_change * placed.inverse_weight;
  for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) {
    const FlowTable::Use& use = table_.use(u);
    Load& load = loads_[use.link];
    load.load += table_.coefficient(use) * change;
    if (level > load.highest) load.highest = level;
    if (load.load > load.high || load.load < load.low) mark(use.link);
  }
}

std::uint32_t Incremental::lowest_link(const Placed& placed, double& level) const {
  std::uint32_t lowest = self_;
  level = placed.bound_level;
  for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) {
    const std::uint32_t link = table_.use(u).link;
    if (levels_[link] >= level) continue;
    level = levels_[link];
    lowest = link;
  }
  return lowest;
}

// --- starts and ends ----------------------------------------------------------------------------

void Incremental::start(FlowId id, double work, Time now) {
  place(id);
  const Placed& placed = placed_[id];
  double level = 0.0;
  const std::uint32_t lowest = lowest_link(placed, level);
  join(id, lowest, work / table_.flow(id).inverse_weight, now);
  if (placed.uses == 0) return;
  for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) set_limits(table_.use(u).link);
  come_to(id, lowest, level, level);
}

/// A flow has joined a link's list (or its bound's) at this level, which is a change for its loads.
void Incremental::come_to(FlowId id, std::uint32_t link, double level_change, double level) {
  const double highest = link == self_ ? 0.0 : loads_[link].highest;
  add_load(placed_[id], level_change, level);
  if (link != self_) loads_[link].highest = highest;  // it does not count there
}

void Incremental::resize(FlowId id, double work, Time now) {
  const FlowTable::Flow& flow = table_.flow(id);
  Placed& placed = placed_[id];
  const double weight_before = placed.inverse_weight;
  placed.inverse_weight = flow.inverse_weight * flow.count;
  reset(id, work / flow.inverse_weight, now);
  const double change = (placed.inverse_weight - weight_before) * level_of(id);
  for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) {
    const FlowTable::Use& use = table_.use(u);
    loads_[use.link].load += table_.coefficient(use) * change;
    if (use.link == bottlenecks_[id]) set_limits(use.link);
    check(use.link);
  }
}

void Incremental::end(FlowId id, Time now) {
  const Placed& placed = placed_[id];
  const double change = -level_of(id) * placed.inverse_weight;
  const std::uint32_t bottleneck = bottlenecks_[id];
  (void)leave(id, now);
  update_key(bottleneck, now);
  for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) {
    const FlowTable::Use& use = table_.use(u);
    Load& load = loads_[use.link];
    const bool is_last = table_.link(use.link).members.size() == 1;
    load.load = is_last ? 0.0 : load.load + table_.coefficient(use) * change;
    if (is_last) load.highest = 0.0;
    set_limits(use.link);
    check(use.link);
  }
}

// --- repairs ------------------------------------------------------------------------------------

bool Incremental::solve(Time now) {
  const std::uint64_t last = repairs_ + repair_limit_;
  while (!dirty_.empty()) {
    const Dirty top = dirty_.front();
    std::pop_heap(dirty_.begin(), dirty_.end(), is_later<Dirty>);
    dirty_.pop_back();
    const Load& load = loads_[top.link];
    links_[top.link].is_dirty = false;
    if (load.load <= load.high && load.load >= load.low) continue;
    const double level = urgency(top.link);
    if (level > top.level && !dirty_.empty() && level > dirty_.front().level) {
      mark(top.link);  // others come first by now
      continue;
    }
    if (repairs_ == last) return false;
    repair(top.link, now);
  }
  for (const std::uint32_t link : old_keys_) {
    if (links_[link].has_old_key) update_key(link, now);
  }
  old_keys_.clear();
  return true;
}

void Incremental::repair(std::uint32_t id, Time now) {
  ++repairs_;
  if (++links_[id].repairs > kRecountAfter) recount(id);
  advance(id, now);
  if (loads_[id].load < links_[id].capacity) {
    if (!links_[id].flows.empty()) raise(id, now);
  } else {
    lower(id, now);
  }
  set_limits(id);
  note_key(id);
}

}  // namespace labkit
