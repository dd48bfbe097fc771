#include "labkit/trace/call_sums.hpp"

#include <algorithm>

namespace labkit {

CallSums::State& CallSums::state(Rank rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= states_.size()) states_.resize(index + 1);
  return states_[index];
}

std::int32_t CallSums::name_of(std::string_view phase) {
  if (const auto found = names_.find(phase); found != names_.end()) return found->second;
  const auto number = static_cast<std::int32_t>(texts_.size());
  texts_.emplace_back(phase);
  names_.emplace(texts_.back(), number);
  return number;
}

std::int32_t CallSums::below(std::int32_t node, std::int32_t name) {
  const auto [found, is_new] = below_.try_emplace(pair(node, name), static_cast<std::int32_t>(nodes_.size()));
  if (is_new) {
    const std::string& own = texts_[static_cast<std::size_t>(name)];
    const std::string& above = nodes_[static_cast<std::size_t>(node)].text;
    nodes_.push_back({node == 0 ? own : above + " > " + own, own});
  }
  return found->second;
}

std::int32_t CallSums::path(std::int32_t node, std::int32_t call, std::int32_t place) {
  const Path key{node, call, place};
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<std::int32_t>(paths_.size()));
  if (is_new) paths_.push_back(key);
  return found->second;
}

PathSums& CallSums::of(Rank rank, std::int32_t path) {
  const auto [found, is_new] = at_.try_emplace(pair(rank, path), static_cast<std::uint32_t>(rows_.size()));
  if (is_new) {
    rows_.push_back({.rank = rank, .path = path});
    counts_.resize(counts_.size() + counters_, 0);
  }
  return rows_[found->second];
}

void CallSums::compute(Rank rank, State& state, double now_s, Counted counted) {
  if (state.path >= 0 || now_s <= state.since_s) return;
  spend(rank, state, path(node_of(state), kComputation, -1), now_s, counted);
}

void CallSums::spend(Rank rank, State& state, std::int32_t path, double now_s, Counted counted) {
  if (now_s <= state.since_s) return;
  PathSums& sums = of(rank, path);
  sums.spent_s += now_s - state.since_s;
  state.since_s = now_s;
  if (counted.empty()) return;
  state.counted.resize(counters_, 0);
  std::uint64_t* own = counts_.data() + static_cast<std::size_t>(&sums - rows_.data()) * counters_;
  for (std::size_t i = 0; i < counters_; ++i) own[i] += counted[i] - state.counted[i];
  std::copy(counted.begin(), counted.end(), state.counted.begin());
}

void CallSums::begin(Rank rank, double now_s, Counted counted) {
  State& own = state(rank);
  own.since_s = now_s;
  own.counted.assign(counted.begin(), counted.end());
}

void CallSums::enter(Rank rank, std::string_view phase, double now_s, Counted counted) {
  State& own = state(rank);
  compute(rank, own, now_s, counted);
  const std::int32_t name = name_of(phase);
  own.phases.push_back({name, below(node_of(own), name)});
  // A visit of what it computes there, however long that is.
  ++of(rank, path(own.phases.back().node, kComputation, -1)).visits;
}

void CallSums::leave(Rank rank, std::string_view phase, double now_s, Counted counted) {
  State& own = state(rank);
  compute(rank, own, now_s, counted);
  const std::int32_t name = name_of(phase);
  const auto last = std::find_if(own.phases.rbegin(), own.phases.rend(),
                                 [name](const Entered& one) { return one.name == name; });
  if (last == own.phases.rend()) return;
  auto left = own.phases.erase(std::next(last).base());
  std::int32_t above = left == own.phases.begin() ? 0 : std::prev(left)->node;
  for (; left != own.phases.end(); ++left) above = left->node = below(above, left->name);
}

std::int32_t CallSums::call(Rank rank, std::int32_t name, std::int32_t place, double now_s, Counted counted) {
  State& own = state(rank);
  if (own.path >= 0) over(rank, now_s, counted);
  compute(rank, own, now_s, counted);
  own.path = path(node_of(own), name, place);
  own.call_s = now_s;
  return own.path;
}

void CallSums::over(Rank rank, double now_s, Counted counted) {
  State& own = state(rank);
  const std::int32_t path = std::exchange(own.path, -1);
  if (path < 0) return;
  ++of(rank, path).visits;
  spend(rank, own, path, now_s, counted);
}

std::pair<std::int32_t, double> CallSums::inside(Rank rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= states_.size()) return {-1, 0.0};
  return {states_[index].path, states_[index].call_s};
}

void CallSums::joined(Rank rank, std::int32_t path, std::int64_t bytes, bool has_bytes) {
  PathSums& sums = of(rank, path);
  if (has_bytes) sums.collective_bytes += bytes;
  if (bytes == 0) ++sums.empty_collectives;
}

void CallSums::sent(Rank rank, std::int32_t path, std::int64_t messages, std::int64_t bytes, std::int64_t empty) {
  PathSums& sums = of(rank, path);
  sums.messages += messages;
  sums.bytes += bytes;
  sums.empty_messages += empty;
}

void CallSums::finish(Rank rank, double now_s, Counted counted) {
  State& own = state(rank);
  over(rank, now_s, counted);
  compute(rank, own, now_s, counted);
  ++of(rank, path(0, kComputation, -1)).visits;
}

}  // namespace labkit
