// The interpreter of message programs: it drives the engine as any caller does.
#include "labkit/engine/message_program.hpp"

#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace labkit {
namespace {

constexpr std::int64_t kMaxSlot = 1 << 20;

/// What a rank still has to do for the operation it was blocked in.
enum class Pending : std::uint8_t { nothing, release_own, release_any, look_again };

struct RankState {
  std::size_t at = 0;
  std::size_t end = 0;
  Pending pending = Pending::nothing;
  std::vector<RequestId> slots;
  std::vector<std::size_t> listed;  ///< slots of the wait under way
  std::vector<RequestId> own;       ///< requests of the wait under way
  std::vector<Time> marks;
};

class Interpreter {
 public:
  Interpreter(Engine& engine, const MessageProgram& program) : engine_(engine), program_(program) {
    const auto p = static_cast<std::size_t>(engine.rank_count());
    if (program.offsets.size() != p + 1 || program.offsets.back() != program.code.size()) {
      throw std::invalid_argument("a message program needs one list of operations per rank");
    }
    for (std::size_t r = 0; r < p; ++r) {
      if (program.offsets[r] > program.offsets[r + 1]) throw std::invalid_argument("offsets must not descend");
      RankState state;
      state.at = program.offsets[r];
      state.end = program.offsets[r + 1];
      ranks_.push_back(std::move(state));
    }
  }

  /// Runs the rank until it blocks or ends.
  void run(Rank rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    if (!settle(rank, state)) return;
    while (state.at < state.end) {
      if (!step(rank, state)) return;
    }
    engine_.finish(rank);
  }

  [[nodiscard]] std::vector<RankState>& ranks() { return ranks_; }

 private:
  std::int64_t operand(RankState& state) {
    if (state.at >= state.end) throw std::invalid_argument("a message program ends within an operation");
    return program_.code[state.at++];
  }

  std::uint64_t size(RankState& state) {
    const std::int64_t bytes = operand(state);
    if (bytes < 0) throw std::invalid_argument("a message of " + std::to_string(bytes) + " bytes");
    return static_cast<std::uint64_t>(bytes);
  }

  Rank peer(RankState& state, bool may_be_any) {
    const std::int64_t rank = operand(state);
    const bool is_any = may_be_any && rank == kAnySource;
    if (!is_any && (rank < 0 || rank >= engine_.rank_count())) {
      throw std::invalid_argument("rank " + std::to_string(rank) + " does not exist");
    }
    return static_cast<Rank>(rank);
  }

  std::size_t slot(RankState& state) {
    const std::int64_t number = operand(state);
    if (number < 0 || number >= kMaxSlot) {
      throw std::invalid_argument("slot " + std::to_string(number) + " is not in 0 .. 2^20 - 1");
    }
    const auto index = static_cast<std::size_t>(number);
    if (index >= state.slots.size()) state.slots.resize(index + 1);
    return index;
  }

  RequestId send(Rank rank, RankState& state, SendMode mode, bool is_blocking) {
    SendPost post;
    post.rank = rank;
    post.dest = peer(state, false);
    post.tag = static_cast<std::int32_t>(operand(state));
    post.bytes = size(state);
    post.mode = mode;
    post.is_blocking = is_blocking;
    return engine_.send(post);
  }

  RequestId receive(Rank rank, RankState& state) {
    ReceivePost post;
    post.rank = rank;
    post.source = peer(state, true);
    post.tag = static_cast<std::int32_t>(operand(state));
    post.capacity_bytes = size(state);
    return engine_.receive(post);
  }

  /// MPI_Sendrecv with oneself is a copy and costs nothing, unlike a send and a receive.
  [[nodiscard]] bool is_own_copy(Rank rank, const RankState& state) const {
    return state.at + 6 <= state.end && program_.code[state.at] == rank && program_.code[state.at + 3] == rank;
  }

  bool wait_own(Rank rank, RankState& state) {
    state.pending = Pending::release_own;
    return engine_.wait_all(rank, state.own) && settle(rank, state);
  }

  /// Gathers the requests of the slots named; the slots of a wait for all are emptied.
  void list(RankState& state, bool takes_them) {
    state.own.clear();
    state.listed.clear();
    for (std::int64_t n = operand(state); n > 0; --n) {
      const std::size_t index = slot(state);
      if (state.slots[index].is_null()) continue;
      state.own.push_back(state.slots[index]);
      state.listed.push_back(index);
      if (takes_them) state.slots[index] = {};
    }
  }

  bool look(Rank rank, RankState& state) {
    state.pending = Pending::look_again;
    engine_.sleep(rank, engine_.model().test_s);
    return engine_.sync(rank) && settle(rank, state);
  }

  /// Finishes the operation whose wait is over. False: blocked again.
  bool settle(Rank rank, RankState& state) {
    const Pending pending = std::exchange(state.pending, Pending::nothing);
    switch (pending) {
      case Pending::nothing:
        return true;
      case Pending::release_own:
        for (const RequestId id : state.own) engine_.release(id);
        return true;
      case Pending::release_any: {
        const std::size_t which = engine_.any_index(rank);
        engine_.release(state.own[which]);
        state.slots[state.listed[which]] = {};
        return true;
      }
      case Pending::look_again:
        if (!engine_.is_complete(state.own[0])) return look(rank, state);
        engine_.charge(rank, state.own[0]);
        engine_.release(state.own[0]);
        state.slots[state.listed[0]] = {};
        return true;
    }
    return true;
  }

  bool step(Rank rank, RankState& state) {
    switch (static_cast<MessageOp>(operand(state))) {
      case MessageOp::sleep:
        engine_.sleep(rank, static_cast<double>(operand(state)) / 1e9);
        return true;
      case MessageOp::compute:
        return engine_.compute(rank, static_cast<double>(operand(state)) / 1e9);
      case MessageOp::mark:
        state.marks.push_back(engine_.clock(rank));
        return true;
      case MessageOp::wtime:
        (void)engine_.wtime(rank);
        return true;
      case MessageOp::send:
        state.own.assign(1, send(rank, state, SendMode::standard, true));
        return wait_own(rank, state);
      case MessageOp::ssend:
        state.own.assign(1, send(rank, state, SendMode::synchronous, true));
        return wait_own(rank, state);
      case MessageOp::recv:
        state.own.assign(1, receive(rank, state));
        return wait_own(rank, state);
      case MessageOp::sendrecv:
        if (is_own_copy(rank, state)) {
          state.at += 6;
          return true;
        }
        state.own.assign(1, send(rank, state, SendMode::standard, false));
        state.own.push_back(receive(rank, state));
        return wait_own(rank, state);
      default:
        --state.at;
        return step_with_slots(rank, state);
    }
  }

  void fill(RankState& state, std::size_t index, RequestId id) {
    if (!state.slots[index].is_null()) throw std::invalid_argument("a slot is used again before its wait");
    state.slots[index] = id;
  }

  bool step_with_slots(Rank rank, RankState& state) {
    const std::int64_t op = operand(state);
    switch (static_cast<MessageOp>(op)) {
      case MessageOp::isend: {
        const std::size_t index = slot(state);
        fill(state, index, send(rank, state, SendMode::standard, false));
        return true;
      }
      case MessageOp::issend: {
        const std::size_t index = slot(state);
        fill(state, index, send(rank, state, SendMode::synchronous, false));
        return true;
      }
      case MessageOp::irecv: {
        const std::size_t index = slot(state);
        fill(state, index, receive(rank, state));
        return true;
      }
      case MessageOp::wait_all:
        list(state, true);
        return wait_own(rank, state);
      case MessageOp::wait_any:
        list(state, false);
        if (state.own.empty()) return true;
        state.pending = Pending::release_any;
        return engine_.wait_any(rank, state.own) && settle(rank, state);
      case MessageOp::test: {
        const std::size_t index = slot(state);
        if (state.slots[index].is_null()) return true;
        state.own.assign(1, state.slots[index]);
        state.listed.assign(1, index);
        return look(rank, state);
      }
      default:
        throw std::invalid_argument("operation " + std::to_string(op) + " is not known");
    }
  }

  Engine& engine_;
  const MessageProgram& program_;
  std::vector<RankState> ranks_;
};

}  // namespace

MessageProgramResult run_message_program(std::shared_ptr<const Platform> platform, const Model& model,
                                         const std::vector<HostId>& rank_hosts, const MessageProgram& program,
                                         bool keeps_messages, SharingOptions options) {
  Engine engine(std::move(platform), model, rank_hosts, options);
  engine.recorder().keep_messages(keeps_messages);
  Interpreter interpreter(engine, program);
  for (Rank r = 0; r < engine.rank_count(); ++r) engine.start(r);
  Rank rank = -1;
  do {
    while ((rank = engine.next_ready()) >= 0) interpreter.run(rank);
  } while (engine.advance(1u << 20) != Advance::idle);

  MessageProgramResult result;
  for (Rank r = 0; r < engine.rank_count(); ++r) {
    result.finish_s.push_back(engine.clock(r));
    result.marks.push_back(std::move(interpreter.ranks()[static_cast<std::size_t>(r)].marks));
    if (engine.blocked(r) != Blocked::finished) result.unfinished.push_back(r);
  }
  result.messages = engine.recorder().messages();
  result.bytes = engine.recorder().bytes();
  result.events = engine.events();
  result.tolerance_use = engine.tolerance_use();
  result.records.reserve(engine.recorder().rows().size());
  engine.recorder().rows().drain([&](const MessageRecord* rows, std::size_t count, std::size_t) {
    result.records.insert(result.records.end(), rows, rows + count);
  });
  return result;
}

}  // namespace labkit
