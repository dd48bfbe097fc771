#include "labkit/sharing.hpp"

#include <algorithm>
#include <stdexcept>

namespace labkit {
namespace {

constexpr double kCancelled = 1e-3;  // sum up afresh once subtraction has eaten this much
constexpr std::size_t kScanLimit = 12;  // links; below, scanning beats a heap

}  // namespace

Sharing::Sharing(const std::vector<Link>& links) : links_(links.size()) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    links_[i].capacity = links[i].bandwidth_bytes_per_s;
    links_[i].is_fatpipe = links[i].policy == Policy::fatpipe;
  }
}

std::uint32_t Sharing::take_uses(std::size_t count) {
  if (count < free_uses_.size() && !free_uses_[count].empty()) {
    const std::uint32_t first = free_uses_[count].back();
    free_uses_[count].pop_back();
    return first;
  }
  const std::size_t first = uses_.size();
  uses_.resize(first + count);
  return static_cast<std::uint32_t>(first);
}

void Sharing::give_uses(std::uint32_t first, std::size_t count) {
  if (count == 0) return;
  if (free_uses_.size() <= count) free_uses_.resize(count + 1);
  free_uses_[count].push_back(first);
}

FlowId Sharing::create(std::span<const LinkLoad> loads, double weight, double bound) {
  if (loads.size() > 0xffff) throw std::length_error("a route has more than 65535 links");
  FlowId id = free_flow_;
  if (id == kNone) {
    id = static_cast<FlowId>(flows_.size());
    flows_.emplace_back();
    flows_[id].seen = 0;
  } else {
    free_flow_ = flows_[id].next_free;
  }
  Flow& flow = flows_[id];
  flow.inverse_weight = 1.0 / weight;
  flow.bound = bound;
  flow.rate = 0.0;
  flow.is_active = flow.is_dirty = false;
  flow.uses = static_cast<std::uint16_t>(loads.size());
  flow.first_use = take_uses(loads.size());
  std::uint32_t next = flow.first_use;
  for (const LinkLoad& load : loads) {
    uses_[next++] = {static_cast<std::uint32_t>(load.link), kNone, load.coefficient};
  }
  return id;
}

void Sharing::activate(FlowId id) {
  Flow& flow = flows_[id];
  flow.is_active = true;
  ++active_;
  bool is_found = false;  // by a dirty link
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    LinkState& link = links_[uses_[u].link];
    uses_[u].place = link.members.size();
    link.members.push_back({id, u});
    if (link.is_fatpipe && can_fill(flow, uses_[u])) ++link.fillers;
    if (is_idle(link)) continue;
    mark(uses_[u].link);
    is_found = true;
  }
  if (!is_found) mark_flow(id);
}

void Sharing::remove(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.is_active) {
    --active_;
    for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
      LinkState& link = links_[uses_[u].link];
      const Member last = link.members.back();
      link.members[uses_[u].place] = last;
      uses_[last.use].place = uses_[u].place;
      link.members.pop_back();
      if (link.members.empty()) {
        link.fillers = 0;
      } else if (!link.is_fatpipe) {
        mark(uses_[u].link);
      } else if (link.fillers > 0) {
        if (can_fill(flow, uses_[u])) --link.fillers;
        // A pipe that has become idle will not lead a search to its flows any more.
        if (link.fillers > 0) {
          mark(uses_[u].link);
        } else {
          for (const Member& member : link.members) mark_flow(member.flow);
        }
      }
    }
    if (flow.is_dirty) std::erase(dirty_flows_, id);
  }
  give_uses(flow.first_use, flow.uses);
  flow.is_active = false;
  flow.next_free = free_flow_;
  free_flow_ = id;
}

std::vector<LinkLoad> Sharing::loads(FlowId id) const {
  std::vector<LinkLoad> out;
  const Flow& flow = flows_[id];
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    out.push_back({static_cast<LinkId>(uses_[u].link), uses_[u].coefficient});
  }
  return out;
}

void Sharing::begin_solve() {
  changed_.clear();
  epoch_ += 2;
  if (epoch_ >= kNone - 2) {  // before the marks wrap and old ones look fresh
    for (Flow& flow : flows_) flow.seen = 0;
    for (LinkState& link : links_) link.seen = 0;
    epoch_ = 2;
  }
}

const std::vector<FlowId>& Sharing::solve() {
  begin_solve();
  for (const std::uint32_t id : dirty_links_) {
    LinkState& link = links_[id];
    link.is_dirty = false;
    if (link.seen == epoch_ || link.members.empty() || is_idle(link)) continue;
    solve_around(link.members.front().flow);
  }
  dirty_links_.clear();
  for (const FlowId id : dirty_flows_) {
    flows_[id].is_dirty = false;
    if (flows_[id].seen < epoch_) solve_around(id);
  }
  dirty_flows_.clear();
  return changed_;
}

const std::vector<FlowId>& Sharing::solve_all() {
  begin_solve();
  component_flows_.clear();
  component_links_.clear();
  for (FlowId id = 0; id < flows_.size(); ++id) {
    flows_[id].is_dirty = false;
    if (!flows_[id].is_active) continue;
    visit(id);
    visit_links(flows_[id]);
  }
  for (LinkState& link : links_) link.is_dirty = false;
  dirty_links_.clear();
  dirty_flows_.clear();
  fill();
  for (const FlowId id : component_flows_) {  // those that no link holds back
    if (flows_[id].seen == epoch_ && component_flows_.size() > 1) set_rate(id, flows_[id].bound);
  }
  return changed_;
}

void Sharing::visit(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.seen >= epoch_) return;
  flow.seen = epoch_;
  component_flows_.push_back(id);
}

void Sharing::visit_links(const Flow& flow) {
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    LinkState& link = links_[uses_[u].link];
    if (link.seen == epoch_ || is_idle(link)) continue;
    link.seen = epoch_;
    component_links_.push_back(uses_[u].link);
  }
}

/// Fills the connected component of a flow: breadth first, the two lists are the queues.
void Sharing::solve_around(FlowId seed) {
  component_flows_.clear();
  component_links_.clear();
  visit(seed);
  std::size_t next_link = 0;
  for (std::size_t next = 0; next < component_flows_.size(); ++next) {
    visit_links(flows_[component_flows_[next]]);
    for (; next_link < component_links_.size(); ++next_link) {
      for (const Member& member : links_[component_links_[next_link]].members) visit(member.flow);
    }
  }
  fill();
}

void Sharing::set_rate(FlowId id, double rate) {
  if (flows_[id].rate == rate) return;
  flows_[id].rate = rate;
  changed_.push_back(id);
}

void Sharing::fill() {
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

void Sharing::fill_alone(FlowId id) {
  const Flow& flow = flows_[id];
  double rate = flow.bound;
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    rate = std::min(rate, links_[uses_[u].link].capacity / uses_[u].coefficient);
  }
  set_rate(id, rate);
}

// Marks: seen < epoch_: not met in this solve; epoch_: met, not fixed yet; epoch_ + 1: fixed.

void Sharing::prepare(std::uint32_t id) {
  LinkState& link = links_[id];
  link.unfixed = link.members.size();
  recount(link);
}

/// Sum up afresh: subtraction has cancelled most of the usage, or a fat pipe's maximum is gone.
void Sharing::recount(LinkState& link) {
  double remaining = link.capacity;
  double usage = 0.0;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    const double coefficient = uses_[member.use].coefficient;
    const bool is_fixed = flow.seen != epoch_;
    if (link.is_fatpipe) {
      if (!is_fixed) usage = std::max(usage, coefficient * flow.inverse_weight);
    } else if (is_fixed) {
      remaining -= coefficient * flow.rate;
    } else {
      usage += coefficient * flow.inverse_weight;
    }
  }
  link.usage = link.counted_usage = usage;
  link.remaining = remaining;
}

double Sharing::level_of(LinkState& link) {
  if (link.usage < kCancelled * link.counted_usage) recount(link);
  const double level = link.remaining / link.usage;
  return level > floor_level_ ? level : floor_level_;
}

void Sharing::fix(FlowId id, double rate) {
  Flow& flow = flows_[id];
  flow.seen = epoch_ + 1;
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    LinkState& link = links_[uses_[u].link];
    --link.unfixed;
    if (link.is_fatpipe) {
      link.usage = 0.0;  // find the maximum again when the level is asked for
    } else {
      link.remaining -= uses_[u].coefficient * rate;
      link.usage -= uses_[u].coefficient * flow.inverse_weight;
    }
  }
  set_rate(id, rate);
}

/// Fat pipes that fill at the same level and have flows in common fill together: whichever came
/// first would otherwise take away what the other stops at this level.
void Sharing::find_tied(std::uint32_t id, double level) {
  tied_.assign(1, id);
  if (!links_[id].is_fatpipe) return;
  for (std::size_t next = 0; next < tied_.size(); ++next) {
    for (const Member& member : links_[tied_[next]].members) {
      const Flow& flow = flows_[member.flow];
      if (flow.seen != epoch_) continue;
      for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
        LinkState& other = links_[uses_[u].link];
        if (!other.is_fatpipe || is_idle(other) || level_of(other) * kBelowTie > level) continue;
        if (std::find(tied_.begin(), tied_.end(), uses_[u].link) == tied_.end()) {
          tied_.push_back(uses_[u].link);
        }
      }
    }
  }
}

/// The link is the first to fill. Flows that reach their bound before stop there, and the link
/// goes on (false); without such flows all its flows stop at its level (true).
bool Sharing::fix_members(std::uint32_t id) {
  const double level = level_of(links_[id]);
  find_tied(id, level);
  bool is_filled = true;
  for (const std::uint32_t tied : tied_) {
    for (const Member& member : links_[tied].members) {
      const Flow& flow = flows_[member.flow];
      if (flow.seen != epoch_ || flow.bound >= level * kBelowTie * flow.inverse_weight) continue;
      fix(member.flow, flow.bound);
      is_filled = false;
    }
  }
  if (!is_filled) return false;
  for (const std::uint32_t tied : tied_) {
    for (const Member& member : links_[tied].members) {
      const Flow& flow = flows_[member.flow];
      if (flow.seen != epoch_) continue;
      fix(member.flow, std::min(flow.bound, level * flow.inverse_weight));
    }
  }
  floor_level_ = level;
  return true;
}

void Sharing::fill_by_scanning() {
  for (;;) {
    double least = kNever;
    std::uint32_t first = kNone;
    for (const std::uint32_t id : component_links_) {
      LinkState& link = links_[id];
      if (link.unfixed == 0) continue;
      const double rank = rank_of(link);
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
void Sharing::fill_by_heap() {
  const auto later = [](const HeapEntry& a, const HeapEntry& b) {
    return a.level > b.level || (a.level == b.level && a.link > b.link);
  };
  heap_.clear();
  for (const std::uint32_t id : component_links_) heap_.push_back({rank_of(links_[id]), id});
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    const HeapEntry top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    LinkState& link = links_[top.link];
    if (link.unfixed == 0) continue;
    const bool is_first = heap_.empty() || rank_of(link) <= heap_.front().level;
    if (is_first && fix_members(top.link)) continue;
    if (link.unfixed == 0) continue;
    heap_.push_back({rank_of(link), top.link});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
}

}  // namespace labkit
