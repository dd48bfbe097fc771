// Operations: an agent goes through messages for a rank while the rank does something else.
//
// What is assumed is that a network adapter, or a thread on a core of its own, carries an operation on at
// every time, whatever its rank does (asynchronous progress). An agent therefore has a clock and waits of its
// own, and pays the overheads of its messages itself; its messages share the rank's network with all others.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "parts.hpp"

namespace labkit {

Rank Engine::owner_of(Rank actor) const { return parts_->owner_of(actor); }

Operation Engine::begin_operation(Rank rank, std::string name) {
  Parts& parts = *parts_;
  if (parts.calls != nullptr) throw std::logic_error("a run that keeps calls has no operations");
  Rank agent = -1;
  // one that ended with posts of a clock ahead must see them act first
  if (!parts.free_agents.empty() && parts.rank(parts.free_agents.front()).queued_posts == 0) {
    agent = parts.free_agents.front();
    parts.free_agents.pop_front();
  } else {
    agent = static_cast<Rank>(parts.ranks.size());
    parts.ranks.emplace_back();
    parts.agents.emplace_back();
  }
  Parts::RankState& state = parts.rank(agent);
  state = Parts::RankState{};
  state.clock = parts.rank(rank).clock;
  state.host = parts.rank(rank).host;

  const std::uint32_t index = parts.slab.allocate();
  Request& request = parts.slab.at(index);
  request.kind = RequestKind::operation;
  request.state = RequestState::posted;
  request.owner = request.actor = rank;
  request.peer = -2;  // nobody in particular
  request.posted_s = state.clock;
  request.is_held = true;
  Parts::Agent& mine = parts.agent(agent);
  mine = {rank, index, parts.recorder.begin_operation(rank, state.clock, std::move(name))};
  request.received_bytes = static_cast<std::uint64_t>(mine.record);
  if (parts.counts) {
    parts.counts->forget(index);
    parts.counts->begun(rank, agent);
  }
  if (parts.buffered) parts.buffered->begun(rank, agent);
  return {agent, parts.slab.id_of(index)};
}

void Engine::follow(Rank rank, Rank agent) {
  Time& clock = parts_->rank(rank).clock;
  clock = std::max(clock, parts_->rank(agent).clock);
  if (parts_->counts) parts_->counts->followed(rank, agent);
  if (parts_->buffered) parts_->buffered->followed(rank, agent);
}

void Engine::end_operation(Rank agent, bool is_clean) {
  Parts& parts = *parts_;
  Parts::Agent& mine = parts.agent(agent);
  const std::uint32_t index = std::exchange(mine.request, kNone);
  const Time at = parts.rank(agent).clock;
  parts.rank(agent).driver = nullptr;
  parts.recorder.end_operation(mine.record, at);
  if (parts.counts) parts.counts->ended(agent, index);
  if (parts.buffered) parts.buffered->ended(agent, index);
  if (is_clean) parts.free_agents.push_back(agent);
  // A rank that has come to that time, or is beyond it, may see it at once.
  if (at <= parts.queue.now() || at <= parts.rank(mine.owner).clock) {
    parts.operation_is_over(index, at);
  } else {
    parts.queue.push(at, {Parts::operation_over, index, 0});
  }
}

void Engine::Parts::operation_is_over(std::uint32_t index, Time at) {
  Request& request = slab.at(index);
  request.state = RequestState::complete;
  request.completion_s = at;
  tell_owner(index);
  retire(index);
}

}  // namespace labkit
