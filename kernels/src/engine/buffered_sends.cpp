#include "labkit/engine/buffered_sends.hpp"

#include <algorithm>
#include <utility>

namespace labkit {

BufferedSends::Slot& BufferedSends::slot_of(std::uint32_t slot) {
  if (slot >= slots_.size()) slots_.resize(std::max<std::size_t>(slot + 1, 2 * slots_.size()));
  return slots_[slot];
}

BufferedSends::Handle& BufferedSends::of(Rank actor) {
  const auto index = static_cast<std::size_t>(actor);
  if (index >= hangs_on_.size()) hangs_on_.resize(index + 1);
  return hangs_on_[index];
}

BufferedSends::Handle BufferedSends::make(Handle before, std::uint32_t missing) {
  std::uint32_t index = kNone;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Node& node = nodes_[index];
  node.missing = missing;
  node.before = before;
  node.also = {};
  node.send = {};
  ++open_;
  const Handle made{index, node.generation};
  if (is_open(before)) {
    ++node.missing;
    follow(made, before);
  }
  return made;
}

void BufferedSends::follow(Handle follower, Handle leader) { nodes_[leader.index].followers.push_back(follower); }

BufferedSends::Handle BufferedSends::together(Handle one, Handle other) {
  if (!is_open(one)) return is_open(other) ? other : Handle{};
  if (!is_open(other) || (one.index == other.index)) return one;
  const Handle made = make(one, 1);
  nodes_[made.index].also = other;
  follow(made, other);
  return made;
}

void BufferedSends::resolve(Handle handle) {
  resolving_.push_back(handle);
  while (!resolving_.empty()) {
    const Handle next = resolving_.back();
    resolving_.pop_back();
    if (!is_open(next)) continue;
    Node& node = nodes_[next.index];
    if (node.missing > 1) {
      --node.missing;
      continue;
    }
    ++node.generation;
    --open_;
    resolving_.insert(resolving_.end(), node.followers.begin(), node.followers.end());
    node.followers.clear();
    free_.push_back(next.index);
  }
}

void BufferedSends::posted(Rank actor, std::uint32_t slot, std::int32_t place) {
  if (open_ == 0 && place < 0 && slot >= slots_.size()) return;
  Slot& mine = slot_of(slot);
  mine.place = place;
  if (open_ == 0) return;  // what a slot held before is resolved
  mine.hangs_on = of(actor);
  mine.node = mine.receive_hangs_on = {};
}

void BufferedSends::waits(Rank actor, std::uint32_t slot, const Send& send, bool is_matched) {
  Slot& mine = slot_of(slot);
  Handle& now = of(actor);
  if (is_matched) {
    if (open_ > 0) now = together(now, mine.receive_hangs_on);
    return;
  }
  if (is_open(mine.node)) return;
  if (open_ == 0) mine.hangs_on = mine.receive_hangs_on = {};
  const Handle made = make(is_open(now) ? now : Handle{}, 1);
  nodes_[made.index].send = send;
  nodes_[made.index].send.place = mine.place;
  mine.node = now = made;
}

void BufferedSends::matched(std::uint32_t send, std::uint32_t receive) {
  if (open_ == 0) return;
  slot_of(std::max(send, receive));  // neither moves from here on
  Slot& from = slots_[send];
  const Handle posted = std::exchange(slots_[receive].hangs_on, from.hangs_on);
  if (!is_open(from.node)) {
    from.receive_hangs_on = posted;
    return;
  }
  const Handle node = from.node;
  if (is_open(posted) && steps_ < kMostSteps) {
    if (!hangs(posted, node)) {
      nodes_[node.index].also = posted;
      follow(node, posted);
      return;
    }
    keep_cycle(node);
  }
  resolve(node);
}

void BufferedSends::received(Rank actor, std::uint32_t slot) {
  if (open_ == 0) return;
  Handle& now = of(actor);
  const bool is_rank = static_cast<std::size_t>(actor) < has_looked_.size();
  if (is_rank && has_looked_[static_cast<std::size_t>(actor)]) return;
  now = together(now, slot_of(slot).hangs_on);
}

void BufferedSends::begun(Rank rank, Rank agent) {
  if (open_ == 0 && static_cast<std::size_t>(agent) >= hangs_on_.size()) return;
  const Handle now = of(rank);
  of(agent) = now;
}

void BufferedSends::ended(Rank agent, std::uint32_t slot) {
  if (open_ > 0) slot_of(slot).hangs_on = of(agent);
}

void BufferedSends::followed(Rank rank, Rank agent) {
  if (open_ == 0) return;
  const Handle its = of(agent);
  Handle& now = of(rank);
  now = together(now, its);
}

bool BufferedSends::hangs(Handle from, Handle on) {
  ++search_;
  stack_.assign(1, from.index);
  nodes_[from.index].visited = search_;
  nodes_[from.index].came_from = kNone;
  while (!stack_.empty()) {
    const std::uint32_t index = stack_.back();
    stack_.pop_back();
    if (index == on.index) return true;
    ++steps_;
    for (const Handle next : {nodes_[index].before, nodes_[index].also}) {
      if (!is_open(next) || nodes_[next.index].visited == search_) continue;
      nodes_[next.index].visited = search_;
      nodes_[next.index].came_from = index;
      stack_.push_back(next.index);
    }
  }
  return false;
}

/// The sends whose receives the path that was found goes through, from the send on.
void BufferedSends::keep_cycle(Handle send) {
  if (cycles_.size() >= kMostCycles) return;
  Cycle cycle{nodes_[send.index].send};
  std::vector<Send> path;
  std::uint32_t after = kNone;
  for (std::uint32_t index = send.index; index != kNone; index = nodes_[index].came_from) {
    const Node& node = nodes_[index];
    const bool is_left_by_receive = after != kNone && is_open(node.also) && node.also.index == after;
    if (node.send.rank >= 0 && index != send.index && is_left_by_receive) path.push_back(node.send);
    after = index;
  }
  cycle.insert(cycle.end(), path.rbegin(), path.rend());
  cycles_.push_back(std::move(cycle));
}

}  // namespace labkit
