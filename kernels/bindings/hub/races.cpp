#include "hub/races.hpp"

#include <algorithm>
#include <cstring>

namespace labkit::bindings {

std::uint64_t sum_of_beginning(const char* data, std::uint64_t bytes) {
  constexpr std::uint64_t kMost = 1024;
  std::uint64_t sum = bytes;
  bytes = std::min(bytes, kMost);
  for (std::uint64_t at = 0; at < bytes; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::uint64_t>(sizeof word, bytes - at));
    sum = (sum ^ word) * 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 32U;
  }
  return sum;
}

void Races::matched(const Request& send, const Request& receive, RequestId id, std::uint64_t sum, bool is_wild) {
  const auto rank = static_cast<std::size_t>(receive.owner);
  if (rank < by_rank_.size()) {
    for (Taken& taken : by_rank_[rank].taken) {
      const bool fits = !taken.id.is_null() && taken.context == send.context && taken.source != send.owner &&
                        (taken.tag == kAnyTag || taken.tag == send.tag);
      if (!fits || send.posted_s >= taken.completion_s || taken.sum == sum) continue;
      if (taken.place < 0) taken.rival = send.owner;
      else add(receive.owner, taken, send.owner);
    }
  }
  if (!is_wild) return;
  if (rank >= by_rank_.size()) by_rank_.resize(rank + 1);
  Last& last = by_rank_[rank];
  last.taken[last.next++ % last.taken.size()] = {id, kNever, sum, receive.context, receive.tag, -1, send.owner, -1};
}

void Races::add(Rank rank, const Taken& taken, Rank rival) {
  findings_.add(taken.place, rank, taken.source, rival);
  ++by_rank_[static_cast<std::size_t>(rank)].found;
}

Races::Taken* Races::find(Rank rank, RequestId id) {
  if (!is_watched(rank)) return nullptr;
  for (Taken& taken : by_rank_[static_cast<std::size_t>(rank)].taken) {
    if (taken.id == id) return &taken;
  }
  return nullptr;
}

void Races::finished(Rank rank, RequestId id, Time completion_s, std::int32_t place) {
  Taken* taken = find(rank, id);
  if (taken == nullptr) return;
  if (place < 0) {
    taken->id = {};
    return;
  }
  taken->completion_s = completion_s;
  taken->place = place;
  if (taken->rival >= 0) add(rank, *taken, taken->rival);
}

void Races::found_rival(Rank rank, RequestId id, Rank rival) {
  if (Taken* taken = find(rank, id)) taken->rival = rival;
}

}  // namespace labkit::bindings
