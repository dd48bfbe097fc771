#include "labkit/network/filling.hpp"

#include <algorithm>

namespace labkit {
namespace {

constexpr double kCancelled = 1e-3;  // sum up afresh once subtraction has eaten this much
constexpr std::size_t kScanLimit = 12;  // links; below, scanning beats a heap

}  // namespace

void Filling::added(FlowId id) {
  bool is_found = false;  // by a dirty link
  for (const FlowTable::Use& use : table_.uses(table_.flow(id))) {
    if (FlowTable::is_idle(table_.link(use.link))) continue;
    mark(use.link);
    is_found = true;
  }
  if (!is_found) mark_flow(id);
}

void Filling::removed(FlowId id) {
  const FlowTable::Flow& flow = table_.flow(id);
  for (const FlowTable::Use& use : table_.uses(flow)) {
    const FlowTable::Link& link = table_.link(use.link);
    if (link.members.empty()) continue;
    if (!FlowTable::is_idle(link)) {
      mark(use.link);
    } else if (table_.can_fill(flow, use)) {
      // A pipe that has become idle will not lead a search to its flows any more.
      for (const FlowTable::Member& member : link.members) mark_flow(member.flow);
    }
  }
  if (!flow.is_dirty) return;
  std::erase(dirty_flows_, id);
  table_.flow(id).is_dirty = false;  // it may come back
}

void Filling::begin_solve() {
  changed_.clear();
  epoch_ += 2;
  if (epoch_ >= kNone - 2) {  // before the marks wrap and old ones look fresh
    for (FlowId id = 0; id < table_.size(); ++id) table_.flow(id).seen = 0;
    for (LinkWork& link : links_) link.seen = 0;
    epoch_ = 2;
  }
}

const std::vector<FlowId>& Filling::solve() {
  begin_solve();
  for (const std::uint32_t id : dirty_links_) {
    links_[id].is_dirty = false;
    const FlowTable::Link& link = table_.link(id);
    if (links_[id].seen == epoch_ || link.members.empty() || FlowTable::is_idle(link)) continue;
    solve_around(link.members.front().flow);
  }
  dirty_links_.clear();
  for (const FlowId id : dirty_flows_) {
    table_.flow(id).is_dirty = false;
    if (table_.flow(id).seen < epoch_) solve_around(id);
  }
  dirty_flows_.clear();
  return changed_;
}

const std::vector<FlowId>& Filling::solve_all() {
  begin_solve();
  component_flows_.clear();
  component_links_.clear();
  for (FlowId id = 0; id < table_.size(); ++id) {
    FlowTable::Flow& flow = table_.flow(id);
    flow.is_dirty = false;
    if (!flow.is_active) continue;
    visit(id);
    visit_links(flow);
  }
  for (LinkWork& link : links_) link.is_dirty = false;
  dirty_links_.clear();
  dirty_flows_.clear();
  fill();
  for (const FlowId id : component_flows_) {  // those that no link holds back
    FlowTable::Flow& flow = table_.flow(id);
    if (flow.seen != epoch_ || component_flows_.size() == 1) continue;
    flow.bottleneck = kNone;
    set_rate(id, flow.bound);
  }
  return changed_;
}

void Filling::visit(FlowId id) {
  FlowTable::Flow& flow = table_.flow(id);
  if (flow.seen >= epoch_) return;
  flow.seen = epoch_;
  component_flows_.push_back(id);
}

void Filling::visit_links(const FlowTable::Flow& flow) {
  for (const FlowTable::Use& use : table_.uses(flow)) {
    LinkWork& link = links_[use.link];
    if (link.seen == epoch_ || FlowTable::is_idle(table_.link(use.link))) continue;
    link.seen = epoch_;
    component_links_.push_back(use.link);
  }
}

/// Fills the connected component of a flow: breadth first, the two lists are the queues.
void Filling::solve_around(FlowId seed) {
  component_flows_.clear();
  component_links_.clear();
  visit(seed);
  std::size_t next_link = 0;
  for (std::size_t next = 0; next < component_flows_.size(); ++next) {
    visit_links(table_.flow(component_flows_[next]));
    for (; next_link < component_links_.size(); ++next_link) {
      for (const FlowTable::Member& member : table_.link(component_links_[next_link]).members) {
        visit(member.flow);
      }
    }
  }
  fill();
}

void Filling::set_rate(FlowId id, double rate) {
  FlowTable::Flow& flow = table_.flow(id);
  if (flow.rate == rate) return;
  flow.rate = rate;
  changed_.push_back(id);
}

void Filling::fill() {
  filled_ += component_flows_.size();
  if (component_flows_.empty()) return;
  if (component_flows_.size() == 1) {
    fill_alone(component_flows_.front());
    return;
  }
  floor_level_ = 0.0;
  for (const std::uint32_t link : component_links_) prepare(link);
  if (component_links_.size() <= kScanLimit) {
    fill_by_scanning();
  } else {
    fill_by_heap();
  }
}

void Filling::fill_alone(FlowId id) {
  FlowTable::Flow& flow = table_.flow(id);
  double rate = flow.bound;
  flow.bottleneck = kNone;
  for (const FlowTable::Use& use : table_.uses(flow)) {
    const FlowTable::Link& link = table_.link(use.link);
    const double here =
        link.capacity / (link.is_fatpipe ? table_.coefficient(use) : table_.coefficient(use, flow));
    if (here >= rate) continue;
    rate = here;
    flow.bottleneck = link.is_fatpipe ? kNone : use.link;
  }
  set_rate(id, rate);
}

// Marks: seen < epoch_: not met in this solve; epoch_: met, not fixed yet; epoch_ + 1: fixed.

void Filling::prepare(std::uint32_t id) {
  links_[id].unfixed = table_.link(id).members.size();
  recount(id);
}

/// Sum up afresh: subtraction has cancelled most of the usage, or a fat pipe's maximum is gone.
void Filling::recount(std::uint32_t id) {
  LinkWork& link = links_[id];
  double remaining = table_.link(id).capacity;
  double usage = 0.0;
  for (const FlowTable::Member& member : table_.link(id).members) {
    const FlowTable::Flow& flow = table_.flow(member.flow);
    const FlowTable::Use& use = table_.use(member.use);
    const bool is_fixed = flow.seen != epoch_;
    if (link.is_fatpipe) {
      if (!is_fixed) usage = std::max(usage, table_.coefficient(use) * flow.inverse_weight);
    } else if (is_fixed) {
      remaining -= table_.coefficient(use, flow) * flow.rate;
    } else {
      usage += table_.coefficient(use, flow) * flow.inverse_weight;
    }
  }
  link.usage = link.counted_usage = usage;
  link.remaining = remaining;
}

double Filling::level_of(std::uint32_t id) {
  LinkWork& link = links_[id];
  if (link.usage < kCancelled * link.counted_usage) recount(id);
  const double level = link.remaining / link.usage;
  return level > floor_level_ ? level : floor_level_;
}

void Filling::fix(FlowId id, double rate, std::uint32_t bottleneck) {
  FlowTable::Flow& flow = table_.flow(id);
  flow.seen = epoch_ + 1;
  flow.bottleneck = bottleneck;
  for (const FlowTable::Use& use : table_.uses(flow)) {
    LinkWork& link = links_[use.link];
    --link.unfixed;
    if (link.is_fatpipe) {
      link.usage = 0.0;  // find the maximum again when the level is asked for
    } else {
      const double coefficient = table_.coefficient(use, flow);
      link.remaining -= coefficient * rate;
      link.usage -= coefficient * flow.inverse_weight;
    }
  }
  set_rate(id, rate);
}

/// Fat pipes that fill at the same level and have flows in common fill together: whichever came
/// first would otherwise take away what the other stops at this level.
void Filling::find_tied(std::uint32_t id, double level) {
  tied_.assign(1, id);
  if (!links_[id].is_fatpipe) return;
  for (std::size_t next = 0; next < tied_.size(); ++next) {
    for (const FlowTable::Member& member : table_.link(tied_[next]).members) {
      const FlowTable::Flow& flow = table_.flow(member.flow);
      if (flow.seen != epoch_) continue;
      for (const FlowTable::Use& use : table_.uses(flow)) {
        const FlowTable::Link& other = table_.link(use.link);
        if (!other.is_fatpipe || FlowTable::is_idle(other)) continue;
        if (level_of(use.link) * kBelowTie > level) continue;
        if (std::find(tied_.begin(), tied_.end(), use.link) == tied_.end()) tied_.push_back(use.link);
      }
    }
  }
}

/// The link is the first to fill. Flows that reach their bound before stop there, and the link
/// goes on (false); without such flows all its flows stop at its level (true).
bool Filling::fix_members(std::uint32_t id) {
  const double level = level_of(id);
  find_tied(id, level);
  bool is_filled = true;
  for (const std::uint32_t tied : tied_) {
    for (const FlowTable::Member& member : table_.link(tied).members) {
      const FlowTable::Flow& flow = table_.flow(member.flow);
      if (flow.seen != epoch_ || flow.bound >= level * kBelowTie * flow.inverse_weight) continue;
      fix(member.flow, flow.bound, kNone);
      is_filled = false;
    }
  }
  if (!is_filled) return false;
  for (const std::uint32_t tied : tied_) {
    const std::uint32_t bottleneck = links_[tied].is_fatpipe ? kNone : tied;
    for (const FlowTable::Member& member : table_.link(tied).members) {
      const FlowTable::Flow& flow = table_.flow(member.flow);
      if (flow.seen != epoch_) continue;
      fix(member.flow, std::min(flow.bound, level * flow.inverse_weight), bottleneck);
    }
  }
  floor_level_ = level;
  return true;
}

void Filling::fill_by_scanning() {
  for (;;) {
    double least = kNever;
    std::uint32_t first = kNone;
    for (const std::uint32_t id : component_links_) {
      if (links_[id].unfixed == 0) continue;
      const double rank = rank_of(id);
      if (rank < least) {
        least = rank;
        first = id;
      }
    }
    if (first == kNone) return;
    fix_members(first);
  }
}

/// A link's level never falls while others are fixed, so the heap may hold old levels: the top is
/// looked at again before it counts.
void Filling::fill_by_heap() {
  const auto later = [](const HeapEntry& a, const HeapEntry& b) {
    return a.level > b.level || (a.level == b.level && a.link > b.link);
  };
  heap_.clear();
  for (const std::uint32_t id : component_links_) heap_.push_back({rank_of(id), id});
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    const HeapEntry top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    if (links_[top.link].unfixed == 0) continue;
    const bool is_first = heap_.empty() || rank_of(top.link) <= heap_.front().level;
    if (is_first && fix_members(top.link)) continue;
    if (links_[top.link].unfixed == 0) continue;
    heap_.push_back({rank_of(top.link), top.link});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
}

}  // namespace labkit
