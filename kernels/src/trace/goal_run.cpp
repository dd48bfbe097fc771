// Ranks going through their graphs.
#include <algorithm>
#include <string>

#include "labkit/trace/goal.hpp"

namespace labkit {

GoalRun::GoalRun(Engine& engine, const GoalProgram& program)
    : engine_(engine), program_(program), ranks_(program.ranks.size()) {
  if (program.ranks.size() != static_cast<std::size_t>(engine.rank_count())) {
    throw TraceFault("GOAL of " + std::to_string(program.ranks.size()) + " ranks on an engine with " +
                     std::to_string(engine.rank_count()));
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto& ops = program.ranks[r].ops;
    RankState& state = ranks_[r];
    state.left = ops.size();
    for (std::uint32_t op = 0; op < ops.size(); ++op) {
      state.missing.push_back(ops[op].waits_for);
      if (ops[op].waits_for == 0) (ops[op].kind == GoalKind::calc ? state.calculations : state.messages).push(op);
    }
  }
}

bool GoalRun::run(const std::function<bool()>& look) {
  constexpr std::uint64_t kEventsPerLook = 1 << 16;
  lookout_ = Lookout(look);
  engine_.pause_every(Lookout::kEvery);
  for (Rank r = 0; r < engine_.rank_count(); ++r) engine_.start(r);
  for (;;) {
    for (Rank rank = engine_.next_ready(); rank >= 0 && !lookout_.is_over(); rank = engine_.next_ready()) run_rank(rank);
    if (lookout_.is_over()) return false;
    Advance outcome = engine_.advance(kEventsPerLook);
    while (outcome == Advance::paused && lookout_.look()) outcome = engine_.advance(kEventsPerLook);
    if (outcome == Advance::idle) break;
    if (outcome == Advance::paused || (outcome == Advance::budget && !lookout_.look())) return false;
  }
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& state) { return state.left == 0; });
}

void GoalRun::run_rank(Rank rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (!settle(rank, state)) return;
  while (step(rank, state)) {
    if (!lookout_.step()) return;
  }
  if (state.left == 0) engine_.finish(rank);
}

/// False: the rank is blocked, or has nothing left to do.
bool GoalRun::step(Rank rank, RankState& state) {
  if (!state.messages.empty()) {
    const std::uint32_t op = state.messages.top();
    state.messages.pop();
    post(rank, state, op);
    return true;
  }
  if (!state.calculations.empty()) return calculate(rank, state);
  if (state.open.empty()) return false;
  state.pending = Pending::any;
  return engine_.wait_any(rank, state.open) && settle(rank, state);
}

/// The next calculation. False: the rank is blocked.
bool GoalRun::calculate(Rank rank, RankState& state) {
  state.calculation = state.calculations.top();
  state.calculations.pop();
  reached(rank, state, state.calculation, true);
  const GoalOp& op = program_.ranks[static_cast<std::size_t>(rank)].ops[state.calculation];
  state.pending = Pending::calculation;
  return engine_.compute(rank, static_cast<double>(op.amount) * 1e-9) && settle(rank, state);
}

void GoalRun::post(Rank rank, RankState& state, std::uint32_t index) {
  const GoalOp& op = program_.ranks[static_cast<std::size_t>(rank)].ops[index];
  RequestId id;
  if (op.kind == GoalKind::send) {
    SendPost post;
    post.rank = rank;
    post.dest = op.peer;
    post.tag = op.tag;
    post.bytes = op.amount;
    id = engine_.send(post);
  } else {
    ReceivePost post;
    post.rank = rank;
    post.source = op.peer;
    post.tag = op.tag;
    post.capacity_bytes = op.amount;
    id = engine_.receive(post);
  }
  state.open.push_back(id);
  state.open_ops.push_back(index);
  reached(rank, state, index, true);
  const bool is_gone = op.kind == GoalKind::send && engine_.request(id).is_detached;
  if (is_gone) close(rank, state, state.open.size() - 1);
}

/// The operation has started, or is over: what depended on that may be ready.
void GoalRun::reached(Rank rank, RankState& state, std::uint32_t index, bool is_start) {
  const GoalRank& program = program_.ranks[static_cast<std::size_t>(rank)];
  const std::size_t end = index + 1 < program.ops.size() ? program.ops[index + 1].first_edge : program.edges.size();
  for (std::size_t e = program.ops[index].first_edge; e < end; ++e) {
    const GoalEdge& edge = program.edges[e];
    if (edge.is_start != is_start || --state.missing[edge.to] > 0) continue;
    (program.ops[edge.to].kind == GoalKind::calc ? state.calculations : state.messages).push(edge.to);
  }
}

void GoalRun::close(Rank rank, RankState& state, std::size_t at) {
  const RequestId id = state.open[at];
  const std::uint32_t index = state.open_ops[at];
  const Request& request = engine_.request(id);
  if (request.is_truncated) {
    throw TraceFault(program_.file + ", line " + std::to_string(program_.ranks[static_cast<std::size_t>(rank)].ops[index].line) +
                     ": the message from rank " + std::to_string(request.source) + " has " +
                     std::to_string(request.received_bytes) + " bytes, the recv takes " + std::to_string(request.bytes));
  }
  engine_.release(id);
  state.open.erase(state.open.begin() + static_cast<std::ptrdiff_t>(at));
  state.open_ops.erase(state.open_ops.begin() + static_cast<std::ptrdiff_t>(at));
  --state.left;
  reached(rank, state, index, false);
}

/// Finishes what the rank was blocked in. False: blocked again.
bool GoalRun::settle(Rank rank, RankState& state) {
  switch (std::exchange(state.pending, Pending::nothing)) {
    case Pending::nothing:
      return true;
    case Pending::calculation:
      reached(rank, state, state.calculation, false);
      --state.left;
      if (state.open.empty() || state.calculations.empty()) return true;
      state.pending = Pending::sync;  // what has come meanwhile may have something to send
      return engine_.sync(rank) && settle(rank, state);
    case Pending::any:
      close(rank, state, engine_.any_index(rank));
      return true;
    case Pending::sync:
      for (std::size_t i = 0; i < state.open.size();) {
        if (engine_.is_complete(state.open[i])) {
          engine_.charge(rank, state.open[i]);
          close(rank, state, i);
        } else {
          ++i;
        }
      }
  }
  return true;
}

GoalRun::Where GoalRun::where(Rank rank) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.left == 0 || state.open.empty()) return {};
  const GoalOp& op = program_.ranks[static_cast<std::size_t>(rank)].ops[state.open_ops[0]];
  const bool is_send = op.kind == GoalKind::send;
  return {op.line, (is_send ? "send " : "recv ") + std::to_string(op.amount) + (is_send ? "b to " : "b from ") +
                       (op.peer < 0 ? std::string("any") : std::to_string(op.peer)) + " tag " + std::to_string(op.tag),
          op.peer};
}

}  // namespace labkit
