#include "labkit/engine/matching.hpp"

#include <algorithm>
#include <utility>

namespace labkit {

std::size_t QueueOrder::place_of(std::uint64_t order) const {
  return static_cast<std::size_t>(std::lower_bound(orders_.begin(), orders_.end(), order) - orders_.begin());
}

void QueueOrder::append(std::uint64_t order) {
  orders_.push_back(order);
  is_queued_.push_back(true);
  const std::size_t i = orders_.size();  // the tree counts from 1; sums_[i - 1] covers the last (i & -i) places
  std::uint32_t sum = 1;
  for (std::size_t step = 1; step < (i & (~i + 1)); step *= 2) sum += sums_[i - step - 1];
  sums_.push_back(sum);
}

void QueueOrder::remove(std::uint64_t order) {
  const std::size_t place = place_of(order);
  is_queued_[place] = false;
  for (std::size_t i = place + 1; i <= sums_.size(); i += i & (~i + 1)) --sums_[i - 1];
  if (2 * ++gone_ < orders_.size() || orders_.size() < 64) return;
  QueueOrder shorter;
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    if (is_queued_[i]) shorter.append(orders_[i]);
  }
  *this = std::move(shorter);
}

std::uint32_t QueueOrder::before(std::uint64_t order) const {
  std::uint32_t sum = 0;
  for (std::size_t i = place_of(order); i > 0; i -= i & (~i + 1)) sum += sums_[i - 1];
  return sum;
}

Matching::Matching(RequestSlab& slab, std::size_t ranks, bool counts_searched)
    : slab_(slab), queues_(2 * ranks), counts_searched_(counts_searched) {}

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
    indexes_[queue.index].matches->add(index);
    if (counts_searched_) indexes_[queue.index].order->append(request.order);
  } else if (queue.length > kLong) {
    make_index(queue);
  }
}

void Matching::unlink(Queue& queue, std::uint32_t index) {
  Request& request = slab_.at(index);
  if (queue.index != kNone) {
    indexes_[queue.index].matches->remove(index);
    if (counts_searched_) indexes_[queue.index].order->remove(request.order);
  }
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
    indexes_[queue.index] = Index{};
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
  Index& index = indexes_[queue.index];
  index.matches = std::make_unique<MatchIndex>(slab_);
  if (counts_searched_) index.order = std::make_unique<QueueOrder>();
  for (std::uint32_t i = queue.head; i != kNone; i = slab_.at(i).next) {
    index.matches->add(i);
    if (counts_searched_) index.order->append(slab_.at(i).order);
  }
}

void Matching::note_search(const Queue& queue, std::uint32_t searcher, std::uint32_t found) {
  std::uint32_t in_vain = queue.length;
  if (found != kNone && queue.index != kNone) {
    in_vain = indexes_[queue.index].order->before(slab_.at(found).order);
  } else if (found != kNone) {
    in_vain = 0;
    for (std::uint32_t i = queue.head; i != found; i = slab_.at(i).next) ++in_vain;
  }
  if (searched_.size() < slab_.slot_count()) searched_.resize(slab_.slot_count());
  searched_[searcher] = in_vain;
  if (found == kNone) return;
  // The two have met: their sum stands with the receive; a copy goes through no queue.
  const bool is_send = slab_.at(searcher).kind == RequestKind::send;
  const std::uint32_t send = is_send ? searcher : found;
  const std::uint32_t sum = slab_.at(send).is_copy ? 0 : in_vain + searched_[found];
  searched_[is_send ? found : searcher] = sum;
  searched_[send] = 0;
}

void Matching::note_claim(std::uint32_t send, std::uint32_t receive) {
  if (!counts_searched_) return;
  if (searched_.size() < slab_.slot_count()) searched_.resize(slab_.slot_count());
  searched_[receive] = std::exchange(searched_[send], 0);
}

std::uint32_t Matching::take_searched(std::uint32_t receive) {
  return receive < searched_.size() ? std::exchange(searched_[receive], 0) : 0;
}

std::uint32_t Matching::take_receive(std::uint32_t send_index) {
  const Request& send = slab_.at(send_index);
  Queue& queue = receives(send.peer);
  const MatchKey message = key_of(send);
  std::uint32_t found = kNone;
  if (queue.index != kNone) {
    found = indexes_[queue.index].matches->oldest_for_message(message);
  } else {
    for (std::uint32_t i = queue.head; i != kNone && found == kNone; i = slab_.at(i).next) {
      if (fits(key_of(slab_.at(i)), message)) found = i;
    }
  }
  if (counts_searched_) note_search(queue, send_index, found);
  if (found != kNone) unlink(queue, found);
  return found;
}

std::uint32_t Matching::find_in_sends(Queue& queue, const MatchKey& pattern) {
  if (queue.index != kNone) {
    return indexes_[queue.index].matches->oldest_for_pattern(pattern, queue.head);
  }
  for (std::uint32_t i = queue.head; i != kNone; i = slab_.at(i).next) {
    if (fits(pattern, key_of(slab_.at(i)))) return i;
  }
  return kNone;
}

std::uint32_t Matching::find_send(Rank rank, Rank source, std::int32_t tag, Context context) {
  return find_in_sends(sends(rank), {source, tag, context});
}

std::uint32_t Matching::take_send(std::uint32_t receive_index) {
  const Request& receive = slab_.at(receive_index);
  Queue& queue = sends(receive.owner);
  const std::uint32_t found = find_in_sends(queue, key_of(receive));
  if (counts_searched_) note_search(queue, receive_index, found);
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
