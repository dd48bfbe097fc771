// Message programs: per rank a list of sends, receives, waits and sleeps, run without any Python.
//
// They serve comparisons with other simulators and tests of the engine: the same text runs here
// and, through a C interpreter, under SMPI. No data moves; only times and statuses count.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/engine/engine.hpp"

namespace labkit {

/// Operation codes; the operands follow in the same array of integers.
enum class MessageOp : std::int64_t {
  sleep = 0,     ///< nanoseconds
  mark = 1,      ///< note the rank's clock
  wtime = 2,     ///< charge what MPI_Wtime costs
  send = 3,      ///< destination, tag, bytes
  ssend = 4,     ///< destination, tag, bytes
  isend = 5,     ///< slot, destination, tag, bytes
  issend = 6,    ///< slot, destination, tag, bytes
  recv = 7,      ///< source or -1, tag or -1, bytes
  irecv = 8,     ///< slot, source or -1, tag or -1, bytes
  wait_all = 9,  ///< count, slots
  wait_any = 10,  ///< count, slots; the request that is over leaves its slot empty
  test = 11,      ///< slot: MPI_Test until it succeeds
  sendrecv = 12,  ///< destination, tag, bytes, source, tag, bytes; with oneself: a free copy
  compute = 13,   ///< nanoseconds on a core of its own
};

struct MessageProgramResult {
  std::vector<Time> finish_s;            ///< the clock of each rank at its end
  std::vector<std::vector<Time>> marks;  ///< per rank, in order
  std::vector<Rank> unfinished;          ///< ranks that wait for ever: a deadlock
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;
  Engine::ToleranceUse tolerance_use{};
  std::vector<MessageRecord> records;  ///< when asked for
};

struct MessageProgram {
  std::vector<std::int64_t> code;    ///< the programs of all ranks, one after another
  std::vector<std::size_t> offsets;  ///< size p + 1: where each rank's begins, and the end
};

/// Runs one program per rank on the platform. Throws std::invalid_argument for an unknown
/// operation, a truncated one, a peer or a slot that does not exist, or bad offsets.
MessageProgramResult run_message_program(std::shared_ptr<const Platform> platform, const Model& model,
                                         const std::vector<HostId>& rank_hosts, const MessageProgram& program,
                                         bool keeps_messages, SharingOptions options = {});

}  // namespace labkit
