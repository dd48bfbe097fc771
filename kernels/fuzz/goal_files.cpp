// Any bytes as a GOAL file: read, or refused with a TraceFault; cut into pieces they read as the whole; what
// was read runs on a small machine.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "labkit/engine/engine.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/trace/goal.hpp"

namespace {

using namespace labkit;

constexpr std::size_t kMostRanks = 16;  // that are run
constexpr std::size_t kMostOps = 400;

struct Reading {
  GoalProgram program;
  std::string said;
  bool is_good = false;
};

Reading read(std::string_view text, std::size_t piece) {
  Reading reading;
  try {
    GoalReader reader("g");
    for (std::size_t at = 0; at < text.size(); at += piece) reader.feed(text.substr(at, piece));
    reading.program = reader.take();
    for (const GoalRank& rank : reading.program.ranks) {
      for (const GoalOp& op : rank.ops) {
        reading.said += std::to_string(static_cast<int>(op.kind)) + ' ' + std::to_string(op.amount) + ' ' +
                        std::to_string(op.peer) + ' ' + std::to_string(op.tag) + ' ' +
                        std::to_string(op.waits_for) + '\n';
      }
      for (const GoalEdge& edge : rank.edges) reading.said += std::to_string(edge.to) + (edge.is_start ? "i" : "r");
    }
    reading.is_good = true;
  } catch (const TraceFault& fault) {
    reading.said = fault.what();
  }
  return reading;
}

void run(const GoalProgram& program) {
  const auto ranks = static_cast<Rank>(program.ranks.size());
  StarSpec star;
  star.hosts = ranks;
  std::vector<HostId> hosts;
  for (Rank rank = 0; rank < ranks; ++rank) hosts.push_back(rank);
  Engine engine(make_star(star), {}, hosts);
  GoalRun goal(engine, program);
  try {
    (void)goal.run([] { return false; });
  } catch (const TraceFault&) {
    return;
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    LABKIT_FUZZ_CHECK(engine.clock(rank) >= 0.0 && !std::isnan(engine.clock(rank)));
    (void)goal.where(rank);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Reading whole = read(text, size + 1);
  LABKIT_FUZZ_CHECK(whole.said == read(text, 7).said);
  std::size_t ops = 0;
  for (const GoalRank& rank : whole.program.ranks) ops += rank.ops.size();
  if (whole.is_good && whole.program.ranks.size() <= kMostRanks && ops <= kMostOps) run(whole.program);
  return 0;
}
