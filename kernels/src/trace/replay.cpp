// Ranks going through their actions; replay_collectives.cpp has the collectives.
#include "labkit/trace/replay.hpp"

#include <algorithm>
#include <utility>

namespace labkit {
namespace {

constexpr std::uint64_t kEventsPerLook = 1 << 16;

SendMode mode_of(TiAction action) {
  switch (action) {
    case TiAction::ssend: case TiAction::issend: return SendMode::synchronous;
    case TiAction::bsend: case TiAction::ibsend: return SendMode::buffered;
    default: return SendMode::standard;
  }
}

Context point_to_point(std::uint32_t comm) { return 2 * comm; }

}  // namespace

Replay::Replay(Engine& engine, const TiTrace& trace, Choose choose)
    : engine_(engine), trace_(trace), choose_(std::move(choose)) {
  if (trace.ranks.size() != static_cast<std::size_t>(engine.rank_count())) {
    throw TraceFault("a trace of " + std::to_string(trace.ranks.size()) + " ranks on an engine with " +
                     std::to_string(engine.rank_count()));
  }
  ranks_.reserve(trace.ranks.size());
  for (const TiRank& rank : trace.ranks) ranks_.emplace_back(rank.code);
  for (const auto& [comm, members] : trace.groups) {
    auto& local = local_ranks_[comm];
    for (std::size_t i = 0; i < members.size(); ++i) local[members[i]] = static_cast<std::int32_t>(i);
  }
}

void Replay::fault(Rank rank, const std::string& reason) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  throw TraceFault(trace_.place(rank, state.line) + ": rank " + std::to_string(rank) + ", `" + where(rank).action + "`: " + reason);
}

bool Replay::run(const std::function<bool()>& look, Lookout::Clock::duration every) {
  lookout_ = Lookout(look, every);
  engine_.pause_every(every);
  for (Rank r = 0; r < engine_.rank_count(); ++r) engine_.start(r);
  for (;;) {
    for (Rank rank = engine_.next_ready(); rank >= 0 && !lookout_.is_over(); rank = engine_.next_ready()) run_rank(rank);
    if (lookout_.is_over()) return false;
    Advance outcome = engine_.advance(kEventsPerLook);
    while (outcome == Advance::paused && lookout_.look()) outcome = engine_.advance(kEventsPerLook);
    if (outcome == Advance::idle) break;
    if (outcome == Advance::paused || (outcome == Advance::budget && !lookout_.look())) return false;
  }
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& state) { return state.has_ended; });
}

void Replay::run_rank(Rank rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (!settle(rank, state)) return;
  leave_call(rank, state);
  while (state.cursor.next(record_)) {
    state.line = record_.line;
    if (is_noting_) enter_call(rank, state);
    const bool goes_on = step(rank, state);
    if (goes_on) leave_call(rank, state);
    if (!lookout_.step() || !goes_on) return;
  }
  if (state.has_ended || !end(rank, state)) return;
  state.has_ended = true;
  engine_.finish(rank);
}

/// What was posted and never waited for is waited for here, as SimGrid does.
bool Replay::end(Rank rank, RankState& state) { return wait_everything(rank, state); }

RequestId Replay::post_send(Rank rank, SendMode mode, bool is_blocking, std::int64_t dest, std::int64_t tag,
                            std::int64_t bytes) {
  SendPost post;
  post.rank = rank;
  post.dest = static_cast<Rank>(dest);
  post.tag = static_cast<std::int32_t>(tag);
  post.context = point_to_point(record_.comm);
  post.bytes = static_cast<std::uint64_t>(bytes);
  post.mode = mode;
  post.is_blocking = is_blocking;
  return engine_.send(post);
}

RequestId Replay::post_receive(Rank rank, std::int64_t source, std::int64_t tag, std::int64_t bytes) {
  ReceivePost post;
  post.rank = rank;
  post.source = static_cast<Rank>(source);
  post.tag = static_cast<std::int32_t>(tag);
  post.context = point_to_point(record_.comm);
  post.capacity_bytes = bytes < 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(bytes);
  return engine_.receive(post);
}

bool Replay::step(Rank rank, RankState& state) {
  const auto& args = record_.args;
  const auto key = [&](std::int64_t source, std::int64_t dest) {
    return Key{static_cast<Rank>(source), static_cast<Rank>(dest), static_cast<std::int32_t>(args[1]), record_.comm};
  };
  switch (record_.action) {
    case TiAction::compute:
      return compute(rank, record_.amount);
    case TiAction::sleep:
      engine_.sleep(rank, record_.amount);
      return true;
    case TiAction::send: case TiAction::ssend: case TiAction::bsend:
      state.waited.assign(1, post_send(rank, mode_of(record_.action), true, args[0], args[1], args[2]));
      return wait_own(rank, state);
    case TiAction::isend: case TiAction::issend: case TiAction::ibsend:
      add(state, key(rank, args[0]), post_send(rank, mode_of(record_.action), false, args[0], args[1], args[2]));
      return true;
    case TiAction::recv:
      state.waited.assign(1, post_receive(rank, args[0], args[1], args[2]));
      return wait_own(rank, state);
    case TiAction::irecv:
      add(state, key(args[0], rank), post_receive(rank, args[0], args[1], args[2]));
      return true;
    case TiAction::send_recv:
      if (args[1] == rank && args[3] == rank) return true;  // a copy: MPI_Sendrecv with oneself costs nothing
      state.waited.assign(1, post_send(rank, SendMode::standard, false, args[1], 0, args[0]));
      state.waited.push_back(post_receive(rank, args[3], 0, args[2]));
      return wait_own(rank, state);
    case TiAction::wait: case TiAction::wait_all:
      return wait_keys(rank, state);
    case TiAction::test:
      return test(rank, state);
    case TiAction::probe:
      return probe(rank, state);
    case TiAction::phase_begin:
      state.entered.emplace_back(args[0], engine_.clock(rank));
      return true;
    case TiAction::phase_end:
      leave_phase(rank, state);
      return true;
    default:
      return collective(rank, state);
  }
}

/// False: blocked; nothing is left to do when it is over.
bool Replay::compute(Rank rank, double flops) {
  return engine_.compute(rank, flops / engine_.platform().host(engine_.host_of(rank)).speed_flops);
}

void Replay::enter_call(Rank rank, RankState& state) {
  Call call{.rank = rank, .action = record_.action, .begin_s = engine_.clock(rank), .end_s = engine_.clock(rank)};
  switch (record_.action) {
    case TiAction::compute: case TiAction::sleep: case TiAction::phase_begin: case TiAction::phase_end:
      return;
    case TiAction::send: case TiAction::ssend: case TiAction::isend: case TiAction::issend: case TiAction::bsend:
    case TiAction::ibsend: case TiAction::recv: case TiAction::irecv: case TiAction::send_recv: case TiAction::wait:
    case TiAction::wait_all: case TiAction::test: case TiAction::probe:
      break;
    default:
      note_collective(rank, call);
  }
  if (!state.entered.empty()) call.phase = state.entered.back().first;
  state.noted = static_cast<std::int64_t>(noted_.size());
  noted_.push_back(call);
}

/// It is over; it is so before what a collective's own line computes.
void Replay::leave_call(Rank rank, RankState& state) {
  if (state.noted < 0) return;
  noted_[static_cast<std::size_t>(std::exchange(state.noted, -1))].end_s = engine_.clock(rank);
}

/// The innermost open phase of that name is over.
void Replay::leave_phase(Rank rank, RankState& state) {
  const auto found = std::find_if(state.entered.rbegin(), state.entered.rend(),
                                  [&](const auto& phase) { return phase.first == record_.args[0]; });
  if (found == state.entered.rend()) return;
  const auto place = std::next(found).base();
  phases_.push_back({rank, found->first, found->second, engine_.clock(rank), place - state.entered.begin()});
  state.entered.erase(place);
}

// --- open requests --------------------------------------------------------------------------------

void Replay::add(RankState& state, const Key& key, RequestId id) { state.open.push_back({key, id}); }

std::size_t Replay::find(const RankState& state, const Key& key, std::uint32_t nth) const {
  for (std::size_t i = state.head; i < state.open.size(); ++i) {
    if (!state.open[i].id.is_null() && state.open[i].key == key && nth-- == 0) return i;
  }
  return state.open.size();
}

void Replay::take(RankState& state, std::size_t index) {
  state.open[index].id = {};
  ++state.taken;
  while (state.head < state.open.size() && state.open[state.head].id.is_null()) {
    ++state.head;
    --state.taken;
  }
  if (state.head == state.open.size()) {
    state.open.clear();
    state.head = 0;
  } else if (state.head + state.taken > 64 && 2 * (state.head + state.taken) > state.open.size()) {
    std::erase_if(state.open, [](const Open& open) { return open.id.is_null(); });
    state.head = state.taken = 0;
  }
}

// --- waits ----------------------------------------------------------------------------------------

bool Replay::wait_own(Rank rank, RankState& state) {
  state.pending = Pending::requests;
  return engine_.wait_all(rank, state.waited) && settle(rank, state);
}

/// wait and waitall: a waitall that names no keys takes everything that is open.
bool Replay::wait_keys(Rank rank, RankState& state) {
  const auto& args = record_.args;
  if (record_.action == TiAction::wait_all && args.size() == 1) return wait_everything(rank, state);
  state.waited.clear();
  for (std::size_t i = record_.action == TiAction::wait ? 0 : 1; i < args.size(); i += 3) {
    const Key key{static_cast<Rank>(args[i]), static_cast<Rank>(args[i + 1]), static_cast<std::int32_t>(args[i + 2]),
                  record_.comm};
    const std::size_t index = find(state, key, record_.nth);
    if (index == state.open.size()) {
      ++idle_waits_;
      continue;
    }
    state.waited.push_back(state.open[index].id);
    take(state, index);
  }
  return state.waited.empty() || wait_own(rank, state);
}

bool Replay::wait_everything(Rank rank, RankState& state) {
  state.waited.clear();
  for (std::size_t i = state.head; i < state.open.size(); ++i) {
    if (!state.open[i].id.is_null()) state.waited.push_back(state.open[i].id);
  }
  state.open.clear();
  state.head = state.taken = 0;
  return state.waited.empty() || wait_own(rank, state);
}

bool Replay::test(Rank rank, RankState& state) {
  const auto& args = record_.args;
  state.tested = find(state, {static_cast<Rank>(args[0]), static_cast<Rank>(args[1]), static_cast<std::int32_t>(args[2]),
                              record_.comm}, 0);
  if (state.tested == state.open.size()) return true;
  constexpr double kLeast_s = 1e-9;  // never nothing, as in programs: a polling loop lets time pass
  engine_.sleep(rank, std::max(engine_.model().test_s, kLeast_s));
  state.pending = Pending::test;
  return engine_.sync(rank) && settle(rank, state);
}

bool Replay::probe(Rank rank, RankState& state) {
  const auto& args = record_.args;
  state.pending = Pending::probe;
  return engine_.wait_probe(rank, static_cast<Rank>(args[0]), static_cast<std::int32_t>(args[1]),
                            point_to_point(record_.comm)) &&
         settle(rank, state);
}

void Replay::release(Rank rank, RankState& state) {
  for (const RequestId id : state.waited) {
    const Request& request = engine_.request(id);
    if (request.is_truncated) {
      fault(rank, "the message from rank " + std::to_string(request.source) + " has " +
                      std::to_string(request.received_bytes) + " bytes, the receive takes " + std::to_string(request.bytes));
    }
    engine_.release(id);
  }
  state.waited.clear();
}

/// Finishes the action whose wait is over. False: blocked again.
bool Replay::settle(Rank rank, RankState& state) {
  switch (std::exchange(state.pending, Pending::nothing)) {
    case Pending::nothing: case Pending::probe:
      return true;
    case Pending::requests:
      release(rank, state);
      return true;
    case Pending::test: {
      const RequestId id = state.open[state.tested].id;
      if (!engine_.is_complete(id)) return true;
      engine_.charge(rank, id);
      take(state, state.tested);
      state.waited.assign(1, id);
      release(rank, state);
      return true;
    }
    case Pending::collective:
      return finish_collective(rank, state);
  }
  return true;
}

Replay::Where Replay::where(Rank rank) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  Where where;
  where.is_finished = state.has_ended;
  where.line = state.line;
  TiCode::Cursor cursor(trace_.ranks[static_cast<std::size_t>(rank)].code, true);
  TiRecord record;
  while (cursor.next(record) && record.line != state.line) {
  }
  if (record.line == state.line && state.line > 0) where.action = text_of(record);
  if (state.call != nullptr) {
    const auto found = trace_.groups.find(state.call->key.first);
    for (std::size_t i = 0; i < state.call->has_come.size(); ++i) {
      if (!state.call->has_come[i]) where.peers.push_back(found == trace_.groups.end() ? static_cast<Rank>(i) : found->second[i]);
    }
    return where;
  }
  for (const RequestId id : state.waited) {
    if (!engine_.is_live(id)) continue;  // given back just before the one that is at fault
    const Request& request = engine_.request(id);
    if (request.state == RequestState::complete) continue;
    if (request.peer == kAnySource) return where.peers.clear(), where;
    if (std::find(where.peers.begin(), where.peers.end(), request.peer) == where.peers.end()) {
      where.peers.push_back(request.peer);
    }
  }
  if (state.pending == Pending::probe && record.args[0] >= 0) where.peers.push_back(static_cast<Rank>(record.args[0]));
  return where;
}

}  // namespace labkit
