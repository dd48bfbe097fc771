#include "labkit/sharing.hpp"

#include <algorithm>
#include <stdexcept>

namespace labkit {
namespace {

constexpr double kCancelled = 1e-3;  // sum up afresh once subtraction has eaten this much
constexpr std::size_t kScanLimit = 12;  // links; below, scanning beats a heap

}  // namespace

Sharing::Sharing(const std::vector<Link>& links) {
  links_.resize(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    LinkState& state = links_[i];
    state.capacity = links[i].bandwidth_bytes_per_s;
    state.remaining = state.usage = state.counted_usage = 0.0;
    state.unfixed = state.seen = 0;
    state.is_dirty = false;
    state.is_fatpipe = links[i].policy == Policy::fatpipe;
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
  // A fat pipe limits every flow by itself: that is a bound, and couples nobody.
  std::size_t shared = 0;
  for (const LinkLoad& load : loads) {
    const LinkState& link = links_[static_cast<std::size_t>(load.link)];
    if (link.is_fatpipe) {
      flow.bound = std::min(flow.bound, link.capacity / load.coefficient);
    } else {
      ++shared;
    }
  }
  flow.uses = static_cast<std::uint16_t>(shared);
  flow.first_use = take_uses(shared);
  std::uint32_t next = flow.first_use;
  for (const LinkLoad& load : loads) {
    if (links_[static_cast<std::size_t>(load.link)].is_fatpipe) continue;
    uses_[next++] = {static_cast<std::uint32_t>(load.link), kNone, load.coefficient};
  }
  return id;
}

void Sharing::activate(FlowId id) {
  Flow& flow = flows_[id];
  flow.is_active = true;
  ++active_;
  if (flow.uses == 0) {
    flow.is_dirty = true;
    dirty_flows_.push_back(id);
    return;
  }
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    LinkState& link = links_[uses_[u].link];
    uses_[u].place = static_cast<std::uint32_t>(link.members.size());
    link.members.push_back({id, u});
    mark(uses_[u].link);
  }
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
      if (!link.members.empty()) mark(uses_[u].link);
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
  if (++epoch_ == 0) {  // wrapped: old marks could look fresh
    for (Flow& flow : flows_) flow.seen = 0;
    for (LinkState& link : links_) link.seen = 0;
    epoch_ = 1;
  }
  for (const FlowId flow : dirty_flows_) {
    flows_[flow].is_dirty = false;
    set_rate(flow, flows_[flow].bound);
  }
  dirty_flows_.clear();
}

const std::vector<FlowId>& Sharing::solve() {
  begin_solve();
  for (const std::uint32_t link : dirty_links_) {
    links_[link].is_dirty = false;
    if (links_[link].seen == epoch_ || links_[link].members.empty()) continue;
    collect(link);
    fill();
  }
  dirty_links_.clear();
  return changed_;
}

const std::vector<FlowId>& Sharing::solve_all() {
  begin_solve();
  component_flows_.clear();
  component_links_.clear();
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    links_[link].is_dirty = false;
    if (links_[link].members.empty()) continue;
    links_[link].seen = epoch_;
    component_links_.push_back(link);
    for (const Member& member : links_[link].members) visit(member.flow);
  }
  dirty_links_.clear();
  fill();
  return changed_;
}

void Sharing::visit(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.seen == epoch_) return;
  flow.seen = epoch_;
  component_flows_.push_back(id);
}

/// The connected component of a link: breadth first, the lists are the queues.
void Sharing::collect(std::uint32_t seed_link) {
  component_flows_.clear();
  component_links_.clear();
  links_[seed_link].seen = epoch_;
  component_links_.push_back(seed_link);
  std::size_t next_flow = 0;
  for (std::size_t next_link = 0; next_link < component_links_.size(); ++next_link) {
    for (const Member& member : links_[component_links_[next_link]].members) visit(member.flow);
    for (; next_flow < component_flows_.size(); ++next_flow) {
      const Flow& flow = flows_[component_flows_[next_flow]];
      for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
        LinkState& link = links_[uses_[u].link];
        if (link.seen == epoch_) continue;
        link.seen = epoch_;
        component_links_.push_back(uses_[u].link);
      }
    }
  }
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

// While a component is filled, `seen == epoch_` means "not fixed yet"; fixing a flow takes the
// mark away. (The component's flows are met only once per solve, so nobody misses it.)

void Sharing::prepare(std::uint32_t id) {
  LinkState& link = links_[id];
  link.remaining = link.capacity;
  double usage = 0.0;
  for (const Member& member : link.members) {
    usage += uses_[member.use].coefficient * flows_[member.flow].inverse_weight;
  }
  link.usage = link.counted_usage = usage;
  link.unfixed = static_cast<std::uint32_t>(link.members.size());
}

/// Subtraction has cancelled most of the usage: sum up afresh what is left.
void Sharing::recount(LinkState& link) {
  double remaining = link.capacity;
  double usage = 0.0;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    if (flow.seen == epoch_) {
      usage += uses_[member.use].coefficient * flow.inverse_weight;
    } else {
      remaining -= uses_[member.use].coefficient * flow.rate;
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
  flow.seen = epoch_ - 1;
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    LinkState& link = links_[uses_[u].link];
    link.remaining -= uses_[u].coefficient * rate;
    link.usage -= uses_[u].coefficient * flow.inverse_weight;
    --link.unfixed;
  }
  set_rate(id, rate);
}

/// The link is the first to fill, at this level. Flows that reach their bound before stop there,
/// and the link goes on (false); without such flows all its flows stop at the level (true).
bool Sharing::fix_members(std::uint32_t id, double level) {
  LinkState& link = links_[id];
  bool is_filled = true;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    if (flow.seen != epoch_ || flow.bound >= level * flow.inverse_weight) continue;
    fix(member.flow, flow.bound);
    is_filled = false;
  }
  if (!is_filled) return false;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    if (flow.seen == epoch_) fix(member.flow, level * flow.inverse_weight);
  }
  return true;
}

void Sharing::fill_by_scanning() {
  for (;;) {
    double level = kNever;
    std::uint32_t first = kNone;
    for (const std::uint32_t id : component_links_) {
      LinkState& link = links_[id];
      if (link.unfixed == 0) continue;
      const double here = level_of(link);
      if (here < level) {
        level = here;
        first = id;
      }
    }
    if (first == kNone) return;
    if (fix_members(first, level)) floor_level_ = level;
  }
}

/// A link's level never falls while others are fixed, so the heap may hold old levels: the top is
/// looked at again before it counts.
void Sharing::fill_by_heap() {
  const auto later = [](const HeapEntry& a, const HeapEntry& b) {
    return a.level > b.level || (a.level == b.level && a.link > b.link);
  };
  heap_.clear();
  for (const std::uint32_t id : component_links_) heap_.push_back({level_of(links_[id]), id});
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    const HeapEntry top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    LinkState& link = links_[top.link];
    if (link.unfixed == 0) continue;
    double level = level_of(link);
    const bool is_first = heap_.empty() || level <= heap_.front().level;
    if (is_first && fix_members(top.link, level)) {
      floor_level_ = level;
      continue;
    }
    if (link.unfixed == 0) continue;
    heap_.push_back({level_of(link), top.link});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
}

}  // namespace labkit
