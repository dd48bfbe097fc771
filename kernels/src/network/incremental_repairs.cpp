// A link is filled again by itself: its flows rise together, or fall together.
#include "labkit/network/incremental.hpp"

#include <algorithm>

namespace labkit {
namespace {

constexpr double kBelowTie = FlowTable::kBelowTie;
constexpr double kAboveTie = 1.0 + 1e-12;

}  // namespace

/// What add_load does for each flow of a link, but for the link itself: how full that is, its repair knows
/// in the end. It is where all these flows meet, so that each addition would wait for the one before.
void Incremental::move_together(std::uint32_t id, double level_change, double level) {
  Load* const loads = loads_.data();
  const FlowTable::Use* const all_uses = &table_.use(0);
  for (const Entry& entry : links_[id].flows) {
    const Placed& placed = placed_[entry.flow];
    const double change = level_change * placed.inverse_weight;
    const FlowTable::Use* const last = all_uses + placed.first_use + placed.uses;
    for (const FlowTable::Use* use = all_uses + placed.first_use; use != last; ++use) {
      const std::uint32_t link = use->link;
      if (link == id) continue;
      Load& load = loads[link];
      load.load += table_.coefficient(*use) * change;
      if (level > load.highest) load.highest = level;
      if (load.load > load.high || load.load < load.low) mark(link);
    }
  }
}

/// All flows of the link rise together; those that meet a lower level elsewhere move there.
void Incremental::raise(std::uint32_t id, Time now) {
  LinkState& state = links_[id];
  const double old_level = levels_[id];
  levels_[id] = kNever;  // so that it does not count among the others
  double usage = 0.0;
  double lowest = kNever;
  others_.clear();
  for (const Entry& entry : state.flows) {
    const Placed& placed = placed_[entry.flow];
    double other = placed.bound_level;
    for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) {
      other = std::min(other, levels_[table_.use(u).link]);
    }
    others_.push_back(other);
    lowest = std::min(lowest, other);
    usage += entry.usage;
  }
  state.usage = usage;
  const double room = state.capacity - (loads_[id].load - usage * old_level);
  double level = room / usage;
  const bool has_leavers = lowest < level * kBelowTie;
  if (has_leavers) level = raised_level(id, room, level);

  Load& load = loads_[id];
  const double highest = load.highest;
  load.high = kNever;
  load.low = -kNever;
  if (has_leavers) move_away(id, level, old_level, now);
  move_together(id, level - old_level, level);
  levels_[id] = state.flows.empty() ? kNever : level;
  load.load = state.capacity;
  load.highest = highest;
  for (const Mover& mover : movers_) load.highest = std::max(load.highest, mover.level);
  if (state.flows.empty()) recount(id);
  movers_.clear();
}

/// The level when flows with a lower one elsewhere stop there. Their sum min(level, other) is
/// concave in the level, so repeating with those found lower comes up to it from below.
double Incremental::raised_level(std::uint32_t id, double room, double level) {
  const std::vector<Entry>& flows = links_[id].flows;
  for (std::size_t leavers = 0;;) {
    double usage = 0.0;
    double left = room;
    std::size_t count = 0;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (others_[i] < level * kBelowTie) {
        left -= flows[i].usage * others_[i];
        ++count;
      } else {
        usage += flows[i].usage;
      }
    }
    if (count == flows.size()) return kNever;
    if (count == leavers) return level;
    leavers = count;
    level = std::max(level, left / usage);
  }
}

void Incremental::move_away(std::uint32_t id, double level, double old_level, Time now) {
  LinkState& state = links_[id];
  std::size_t kept = 0;
  state.usage = 0.0;
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    if (others_[i] < level * kBelowTie) {
      movers_.push_back({state.flows[i].flow, others_[i], state.flows[i].left});
    } else {
      state.usage += state.flows[i].usage;
      state.flows[kept++] = state.flows[i];
    }
  }
  state.flows.resize(kept);
  make_heap(state.flows);
  for (const Mover& mover : movers_) {
    double target_level = 0.0;
    const std::uint32_t target = lowest_link(placed_[mover.flow], target_level);
    join(mover.flow, target, mover.amount, now);
    if (target != self_) set_limits(target);
    come_to(mover.flow, target, mover.level - old_level, mover.level);
  }
}

/// All flows of the link fall together, with those that stand higher than where they come to.
void Incremental::lower(std::uint32_t id, Time now) {
  LinkState& state = links_[id];
  const double old_level = levels_[id];
  double usage = 0.0;
  for (const Entry& entry : state.flows) usage += entry.usage;
  state.usage = usage;
  double level = 0.0;
  if (usage > 0.0) level = (state.capacity - (loads_[id].load - usage * old_level)) / usage;
  double highest = loads_[id].highest;
  if (usage == 0.0 || level <= 0.0 || highest > level * kAboveTie) {
    level = take_higher(id, std::max(level, 0.0), usage);
    highest = loads_[id].highest;
    if (state.flows.empty() && movers_.empty()) {  // nobody stands too high after all
      recount(id);
      return;
    }
  }
  Load& load = loads_[id];
  load.high = kNever;
  load.low = -kNever;
  levels_[id] = level;
  move_together(id, level - old_level, 0.0);
  for (const Mover& mover : movers_) {
    const std::uint32_t from = bottlenecks_[mover.flow];
    const double left = leave(mover.flow, now);
    if (from != self_) {
      set_limits(from);
      loads_[from].highest = std::max(loads_[from].highest, level);
    }
    join(mover.flow, id, left, now);
    add_load(placed_[mover.flow], level - mover.level, 0.0);
    if (from != self_) check(from);
  }
  movers_.clear();
  load.load = state.capacity;
  load.highest = highest;
}

/// Finds who of the flows stopped elsewhere stands higher than the level they would all come to
/// (into movers_), and that level. From below, as raised_level.
double Incremental::take_higher(std::uint32_t id, double floor, double usage) {
  const double own = usage > 0.0 ? usage * levels_[id] : 0.0;
  double room = links_[id].capacity - (loads_[id].load - own);  // for the link's own flows and the movers
  double highest = 0.0;
  double all = usage;
  movers_.clear();
  for (const FlowTable::Member& member : table_.link(id).members) {
    if (bottlenecks_[member.flow] == id) continue;
    const double level = level_of(member.flow);
    if (level > floor * kAboveTie) {
      const double amount = table_.coefficient(table_.use(member.use)) * placed_[member.flow].inverse_weight;
      movers_.push_back({member.flow, level, amount});
      all += amount;
      room += amount * level;
    } else {
      highest = std::max(highest, level);
    }
  }
  for (;;) {
    const double level = all > 0.0 ? std::max(floor, room / all) : kNever;
    std::size_t kept = 0;
    all = usage;
    for (const Mover& mover : movers_) {
      if (mover.level > level * kAboveTie) {
        all += mover.amount;
        movers_[kept++] = mover;
      } else {
        room -= mover.amount * mover.level;
        highest = std::max(highest, mover.level);
      }
    }
    if (kept == movers_.size()) {
      loads_[id].highest = highest;
      return level;
    }
    movers_.resize(kept);
  }
}

}  // namespace labkit
