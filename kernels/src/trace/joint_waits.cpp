// A collective is one call of each of its ranks: who came when says who waited for whom.
#include "joint_waits.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace labkit {
namespace {

/// A test that ends when the last rank comes may end earlier by the rounding of sums of times.
constexpr double kRounding = 1e-12;

/// In which calls a rank waits for a collective: in itself, or in all that waited for what it began.
class Waiters {
 public:
  Waiters(const CallColumns& calls, const BlockedColumns& blocked) : calls_(calls) {
    const std::int32_t last = calls.rank.empty() ? 0 : *std::max_element(calls.rank.begin(), calls.rank.end());
    const CallIndex index(last + 1, calls);
    for (std::size_t i = 0; i < blocked.rank.size(); ++i) {
      const std::int32_t begun = blocked.begun[i];
      if (begun < 0 || calls.is_begun[static_cast<std::size_t>(begun)] == 0) continue;
      const std::int32_t call = index.at(blocked.rank[i], blocked.begin_s[i]);
      if (call >= 0) pairs_.emplace_back(begun, call);
    }
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  }

  /// Calls `each` with the calls, in their order.
  template <class Each>
  void of(std::int32_t row, Each each) const {
    if (calls_.is_begun[static_cast<std::size_t>(row)] == 0) {
      each(row);
      return;
    }
    const Pair first{row, -1};
    for (auto pair = std::lower_bound(pairs_.begin(), pairs_.end(), first); pair != pairs_.end() && pair->first == row;
         ++pair) {
      each(pair->second);
    }
  }

 private:
  using Pair = std::pair<std::int32_t, std::int32_t>;

  const CallColumns& calls_;
  std::vector<Pair> pairs_;  ///< what was begun, and a call in which it was waited for
};

/// One collective at a time.
class Joint {
 public:
  Joint(const CallColumns& calls, const Waiters& waiters, WaitStates& found)
      : calls_(calls), waiters_(waiters), found_(found) {}

  void find(std::span<const std::int32_t> rows) {
    if (rows.size() < 2) return;
    rows_.assign(rows.begin(), rows.end());
    std::stable_sort(rows_.begin(), rows_.end(), [&](std::int32_t a, std::int32_t b) { return came(a) < came(b); });
    switch (static_cast<Pattern>(calls_.pattern[at(rows_[0])])) {
      case Pattern::all:
        everybody(WaitState::wait_at_nxn, WaitState::nxn_completion, true);
        return;
      case Pattern::barrier:
        everybody(WaitState::wait_at_barrier, WaitState::barrier_completion, true);
        return;
      case Pattern::fence:
        everybody(WaitState::wait_at_fence, WaitState::wait_at_fence, false);
        return;
      case Pattern::from_root:
        from_root();
        return;
      case Pattern::to_root:
        to_root();
        return;
      case Pattern::prefix:
        prefix();
        return;
      case Pattern::none:
      case Pattern::neighbors:
        return;
    }
  }

 private:
  static std::size_t at(std::int32_t row) { return static_cast<std::size_t>(row); }
  [[nodiscard]] Time came(std::int32_t row) const { return calls_.begin_s[at(row)]; }
  /// The wait in `call` from then on for the rank whose call is `cause`.
  void add(std::int32_t call, Time from_s, std::int32_t cause, WaitState state) {
    Wait wait;
    wait.rank = calls_.rank[at(call)];
    wait.begin_s = std::max(from_s, came(call));
    wait.until_s = std::min(came(cause), calls_.end_s[at(call)]);
    wait.cause = calls_.rank[at(cause)];
    wait.call = call;
    wait.cause_call = cause;
    wait.state = number(state);
    if (wait.until_s > wait.begin_s && wait.cause != wait.rank) found_.waits.push_back(wait);
  }

  /// The first of those who came at the same time as the last one.
  [[nodiscard]] std::int32_t first_of_last(std::size_t last) const {
    while (last > 0 && came(rows_[last - 1]) == came(rows_[last])) --last;
    return rows_[last];
  }

  void everybody(WaitState state, WaitState completion, bool has_completion) {
    const std::int32_t last = first_of_last(rows_.size() - 1);
    bool is_meeting = true;
    Time first_left_s = calls_.end_s[at(rows_[0])];
    for (const std::int32_t row : rows_) {
      Time left_s = came(row);
      waiters_.of(row, [&](std::int32_t call) { left_s = std::max(left_s, calls_.end_s[at(call)]); });
      is_meeting = is_meeting && calls_.is_begun[at(row)] == 0 && left_s >= came(last);
      first_left_s = std::min(first_left_s, left_s);
      std::size_t place = rows_.size() - 1;  // the last that came while it was there
      if (left_s < came(last) - kRounding * came(last)) {
        while (place > 0 && came(rows_[place]) >= left_s) --place;
      }
      const std::int32_t cause = first_of_last(place);
      waiters_.of(row, [&](std::int32_t call) { add(call, came(call), cause, state); });
    }
    if (!is_meeting) return;
    const auto first = static_cast<std::uint32_t>(found_.members.size());
    for (const std::int32_t row : rows_) found_.members.push_back(calls_.rank[at(row)]);
    std::sort(found_.members.begin() + first, found_.members.end());
    found_.meetings.push_back({came(last), first, static_cast<std::uint32_t>(rows_.size())});
    if (!has_completion) return;
    for (const std::int32_t row : rows_) {
      Wait wait;
      wait.rank = wait.cause = calls_.rank[at(row)];
      wait.begin_s = std::max(first_left_s, came(last));
      wait.until_s = calls_.end_s[at(row)];
      wait.call = wait.cause_call = row;
      wait.state = number(completion);
      if (wait.until_s > wait.begin_s) found_.waits.push_back(wait);
    }
  }

  [[nodiscard]] std::int32_t root() const {
    for (const std::int32_t row : rows_) {
      if (calls_.rank[at(row)] == calls_.root[at(row)]) return row;
    }
    return -1;
  }

  void from_root() {
    const std::int32_t giver = root();
    if (giver < 0) return;
    for (const std::int32_t row : rows_) {
      if (row == giver) continue;
      waiters_.of(row, [&](std::int32_t call) { add(call, came(call), giver, WaitState::late_broadcast); });
    }
  }

  void to_root() {
    const std::int32_t taker = root();
    if (taker < 0) return;
    std::erase(rows_, taker);
    waiters_.of(taker, [&](std::int32_t call) {
      add(call, came(call), rows_.front(), WaitState::early_reduce);
      add(call, came(rows_.front()), first_of_last(rows_.size() - 1), WaitState::wait_at_n_to_one);
    });
  }

  /// Each waits for the last of those before it.
  void prefix() {
    std::sort(rows_.begin(), rows_.end(),
              [&](std::int32_t a, std::int32_t b) { return calls_.position[at(a)] < calls_.position[at(b)]; });
    std::int32_t last = rows_[0];
    for (std::size_t i = 1; i < rows_.size(); ++i) {
      waiters_.of(rows_[i], [&](std::int32_t call) { add(call, came(call), last, WaitState::early_scan); });
      if (came(rows_[i]) > came(last)) last = rows_[i];
    }
  }

  const CallColumns& calls_;
  const Waiters& waiters_;
  WaitStates& found_;
  std::vector<std::int32_t> rows_;
};

}  // namespace

void find_joint_waits(const CallColumns& calls, const BlockedColumns& blocked, WaitStates& found) {
  const std::size_t count = calls.rank.size();
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < count; ++i) {
    if (calls.joint[i] >= 0 && calls.pattern[i] != 0) rows.push_back(static_cast<std::int32_t>(i));
  }
  const auto joint_of = [&](std::int32_t row) { return calls.joint[static_cast<std::size_t>(row)]; };
  std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t a, std::int32_t b) { return joint_of(a) < joint_of(b); });
  const Waiters waiters(calls, blocked);
  Joint joint(calls, waiters, found);
  for (std::size_t low = 0; low < rows.size();) {
    std::size_t high = low;
    while (high < rows.size() && joint_of(rows[high]) == joint_of(rows[low])) ++high;
    joint.find(std::span(rows).subspan(low, high - low));
    low = high;
  }
  std::stable_sort(found.meetings.begin(), found.meetings.end(),
                   [](const Meeting& a, const Meeting& b) { return a.at_s < b.at_s; });
}

InnerWaits::InnerWaits(const CallIndex& index, const CallColumns& calls, const MessageColumns& messages,
                       const BlockedColumns& blocked, std::int32_t ranks)
    : index_(index), calls_(calls), messages_(messages), blocked_(blocked), last_(static_cast<std::size_t>(ranks), -1) {}

void InnerWaits::add(std::size_t row, std::int32_t call, std::vector<Wait>& waits, std::vector<Blocking>& blockings) {
  // What was begun is waited for in another call.
  const std::int32_t own = blocked_.begun[row] >= 0 ? blocked_.begun[row] : call;
  const auto pattern = static_cast<Pattern>(calls_.pattern[static_cast<std::size_t>(own)]);
  const bool is_tree = pattern == Pattern::from_root || pattern == Pattern::to_root || pattern == Pattern::prefix;
  const std::int32_t rank = blocked_.rank[row], message = blocked_.message[row];
  if ((!is_tree && pattern != Pattern::neighbors) || message < 0) return;
  const std::int32_t source = messages_.source[static_cast<std::size_t>(message)];
  if (source == rank) return;
  const Time posted_s = messages_.send_posted_s[static_cast<std::size_t>(message)];
  const std::int32_t sender = sending(source, posted_s, calls_.joint[static_cast<std::size_t>(own)], own != call);
  if (sender < 0) return;
  Row found{blocked_.end_s[row], calls_.begin_s[static_cast<std::size_t>(sender)], sender, call,
            last_[static_cast<std::size_t>(rank)]};
  std::int32_t before = last_[static_cast<std::size_t>(source)];
  while (before >= 0 && rows_[static_cast<std::size_t>(before)].end_s > posted_s) {
    before = rows_[static_cast<std::size_t>(before)].before;
  }
  if (is_tree && before >= 0 && rows_[static_cast<std::size_t>(before)].call == sender &&
      rows_[static_cast<std::size_t>(before)].came_s > found.came_s) {
    found.came_s = rows_[static_cast<std::size_t>(before)].came_s;
    found.cause_call = rows_[static_cast<std::size_t>(before)].cause_call;
  }
  Wait wait;
  wait.rank = rank;
  wait.cause = calls_.rank[static_cast<std::size_t>(found.cause_call)];
  wait.call = call;
  wait.message = message;
  wait.cause_call = found.cause_call;
  keep(found, rank);
  if (wait.cause == rank) return;
  const Time enter_s = calls_.begin_s[static_cast<std::size_t>(call)], came_s = std::min(found.came_s, found.end_s);
  if (came_s <= enter_s) return;
  if (is_tree) {
    wait.begin_s = blocked_.begin_s[row];
    wait.until_s = found.end_s;
    wait.state = number(WaitState::late_member);
    blockings.push_back({wait, came_s, call});
  } else {  // as of other collectives, what a rank does in the call while a neighbor is missing is no progress
    wait.begin_s = enter_s;
    wait.until_s = came_s;
    wait.state = number(WaitState::wait_at_neighbors);
    waits.push_back(wait);
  }
}

void InnerWaits::keep(Row found, std::int32_t rank) {
  std::int32_t& last = last_[static_cast<std::size_t>(rank)];
  if (last >= 0 && rows_[static_cast<std::size_t>(last)].call == found.call &&
      rows_[static_cast<std::size_t>(last)].came_s > found.came_s) {
    found.came_s = rows_[static_cast<std::size_t>(last)].came_s;
    found.cause_call = rows_[static_cast<std::size_t>(last)].cause_call;
  }
  last = static_cast<std::int32_t>(rows_.size());
  rows_.push_back(found);
}

std::int32_t InnerWaits::sending(std::int32_t source, Time posted_s, std::int32_t joint, bool is_begun) const {
  const auto is_it = [&](std::int32_t row) { return calls_.joint[static_cast<std::size_t>(row)] == joint; };
  const auto first = static_cast<std::int32_t>(index_.first(source));
  if (!is_begun) {  // posted at the end of a call, where the next one may begin
    std::int32_t row = index_.at(source, posted_s);
    while (row >= first && !is_it(row) && calls_.end_s[static_cast<std::size_t>(row)] >= posted_s) --row;
    return row >= first && is_it(row) && calls_.end_s[static_cast<std::size_t>(row)] >= posted_s ? row : -1;
  }
  std::int32_t row = static_cast<std::int32_t>(index_.before(source, posted_s)) - 1;
  while (row >= first && !is_it(row)) --row;
  return row >= first ? row : -1;
}

void InnerWaits::add_told(std::size_t row, std::int32_t call, std::vector<Wait>& waits) const {
  Wait wait;
  wait.rank = blocked_.rank[row];
  wait.begin_s = blocked_.begin_s[row];
  wait.until_s = std::min(blocked_.ready_s[row], blocked_.end_s[row]);
  wait.cause = blocked_.origin[row];
  wait.call = call;
  wait.cause_call = index_.at(wait.cause, blocked_.ready_s[row]);
  wait.state = number(WaitState::wait_at_neighbors);
  if (wait.until_s > wait.begin_s && wait.cause != wait.rank) waits.push_back(wait);
}

}  // namespace labkit
