// Any bytes as a time-independent trace: read, or refused with a TraceFault; cut into pieces they read as the
// whole; what was read is replayed on a small machine, to its end or to a fault, in finite time.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "labkit/engine/engine.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/trace/replay.hpp"
#include "labkit/trace/ti_reader.hpp"

namespace {

using namespace labkit;

constexpr std::size_t kMostRanks = 16;      // that are replayed
constexpr std::uint64_t kMostActions = 400;

struct Reading {
  TiTrace trace;
  std::string said;  // its actions, written anew, or the complaint
  bool is_good = false;
};

Reading read(std::string_view text, std::size_t piece) {
  Reading reading;
  try {
    TiRankScan scan;
    for (std::size_t at = 0; at < text.size(); at += piece) scan.feed(text.substr(at, piece));
    TiLimits limits;
    limits.line_bytes = 1 << 16;
    limits.code_bytes = 1 << 22;
    TiReader reader(scan.ranks(), limits);
    reader.begin("t", -1);
    for (std::size_t at = 0; at < text.size(); at += piece) reader.feed(text.substr(at, piece));
    reader.end();
    reading.trace = reader.take();
    for (const TiRank& rank : reading.trace.ranks) {
      TiCode::Cursor cursor(rank.code, rank.code.actions() > kMostActions);
      TiRecord record;
      while (cursor.next(record)) reading.said += text_of(record) + '\n';
    }
    reading.is_good = true;
  } catch (const TraceFault& fault) {
    reading.said = fault.what();
  }
  return reading;
}

/// Collectives are refused (their schedules come from Python); everything else runs.
void replay(const TiTrace& trace) {
  const auto ranks = static_cast<Rank>(trace.ranks.size());
  StarSpec star;
  star.hosts = ranks;
  std::vector<HostId> hosts;
  for (Rank rank = 0; rank < ranks; ++rank) hosts.push_back(rank);
  Engine engine(make_star(star), {}, hosts);
  Replay replayed(engine, trace, [](const CollectiveAsked&) -> std::shared_ptr<Program> {
    throw TraceFault("no collectives here");
  });
  try {
    (void)replayed.run([] { return false; });  // 2^16 events are more than so few actions need
  } catch (const TraceFault&) {
    return;
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    LABKIT_FUZZ_CHECK(engine.clock(rank) >= 0.0 && !std::isnan(engine.clock(rank)));
    (void)replayed.where(rank);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Reading whole = read(text, size + 1);
  LABKIT_FUZZ_CHECK(whole.said == read(text, 7).said);
  if (whole.is_good && whole.trace.ranks.size() <= kMostRanks && whole.trace.actions() <= kMostActions) {
    replay(whole.trace);
  }
  return 0;
}
