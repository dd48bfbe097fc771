#include "labkit/matching.hpp"

namespace labkit {
namespace {

/// Does a receive posted as (source, tag, context) fit a message?
bool fits(Rank source, std::int32_t tag, Context context, const Request& send) {
  return context == send.context && (source == kAnySource || source == send.owner) &&
         (tag == kAnyTag || tag == send.tag);
}

}  // namespace

Matching::Matching(RequestSlab& slab, std::size_t ranks)
    : slab_(slab), receives_(ranks), sends_(ranks) {}

void Matching::append(List& list, std::uint32_t index) {
  Request& request = slab_.at(index);
  request.previous = list.tail;
  request.next = kNone;
  request.is_unmatched = true;
  if (list.tail == kNone) {
    list.head = index;
  } else {
    slab_.at(list.tail).next = index;
  }
  list.tail = index;
}

void Matching::unlink(List& list, std::uint32_t index) {
  Request& request = slab_.at(index);
  request.is_unmatched = false;
  if (request.previous == kNone) {
    list.head = request.next;
  } else {
    slab_.at(request.previous).next = request.next;
  }
  if (request.next == kNone) {
    list.tail = request.previous;
  } else {
    slab_.at(request.next).previous = request.previous;
  }
}

std::uint32_t Matching::take_receive(const Request& send) {
  List& list = receives_[static_cast<std::size_t>(send.peer)];
  for (std::uint32_t i = list.head; i != kNone; i = slab_.at(i).next) {
    const Request& receive = slab_.at(i);
    if (!fits(receive.peer, receive.tag, receive.context, send)) continue;
    unlink(list, i);
    return i;
  }
  return kNone;
}

std::uint32_t Matching::find_send(Rank rank, Rank source, std::int32_t tag, Context context) const {
  const List& list = sends_[static_cast<std::size_t>(rank)];
  for (std::uint32_t i = list.head; i != kNone; i = slab_.at(i).next) {
    if (fits(source, tag, context, slab_.at(i))) return i;
  }
  return kNone;
}

std::uint32_t Matching::take_send(const Request& receive) {
  const std::uint32_t index = find_send(receive.owner, receive.peer, receive.tag, receive.context);
  if (index != kNone) unlink(sends_[static_cast<std::size_t>(receive.owner)], index);
  return index;
}

void Matching::add_receive(std::uint32_t index) {
  append(receives_[static_cast<std::size_t>(slab_.at(index).owner)], index);
}

void Matching::add_send(std::uint32_t index) {
  append(sends_[static_cast<std::size_t>(slab_.at(index).peer)], index);
}

void Matching::remove(std::uint32_t index) {
  const Request& request = slab_.at(index);
  List& list = request.kind == RequestKind::send ? sends_[static_cast<std::size_t>(request.peer)]
                                                 : receives_[static_cast<std::size_t>(request.owner)];
  unlink(list, index);
}

}  // namespace labkit
