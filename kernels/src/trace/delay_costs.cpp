// Delay costs: forwards for when two ranks last met, backwards for what each wait cost and whom it goes back to.
#include "labkit/trace/delay_costs.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <unordered_map>

namespace labkit {
namespace {

using Index = std::uint32_t;
constexpr std::uint32_t kWaiting = Timeline::kWaiting;

/// When two ranks last met: in pairs, and in collectives of the same members.
class Meetings {
 public:
  explicit Meetings(std::int32_t ranks) : groups_of_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] Time last(std::int32_t a, std::int32_t b) const {
    Time found_s = 0.0;
    if (const auto pair = pairs_.find(key(a, b)); pair != pairs_.end()) found_s = pair->second;
    const auto& first = groups_of_[static_cast<std::size_t>(a)];
    const auto& second = groups_of_[static_cast<std::size_t>(b)];
    for (std::size_t i = 0, j = 0; i < first.size() && j < second.size();) {  // both ascend
      if (first[i] == second[j]) {
        found_s = std::max(found_s, group_s_[first[i]]);
        ++i;
        ++j;
      } else if (first[i] < second[j]) {
        ++i;
      } else {
        ++j;
      }
    }
    return found_s;
  }

  void met(std::int32_t a, std::int32_t b, Time at_s) {
    Time& known_s = pairs_[key(a, b)];
    known_s = std::max(known_s, at_s);
  }

  void met(std::span<const std::int32_t> members, Time at_s) { group_s_[group(members)] = at_s; }

 private:
  static std::uint64_t key(std::int32_t a, std::int32_t b) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(std::min(a, b))) << 32U) |
           static_cast<std::uint32_t>(std::max(a, b));
  }

  /// The number of a set of ranks: found among those of its first member, which has few.
  Index group(std::span<const std::int32_t> members) {
    for (const Index one : groups_of_[static_cast<std::size_t>(members[0])]) {
      if (std::equal(members.begin(), members.end(), members_[one].begin(), members_[one].end())) return one;
    }
    const auto fresh = static_cast<Index>(group_s_.size());
    group_s_.push_back(0.0);
    members_.emplace_back(members.begin(), members.end());
    for (const std::int32_t rank : members) {
      auto& own = groups_of_[static_cast<std::size_t>(rank)];
      if (own.empty() || own.back() != fresh) own.push_back(fresh);
    }
    return fresh;
  }

  std::unordered_map<std::uint64_t, Time> pairs_;  // looked up only: its order does not matter
  std::vector<std::vector<Index>> groups_of_;
  std::vector<std::vector<std::int32_t>> members_;
  std::vector<Time> group_s_;
};

class Costs {
 public:
  Costs(const WaitStates& found, const Timeline& timeline, DelayCosts& out)
      : found_(found), line_(timeline), out_(out), since_s_(found.waits.size(), -1.0),
        direct_s_(timeline.begin_s.size(), 0.0), indirect_s_(timeline.begin_s.size(), 0.0),
        spent_(timeline.paths.size()), is_done_(found.waits.size(), 0) {
    out.direct_s.assign(found.waits.size(), 0.0);
    out.passed_s.assign(found.waits.size(), 0.0);
  }

  void find() {
    order_.resize(found_.waits.size());
    std::iota(order_.begin(), order_.end(), Index{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](Index a, Index b) { return found_.waits[a].until_s < found_.waits[b].until_s; });
    look_back();
    put_causes_first();
    for (std::size_t i = order_.size(); i-- > 0;) share(order_[i]);
    collect();
  }

 private:
  [[nodiscard]] const Wait& wait(Index index) const { return found_.waits[index]; }

  /// Finds since when each wait's two ranks are compared.
  void look_back() {
    Meetings meetings(line_.ranks());
    std::size_t next = 0;
    const auto meet = [&](Time before_s) {
      for (; next < found_.meetings.size() && found_.meetings[next].at_s < before_s; ++next) {
        const Meeting& one = found_.meetings[next];
        meetings.met(std::span(found_.members).subspan(one.first, one.count), one.at_s);
      }
    };
    for (std::size_t low = 0; low < order_.size();) {
      std::size_t high = low;
      const Time until_s = wait(order_[low]).until_s;
      while (high < order_.size() && wait(order_[high]).until_s == until_s) ++high;
      meet(until_s);
      for (std::size_t i = low; i < high; ++i) {
        const Wait& one = wait(order_[i]);
        if (one.cause >= 0 && one.cause != one.rank) since_s_[order_[i]] = meetings.last(one.rank, one.cause);
      }
      for (std::size_t i = low; i < high; ++i) {
        const Wait& one = wait(order_[i]);
        if (one.cause >= 0 && one.cause != one.rank) meetings.met(one.rank, one.cause, until_s);
      }
      low = high;
    }
  }

  /// Of waits that end at one instant those first that others go back to: costs are shared from the last on.
  void put_causes_first() {
    std::vector<Index> group, ready;
    std::vector<std::pair<std::int32_t, Index>> by_rank;
    std::unordered_map<Index, std::uint32_t> open;
    for (std::size_t low = 0; low < order_.size();) {
      std::size_t high = low;
      while (high < order_.size() && wait(order_[high]).until_s == wait(order_[low]).until_s) ++high;
      if (high - low > 1) {
        group.assign(order_.begin() + static_cast<std::ptrdiff_t>(low), order_.begin() + static_cast<std::ptrdiff_t>(high));
        by_rank.clear();
        for (const Index one : group) by_rank.emplace_back(wait(one).rank, one);
        std::sort(by_rank.begin(), by_rank.end());
        const auto of_cause = [&](Index one, auto visit) {
          if (wait(one).cause < 0 || wait(one).cause == wait(one).rank) return;
          auto at = std::lower_bound(by_rank.begin(), by_rank.end(), std::pair(wait(one).cause, Index{0}));
          for (; at != by_rank.end() && at->first == wait(one).cause; ++at) {
            if (!wait(at->second).is_completion()) visit(at->second);
          }
        };
        open.clear();
        for (const Index one : group) of_cause(one, [&](Index cause) { ++open[cause]; });
        ready.clear();
        for (std::size_t i = group.size(); i-- > 0;) {
          if (!open.contains(group[i])) ready.push_back(group[i]);
        }
        std::size_t to = high;
        for (std::size_t i = 0; i < ready.size(); ++i) {
          order_[--to] = ready[i];
          is_done_[ready[i]] = 1;
          of_cause(ready[i], [&](Index cause) {
            if (--open[cause] == 0) ready.push_back(cause);
          });
        }
        for (std::size_t i = group.size(); i-- > 0 && to > low;) {  // times that contradict each other
          if (is_done_[group[i]] == 0) order_[--to] = group[i];
        }
        for (const Index one : group) is_done_[one] = 0;
      }
      low = high;
    }
  }

  /// Calls visit(piece, from, until) for the pieces of a rank's time between two instants.
  template <class Visit>
  void pieces(std::int32_t rank, Time from_s, Time until_s, Visit visit) const {
    const std::size_t first = line_.first[static_cast<std::size_t>(rank)], last = line_.first[static_cast<std::size_t>(rank) + 1];
    const auto begin = line_.begin_s.begin();
    auto at = std::upper_bound(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last), from_s);
    std::size_t piece = static_cast<std::size_t>(at - begin);
    if (piece > first) --piece;
    for (; piece < last && line_.begin_s[piece] < until_s; ++piece) {
      const Time low = std::max(from_s, line_.begin_s[piece]), high = std::min(until_s, line_.end_of(rank, piece));
      if (high > low) visit(piece, low, high);
    }
  }

  /// Gives the cost of a wait to what its cause did longer than the rank that waited.
  void share(Index index) {
    const Wait& one = wait(index);
    is_done_[index] = 1;
    const Time own_s = one.seconds(), passed_s = out_.passed_s[index];
    if (since_s_[index] < 0.0) return keep(index, own_s, passed_s);
    const Time from_s = since_s_[index], came_s = one.cause_came_s();
    const Time until_s = came_s > from_s ? came_s : one.until_s;
    Time waited_s = 0.0;
    touched_.clear();
    pieces(one.cause, from_s, until_s, [&](std::size_t piece, Time low, Time high) {
      const std::uint32_t what = line_.what[piece];
      if ((what & kWaiting) != 0) {
        if (is_done_[what & ~kWaiting] == 0) waited_s += high - low;
        return;
      }
      Spent& spent = spent_[what];
      if (!spent.is_touched) {
        spent = {0.0, 0.0, true};
        touched_.push_back(what);
      }
      spent.cause_s += high - low;
    });
    Time own_waits_s = 0.0;
    pieces(one.rank, from_s, until_s, [&](std::size_t piece, Time low, Time high) {
      const std::uint32_t what = line_.what[piece];
      if (what == (kWaiting | index)) return;
      if ((what & kWaiting) != 0) {
        own_waits_s += high - low;
      } else if (spent_[what].is_touched) {
        spent_[what].own_s += high - low;
      }
    });
    const Time more_waits_s = std::max(0.0, waited_s - own_waits_s);
    Time more_s = more_waits_s;
    for (const std::uint32_t path : touched_) {
      Spent& spent = spent_[path];
      spent.more_s = std::max(0.0, spent.cause_s - spent.own_s);
      more_s += spent.more_s;
    }
    if (more_s > 0.0) {
      out_.direct_s[index] = own_s * ((more_s - more_waits_s) / more_s);
      const double of_waits = more_waits_s > 0.0 ? more_waits_s / more_s / waited_s : 0.0;
      pieces(one.cause, from_s, until_s, [&](std::size_t piece, Time low, Time high) {
        const std::uint32_t what = line_.what[piece];
        if ((what & kWaiting) != 0) {
          if (is_done_[what & ~kWaiting] == 0) out_.passed_s[what & ~kWaiting] += of_waits * (high - low) * (own_s + passed_s);
          return;
        }
        const Spent& spent = spent_[what];
        if (spent.more_s <= 0.0) return;
        const double part = spent.more_s / more_s * ((high - low) / spent.cause_s);
        direct_s_[piece] += part * own_s;
        indirect_s_[piece] += part * passed_s;
      });
    } else {
      keep(index, own_s, passed_s);
    }
    for (const std::uint32_t path : touched_) spent_[path].is_touched = false;
  }

  /// Of what nothing else explains the costs stay with the call that waited.
  void keep(Index index, Time own_s, Time passed_s) {
    const Wait& one = wait(index);
    std::size_t last = line_.first[static_cast<std::size_t>(one.rank)];
    bool is_found = false;
    pieces(one.rank, one.begin_s, one.until_s, [&](std::size_t piece, Time, Time) {
      last = piece;
      is_found = true;
    });
    if (!is_found && last == line_.first[static_cast<std::size_t>(one.rank) + 1]) return;
    out_.direct_s[index] = own_s;
    direct_s_[last] += own_s;
    indirect_s_[last] += passed_s;
  }

  void collect() {
    for (std::int32_t rank = 0; rank < line_.ranks(); ++rank) {
      for (std::size_t piece = line_.first[static_cast<std::size_t>(rank)]; piece < line_.first[static_cast<std::size_t>(rank) + 1]; ++piece) {
        if (direct_s_[piece] <= 0.0 && indirect_s_[piece] <= 0.0) continue;
        out_.delays.push_back({rank, path_of(piece), line_.begin_s[piece], line_.end_of(rank, piece), direct_s_[piece], indirect_s_[piece]});
      }
    }
  }

  [[nodiscard]] std::int32_t path_of(std::size_t piece) const {
    const std::uint32_t what = line_.what[piece];
    return (what & kWaiting) != 0 ? line_.wait_path[what & ~kWaiting] : static_cast<std::int32_t>(what);
  }

  struct Spent {
    Time cause_s = 0.0, own_s = 0.0;
    bool is_touched = false;
    Time more_s = 0.0;
  };

  const WaitStates& found_;
  const Timeline& line_;
  DelayCosts& out_;
  std::vector<Time> since_s_;  ///< by wait; -1: there is nobody to compare with
  std::vector<Time> direct_s_, indirect_s_;  ///< by piece
  std::vector<Spent> spent_;   ///< by path
  std::vector<std::uint32_t> touched_;
  std::vector<Index> order_;
  std::vector<char> is_done_;
};

/// Walks back from the end: on a rank to its last wait, and from there on at the rank that it waited for.
void find_path(const WaitStates& found, const Timeline& line, std::span<const double> begins_s,
               std::span<const std::int32_t> begun_by, DelayCosts& out) {
  const std::int32_t ranks = line.ranks();
  if (ranks == 0) return;
  const auto last = std::max_element(line.end_s.begin(), line.end_s.end());
  auto rank = static_cast<std::int32_t>(last - line.end_s.begin());
  Time now_s = *last;
  std::vector<std::size_t> first(static_cast<std::size_t>(ranks) + 1), open(static_cast<std::size_t>(ranks));
  for (const Wait& wait : found.waits) ++first[static_cast<std::size_t>(wait.rank) + 1];
  for (std::size_t r = 0; r + 1 < first.size(); ++r) {
    first[r + 1] += first[r];
    open[r] = first[r + 1];
  }
  while (now_s > 0.0) {
    const auto index = static_cast<std::size_t>(rank);
    std::size_t& end = open[index];
    while (end > first[index]) {
      const Wait& wait = found.waits[end - 1];
      if (wait.cause >= 0 && wait.cause != rank && wait.until_s <= now_s) break;
      --end;
    }
    const bool is_start = end == first[index];
    const bool is_spawned = is_start && !begun_by.empty() && begun_by[index] >= 0;
    const Time start_s = is_spawned ? std::min(begins_s[index], now_s) : 0.0;
    const Time since_s = is_start ? start_s : found.waits[end - 1].cause_came_s();
    if (now_s > since_s) out.path.push_back({rank, since_s, now_s});
    now_s = since_s;
    if (is_start && !is_spawned) break;
    rank = is_spawned ? begun_by[index] : found.waits[--end].cause;
  }
  std::reverse(out.path.begin(), out.path.end());
}

void sum_up(const Timeline& line, DelayCosts& out) {
  const auto ranks = static_cast<std::size_t>(line.ranks());
  std::vector<CriticalStretch> stretches = out.path;  // by rank; a rank's in the order of time
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const CriticalStretch& a, const CriticalStretch& b) { return a.rank < b.rank; });
  std::vector<PathTotals> sums(line.paths.size());
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t path = 0; path < sums.size(); ++path) {
      sums[path] = {static_cast<std::int32_t>(rank), static_cast<std::int32_t>(path), 0.0, 0.0, 0.0};
    }
    for (std::size_t piece = line.first[rank]; piece < line.first[rank + 1]; ++piece) {
      const Time begin_s = line.begin_s[piece], end_s = line.end_of(static_cast<std::int32_t>(rank), piece);
      const std::uint32_t what = line.what[piece];
      const bool is_waiting = (what & kWaiting) != 0;
      PathTotals& sum = sums[is_waiting ? static_cast<std::size_t>(line.wait_path[what & ~kWaiting]) : what];
      (is_waiting ? sum.waiting_s : sum.seconds) += end_s - begin_s;
      while (next < stretches.size() && static_cast<std::size_t>(stretches[next].rank) == rank && stretches[next].end_s <= begin_s) ++next;
      for (std::size_t at = next; at < stretches.size() && static_cast<std::size_t>(stretches[at].rank) == rank &&
                                  stretches[at].begin_s < end_s; ++at) {
        sum.critical_s += std::max(0.0, std::min(end_s, stretches[at].end_s) - std::max(begin_s, stretches[at].begin_s));
      }
    }
    while (next < stretches.size() && static_cast<std::size_t>(stretches[next].rank) == rank) ++next;
    for (const PathTotals& sum : sums) {
      if (sum.seconds > 0.0 || sum.waiting_s > 0.0) out.totals.push_back(sum);
    }
  }
}

}  // namespace

DelayCosts find_delay_costs(const WaitStates& found, const Timeline& timeline, std::span<const double> begins_s,
                            std::span<const std::int32_t> begun_by) {
  if (timeline.wait_path.size() != found.waits.size()) {
    throw std::invalid_argument("the time line is not that of these waits");
  }
  const auto ranks = static_cast<std::size_t>(timeline.ranks());
  if (!begun_by.empty() && (begun_by.size() != ranks || begins_s.size() != ranks)) {
    throw std::invalid_argument("each rank has one begin, and one rank at most that spawned it");
  }
  for (std::size_t rank = 0; rank < begun_by.size(); ++rank) {
    if (begun_by[rank] < -1 || begun_by[rank] >= static_cast<std::int32_t>(rank)) {
      throw std::invalid_argument("a rank is spawned by one of a smaller number");
    }
  }
  DelayCosts out;
  Costs(found, timeline, out).find();
  find_path(found, timeline, begins_s, begun_by, out);
  sum_up(timeline, out);
  return out;
}

}  // namespace labkit
