// What each rank did, by call path: phases, calls and waits laid over each other.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "labkit/trace/delay_costs.hpp"

namespace labkit {
namespace {

/// The phases of a rank as a line of instants, with the node from each of them on.
class PhaseLine {
 public:
  explicit PhaseLine(std::vector<PhaseNode>& nodes) : nodes_(nodes) {}

  void draw(const SpanColumns& phases, std::span<const std::size_t> rows) {
    at_s_.clear();
    node_.clear();
    open_.clear();
    entered_.assign(1, 0);  // the program itself
    for (const std::size_t row : rows) {
      // Only what takes no time lies in what ends just then.
      const bool is_told = !phases.depth.empty() && phases.end_s[row] == phases.begin_s[row];
      close(phases.begin_s[row], is_told ? static_cast<std::size_t>(phases.depth[row]) : 0);
      const std::int32_t above = open_.empty() ? 0 : open_.back().second;
      const std::int32_t node = below(above, phases.name[row]);
      border(phases.begin_s[row], node);
      open_.emplace_back(phases.end_s[row], node);
      entered_.push_back(node);
    }
    close(std::numeric_limits<double>::infinity());
  }

  /// The node at a time; of an instant at which phases begin and end the first of that name.
  [[nodiscard]] std::int32_t node_called(double when_s, std::int32_t name) const {
    const std::size_t last = after(when_s);
    auto place = static_cast<std::size_t>(std::lower_bound(at_s_.begin(), at_s_.end(), when_s) - at_s_.begin());
    for (; place < last; ++place) {
      if (nodes_[static_cast<std::size_t>(node_before(place))].name == name) return node_before(place);
    }
    return node_before(last);
  }
  [[nodiscard]] std::size_t after(double when_s) const {
    return static_cast<std::size_t>(std::upper_bound(at_s_.begin(), at_s_.end(), when_s) - at_s_.begin());
  }
  /// The node before the place-th instant.
  [[nodiscard]] std::int32_t node_before(std::size_t place) const { return place == 0 ? 0 : node_[place - 1]; }
  [[nodiscard]] std::size_t size() const { return at_s_.size(); }
  [[nodiscard]] double at(std::size_t place) const { return at_s_[place]; }
  /// The nodes in the order in which they were entered, the root first.
  [[nodiscard]] std::span<const std::int32_t> entered() const { return entered_; }

 private:
  /// Those that are over by then; of those that end just then so many stay open.
  void close(double until_s, std::size_t depth = 0) {
    while (!open_.empty() && (open_.back().first < until_s || (open_.back().first == until_s && open_.size() > depth))) {
      const double end_s = open_.back().first;
      open_.pop_back();
      border(end_s, open_.empty() ? 0 : open_.back().second);
    }
  }

  void border(double when_s, std::int32_t node) {
    at_s_.push_back(at_s_.empty() ? when_s : std::max(when_s, at_s_.back()));
    node_.push_back(node);
  }

  std::int32_t below(std::int32_t above, std::int32_t name) {
    const auto [found, is_new] = known_.try_emplace({above, name}, static_cast<std::int32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({above, name});
    return found->second;
  }

  std::vector<PhaseNode>& nodes_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> known_;
  std::vector<double> at_s_;
  std::vector<std::int32_t> node_, entered_;
  std::vector<std::pair<double, std::int32_t>> open_;
};

class Builder {
 public:
  Builder(const CallColumns& calls, std::span<const std::int32_t> what, const WaitStates& found, Timeline& out)
      : calls_(calls), what_(what), found_(found), out_(out), line_(out.nodes) {}

  void rank(std::int32_t rank, const SpanColumns& phases, std::span<const std::size_t> spans, double begin_s, double end_s) {
    line_.draw(phases, spans);
    now_ = 0.0;
    last_ = std::numeric_limits<std::uint32_t>::max();
    end_ = end_s;
    place_ = 0;
    for (const std::int32_t node : line_.entered()) visit(path(node, kComputation));
    if (begin_s > 0.0) put(std::min(begin_s, end_s), path(0, kNotBegun));
    while (call_ < calls_.rank.size() && calls_.rank[call_] == rank) {
      waits(rank, -1, 0, calls_.begin_s[call_]);
      compute(calls_.begin_s[call_]);
      const std::uint32_t own = path(node_of_call(), what_[call_]);
      waits(rank, static_cast<std::int32_t>(call_), own, calls_.end_s[call_]);
      put(calls_.end_s[call_], own);
      visit(own);
      out_.call_path[call_] = static_cast<std::int32_t>(own);
      ++call_;
    }
    waits(rank, -1, 0, std::numeric_limits<double>::infinity());
    compute(end_s);
    for (std::uint32_t one = 0; one < visits_.size(); ++one) {
      if (visits_[one] > 0) out_.visits.push_back({rank, static_cast<std::int32_t>(one), visits_[one]});
      visits_[one] = 0;
    }
  }

 private:
  /// Where the call is in the tree; one that takes no time may be the last of a phase, or the first of the next.
  [[nodiscard]] std::int32_t node_of_call() const {
    const double begin_s = calls_.begin_s[call_];
    const bool takes_time = calls_.phase.empty() || calls_.end_s[call_] > begin_s;
    return takes_time ? line_.node_before(line_.after(begin_s)) : line_.node_called(begin_s, calls_.phase[call_]);
  }

  /// The waits up to a time; those in no call lie in computation.
  void waits(std::int32_t rank, std::int32_t call, std::uint32_t own, double until_s) {
    while (wait_ < found_.waits.size() && found_.waits[wait_].rank == rank && found_.waits[wait_].begin_s < until_s) {
      const Wait& wait = found_.waits[wait_];
      out_.wait_path[wait_] = static_cast<std::int32_t>(own);
      if (!wait.is_completion()) {
        if (call >= 0) {
          put(wait.begin_s, own);
        } else {
          compute(wait.begin_s);
          out_.wait_path[wait_] = static_cast<std::int32_t>(path(line_.node_before(line_.after(wait.begin_s)), kComputation));
        }
        put(wait.until_s, Timeline::kWaiting | static_cast<std::uint32_t>(wait_));
      }
      ++wait_;
    }
  }

  /// Computation until a time, cut at the borders of phases.
  void compute(double until_s) {
    until_s = std::min(until_s, end_);
    place_ = line_.after(now_);
    while (now_ < until_s) {
      const double border = place_ < line_.size() ? line_.at(place_) : until_s;
      put(std::min(border, until_s), path(line_.node_before(place_), kComputation));
      ++place_;
    }
  }

  void put(double until_s, std::uint32_t what) {
    until_s = std::min(until_s, end_);
    if (until_s <= now_) return;
    if (what != last_) {
      out_.begin_s.push_back(now_);
      out_.what.push_back(what);
      last_ = what;
    }
    now_ = until_s;
  }

  void visit(std::uint32_t path) {
    if (path >= visits_.size()) visits_.resize(path + std::size_t{1});
    ++visits_[path];
  }

  std::uint32_t path(std::int32_t node, std::int32_t what) {
    const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(node)) << 32U) | static_cast<std::uint32_t>(what);
    const auto [entry, is_new] = known_.try_emplace(key, static_cast<std::uint32_t>(out_.paths.size()));
    if (is_new) out_.paths.push_back({node, what});
    return entry->second;
  }

  const CallColumns& calls_;
  std::span<const std::int32_t> what_;
  const WaitStates& found_;
  Timeline& out_;
  PhaseLine line_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;  // looked up only: its order does not matter
  std::vector<std::uint64_t> visits_;  ///< of this rank, by path
  std::size_t call_ = 0, wait_ = 0, place_ = 0;
  double now_ = 0.0, end_ = 0.0;
  std::uint32_t last_ = 0;
};

}  // namespace

Timeline make_timeline(const CallColumns& calls, std::span<const std::int32_t> what, const SpanColumns& phases,
                       const WaitStates& found, std::span<const double> begins_s, std::span<const double> ends_s) {
  const std::size_t ranks = ends_s.size(), count = phases.rank.size();
  if (what.size() != calls.rank.size() || (!calls.phase.empty() && calls.phase.size() != what.size()) ||
      phases.name.size() != count || phases.begin_s.size() != count || phases.end_s.size() != count ||
      (!phases.depth.empty() && phases.depth.size() != count) ||
      (!begins_s.empty() && begins_s.size() != ranks)) {
    throw std::invalid_argument("the columns of a time line differ in length");
  }
  const auto is_rank = [&](std::int32_t rank) { return rank >= 0 && static_cast<std::size_t>(rank) < ranks; };
  if (!std::all_of(phases.rank.begin(), phases.rank.end(), is_rank) ||
      !std::all_of(calls.rank.begin(), calls.rank.end(), is_rank)) {
    throw std::invalid_argument("a phase or a call is of a rank that there is not");
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (phases.rank[a] != phases.rank[b]) return phases.rank[a] < phases.rank[b];
    if (phases.begin_s[a] != phases.begin_s[b]) return phases.begin_s[a] < phases.begin_s[b];
    if (!phases.depth.empty()) return a < b;
    if (phases.end_s[a] != phases.end_s[b]) return phases.end_s[a] > phases.end_s[b];
    return a > b;  // of two that share both instants the inner one was over, and is noted, first
  });
  Timeline out;
  out.nodes.push_back({-1, -1});
  out.end_s.assign(ends_s.begin(), ends_s.end());
  out.wait_path.assign(found.waits.size(), 0);
  out.call_path.assign(calls.rank.size(), 0);
  const std::size_t most = 2 * calls.rank.size() + 2 * found.waits.size() + 2 * count + 2 * ranks;
  out.begin_s.reserve(most);
  out.what.reserve(most);
  Builder builder(calls, what, found, out);
  std::size_t low = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out.first.push_back(out.begin_s.size());
    std::size_t high = low;
    while (high < count && static_cast<std::size_t>(phases.rank[order[high]]) == rank) ++high;
    builder.rank(static_cast<std::int32_t>(rank), phases, std::span(order).subspan(low, high - low),
                 begins_s.empty() ? 0.0 : begins_s[rank], ends_s[rank]);
    low = high;
  }
  out.first.push_back(out.begin_s.size());
  return out;
}

}  // namespace labkit
