// Waits on the ranks' time lines.
#include "placed_waits.hpp"

#include <algorithm>
#include <utility>

namespace labkit {
namespace {

bool is_before(const Wait& a, const Wait& b) { return a.rank != b.rank ? a.rank < b.rank : a.begin_s < b.begin_s; }

}  // namespace

void Spans::add(Time begin_s, Time until_s) {
  if (!spans_.empty()) begin_s = std::max(begin_s, over_s());
  if (until_s <= begin_s) return;
  const Time before_s = spans_.empty() ? 0.0 : spans_.back().before_s + over_s() - spans_.back().begin_s;
  spans_.push_back({begin_s, until_s, before_s});
}

Time Spans::between(Time from_s, Time until_s) const {
  const auto sum_until = [&](Time when_s) {
    const auto behind = std::lower_bound(spans_.begin(), spans_.end(), when_s,
                                         [](const Span& span, Time when) { return span.begin_s < when; });
    if (behind == spans_.begin()) return 0.0;
    const Span& last = *(behind - 1);
    return last.before_s + std::min(when_s, last.until_s) - last.begin_s;
  };
  return spans_.empty() || over_s() <= from_s || until_s <= from_s ? 0.0 : sum_until(until_s) - sum_until(from_s);
}

PlacedWaits::PlacedWaits(std::int32_t ranks, const CallColumns& calls, const BlockedColumns& blocked,
                         std::span<const std::size_t> by_end, std::vector<Wait>& known)
    : calls_(calls), known_(std::exchange(known, {})), next_(static_cast<std::size_t>(ranks)),
      last_(static_cast<std::size_t>(ranks)), called_(static_cast<std::size_t>(ranks)),
      blocked_(static_cast<std::size_t>(ranks)), waited_(static_cast<std::size_t>(ranks)) {
  for (std::size_t i = 0; i < calls.rank.size(); ++i) {
    called_[static_cast<std::size_t>(calls.rank[i])].add(calls.begin_s[i], calls.end_s[i]);
  }
  for (const std::size_t row : by_end) {
    blocked_[static_cast<std::size_t>(blocked.rank[row])].add(blocked.begin_s[row], blocked.end_s[row]);
  }
  std::stable_sort(known_.begin(), known_.end(), is_before);
  std::size_t row = 0;
  for (std::size_t rank = 0; rank < next_.size(); ++rank) {
    next_[rank] = row;
    while (row < known_.size() && static_cast<std::size_t>(known_[row].rank) == rank) ++row;
    last_[rank] = row;
  }
}

void PlacedWaits::add(const Blocking& blocking) {
  Wait wait = blocking.wait;
  const Time from_s = wait.begin_s, came_s = blocking.came_s;
  go_on(wait.rank, from_s);
  const Time enter_s = wait.call < 0 ? from_s : calls_.begin_s[static_cast<std::size_t>(wait.call)];
  const Time since_s = ready_since(blocking, enter_s);
  Time late_s = came_s - enter_s;
  if (since_s < enter_s && came_s > since_s) {
    const Time until_s = std::min(came_s, enter_s);
    late_s = std::min(came_s - since_s, std::max(late_s, 0.0) + kept_away(wait.cause, since_s, until_s));
    late_s -= until_s - since_s - blocked_[static_cast<std::size_t>(wait.rank)].between(since_s, until_s);
  }
  if (late_s <= 0.0) return;
  const Spans& own = waited_[static_cast<std::size_t>(wait.rank)];
  late_s -= own.between(since_s, wait.until_s);
  late_s = std::min(late_s, wait.until_s - from_s);
  const Time free_s = std::max(enter_s, own.over_s());
  if (came_s - free_s >= late_s) {  // the last that the rank did before the other side came
    wait.begin_s = came_s - free_s > late_s ? came_s - late_s : free_s;
    wait.until_s = came_s;
  } else {
    wait.begin_s = free_s;
    wait.until_s = std::min(free_s + late_s, wait.until_s);
    wait.came_s = came_s;
  }
  put(wait);
}

Time PlacedWaits::ready_since(const Blocking& blocking, Time enter_s) const {
  if (blocking.wait.call < 0 || blocking.own_call < 0) return enter_s;
  return std::min(enter_s, calls_.begin_s[static_cast<std::size_t>(blocking.own_call)]);
}

Time PlacedWaits::kept_away(std::int32_t rank, Time from_s, Time until_s) {
  go_on(rank, until_s);
  const auto at = static_cast<std::size_t>(rank);
  return until_s - from_s - called_[at].between(from_s, until_s) + waited_[at].between(from_s, until_s);
}

void PlacedWaits::go_on(std::int32_t rank, Time until_s) {
  std::size_t& next = next_[static_cast<std::size_t>(rank)];
  for (; next < last_[static_cast<std::size_t>(rank)] && known_[next].begin_s <= until_s; ++next) put(known_[next]);
}

void PlacedWaits::put(Wait wait) {
  Spans& own = waited_[static_cast<std::size_t>(wait.rank)];
  if (!wait.is_completion()) wait.begin_s = std::max(wait.begin_s, own.over_s());
  if (wait.until_s <= wait.begin_s) return;
  placed_.push_back(wait);
  if (!wait.is_completion()) own.add(wait.begin_s, wait.until_s);
}

std::vector<Wait> PlacedWaits::taken() {
  for (std::size_t rank = 0; rank < next_.size(); ++rank) {
    for (; next_[rank] < last_[rank]; ++next_[rank]) put(known_[next_[rank]]);
  }
  std::stable_sort(placed_.begin(), placed_.end(), is_before);
  return std::exchange(placed_, {});
}

}  // namespace labkit
