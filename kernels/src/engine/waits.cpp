// Waits, probes, and a rank catching up with its clock.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "parts.hpp"

namespace labkit {

void Engine::Parts::charge_counted(std::uint32_t index, Request& request) {
  if (request.kind == RequestKind::receive) {
    counts->received(request.owner, request.actor, index, request.received_bytes);
  } else if (request.kind == RequestKind::operation) {
    counts->joined(request.actor, index);
  }
  charge_overhead(index, request);
}

/// The owner has seen the request complete: its clock is at least the completion, and a receive
/// from a sender that went on costs `or`. Overheads of several receives add up one after another.
void Engine::Parts::charge(RankState& state, std::uint32_t index, Request& request) {
  state.clock = std::max(state.clock, request.completion_s);
  if (counts) [[unlikely]] {
    charge_counted(index, request);  // the last call: for it, this one, made for every request, keeps no registers
  } else {
    charge_overhead(index, request);
  }
}

void Engine::charge(Rank rank, RequestId id) {
  Request& request = parts_->live(id);
  if (request.state != RequestState::complete) return;
  if (parts_->calls != nullptr) parts_->calls->waited(rank, {&id, 1});
  parts_->charge(parts_->rank(rank), id.index, request);
}

void Engine::Parts::note_wait(Rank r, std::uint32_t index, const Request& request) {
  if (request.state == RequestState::cancelled) return;
  const bool is_matched = request.partner != kNone || request.is_done;
  buffered->waits(r, index, {r, request.peer, request.tag, request.context, request.bytes, -1}, is_matched);
}

void Engine::Parts::note_seen(Rank r, std::uint32_t index, const Request& request) {
  const bool is_fixed = request.kind == RequestKind::receive && request.peer != kAnySource;
  if (is_fixed || request.kind == RequestKind::operation) buffered->received(r, index);
}

bool Engine::sync(Rank rank) {
  Parts::RankState& state = parts_->rank(rank);
  if (!parts_->is_ahead(state)) return true;
  state.blocked = Blocked::sync;
  parts_->queue.push(state.clock, {Parts::catch_up, static_cast<std::uint32_t>(rank), 0});
  return false;
}

bool Engine::wait_all(Rank rank, std::span<const RequestId> ids) {
  Parts& parts = *parts_;
  Parts::RankState& state = parts.rank(rank);
  if (parts.calls != nullptr) parts.calls->waited(rank, ids);
  std::uint32_t missing = 0;
  for (const RequestId id : ids) {
    if (id.is_null()) continue;
    Request& request = parts.live(id);
    if (request.may_rely) [[unlikely]] parts.note_wait(rank, id.index, request);
    if (request.state == RequestState::complete) {
      parts.charge(state, id.index, request);
      if (parts.hears_sends()) parts.note_seen(rank, id.index, request);
    } else if (request.state != RequestState::cancelled && !request.is_waited) {
      request.is_waited = true;
      ++missing;
    }
  }
  if (missing == 0) return true;
  state.missing = missing;
  state.blocked = Blocked::wait_all;
  return false;
}

bool Engine::wait_any(Rank rank, std::span<const RequestId> ids) {
  Parts& parts = *parts_;
  Parts::RankState& state = parts.rank(rank);
  Parts::Detail& detail = parts.details[rank];
  detail.any.assign(ids.begin(), ids.end());
  if (std::all_of(ids.begin(), ids.end(), [](RequestId id) { return id.is_null(); })) {
    throw std::invalid_argument("rank " + std::to_string(rank) + " waits for any of no requests");
  }
  if (!parts.is_ahead(state)) {
    if (parts.try_any(rank)) return true;
    state.blocked = Blocked::wait_any;
    return false;
  }
  state.blocked = Blocked::wait_any;
  state.is_syncing = true;
  parts.queue.push(state.clock, {Parts::catch_up, static_cast<std::uint32_t>(rank), 0});
  return false;
}

std::size_t Engine::any_index(Rank rank) const { return parts_->details.at(rank).any_index; }

/// Takes the first send of the list whose owner went on, as SimGrid does, else the first complete
/// request; otherwise marks them all as waited for.
bool Engine::Parts::try_any(Rank r) {
  Detail& detail = details[r];
  std::size_t found = detail.any.size();
  for (std::size_t i = 0; i < detail.any.size(); ++i) {
    if (detail.any[i].is_null()) continue;
    const Request& request = live(detail.any[i]);
    if (!is_over(request)) continue;
    const bool is_gone_on = request.kind == RequestKind::send && request.is_detached;
    if (is_gone_on || found == detail.any.size()) found = i;
    if (is_gone_on) break;
  }
  if (found < detail.any.size()) {
    Request& request = live(detail.any[found]);
    detail.any_index = found;
    if (calls != nullptr) calls->waited(r, {&detail.any[found], 1});
    if (request.state == RequestState::complete) charge(rank(r), detail.any[found].index, request);
    return true;
  }
  for (const RequestId id : detail.any) {
    if (!id.is_null()) live(id).is_waited = true;
  }
  return false;
}

void Engine::Parts::any_completed(Rank r, std::uint32_t index) {
  Detail& detail = details[r];
  for (std::size_t i = detail.any.size(); i-- > 0;) {
    const RequestId id = detail.any[i];
    if (id.is_null()) continue;
    live(id).is_waited = false;
    if (id.index == index) detail.any_index = i;
  }
  Request& request = slab.at(index);
  keep_wait(r, request);
  if (calls != nullptr) calls->waited(r, {&detail.any[detail.any_index], 1});
  charge(rank(r), index, request);
  make_ready(r);
}

void Engine::Parts::caught_up(Rank r) {
  RankState& state = rank(r);
  if (!state.is_syncing) {
    make_ready(r);
    return;
  }
  state.is_syncing = false;
  if (state.blocked == Blocked::wait_any) {
    if (try_any(r)) make_ready(r);
    return;
  }
  const Detail& detail = details[r];
  if (matching.find_send(r, detail.source, detail.tag, detail.context) != kNone) make_ready(r);
}

bool Engine::probe(Rank rank, Rank source, std::int32_t tag, Context context, Envelope& out) const {
  Parts& parts = *parts_;  // a long queue may build an index
  const std::uint32_t index = parts.matching.find_send(rank, source, tag, context);
  if (index == kNone) return false;
  const Request& send = parts.slab.at(index);
  out = {parts.slab.id_of(index), send.owner, send.tag, send.bytes};
  return true;
}

bool Engine::wait_probe(Rank rank, Rank source, std::int32_t tag, Context context) {
  Parts& parts = *parts_;
  Parts::RankState& state = parts.rank(rank);
  const bool is_ahead = parts.is_ahead(state);
  if (!is_ahead && parts.matching.find_send(rank, source, tag, context) != kNone) return true;
  Parts::Detail& detail = parts.details[rank];
  detail.source = source;
  detail.tag = tag;
  detail.context = context;
  state.blocked = Blocked::probe;
  state.is_syncing = is_ahead;
  if (is_ahead) {
    parts.queue.push(state.clock, {Parts::catch_up, static_cast<std::uint32_t>(rank), 0});
  }
  return false;
}

/// A message has become visible to a rank that is blocked in a probe.
void Engine::Parts::wake_probe(Rank r, const Request& send) {
  RankState& state = rank(r);
  if (state.is_syncing) return;  // it will look when it has caught up
  const Detail& detail = details[r];
  const bool is_wanted = detail.context == send.context &&
                         (detail.source == kAnySource || detail.source == send.owner) &&
                         (detail.tag == kAnyTag || detail.tag == send.tag);
  if (!is_wanted) return;
  recorder.keep_wait({r, -1, state.clock, queue.now(), WaitRecord::kProbe});
  state.clock = std::max(state.clock, queue.now());
  make_ready(r);
}

/// What ended the wait of a rank or an agent, for the records.
void Engine::Parts::keep_wait(Rank r, const Request& ended) {
  if (!recorder.keeps_messages()) return;
  const std::int32_t waiter = is_agent(r) ? agent(r).record : -1;
  const std::int64_t by = ended.kind == RequestKind::operation
                              ? WaitRecord::by_operation(static_cast<std::int64_t>(ended.received_bytes))
                              : recorder.last_row();
  recorder.keep_wait({owner_of(r), waiter, rank(r).clock, queue.now(), by});
}

void Engine::claim(RequestId send) {
  parts_->live(send);
  parts_->matching.remove(send.index);
}

}  // namespace labkit
