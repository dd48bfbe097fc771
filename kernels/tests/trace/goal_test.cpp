// GOAL: what the reader makes of the text, what it refuses, and runs whose times are known by hand.
#include "labkit/trace/goal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "random.hpp"
#include "scenario.hpp"

namespace labkit::goal_test {

using namespace labkit::test;

namespace {

GoalProgram read(std::string_view text, std::size_t piece = std::string_view::npos) {
  GoalReader reader("g");
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size())) reader.feed(text.substr(at, piece));
  return reader.take();
}

std::string complaint(std::string_view text) {
  try {
    (void)read(text);
  } catch (const TraceFault& fault) {
    return fault.what();
  }
  return "";
}

struct Ran {
  bool is_over = false;
  std::vector<Time> finish_s;
  std::vector<GoalRun::Where> where;
};

Ran run(std::string_view text, const Model& model = {}) {
  const GoalProgram program = read(text);
  const auto ranks = static_cast<Rank>(program.ranks.size());
  Engine engine(make_star(plain_star(ranks)), model, one_rank_per_host(ranks));
  GoalRun goal(engine, program);
  Ran out;
  out.is_over = goal.run([] { return true; });
  for (Rank r = 0; r < ranks; ++r) {
    out.finish_s.push_back(engine.clock(r));
    out.where.push_back(goal.where(r));
  }
  return out;
}

constexpr std::string_view kTwo =
    "// two ranks\nnum_ranks 2\nrank 0 {\n"
    "l1: calc 1000 cpu 0\nl2: send 984b to 1 tag 7 nic 0\nl2 requires l1\n}\n"
    "/* the\n other */ rank 1 {\nl1: recv 984b from 0 tag 7\nl2: calc 5000\nl2 requires l1 }\n";

}  // namespace

TEST_CASE("operations, labels, dependencies, comments") {
  const GoalProgram program = read(kTwo);
  REQUIRE(program.ranks.size() == 2);
  const GoalRank& first = program.ranks[0];
  REQUIRE(first.ops.size() == 2);
  CHECK(first.ops[0].kind == GoalKind::calc);
  CHECK(first.ops[0].amount == 1000);
  CHECK(first.ops[1].kind == GoalKind::send);
  CHECK(first.ops[1].peer == 1);
  CHECK(first.ops[1].tag == 7);
  CHECK(first.ops[1].line == 5);
  CHECK(first.ops[1].waits_for == 1);
  REQUIRE(first.edges.size() == 1);
  CHECK(first.edges[0].to == 1);
  CHECK_FALSE(first.edges[0].is_start);
  const GoalProgram any = read("num_ranks 1\nrank 0 {\nrecv 8b from any tag any\nrecv 8b from -1 tag -1\n}\n");
  CHECK(any.ranks[0].ops[0].peer == kAnySource);
  CHECK(any.ranks[0].ops[1].tag == kAnyTag);
}

TEST_CASE("pieces of any length read as the whole") {
  const GoalProgram whole = read(kTwo);
  for (std::size_t piece = 1; piece < 20; ++piece) {
    const GoalProgram cut = read(kTwo, piece);
    REQUIRE(cut.ranks.size() == whole.ranks.size());
    for (std::size_t r = 0; r < cut.ranks.size(); ++r) {
      REQUIRE(cut.ranks[r].ops.size() == whole.ranks[r].ops.size());
      CHECK(cut.ranks[r].ops.back().line == whole.ranks[r].ops.back().line);
      CHECK(cut.ranks[r].edges.size() == whole.ranks[r].edges.size());
    }
  }
}

TEST_CASE("what is refused names its line") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the file is empty"},
      {"ranks 2\n", "g, line 1: GOAL begins with `num_ranks N`"},
      {"num_ranks 0\n", "num_ranks must be at least 1"},
      {"num_ranks 99999999\n", "must be a whole number from 0 to 1048576"},
      {"num_ranks 1\n{\n", "line 2: expected `rank N {`"},
      {"num_ranks 1\nrank 1 {\n", "line 2: a rank must be a whole number from 0 to 0"},
      {"num_ranks 1\nrank 0 {\n}\nrank 0 {\n", "line 4: rank 0 occurs twice"},
      {"num_ranks 1\nrank 0 {\ndance\n}\n", "line 3: an operation is"},
      {"num_ranks 1\nrank 0 {\nsend 8b to 1\n}\n", "line 3: a rank must be"},
      {"num_ranks 1\nrank 0 {\ncalc -5\n}\n", "line 3: calc must be"},
      {"num_ranks 1\nrank 0 {\ncalc 5 tag 3\n}\n", "line 3: 'tag' is not known here"},
      {"num_ranks 1\nrank 0 {\na: calc 5\na: calc 5\n}\n", "line 4: label 'a' occurs twice"},
      {"num_ranks 1\nrank 0 {\na: calc 5\na requires b\n}\n", "line 4: label 'b' is not known above"},
      {"num_ranks 1\nrank 0 {\na: calc 5\nb: calc 5\na requires b\nb requires a\n}\n", "line 7: rank 0: 2 operations require each other in a "
                                                                                      "circle, among them that of line 3"},
      {"num_ranks 1\nrank 0 {\ncalc 5\n", "rank 0 is not closed"},
      {"num_ranks 1\n/* rank 0 {\n", "a comment is not closed"},
  };
  for (const auto& [text, words] : cases) {
    CAPTURE(text);
    CHECK(complaint(text).find(words) != std::string::npos);
  }
}

TEST_CASE("a chain: computation, message, computation") {
  // 984 bytes and the envelope of 16 over 1 GB/s after 1 us up and 1 us down
  const Ran got = run(kTwo);
  CHECK(got.is_over);
  CHECK(got.finish_s[1] == doctest::Approx(1e-6 + 2e-6 + 1e-6 + 5e-6).epsilon(1e-12));
}

TEST_CASE("what does not depend on each other overlaps; irequires waits for the start only") {
  // a large receive and a computation of a rank: both take their time at once
  const char* both = "num_ranks 2\nrank 0 { recv 999984b from 1\n calc 2000000 }\nrank 1 { send 999984b to 0 }\n";
  CHECK(run(both).finish_s[0] == doctest::Approx(2e-3).epsilon(1e-9));
  const auto after = [](const char* word) {
    const std::string text = std::string("num_ranks 2\nrank 0 {\na: recv 999984b from 1\nb: calc 2000000\nb ") + word +
                             " a\n}\nrank 1 { send 999984b to 0 }\n";
    return run(text).finish_s[0];
  };
  CHECK(after("requires") == doctest::Approx(2e-6 + 1e-3 + 2e-3).epsilon(1e-9));
  CHECK(after("irequires") == doctest::Approx(2e-3).epsilon(1e-9));
}

TEST_CASE("a deadlock leaves the lines that wait, a message that is too long is a fault") {
  const Ran got = run("num_ranks 2\nrank 0 {\na: recv 8b from 1 tag 2\n}\nrank 1 {\n}\n");
  CHECK_FALSE(got.is_over);
  CHECK(got.where[0].line == 3);
  CHECK(got.where[0].peer == 1);
  CHECK(got.where[1].line == 0);
  CHECK_THROWS_AS(run("num_ranks 2\nrank 0 { recv 8b from 1 }\nrank 1 { send 9b to 0 }\n"), TraceFault);
}

TEST_CASE("random graphs that cannot deadlock come to their end, twice in the same time") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    constexpr std::size_t kRanks = 4;
    std::vector<std::string> body(kRanks);
    std::vector<int> count(kRanks, 0);
    const auto add = [&](std::size_t rank, const std::string& what) {
      const int label = ++count[rank];
      body[rank] += "l" + std::to_string(label) + ": " + what + "\n";
      // edges only to what was posted earlier in one global order: no circle over messages
      if (label > 1 && random.below(2) == 0) {
        body[rank] += "l" + std::to_string(label) + (random.below(3) == 0 ? " irequires l" : " requires l") +
                      std::to_string(1 + random.below(static_cast<std::size_t>(label) - 1)) + "\n";
      }
    };
    for (int i = 0; i < 80; ++i) {
      const std::size_t from = random.below(kRanks);
      const std::size_t to = (from + 1 + random.below(kRanks - 1)) % kRanks;
      const std::string size = std::to_string(random.below(200'000)) + "b ";
      const std::string tag = " tag " + std::to_string(i);
      add(from, "calc " + std::to_string(random.below(100'000)));
      add(from, "send " + size + "to " + std::to_string(to) + tag);
      add(to, "recv " + size + "from " + std::to_string(from) + tag);
    }
    std::string text = "num_ranks " + std::to_string(kRanks) + "\n";
    for (std::size_t r = 0; r < kRanks; ++r) text += "rank " + std::to_string(r) + " {\n" + body[r] + "}\n";
    const Ran once = run(text, smpi_model());
    CHECK(once.is_over);
    CHECK(run(text, smpi_model()).finish_s == once.finish_s);
  }
}

}  // namespace labkit::goal_test
