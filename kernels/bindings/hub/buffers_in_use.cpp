#include "hub/buffers_in_use.hpp"

#include <algorithm>
#include <utility>

namespace labkit::bindings {

BuffersInUse::Clash BuffersInUse::look(Rank rank, const char* data, std::uint64_t bytes, bool is_written) {
  if (!is_used(rank)) return Clash::none;
  const Uses& uses = by_rank_[static_cast<std::size_t>(rank)];
  const char* end = data + bytes;
  if (!is_written && uses.receives == 0) return Clash::none;
  if (bytes == 0 || data >= uses.high || end <= uses.low || steps_ > kMostSteps) return Clash::none;
  steps_ += uses.all.size();
  for (const Use& use : uses.all) {
    if (use.begin >= end || use.end <= data) continue;
    if (use.receive != nullptr) return Clash::with_receive;
    if (is_written) return Clash::with_send;
  }
  return Clash::none;
}

BuffersInUse::Handle BuffersInUse::begin(Rank rank, const char* data, std::uint64_t bytes, Payload* receive) {
  if (bytes == 0) return 0;
  if (static_cast<std::size_t>(rank) >= by_rank_.size()) by_rank_.resize(static_cast<std::size_t>(rank) + 1);
  Uses& uses = by_rank_[static_cast<std::size_t>(rank)];
  const char* end = data + bytes;
  if (uses.all.empty()) {
    uses.low = data;
    uses.high = end;
  } else if (receive != nullptr && uses.receives > 0 && data < uses.high && end > uses.low && steps_ <= kMostSteps) {
    steps_ += uses.all.size();
    const auto other = std::find_if(uses.all.begin(), uses.all.end(), [=](const Use& use) {
      return use.receive != nullptr && use.begin < end && use.end > data;
    });
    if (other != uses.all.end()) join(*receive, *other->receive, other->begin, static_cast<std::uint64_t>(other->end - other->begin));
  }
  uses.low = std::min(uses.low, data);
  uses.high = std::max(uses.high, end);
  Handle handle = 0;
  if (free_.empty()) {
    places_.emplace_back();
    handle = static_cast<Handle>(places_.size());
  } else {
    handle = free_.back();
    free_.pop_back();
  }
  places_[handle - 1] = {rank, static_cast<std::uint32_t>(uses.all.size())};
  uses.all.push_back({data, end, receive, handle});
  uses.receives += receive != nullptr ? 1 : 0;
  return handle;
}

void BuffersInUse::end(Handle& handle) {
  if (handle == 0) return;
  const Place place = places_[handle - 1];
  Uses& uses = by_rank_[static_cast<std::size_t>(place.rank)];
  std::vector<Use>& all = uses.all;
  uses.receives -= all[place.index].receive != nullptr ? 1 : 0;
  all[place.index] = all.back();
  places_[all[place.index].handle - 1].index = place.index;
  all.pop_back();
  free_.push_back(std::exchange(handle, 0));
}

void BuffersInUse::join(Payload& mine, Payload& other, const char* data, std::uint64_t bytes) {
  if (other.clash == 0) {
    if (groups_.size() >= kMostGroups) return;
    Group& made = groups_.emplace_back();
    made.has_sum = other.is_delivered;
    if (made.has_sum) made.sum = sum_of_beginning(data, bytes);
    other.clash = static_cast<std::uint32_t>(groups_.size());
  }
  mine.clash = other.clash;
}

void BuffersInUse::set_line(const Payload& receive, Rank rank, std::int32_t line) {
  Group& group = groups_[receive.clash - 1];
  group.rank = rank;
  group.line = line;
}

void BuffersInUse::delivered(const Payload& to, std::uint64_t sum) {
  Group& group = groups_[to.clash - 1];
  if (group.has_sum && group.sum != sum) findings_.add(group.line, group.rank);
  group.has_sum = true;
  group.sum = sum;
}

}  // namespace labkit::bindings
