// One-sided transfers: a rank moves bytes between two ranks, and nothing is matched.
//
// As in SMPI, a put is a message whose two sides the origin posts at once, and a get one that it posts for its
// target: the origin pays what MPI_Isend costs it, the flow starts at once, and whoever waits for the bytes (the
// origin in a flush, the target in a fence) pays for their receipt. A gate is what a rank waits for that is no
// message: a lock that another one holds, a file system that is at work.
#include <stdexcept>
#include <string>

#include "parts.hpp"

namespace labkit {

void Engine::charge_transfer(Rank rank, std::uint64_t bytes) {
  parts_->work(rank, parts_->model.isend_overhead.at(bytes));
}

RequestId Engine::transfer(const TransferPost& post) {
  Parts& parts = *parts_;
  const auto is_rank = [this](Rank rank) { return rank >= 0 && rank < rank_count(); };
  if (!is_rank(post.source) || !is_rank(post.dest)) {
    throw std::invalid_argument("rank " + std::to_string(post.rank) + " moves bytes from rank " +
                                std::to_string(post.source) + " to rank " + std::to_string(post.dest) +
                                "; ranks are 0 to " + std::to_string(rank_count() - 1));
  }
  const std::uint32_t send_index = parts.slab.allocate();
  const std::uint32_t receive_index = parts.slab.allocate();
  Request& send = parts.slab.at(send_index);
  Request& receive = parts.slab.at(receive_index);
  send.kind = RequestKind::send;
  receive.kind = RequestKind::receive;
  for (Request* side : {&send, &receive}) {
    side->state = RequestState::matched;
    side->actor = post.rank;
    side->tag = post.tag;
    side->context = post.context;
    side->bytes = post.bytes;
    side->posted_s = parts.queue.now();
    side->is_detached = true;
  }
  send.owner = receive.peer = receive.source = post.source;
  send.peer = receive.owner = post.dest;
  send.partner = receive_index;
  receive.partner = send_index;
  receive.source_tag = post.tag;
  receive.received_bytes = post.bytes;
  receive.payload = post.payload;
  receive.client = post.client;
  receive.wants_completed = post.client != nullptr;
  receive.is_held = true;
  parts.keep_poster(send_index);
  parts.keep_poster(receive_index);
  if (parts.counts) {
    parts.counts->forget(receive_index);
    parts.counts->sent(post.source, post.rank, send_index, post.bytes);
    parts.counts->paired(send_index, receive_index);
  }
  if (post.source == post.dest && parts.model.is_self_free) {
    send.start_s = receive.start_s = send.arrived_s = parts.queue.now();
    parts.recorder.count(post.bytes);
    parts.finish_pair(send_index, receive_index);
  } else {
    parts.start_flow(receive_index, send_index, receive_index);
  }
  return parts.slab.id_of(receive_index);
}

void Engine::hand_over(RequestId id, Rank rank) {
  Request& request = parts_->live(id);
  if (request.is_waited) throw std::logic_error("a transfer that is waited for is handed over");
  request.actor = rank;
}

RequestId Engine::gate(Rank rank) {
  Parts& parts = *parts_;
  const std::uint32_t index = parts.slab.allocate();
  Request& request = parts.slab.at(index);
  request.kind = RequestKind::operation;
  request.state = RequestState::posted;
  request.owner = request.actor = rank;
  request.peer = -2;  // nobody in particular
  request.posted_s = parts.rank(rank).clock;
  request.received_bytes = static_cast<std::uint64_t>(std::int64_t{-1});  // no row of the recorder
  request.is_held = true;
  if (parts.counts) parts.counts->forget(index);
  return parts.slab.id_of(index);
}

void Engine::open(RequestId id, Time at) {
  Parts& parts = *parts_;
  if (parts.live(id).kind != RequestKind::operation) throw std::logic_error("only a gate can be opened");
  if (at >= parts.queue.now()) {  // what others do at this instant comes before
    parts.queue.push(at, {Parts::operation_over, id.index, 0});
  } else {
    parts.operation_is_over(id.index, parts.queue.now());
  }
}

}  // namespace labkit
