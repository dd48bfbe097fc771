// The lists of flows by bottleneck, and when their flows end.
#include <algorithm>

#include "labkit/network/incremental.hpp"

namespace labkit {

void Incremental::sift_up(std::vector<Entry>& flows, std::uint32_t place) {
  const Entry entry = flows[place];
  while (place > 0) {
    const std::uint32_t parent = (place - 1) / 2;
    const Entry& above = flows[parent];
    if (above.left < entry.left || (above.left == entry.left && above.flow < entry.flow)) break;
    flows[place] = above;
    placed_[above.flow].place = place;
    place = parent;
  }
  flows[place] = entry;
  placed_[entry.flow].place = place;
}

void Incremental::sift_down(std::vector<Entry>& flows, std::uint32_t place) {
  const Entry entry = flows[place];
  const std::uint32_t size = static_cast<std::uint32_t>(flows.size());
  for (;;) {
    std::uint32_t child = 2 * place + 1;
    if (child >= size) break;
    if (child + 1 < size) {
      const Entry& a = flows[child];
      const Entry& b = flows[child + 1];
      if (b.left < a.left || (b.left == a.left && b.flow < a.flow)) ++child;
    }
    const Entry& below = flows[child];
    if (entry.left < below.left || (entry.left == below.left && entry.flow < below.flow)) break;
    flows[place] = below;
    placed_[below.flow].place = place;
    place = child;
  }
  flows[place] = entry;
  placed_[entry.flow].place = place;
}

void Incremental::make_heap(std::vector<Entry>& flows) {
  for (std::uint32_t i = 0; i < flows.size(); ++i) placed_[flows[i].flow].place = i;
  for (std::uint32_t i = static_cast<std::uint32_t>(flows.size()) / 2; i-- > 0;) sift_down(flows, i);
}

double Incremental::usage_of(const Placed& placed, std::uint32_t link) const {
  double usage = 0.0;
  for (std::uint32_t u = placed.first_use; u < placed.first_use + placed.uses; ++u) {
    const FlowTable::Use& use = table_.use(u);
    if (use.link == link) usage = table_.coefficient(use) * placed.inverse_weight;
  }
  return usage;
}

/// Enters a flow into the list of its bottleneck; `left` counts from now on.
void Incremental::join(FlowId id, std::uint32_t link, double left, Time now) {
  const Placed& placed = placed_[id];
  bottlenecks_[id] = link;
  LinkState& state = links_[link];
  double usage = 0.0;
  if (link == self_) {
    left = now + left / placed.bound_level;
  } else {
    if (state.date < now) left += levels_[link] * (now - state.date);
    usage = usage_of(placed, link);
    state.usage += usage;
  }
  state.flows.push_back({left, usage, id});
  sift_up(state.flows, static_cast<std::uint32_t>(state.flows.size() - 1));
  note_key(link);
}

/// Takes a flow out of the list of its bottleneck; returns what it has left, from now on.
double Incremental::leave(FlowId id, Time now) {
  const Placed& placed = placed_[id];
  const std::uint32_t link = bottlenecks_[id];
  LinkState& state = links_[link];
  const std::uint32_t place = placed.place;
  double left = state.flows[place].left;
  if (link == self_) {
    left = (left - now) * placed.bound_level;
  } else {
    left -= levels_[link] * (now - state.date);
    state.usage -= state.flows[place].usage;
  }
  const Entry last = state.flows.back();
  state.flows.pop_back();
  if (place < state.flows.size()) {
    state.flows[place] = last;
    placed_[last.flow].place = place;
    sift_up(state.flows, place);
    sift_down(state.flows, placed_[last.flow].place);
  }
  if (state.flows.empty() && link != self_) {
    state.usage = 0.0;
    levels_[link] = kNever;
  }
  note_key(link);
  return std::max(left, 0.0);
}

/// A flow stays where it is, with another usage, and so much left from now on.
void Incremental::reset(FlowId id, double left, Time now) {
  const Placed& placed = placed_[id];
  const std::uint32_t link = bottlenecks_[id];
  LinkState& state = links_[link];
  Entry& entry = state.flows[placed.place];
  if (link == self_) {
    entry.left = now + left / placed.bound_level;
  } else {
    entry.left = state.date < now ? left + levels_[link] * (now - state.date) : left;
    const double usage = usage_of(placed, link);
    state.usage += usage - entry.usage;
    entry.usage = usage;
  }
  sift_up(state.flows, placed.place);
  sift_down(state.flows, placed.place);
  update_key(link, now);
}

/// Counts `left` of the link's flows from now on.
void Incremental::advance(std::uint32_t link, Time now) {
  LinkState& state = links_[link];
  if (state.date < now && !state.flows.empty()) {
    const double gained = levels_[link] * (now - state.date);
    for (Entry& entry : state.flows) entry.left = std::max(entry.left - gained, 0.0);
  }
  state.date = now;
}

double Incremental::work_left(FlowId id, Time now) const {
  const Placed& placed = placed_[id];
  const std::uint32_t bottleneck = bottlenecks_[id];
  const LinkState& state = links_[bottleneck];
  double left = state.flows[placed.place].left;
  if (bottleneck == self_) {
    left = placed.bound_level == kNever ? 0.0 : (left - now) * placed.bound_level;
  } else {
    left -= levels_[bottleneck] * (now - state.date);
  }
  return std::max(left, 0.0) * table_.flow(id).inverse_weight;
}

void Incremental::note_key(std::uint32_t link) {
  if (links_[link].has_old_key) return;
  links_[link].has_old_key = true;
  old_keys_.push_back(link);
}

void Incremental::update_key(std::uint32_t link, Time now) {
  LinkState& state = links_[link];
  state.has_old_key = false;
  Time key = kNever;
  if (!state.flows.empty()) {
    const double left = state.flows.front().left;
    key = link == self_ ? left : state.date + left / levels_[link];
    if (key < now) key = now;
  }
  if (key == keys_[link]) return;
  keys_[link] = key;
  sift_key(end_places_[link]);
}

void Incremental::sift_key(std::uint32_t place) {
  const std::uint32_t link = ends_[place];
  const Time key = keys_[link];
  const auto is_before = [this](Time a, std::uint32_t i, std::uint32_t j) {
    return a < keys_[j] || (a == keys_[j] && i < j);
  };
  while (place > 0) {
    const std::uint32_t parent = (place - 1) / 4;
    if (!is_before(key, link, ends_[parent])) break;
    ends_[place] = ends_[parent];
    end_places_[ends_[place]] = place;
    place = parent;
  }
  const std::uint32_t size = static_cast<std::uint32_t>(ends_.size());
  for (;;) {
    const std::uint32_t first = 4 * place + 1;
    if (first >= size) break;
    std::uint32_t least = first;
    for (std::uint32_t child = first + 1; child < std::min(first + 4, size); ++child) {
      if (is_before(keys_[ends_[child]], ends_[child], ends_[least])) least = child;
    }
    if (is_before(key, link, ends_[least])) break;
    ends_[place] = ends_[least];
    end_places_[ends_[place]] = place;
    place = least;
  }
  ends_[place] = link;
  end_places_[link] = place;
}

}  // namespace labkit
