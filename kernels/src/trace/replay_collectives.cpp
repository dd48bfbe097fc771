// Collective calls of a replay: who comes, with which sizes, by which schedule.
#include <algorithm>
#include <numeric>

#include "labkit/trace/replay.hpp"

namespace labkit {
namespace {

Context collectives(std::uint32_t comm) { return 2 * comm + 1; }

std::string problem_of(TiAction action) {
  return action == TiAction::reduce_scatter ? "reduce_scatter" : std::string(name_of(action));
}

BoundBuffer plain(std::int64_t element_bytes, std::int64_t elements) {
  BoundBuffer buffer;
  buffer.element_bytes = static_cast<std::int32_t>(element_bytes);
  buffer.count = elements;
  return buffer;
}

/// Blocks of args[first], args[first + 1], ... bytes; a schedule of equal blocks takes the first one's size.
BoundBuffer blocks(const std::vector<std::int64_t>& args, std::size_t first, std::size_t count) {
  BoundBuffer buffer;
  buffer.count = args[first];
  buffer.counts.assign(args.begin() + static_cast<std::ptrdiff_t>(first),
                       args.begin() + static_cast<std::ptrdiff_t>(first + count));
  buffer.displacements.assign(count, 0);
  return buffer;
}

}  // namespace

std::int32_t Replay::local_rank(Rank rank, std::uint32_t comm) const {
  return comm == 0 ? rank : local_ranks_.at(comm).at(rank);
}

/// What the choice of the schedule depends on: the same figures as in a program's call.
CollectiveAsked Replay::asked(std::int32_t ranks) const {
  const auto& args = record_.args;
  CollectiveAsked out;
  out.problem = problem_of(record_.action);
  out.ranks = ranks;
  out.is_commutative = !record_.is_ordered;
  out.is_cuttable = !record_.is_whole;
  std::int64_t bytes = 0;
  const auto sum = [&](std::size_t first) {
    return std::accumulate(args.begin() + static_cast<std::ptrdiff_t>(first), args.begin() + static_cast<std::ptrdiff_t>(first) + ranks,
                           std::int64_t{0});
  };
  switch (record_.action) {
    case TiAction::bcast: case TiAction::reduce: case TiAction::allreduce: case TiAction::scan: case TiAction::exscan:
      bytes = args[0] * args[1];
      break;
    case TiAction::gather: case TiAction::allgather: case TiAction::alltoall:
      bytes = args[0];
      break;
    case TiAction::scatter: case TiAction::gatherv: case TiAction::scatterv:
      bytes = args[1];
      break;
    case TiAction::allgatherv: case TiAction::alltoallv:
      bytes = sum(1) / ranks;
      break;
    case TiAction::reduce_scatter:
      bytes = sum(0) / ranks;
      break;
    default:
      break;
  }
  out.bytes = static_cast<std::uint64_t>(bytes);
  if (record_.action == TiAction::gatherv || record_.action == TiAction::scatterv) {
    out.root = static_cast<std::int32_t>(args[0]);
  } else if (record_.action == TiAction::bcast || record_.action == TiAction::reduce ||
             record_.action == TiAction::gather || record_.action == TiAction::scatter) {
    out.root = static_cast<std::int32_t>(args[2]);
  }
  return out;
}

/// The caller's buffers, in the order of labkit.schedule's problems; sizes only.
std::vector<BoundBuffer> Replay::buffers(std::int32_t local) const {
  const auto& args = record_.args;
  const auto p = args.size();
  const auto own = static_cast<std::size_t>(local);
  switch (record_.action) {
    case TiAction::barrier:
      return {};
    case TiAction::bcast:
      return {plain(args[1], args[0])};
    case TiAction::reduce: case TiAction::allreduce: case TiAction::scan: case TiAction::exscan:
      return {plain(args[1], args[0]), plain(args[1], args[0])};
    case TiAction::gather: {
      const BoundBuffer block = plain(1, args[local == args[2] ? 1 : 0]);
      return {block, block};
    }
    case TiAction::scatter: {
      const BoundBuffer block = plain(1, args[local == args[2] ? 0 : 1]);
      return {block, block};
    }
    case TiAction::allgather: case TiAction::alltoall:
      return {plain(1, args[0]), plain(1, args[1])};
    case TiAction::gatherv:
      return {blocks(args, 1, 1), blocks(args, 2, p - 2)};
    case TiAction::scatterv:
      return {blocks(args, 2, p - 2), blocks(args, 1, 1)};
    case TiAction::allgatherv:
      return {blocks(args, 0, 1), blocks(args, 1, p - 1)};
    case TiAction::alltoallv: {
      const auto n = static_cast<std::size_t>(args[0]);
      return {blocks(args, 1, n), blocks(args, 1 + n, n)};
    }
    default:
      return {blocks(args, 0, p), blocks(args, own, 1)};
  }
}

/// A collective's ranks must call the same one, with what MPI wants to be the same everywhere.
void Replay::agree(Rank rank, const OpenCall& call) const {
  const TiRecord& first = call.first;
  bool is_same = first.action == record_.action;
  if (is_same) {
    switch (record_.action) {
      case TiAction::bcast: case TiAction::allreduce: case TiAction::scan: case TiAction::exscan: case TiAction::reduce:
        is_same = first.args[0] * first.args[1] == record_.args[0] * record_.args[1] &&
                  (first.args.size() < 3 || first.args[2] == record_.args[2]);
        break;
      case TiAction::gather: case TiAction::scatter:
        is_same = first.args[2] == record_.args[2];
        break;
      case TiAction::gatherv: case TiAction::scatterv: case TiAction::allgather: case TiAction::alltoall:
        is_same = first.args[0] == record_.args[0];
        break;
      case TiAction::reduce_scatter:
        is_same = first.args == record_.args;
        break;
      default:
        break;
    }
  }
  if (is_same) return;
  fault(rank, "rank " + std::to_string(call.first_rank) + " has `" + text_of(first) + "` (" +
                  trace_.place(call.first_rank, first.line) +
                  "): all ranks must call the same collectives in the same order, with the same sizes and root");
}

Replay::OpenCall& Replay::open_call(Rank rank, RankState& state) {
  const std::uint32_t number = record_.comm == 0 ? state.world_calls++ : state.calls[record_.comm]++;
  auto& call = calls_[{record_.comm, number}];
  if (call != nullptr) {
    agree(rank, *call);
    return *call;
  }
  call = std::make_unique<OpenCall>();
  call->first = record_;
  call->first_rank = rank;
  call->key = {record_.comm, number};
  CollectiveSetup setup;
  setup.context = collectives(record_.comm);
  setup.tag = static_cast<std::int32_t>(number & 0x7fffffffU);
  if (record_.comm != 0) setup.world_ranks = trace_.groups.at(record_.comm);
  const auto size = static_cast<std::int32_t>(record_.comm == 0 ? trace_.ranks.size() : setup.world_ranks.size());
  const CollectiveAsked what = asked(size);
  constexpr std::size_t kMostPrograms = 256;  // each may keep its steps
  if (programs_.size() > kMostPrograms) programs_.clear();
  std::shared_ptr<Program>& program = programs_[what];
  if (program == nullptr) program = choose_(what);
  call->collective = std::make_shared<Collective>(engine_, program, std::move(setup));
  call->has_come.resize(static_cast<std::size_t>(size));
  return *call;
}

bool Replay::collective(Rank rank, RankState& state) {
  OpenCall& call = open_call(rank, state);
  const std::int32_t local = local_rank(rank, record_.comm);
  call.has_come[static_cast<std::size_t>(local)] = true;
  state.call = &call;
  state.flops = record_.amount;
  state.pending = Pending::collective;
  return call.collective->enter(local, buffers(local)) && settle(rank, state);
}

/// The bytes that the rank gives to a collective; of those without tables they are a block's, as they are asked for.
std::uint64_t Replay::given(std::uint64_t block) const {
  const auto& args = record_.args;
  auto first = args.begin(), last = args.end();
  switch (record_.action) {
    case TiAction::allgatherv:
      last = first + 1;
      break;
    case TiAction::alltoallv:
      last = ++first + args.front();
      break;
    case TiAction::reduce_scatter:
      break;
    default:
      return block;
  }
  return static_cast<std::uint64_t>(std::accumulate(first, last, std::int64_t{0}));
}

/// Which communicator's it is, its root, and what the rank gives to it.
void Replay::note_collective(Rank rank, Call& call) const {
  const auto found = trace_.groups.find(record_.comm);
  const bool is_world = record_.comm == 0 || found == trace_.groups.end();
  const auto size = is_world ? engine_.rank_count() : static_cast<Rank>(found->second.size());
  call.comm = static_cast<std::int32_t>(record_.comm);
  call.position = local_rank(rank, record_.comm);
  const CollectiveAsked what = asked(size);
  call.bytes = given(what.bytes);
  const bool is_rooted = what.problem == "bcast" || what.problem == "reduce" || what.problem == "gather" ||
                         what.problem == "gatherv" || what.problem == "scatter" || what.problem == "scatterv";
  if (is_rooted && what.root >= 0 && what.root < size) {
    call.root = is_world ? what.root : found->second[static_cast<std::size_t>(what.root)];
  }
}

bool Replay::finish_collective(Rank rank, RankState& state) {
  OpenCall& call = *std::exchange(state.call, nullptr);
  const std::int32_t local = local_rank(rank, call.key.first);
  call.collective->rethrow(local);
  if (const std::string& reason = call.collective->fault(local); !reason.empty()) fault(rank, reason);
  if (++call.left == call.collective->program().size()) calls_.erase(std::pair(call.key));
  leave_call(rank, state);
  return !(state.flops > 0.0) || compute(rank, state.flops);
}

}  // namespace labkit
