#include "labkit/engine/matching.hpp"

namespace labkit {

Matching::Matching(RequestSlab& slab, std::size_t ranks) : slab_(slab), queues_(2 * ranks) {}

void Matching::append(Queue& queue, std::uint32_t index) {
  Request& request = slab_.at(index);
  request.previous = queue.tail;
  request.next = kNone;
  request.is_unmatched = true;
  request.order = order_++;
  if (queue.tail == kNone) {
    queue.head = index;
  } else {
    slab_.at(queue.tail).next = index;
  }
  queue.tail = index;
  ++queue.length;
  if (queue.index != kNone) {
    indexes_[queue.index]->add(index);
  } else if (queue.length > kLong) {
    make_index(queue);
  }
}

void Matching::unlink(Queue& queue, std::uint32_t index) {
  Request& request = slab_.at(index);
  if (queue.index != kNone) indexes_[queue.index]->remove(index);
  request.is_unmatched = false;
  if (request.previous == kNone) {
    queue.head = request.next;
  } else {
    slab_.at(request.previous).next = request.next;
  }
  if (request.next == kNone) {
    queue.tail = request.previous;
  } else {
    slab_.at(request.next).previous = request.previous;
  }
  --queue.length;
  if (queue.length == 0 && queue.index != kNone) {
    indexes_[queue.index].reset();
    free_indexes_.push_back(queue.index);
    queue.index = kNone;
  }
}

void Matching::make_index(Queue& queue) {
  if (free_indexes_.empty()) {
    queue.index = static_cast<std::uint32_t>(indexes_.size());
    indexes_.emplace_back();
  } else {
    queue.index = free_indexes_.back();
    free_indexes_.pop_back();
  }
  indexes_[queue.index] = std::make_unique<MatchIndex>(slab_);
  for (std::uint32_t i = queue.head; i != kNone; i = slab_.at(i).next) {
    indexes_[queue.index]->add(i);
  }
}

std::uint32_t Matching::take_receive(const Request& send) {
  Queue& queue = receives(send.peer);
  const MatchKey message = key_of(send);
  std::uint32_t found = kNone;
  if (queue.index != kNone) {
    found = indexes_[queue.index]->oldest_for_message(message);
  } else {
    for (std::uint32_t i = queue.head; i != kNone && found == kNone; i = slab_.at(i).next) {
      if (fits(key_of(slab_.at(i)), message)) found = i;
    }
  }
  if (found != kNone) unlink(queue, found);
  return found;
}

std::uint32_t Matching::find_in_sends(Queue& queue, const MatchKey& pattern) {
  if (queue.index != kNone) {
    return indexes_[queue.index]->oldest_for_pattern(pattern, queue.head);
  }
  for (std::uint32_t i = queue.head; i != kNone; i = slab_.at(i).next) {
    if (fits(pattern, key_of(slab_.at(i)))) return i;
  }
  return kNone;
}

std::uint32_t Matching::find_send(Rank rank, Rank source, std::int32_t tag, Context context) {
  return find_in_sends(sends(rank), {source, tag, context});
}

std::uint32_t Matching::take_send(const Request& receive) {
  Queue& queue = sends(receive.owner);
  const std::uint32_t found = find_in_sends(queue, key_of(receive));
  if (found != kNone) unlink(queue, found);
  return found;
}

void Matching::add_receive(std::uint32_t index) { append(receives(slab_.at(index).owner), index); }

void Matching::add_send(std::uint32_t index) { append(sends(slab_.at(index).peer), index); }

void Matching::remove(std::uint32_t index) {
  const Request& request = slab_.at(index);
  unlink(request.kind == RequestKind::send ? sends(request.peer) : receives(request.owner), index);
}

}  // namespace labkit
