#include "labkit/network/flow_table.hpp"

#include <algorithm>
#include <stdexcept>

namespace labkit {
namespace {

constexpr std::size_t kMaxKinds = 16;
constexpr std::uint32_t kMaxMembers = 1u << 28;

}  // namespace

FlowTable::FlowTable(const std::vector<labkit::Link>& links) : links_(links.size()) {
  bool has_pipes = false;
  for (std::size_t i = 0; i < links.size(); ++i) {
    links_[i].capacity = links[i].bandwidth_bytes_per_s;
    links_[i].is_fatpipe = links[i].policy == Policy::fatpipe;
    has_pipes = has_pipes || links_[i].is_fatpipe;
  }
  if (has_pipes) pipes_.resize(links.size());
}

std::uint32_t FlowTable::take_uses(std::size_t count) {
  if (count < free_uses_.size() && !free_uses_[count].empty()) {
    const std::uint32_t first = free_uses_[count].back();
    free_uses_[count].pop_back();
    return first;
  }
  const std::size_t first = uses_.size();
  uses_.resize(first + count);
  return static_cast<std::uint32_t>(first);
}

void FlowTable::give_uses(std::uint32_t first, std::size_t count) {
  if (count == 0) return;
  if (free_uses_.size() <= count) free_uses_.resize(count + 1);
  free_uses_[count].push_back(first);
}

std::uint32_t FlowTable::kind_of(double coefficient) {
  for (std::size_t kind = 0; kind < coefficients_.size(); ++kind) {
    if (coefficients_[kind] == coefficient) return static_cast<std::uint32_t>(kind);
  }
  if (coefficients_.size() == kMaxKinds) throw std::length_error("loads have more than 16 different coefficients");
  coefficients_.push_back(coefficient);
  return static_cast<std::uint32_t>(coefficients_.size() - 1);
}

FlowId FlowTable::create(std::span<const LinkLoad> loads, double weight, double bound) {
  if (loads.size() > 0xffff) throw std::length_error("a route has more than 65535 links");
  FlowId id = free_flow_;
  if (id == kNone) {
    id = static_cast<FlowId>(flows_.size());
    flows_.emplace_back();
    flows_[id].seen = 0;
  } else {
    free_flow_ = flows_[id].bottleneck;
  }
  Flow& flow = flows_[id];
  flow.inverse_weight = 1.0 / weight;
  flow.bound = bound;
  flow.rate = 0.0;
  flow.is_active = flow.is_dirty = false;
  flow.bottleneck = kNone;
  flow.count = 1;
  flow.uses = static_cast<std::uint16_t>(loads.size());
  flow.first_use = take_uses(loads.size());
  std::uint32_t next = flow.first_use;
  for (const LinkLoad& load : loads) {
    uses_[next++] = {static_cast<std::uint32_t>(load.link), 0, kind_of(load.coefficient) & 15u};
  }
  return id;
}

/// A flow joins a fat pipe: are all its flows still alike?
void FlowTable::watch_pipe(std::uint32_t link, double usage) {
  Pipe& pipe = pipes_[link];
  if (links_[link].members.empty()) {
    pipe.first_usage = usage;
  } else if (!pipe.is_coupling && pipe.first_usage != usage) {
    pipe.is_coupling = true;
    ++coupling_pipes_;
  }
}

void FlowTable::activate(FlowId id) {
  Flow& flow = flows_[id];
  flow.is_active = true;
  ++active_;
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    Link& link = links_[uses_[u].link];
    if (link.members.size() == kMaxMembers) throw std::length_error("a link has 2^28 flows at once");
    if (link.is_fatpipe) {
      watch_pipe(uses_[u].link, coefficient(uses_[u]) * flow.inverse_weight);
      if (can_fill(flow, uses_[u])) ++link.fillers;
    }
    uses_[u].place = link.members.size() & (kMaxMembers - 1);
    link.members.push_back({id, u});
  }
}

void FlowTable::deactivate(FlowId id) {
  Flow& flow = flows_[id];
  flow.is_active = false;
  flow.rate = 0.0;  // so that it is a change when it comes back
  --active_;
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.uses; ++u) {
    Link& link = links_[uses_[u].link];
    const Member last = link.members.back();
    link.members[uses_[u].place] = last;
    uses_[last.use].place = uses_[u].place;
    link.members.pop_back();
    if (!link.is_fatpipe) continue;
    if (link.fillers > 0 && can_fill(flow, uses_[u])) --link.fillers;
    if (link.members.empty() && pipes_[uses_[u].link].is_coupling) {
      pipes_[uses_[u].link].is_coupling = false;
      --coupling_pipes_;
    }
  }
}

void FlowTable::free(FlowId id) {
  Flow& flow = flows_[id];
  give_uses(flow.first_use, flow.uses);
  flow.bottleneck = free_flow_;
  free_flow_ = id;
}

std::vector<LinkLoad> FlowTable::loads(FlowId id) const {
  std::vector<LinkLoad> out;
  for (const Use& use : uses(flows_[id])) out.push_back({static_cast<LinkId>(use.link), coefficient(use)});
  return out;
}

}  // namespace labkit
