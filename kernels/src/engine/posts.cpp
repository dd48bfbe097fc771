// Posts and protocols: when a message starts, when its two sides may go on.
//
//   detached    payload below the detached threshold, not synchronous: the sender goes on, the
//               bytes are copied, the flow starts when both sides are posted
//   eager       payload below the eager threshold: the sender goes on, the flow starts at once
//   rendezvous  all others: the flow starts when both sides are posted, and ends both
#include <stdexcept>
#include <string>

#include "parts.hpp"

namespace labkit {

RequestId Engine::send(const SendPost& post) {
  Parts& parts = *parts_;
  if (post.dest < 0 || post.dest >= rank_count() || post.tag < 0) {
    throw std::invalid_argument("rank " + std::to_string(post.rank) + " sends to rank " +
                                std::to_string(post.dest) + " with tag " +
                                std::to_string(post.tag) + "; ranks are 0 to " +
                                std::to_string(rank_count() - 1) + ", tags at least 0");
  }
  const Model& model = parts.model;
  const bool is_synchronous = post.mode == SendMode::synchronous;
  const bool is_copy = post.mode == SendMode::copy;
  const bool is_eager = !is_synchronous && !is_copy && post.bytes < model.eager_below_bytes;
  const bool is_detached = !is_synchronous && (is_eager || is_copy || post.mode == SendMode::buffered ||
                                               post.bytes < model.detached_below_bytes);
  // A blocking rendezvous send has no overhead of its own: its sender waits for the flow anyway.
  if (is_copy) {
    // Nothing leaves the rank.
  } else if (!post.is_blocking) {
    parts.work(post.rank, model.isend_overhead.at(post.bytes));
  } else if (is_detached || is_synchronous) {
    parts.work(post.rank, model.send_overhead.at(post.bytes));
  }
  const std::uint32_t index = parts.slab.allocate();
  Request& request = parts.slab.at(index);
  request.kind = RequestKind::send;
  request.bytes = post.bytes;
  request.payload = post.payload;
  request.client = post.client;
  request.owner = parts.owner_of(post.rank);
  request.actor = post.rank;
  request.peer = post.dest;
  request.tag = post.tag;
  request.context = post.context;
  request.is_detached = is_detached;
  request.is_copy = is_copy;
  request.is_eager = is_eager;
  request.may_rely = post.place >= 0 && parts.buffered != nullptr && !is_copy && post.mode != SendMode::buffered;
  request.wants_completed = post.wants_completed;
  if (request.may_rely || parts.hears_sends()) parts.buffered->posted(post.rank, index, post.place);
  if (parts.calls != nullptr) parts.calls->posted(request, index, post.mode, post.is_blocking);
  if (parts.counts) {
    parts.counts->forget(index);
    if (!is_copy) parts.counts->sent(request.owner, post.rank, index, post.bytes);
  }
  return parts.post(index);
}

RequestId Engine::receive(const ReceivePost& post) { return receive_claimed(post, RequestId{}); }

RequestId Engine::receive_claimed(const ReceivePost& post, RequestId claimed_send) {
  Parts& parts = *parts_;
  if (post.source < kAnySource || post.source >= rank_count() || post.tag < kAnyTag) {
    throw std::invalid_argument("rank " + std::to_string(post.rank) + " receives from rank " +
                                std::to_string(post.source) + " with tag " +
                                std::to_string(post.tag) + "; ranks are 0 to " +
                                std::to_string(rank_count() - 1) +
                                " or any (-1), tags at least 0 or any (-1)");
  }
  const std::uint32_t index = parts.slab.allocate();
  Request& request = parts.slab.at(index);
  request.kind = RequestKind::receive;
  request.bytes = post.capacity_bytes;
  request.payload = post.payload;
  request.client = post.client;
  request.owner = parts.owner_of(post.rank);
  request.actor = post.rank;
  request.peer = post.source;
  request.tag = post.tag;
  request.context = post.context;
  request.wants_completed = post.wants_completed;
  if (parts.hears_sends()) parts.buffered->posted(post.rank, index);
  if (parts.calls != nullptr) parts.calls->posted(request, index, SendMode::standard, false);
  if (parts.counts) parts.counts->forget(index);
  if (!claimed_send.is_null()) {
    parts.live(claimed_send);
    request.partner = claimed_send.index;
  }
  return parts.post(index);
}

RequestId Engine::Parts::post(std::uint32_t index) {
  Request& request = slab.at(index);
  RankState& state = rank(request.actor);
  request.posted_s = state.clock;
  request.is_held = true;
  keep_poster(index);
  const RequestId id = slab.id_of(index);
  const bool is_send = request.kind == RequestKind::send;
  if (is_ahead(state)) {
    request.state = RequestState::queued;
    ++state.queued_posts;
    queue.push(state.clock, {is_send ? post_send : post_receive, index, 0});
    if (is_send && request.is_detached) snapshot(request);
  } else if (is_send) {
    act_send(index);
  } else {
    act_receive(index);
  }
  if (is_send && request.is_detached && !is_over(request)) {
    request.completion_s = request.posted_s;
    request.state = RequestState::complete;
    if (request.wants_completed) request.client->completed(request);
  }
  return id;
}

void Engine::Parts::snapshot(Request& send) {
  if (send.client == nullptr || send.has_snapshot) return;
  send.client->snapshot(send);
  send.has_snapshot = true;
}

// A detached send is `complete` for its owner from the start; `is_done` says when the engine has
// finished with it as well.

void Engine::Parts::act_send(std::uint32_t index) {
  Request& send = slab.at(index);
  if (send.state != RequestState::complete) send.state = RequestState::posted;
  const bool is_own = send.owner == send.peer && model.is_self_free;
  if (send.is_eager && !is_own) start_flow(index, index, kNone);
  const std::uint32_t receive = matching.take_receive(index);
  if (receive != kNone) {
    match(index, receive);
    return;
  }
  if (send.is_detached) snapshot(send);
  matching.add_send(index);
  if (rank(send.peer).blocked == Blocked::probe) wake_probe(send.peer, send);
}

void Engine::Parts::act_receive(std::uint32_t index) {
  Request& receive = slab.at(index);
  receive.state = RequestState::posted;
  const bool is_claimed = receive.partner != kNone;
  if (is_claimed) matching.note_claim(receive.partner, index);
  const std::uint32_t send = is_claimed ? receive.partner : matching.take_send(index);
  if (send != kNone) {
    match(send, index);
  } else {
    matching.add_receive(index);
  }
}

void Engine::Parts::match(std::uint32_t send_index, std::uint32_t receive_index) {
  Request& send = slab.at(send_index);
  Request& receive = slab.at(receive_index);
  receive.source = send.owner;
  receive.source_tag = send.tag;
  receive.received_bytes = send.bytes;
  receive.is_truncated = send.bytes > receive.bytes;
  receive.is_detached = send.is_detached && !send.is_copy;
  if (hears_sends()) buffered->matched(send_index, receive_index);
  if (calls != nullptr) calls->matched(receive, receive_index);
  if (counts) counts->paired(send_index, receive_index);
  receive.partner = send_index;
  receive.state = RequestState::matched;
  send.partner = receive_index;
  if (send.state != RequestState::complete) send.state = RequestState::matched;
  if (send.client != nullptr) {
    send.client->deliver(send, receive);
    send.has_snapshot = false;
  }
  if (send.is_copy || (send.owner == send.peer && model.is_self_free)) {
    receive.start_s = send.arrived_s = queue.now();
    if (!send.is_copy) recorder.count(send.bytes);
    finish_pair(send_index, receive_index);
  } else if (!send.is_eager) {
    start_flow(receive_index, send_index, receive_index);
  } else {
    receive.start_s = send.start_s;
    if (send.has_arrived) finish_pair(send_index, receive_index);
  }
}

void Engine::Parts::start_flow(std::uint32_t cookie, std::uint32_t send, std::uint32_t receive) {
  Request& from = slab.at(send);
  from.start_s = queue.now();
  if (receive != kNone) slab.at(receive).start_s = queue.now();
  recorder.count(from.bytes);
  from.way = network.start(rank(from.owner).host, rank(from.peer).host, from.bytes, cookie);
}

void Engine::Parts::flow_over(std::uint32_t cookie) {
  Request& request = slab.at(cookie);
  if (request.kind == RequestKind::receive) {
    slab.at(request.partner).arrived_s = queue.now();
    finish_pair(request.partner, cookie);
    return;
  }
  request.has_arrived = true;
  request.arrived_s = queue.now();
  if (request.partner != kNone) finish_pair(cookie, request.partner);
}

/// The last byte has arrived and the receive is posted.
void Engine::Parts::finish_pair(std::uint32_t send_index, std::uint32_t receive_index) {
  Request& send = slab.at(send_index);
  const Request& receive = slab.at(receive_index);
  if (recorder.keeps_messages()) {
    recorder.keep({send.owner, send.peer, send.tag, send.context, send.bytes, send.posted_s,
                   receive.posted_s, receive.start_s, send.arrived_s, queue.now(), send.way});
    recorder.keep_sides(send_index, receive_index);
  }
  if (!send.is_detached) complete(send_index);
  retire(send_index);
  complete(receive_index);
  retire(receive_index);
}

void Engine::Parts::complete(std::uint32_t index) {
  Request& request = slab.at(index);
  request.state = RequestState::complete;
  request.completion_s = queue.now();
  if (request.wants_completed) request.client->completed(request);
  tell_owner(index);
}

/// The request is over: its owner (or the agent that posted it) may be waiting for it.
void Engine::Parts::tell_owner(std::uint32_t index) {
  Request& request = slab.at(index);
  if (!request.is_waited) return;
  request.is_waited = false;
  const Rank actor = request.actor;
  RankState& state = rank(actor);
  if (state.blocked == Blocked::wait_any) {
    any_completed(actor, index);
    return;
  }
  keep_wait(actor, request);
  charge(state, index, request);
  if (hears_sends()) note_seen(actor, index, request);
  if (--state.missing == 0) make_ready(actor);
}

/// The engine needs the request no more; the slot is free once its owner has released it, too.
void Engine::Parts::retire(std::uint32_t index) {
  Request& request = slab.at(index);
  request.partner = kNone;
  request.is_done = true;
  if (!request.is_held) slab.free(index);
}

void Engine::release(RequestId id) {
  Request& request = parts_->live(id);
  request.is_held = false;
  if (request.is_done) parts_->slab.free(id.index);
}

bool Engine::cancel(RequestId id) {
  Parts& parts = *parts_;
  Request& request = parts.live(id);
  // An eager message is already on the wire.
  if (!request.is_unmatched || request.is_eager) return false;
  parts.matching.remove(id.index);
  if (parts.calls != nullptr) parts.calls->cancelled(request.owner, id.index);
  if (request.has_snapshot) {
    request.client->discard(request);
    request.has_snapshot = false;
  }
  request.state = RequestState::cancelled;
  request.is_done = true;
  return true;
}

Request& Engine::request(RequestId id) { return parts_->live(id); }
const Request& Engine::request(RequestId id) const { return parts_->live(id); }
bool Engine::is_live(RequestId id) const { return parts_->slab.is_live(id); }
bool Engine::is_complete(RequestId id) const { return Parts::is_over(parts_->live(id)); }

Status Engine::status(RequestId id) const {
  const Request& request = parts_->live(id);
  Status status;
  status.is_cancelled = request.state == RequestState::cancelled;
  if (request.kind == RequestKind::receive) {
    status.source = request.source;
    status.tag = request.source_tag;
    status.bytes = request.received_bytes;
    status.is_truncated = request.is_truncated;
  }
  return status;
}

}  // namespace labkit
