// Waits on the ranks' time lines.
#include "placed_waits.hpp"

#include <algorithm>
#include <utility>

namespace labkit {
namespace {

bool is_before(const Wait& a, const Wait& b) { return a.rank != b.rank ? a.rank < b.rank : a.begin_s < b.begin_s; }

}  // namespace

PlacedWaits::PlacedWaits(std::int32_t ranks, const CallIndex& index, const CallColumns& calls, std::vector<Wait>& known)
    : index_(index), calls_(calls), unbroken_(calls.rank.size()), known_(std::exchange(known, {})),
      next_(static_cast<std::size_t>(ranks)), last_(static_cast<std::size_t>(ranks)),
      spans_(static_cast<std::size_t>(ranks)) {
  for (std::size_t i = 0; i < unbroken_.size(); ++i) {
    const bool goes_on = i > 0 && calls.rank[i - 1] == calls.rank[i] && calls.end_s[i - 1] >= calls.begin_s[i];
    unbroken_[i] = goes_on ? unbroken_[i - 1] : static_cast<std::int32_t>(i);
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
    late_s = std::min(came_s - since_s, std::max(late_s, 0.0) + kept_away(wait.cause, since_s, std::min(came_s, enter_s)));
  }
  if (late_s <= 0.0) return;
  late_s -= waited(wait.rank, since_s, wait.until_s);
  late_s = std::min(late_s, wait.until_s - from_s);
  const auto& own = spans_[static_cast<std::size_t>(wait.rank)];
  const Time free_s = own.empty() ? enter_s : std::max(enter_s, own.back().until_s);
  const Time end_s = wait.until_s;
  if (came_s - free_s >= late_s) {  // the last that the rank did before the other side came
    wait.begin_s = came_s - free_s > late_s ? came_s - late_s : free_s;
    wait.until_s = came_s;
  } else {
    wait.begin_s = free_s;
    wait.until_s = std::min(free_s + late_s, end_s);
    wait.came_s = came_s;
  }
  put(wait);
}

Time PlacedWaits::ready_since(const Blocking& blocking, Time enter_s) const {
  if (blocking.wait.call < 0 || blocking.own_call < 0) return enter_s;
  const std::int32_t first = std::max(blocking.own_call, unbroken_[static_cast<std::size_t>(blocking.wait.call)]);
  return std::min(enter_s, calls_.begin_s[static_cast<std::size_t>(first)]);
}

Time PlacedWaits::kept_away(std::int32_t rank, Time from_s, Time until_s) {
  go_on(rank, until_s);
  Time in_calls_s = 0.0, later_s = until_s;
  for (std::size_t behind = index_.before(rank, until_s); behind > index_.first(rank) && later_s > from_s; --behind) {
    const Time begin_s = std::max(from_s, calls_.begin_s[behind - 1]);
    in_calls_s += std::max(0.0, std::min(later_s, calls_.end_s[behind - 1]) - begin_s);
    later_s = begin_s;
  }
  return until_s - from_s - in_calls_s + waited(rank, from_s, until_s);
}

Time PlacedWaits::waited(std::int32_t rank, Time from_s, Time until_s) const {
  const auto& spans = spans_[static_cast<std::size_t>(rank)];
  const auto sum_until = [&](Time when_s) {
    const auto behind = std::lower_bound(spans.begin(), spans.end(), when_s,
                                         [](const Span& span, Time when) { return span.begin_s < when; });
    if (behind == spans.begin()) return 0.0;
    const Span& last = *(behind - 1);
    return last.before_s + std::min(when_s, last.until_s) - last.begin_s;
  };
  return spans.empty() || spans.back().until_s <= from_s ? 0.0 : sum_until(until_s) - sum_until(from_s);
}

void PlacedWaits::go_on(std::int32_t rank, Time until_s) {
  std::size_t& next = next_[static_cast<std::size_t>(rank)];
  for (; next < last_[static_cast<std::size_t>(rank)] && known_[next].begin_s <= until_s; ++next) put(known_[next]);
}

void PlacedWaits::put(Wait wait) {
  auto& spans = spans_[static_cast<std::size_t>(wait.rank)];
  if (!wait.is_completion() && !spans.empty()) wait.begin_s = std::max(wait.begin_s, spans.back().until_s);
  if (wait.until_s <= wait.begin_s) return;
  placed_.push_back(wait);
  if (wait.is_completion()) return;
  const Time before_s = spans.empty() ? 0.0 : spans.back().before_s + spans.back().until_s - spans.back().begin_s;
  spans.push_back({wait.begin_s, wait.until_s, before_s});
}

std::vector<Wait> PlacedWaits::taken() {
  for (std::size_t rank = 0; rank < next_.size(); ++rank) {
    for (; next_[rank] < last_[rank]; ++next_[rank]) put(known_[next_[rank]]);
  }
  std::stable_sort(placed_.begin(), placed_.end(), is_before);
  return std::exchange(placed_, {});
}

}  // namespace labkit
