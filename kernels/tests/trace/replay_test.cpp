// Replays: times by hand, waits by key, collectives, faults; a run that is written down replays in the same time.
#include "labkit/trace/replay.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "labkit/engine/call_log.hpp"
#include "labkit/trace/ti_reader.hpp"
#include "random.hpp"
#include "scenario.hpp"

namespace labkit::replay_test {

using namespace labkit::test;

namespace {

TiTrace read(const std::string& text, std::int64_t ranks) {
  TiReader reader(ranks);
  reader.begin("t", -1);
  reader.feed(text);
  reader.end();
  return reader.take();
}

std::shared_ptr<Program> no_program(const CollectiveAsked&) { return nullptr; }

struct Replayed {
  bool is_over = false;
  std::vector<Time> finish_s;
  std::uint64_t messages = 0;
  std::uint64_t idle_waits = 0;
  std::vector<Replay::Phase> phases;
  std::vector<Replay::Where> where;
};

Replayed replay(const std::string& text, Rank ranks, const Model& model = {}, const Replay::Choose& choose = no_program) {
  const TiTrace trace = read(text, ranks);
  Engine engine(make_star(plain_star(ranks)), model, one_rank_per_host(ranks));
  Replay run(engine, trace, choose);
  Replayed out;
  out.is_over = run.run([] { return true; });
  for (Rank r = 0; r < ranks; ++r) {
    out.finish_s.push_back(engine.clock(r));
    out.where.push_back(run.where(r));
  }
  out.messages = engine.recorder().messages();
  out.idle_waits = run.idle_waits();
  out.phases = run.phases();
  return out;
}

std::string complaint(const std::string& text, Rank ranks, const Replay::Choose& choose = no_program) {
  try {
    (void)replay(text, ranks, {}, choose);
  } catch (const TraceFault& fault) {
    return fault.what();
  }
  return "";
}

/// Steps that are given; a program of a barrier of two: each sends to the other.
class FixedSteps final : public StepSource {
 public:
  explicit FixedSteps(std::vector<Step> steps) : steps_(std::move(steps)) {}
  std::shared_ptr<const Step> next() override {
    return at_ < steps_.size() ? std::make_shared<Step>(steps_[at_++]) : nullptr;
  }

 private:
  std::vector<Step> steps_;
  std::size_t at_ = 0;
};

Column column(OpKind kind, std::int32_t rank, std::int64_t peer, std::int64_t blocks) {
  Column made;
  made.kind = kind;
  made.count = 1;
  made.ranks = {rank};
  made.peer = Field(peer);
  made.section = {0, Field(std::int64_t{0}), Field(blocks), Field(std::int64_t{0}), Field(std::int64_t{1})};
  return made;
}

/// Rank 0 sends its buffer to rank 1.
std::shared_ptr<Program> one_message(const CollectiveAsked& asked) {
  const std::vector<Step> steps = {{{column(OpKind::send, 0, 1, 1), column(OpKind::recv, 1, 0, 1)}}};
  auto open = [steps]() -> std::unique_ptr<StepSource> { return std::make_unique<FixedSteps>(steps); };
  return std::make_shared<Program>(asked.problem, 2, Layout::uniform, std::vector<BufferSpec>{{"data", 0, false, {1}}}, open, 1000);
}

constexpr double kTwoHops = 2e-6;

}  // namespace

TEST_CASE("computation, then a message: latency and size over bandwidth") {
  // 984 bytes and the envelope of 16 over 1 GB/s after 1 us up and 1 us down; hosts of 1 Gflop/s.
  const Replayed got = replay("0 init\n0 compute 1e6\n0 send 1 3 984\n0 finalize\n1 recv 0 3 984\n1 sleep 0.5\n", 2);
  CHECK(got.is_over);
  CHECK(got.finish_s[0] == doctest::Approx(1e-3).epsilon(1e-12));
  CHECK(got.finish_s[1] == doctest::Approx(1e-3 + kTwoHops + 1e-6 + 0.5).epsilon(1e-12));
  CHECK(got.messages == 1);
  CHECK(got.where[0].is_finished);
}

TEST_CASE("waits take requests by key, and of equal ones the nth") {
  const std::string posts = "0 irecv 1 7 100000\n0 irecv 1 7 100000\n0 irecv 1 8 100000\n";
  const std::string sends = "1 compute 1e6\n1 send 0 7 100000\n1 compute 1e7\n1 send 0 7 100000\n1 compute 1e8\n1 send 0 8 100000\n";
  const auto first = [&](const std::string& wait) { return replay(posts + wait + "0 compute 1e9\n" + sends, 2).finish_s[0]; };
  const Time early = first("0 wait 1 0 7\n");
  CHECK(early == doctest::Approx(1.0 + 1e-3).epsilon(1e-3));
  CHECK(first("0 wait 1 0 7 nth=2\n") - early == doctest::Approx(1e-2).epsilon(0.02));
  CHECK(first("0 waitall 2 1 0 7 1 0 8\n") - early == doctest::Approx(0.11).epsilon(0.02));
  CHECK(first("0 waitall 3\n") == first("0 waitall 2 1 0 7 1 0 8\n"));
}

TEST_CASE("a wait for nothing goes on and is counted; what nobody waits for is waited for at the end") {
  const Replayed got = replay("0 wait 1 0 9\n0 irecv 1 0 8\n1 compute 1e6\n1 send 0 0 8\n", 2);
  CHECK(got.is_over);
  CHECK(got.idle_waits == 1);
  CHECK(got.finish_s[0] > 1e-3);
}

TEST_CASE("a test lets time pass and takes what is complete; a probe waits for the send") {
  const Replayed tested = replay("0 irecv 1 0 8\n0 compute 1e9\n0 test 1 0 0\n0 test 1 0 0\n1 send 0 0 8\n", 2);
  CHECK(tested.is_over);
  CHECK(tested.finish_s[0] == doctest::Approx(1.0).epsilon(1e-3));
  const Replayed probed = replay("#+ 0 probe 1 5\n0 compute 1e6\n0 recv 1 5 8\n1 compute 1e9\n1 send 0 5 8\n", 2);
  CHECK(probed.is_over);
  CHECK(probed.finish_s[0] >= 1.0 + 1e-3);
}

TEST_CASE("phases begin and end at the rank's clock, the innermost of a name first") {
  const Replayed got = replay(
      "#+ 0 phase begin a\n0 compute 1e9\n#+ 0 phase begin b\n0 compute 2e9\n#+ 0 phase begin a\n#+ 0 phase end a\n"
      "#+ 0 phase end b\n#+ 0 phase end c\n#+ 0 phase end a\n#+ 0 phase begin open\n", 1);
  REQUIRE(got.phases.size() == 3);
  CHECK(got.phases[0].begin_s == 3.0);
  CHECK(got.phases[1].begin_s == 1.0);
  CHECK(got.phases[1].end_s == 3.0);
  CHECK(got.phases[2].begin_s == 0.0);
  CHECK(got.phases[2].name == got.phases[0].name);
}

TEST_CASE("collectives go by the program that is chosen, once for calls that are alike") {
  int asked = 0;
  const auto choose = [&](const CollectiveAsked& what) {
    ++asked;
    CHECK(what.problem == "bcast");
    CHECK(what.bytes == 984);
    return one_message(what);
  };
  const Replayed got = replay("0 bcast 984 0 6\n0 bcast 984 0 6\n1 bcast 984 0 6\n1 bcast 984 0 6\n", 2, {}, choose);
  CHECK(got.is_over);
  CHECK(asked == 1);
  CHECK(got.messages == 2);
  CHECK(got.finish_s[1] == doctest::Approx(2 * (kTwoHops + 1e-6)).epsilon(1e-9));
}

TEST_CASE("ranks that disagree, messages that are too long: file, line, rank and action") {
  CHECK(complaint("0 bcast 8 0 6\n1 bcast 9 0 6\n", 2, one_message).find("t, line 2: rank 1, `bcast 9 1 0`: rank 0 has `bcast 8 1 0`") == 0);
  CHECK(complaint("0 send 1 0 9\n1 recv 0 0 8\n", 2).find("t, line 2: rank 1, `recv 0 0 8`: the message from rank 0 has 9 bytes") == 0);
}

TEST_CASE("a deadlock ends with every rank's line and whom it waits for") {
  const Replayed got = replay("0 recv 1 0 8\n1 compute 5\n1 recv 0 0 8\n2 bcast 8 0 6\n", 3, {}, [](const CollectiveAsked&) {
    const std::vector<Step> steps = {{{column(OpKind::recv, 2, 0, 1)}}};
    auto open = [steps]() -> std::unique_ptr<StepSource> { return std::make_unique<FixedSteps>(steps); };
    return std::make_shared<Program>("bcast", 3, Layout::uniform, std::vector<BufferSpec>{{"data", 0, false, {1}}}, open, 10);
  });
  CHECK_FALSE(got.is_over);
  CHECK(got.where[0].line == 1);
  CHECK(got.where[0].action == "recv 1 0 8");
  CHECK(got.where[0].peers == std::vector<Rank>{1});
  CHECK(got.where[1].line == 3);
  CHECK(got.where[2].peers == std::vector<Rank>{0, 1});
}

TEST_CASE("look() stops it") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "0 compute 1\n";
  const TiTrace trace = read(text, 1);
  Engine engine(make_star(plain_star(1)), Model{}, one_rank_per_host(1));
  Replay run(engine, trace, no_program);
  CHECK_FALSE(run.run([] { return false; }, std::chrono::nanoseconds(0)));
}

// --- a run that is written down ---------------------------------------------------------------------

namespace {

/// Random messages between random ranks, posted without blocking in one global order, so that nothing can
/// deadlock; waits for some of them, for all of them, computations and cancelled receives between.
struct RandomRun {
  Scenario scenario;
  CallLog log;
  std::vector<std::vector<RequestId>> open;

  RandomRun(std::uint64_t seed, Rank ranks, const Model& model)
      : scenario(plain_star(ranks), model, ranks), log(std::vector<double>(static_cast<std::size_t>(ranks), 1e9)),
        open(static_cast<std::size_t>(ranks)) {
    Random random(seed);
    scenario.engine.set_call_log(&log);
    for (int i = 0; i < 60; ++i) {
      const auto from = static_cast<Rank>(random.below(static_cast<std::size_t>(ranks)));
      const auto to = static_cast<Rank>(random.below(static_cast<std::size_t>(ranks)));
      const auto tag = static_cast<std::int32_t>(random.below(3));
      const std::uint64_t bytes = random.below(4) == 0 ? 100'000 + random.below(100'000) : random.below(2000);
      scenario.compute(from, 1e-6 * static_cast<double>(random.below(1000)));
      post(to, [=, this] { return receive(to, from, tag); });
      post(from, [=, this] { return post_send(scenario, from, to, bytes, tag); });
      if (random.below(8) == 0) cancel(to);
    }
    for (Rank rank = 0; rank < ranks; ++rank) wait(rank);
  }

  RequestId receive(Rank rank, Rank source, std::int32_t tag) { return post_receive(scenario, rank, source, tag); }

  template <class Post>
  void post(Rank rank, Post make) {
    scenario.add(rank, [=, this] {
      open[static_cast<std::size_t>(rank)].push_back(make());
      return true;
    });
  }
  /// A receive that nobody sends to.
  void cancel(Rank rank) {
    auto id = std::make_shared<RequestId>();
    scenario.add(rank, [=, this] {
      *id = post_receive(scenario, rank, rank, 77);
      return scenario.engine.sync(rank);
    });
    scenario.add(rank, [=, this] {
      CHECK(scenario.engine.cancel(*id));
      scenario.engine.release(*id);
      return true;
    });
  }
  void wait(Rank rank) {
    scenario.add(rank, [=, this] { return scenario.engine.wait_all(rank, open[static_cast<std::size_t>(rank)]); });
  }
};

}  // namespace

TEST_CASE("a loop is done as often as it says, in constant memory") {
  const auto looped = [](int times, int inner) {
    std::string text;
    for (const std::string rank : {"0", "1"}) {
      const std::string message = rank == "0" ? "0 send 1 0 1000 6\n0 wait 0 1 0\n" : "1 recv 0 0 1000 6\n";
      text += rank + " repeat " + std::to_string(times) + "\n" + rank + " compute 1e6\n" + rank + " repeat " +
              std::to_string(inner) + "\n" + message + rank + " end\n" + rank + " end\n";
    }
    return text;
  };
  const auto written_out = [](int times, int inner) {
    std::string text;
    for (const std::string rank : {"0", "1"}) {
      for (int i = 0; i < times; ++i) {
        text += rank + " compute 1e6\n";
        for (int j = 0; j < inner; ++j) text += rank == "0" ? "0 send 1 0 1000 6\n0 wait 0 1 0\n" : "1 recv 0 0 1000 6\n";
      }
    }
    return text;
  };
  for (const int times : {1, 2, 7}) {
    for (const int inner : {1, 3, 50}) {
      const Replayed folded = replay(looped(times, inner), 2, smpi_model());
      const Replayed plain = replay(written_out(times, inner), 2, smpi_model());
      REQUIRE(folded.is_over);
      CHECK(folded.messages == plain.messages);
      CHECK(folded.finish_s == plain.finish_s);
    }
  }
}

TEST_CASE("a run that is written down replays in the same time") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    for (const Model& model : {raw_model(), smpi_model()}) {
      CAPTURE(seed);
      constexpr Rank kRanks = 5;
      RandomRun run(seed, kRanks, model);
      REQUIRE(run.scenario.run());
      std::string text;
      for (Rank rank = 0; rank < kRanks; ++rank) text += run.log.lines(rank);
      const Replayed got = replay(text, kRanks, model);
      REQUIRE(got.is_over);
      CHECK(got.idle_waits == 0);
      CHECK(got.messages == run.scenario.engine.recorder().messages());
      for (Rank rank = 0; rank < kRanks; ++rank) {
        CHECK(got.finish_s[static_cast<std::size_t>(rank)] == doctest::Approx(run.scenario.engine.clock(rank)).epsilon(1e-12));
      }
    }
  }
}

}  // namespace labkit::replay_test
