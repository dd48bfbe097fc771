// A run put together call by call, and what the analysis of its waits finds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "labkit/trace/delay_costs.hpp"

namespace labkit::test {

/// A run put together call by call.
struct Case {
  struct Call {
    std::int32_t rank;
    double begin_s, end_s;
    std::int32_t joint = -1;
    Pattern pattern = Pattern::none;
    std::int32_t root = -1;
    bool is_begun = false;
  };
  struct Message {
    std::int32_t source, destination;
    double sent_s, received_s;
  };
  struct Block {
    std::int32_t rank;
    double begin_s, end_s;
    std::int32_t message = -1, begun = -1;
  };
  struct Phase {
    std::int32_t rank, name;
    double begin_s, end_s;
  };
  std::vector<Call> calls;
  std::vector<Message> messages;
  std::vector<Block> blocks;
  std::vector<Phase> phases;
  std::vector<double> ends_s;
  std::vector<std::int32_t> sent_in;  ///< empty: not told

  struct Result {
    WaitStates found;
    Timeline line;
    DelayCosts costs;
    [[nodiscard]] double waiting() const {
      return std::accumulate(found.waits.begin(), found.waits.end(), 0.0, [](double sum, const Wait& w) { return sum + w.seconds(); });
    }
    [[nodiscard]] double costs_of(std::int32_t rank) const {
      double sum = 0.0;
      for (const Delay& delay : costs.delays) sum += delay.rank == rank ? delay.direct_s + delay.indirect_s : 0.0;
      return sum;
    }
    [[nodiscard]] double all_costs() const {
      double sum = 0.0;
      for (const Delay& delay : costs.delays) sum += delay.direct_s + delay.indirect_s;
      return sum;
    }
  };

  Result analyze() {
    std::stable_sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.begin_s < b.begin_s;
    });
    const auto take = [](const auto& rows, auto field) {
      std::vector<std::decay_t<decltype(field(rows[0]))>> column;
      for (const auto& row : rows) column.push_back(field(row));
      return column;
    };
    const auto rank = take(calls, [](const Call& c) { return c.rank; });
    const auto begin = take(calls, [](const Call& c) { return c.begin_s; });
    const auto end = take(calls, [](const Call& c) { return c.end_s; });
    const auto joint = take(calls, [](const Call& c) { return c.joint; });
    const auto pattern = take(calls, [](const Call& c) { return static_cast<std::uint8_t>(c.pattern); });
    const auto begun = take(calls, [](const Call& c) { return static_cast<std::uint8_t>(c.is_begun); });
    const auto root = take(calls, [](const Call& c) { return c.root; });
    const auto what = take(calls, [](const Call& c) { return static_cast<std::int32_t>(c.pattern); });
    const auto source = take(messages, [](const Message& m) { return m.source; });
    const auto destination = take(messages, [](const Message& m) { return m.destination; });
    const auto context = take(messages, [](const Message&) { return std::int32_t{0}; });
    const auto sent = take(messages, [](const Message& m) { return m.sent_s; });
    const auto received = take(messages, [](const Message& m) { return m.received_s; });
    const auto blocked = take(blocks, [](const Block& b) { return b.rank; });
    const auto blocked_begin = take(blocks, [](const Block& b) { return b.begin_s; });
    const auto blocked_end = take(blocks, [](const Block& b) { return b.end_s; });
    const auto message = take(blocks, [](const Block& b) { return b.message; });
    const auto begun_by = take(blocks, [](const Block& b) { return b.begun; });
    const auto phase_rank = take(phases, [](const Phase& p) { return p.rank; });
    const auto phase_name = take(phases, [](const Phase& p) { return p.name; });
    const auto phase_begin = take(phases, [](const Phase& p) { return p.begin_s; });
    const auto phase_end = take(phases, [](const Phase& p) { return p.end_s; });
    const CallColumns columns{rank, begin, end, joint, pattern, begun, root, rank};
    Result out;
    out.found = find_wait_states(static_cast<std::int32_t>(ends_s.size()), columns, {source, destination, context, sent, received, sent_in},
                                 {blocked, blocked_begin, blocked_end, message, begun_by, {}, {}});
    out.line = make_timeline(columns, what, {phase_rank, phase_name, phase_begin, phase_end}, out.found, {}, ends_s);
    out.costs = find_delay_costs(out.found, out.line);
    return out;
  }
};

inline WaitState state_of(const Wait& wait) { return static_cast<WaitState>(wait.state); }

}  // namespace labkit::test
