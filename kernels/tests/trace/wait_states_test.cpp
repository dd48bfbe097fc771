// Wait states and delay costs: cases worked out by hand, and conservation over random ones.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "random.hpp"
#include "waits_case.hpp"

namespace labkit::wait_states_test {

using namespace labkit::test;

TEST_CASE("a late sender: the receiver waits until the send begins, and that goes back to the sender's phase") {
  Case one;
  one.ends_s = {7.5, 6.5};
  one.phases = {{1, 0, 0.0, 6.0}};
  one.calls = {{0, 1.0, 7.0}, {1, 6.0, 6.5}};
  one.messages = {{1, 0, 6.25, 1.0}};
  one.blocks = {{0, 1.0, 7.0, 0}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  const Wait& wait = got.found.waits[0];
  CHECK(state_of(wait) == WaitState::late_sender);
  CHECK(wait.begin_s == 1.0);
  CHECK(wait.until_s == 6.0);
  CHECK(wait.cause == 1);
  REQUIRE(got.costs.delays.size() == 1);
  CHECK(got.costs.delays[0].rank == 1);
  CHECK(got.costs.delays[0].direct_s == doctest::Approx(5.0));
  CHECK(got.costs.delays[0].indirect_s == 0.0);
  CHECK(got.line.nodes[static_cast<std::size_t>(got.line.paths[static_cast<std::size_t>(got.costs.delays[0].path)].node)].name == 0);
  REQUIRE(got.costs.path.size() == 2);
  CHECK(got.costs.path[0].rank == 1);
  CHECK(got.costs.path[0].end_s == 6.0);
  CHECK(got.costs.path[1].rank == 0);
}

TEST_CASE("a late sender: its call is the one that is told, also where the next begins when the message is posted") {
  Case one;
  one.ends_s = {7.5, 7.5};
  one.calls = {{0, 1.0, 7.0}, {1, 6.0, 6.5}, {1, 6.5, 7.0}};
  one.messages = {{1, 0, 6.5, 1.0}};
  one.blocks = {{0, 1.0, 7.0, 0}};
  CHECK(one.analyze().found.waits.at(0).cause_call == 2);
  one.sent_in = {1};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  CHECK(got.found.waits[0].cause_call == 1);
  CHECK(got.found.waits[0].until_s == 6.0);
  one.sent_in = {-1};
  CHECK(one.analyze().found.waits.at(0).until_s == 6.5);
  one.sent_in = {3};
  CHECK_THROWS_AS(one.analyze(), std::invalid_argument);
}

TEST_CASE("a late receiver: the sender of a message that needs both waits until the receive begins") {
  Case one;
  one.ends_s = {5.0, 5.0};
  one.calls = {{0, 0.0, 5.0}, {1, 4.0, 5.0}};
  one.messages = {{0, 1, 0.0, 4.0}};
  one.blocks = {{0, 0.0, 5.0, 0}, {1, 4.0, 5.0, 0}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  CHECK(state_of(got.found.waits[0]) == WaitState::late_receiver);
  CHECK(got.found.waits[0].seconds() == 4.0);
  CHECK(got.found.waits[0].cause == 1);
}

TEST_CASE("wrong order: what was there already is received later; from whom tells the two apart") {
  for (const bool is_same : {false, true}) {
    Case one;
    one.ends_s = {9.0, 9.0, 9.0};
    const std::int32_t other = is_same ? 1 : 2;
    one.calls = {{0, 1.0, 6.0}, {0, 6.0, 7.0}, {1, 5.0, 5.5}};
    one.messages = {{1, 0, 5.0, 1.0}, {other, 0, 0.5, 6.0}};
    one.blocks = {{0, 1.0, 6.0, 0}};
    const auto got = one.analyze();
    REQUIRE(got.found.waits.size() == 1);
    CHECK(state_of(got.found.waits[0]) == (is_same ? WaitState::wrong_order_same_source : WaitState::wrong_order_other_source));
    CHECK(got.found.waits[0].seconds() == 4.0);
  }
}

TEST_CASE("a chain of waits goes back to the first delay, indirectly") {
  // 2 computes 10 s, 1 waits for it, 0 for 1.
  Case one;
  one.ends_s = {11.0, 11.0, 10.0};
  one.calls = {{0, 0.0, 11.0}, {1, 0.0, 10.0}, {1, 10.0, 11.0}, {2, 10.0, 10.0}};
  one.messages = {{2, 1, 10.0, 0.0}, {1, 0, 10.0, 0.0}};
  one.blocks = {{1, 0.0, 10.0, 0}, {0, 0.0, 11.0, 1}};
  const auto got = one.analyze();
  CHECK(got.waiting() == 20.0);
  double direct = 0.0, indirect = 0.0;
  for (const Delay& delay : got.costs.delays) {
    CHECK(delay.rank == 2);
    direct += delay.direct_s;
    indirect += delay.indirect_s;
  }
  CHECK(direct == doctest::Approx(10.0));
  CHECK(indirect == doctest::Approx(10.0));
  CHECK(got.costs.passed_s[1] == doctest::Approx(10.0));
}

TEST_CASE("collectives: who needs whom") {
  const auto run = [](Pattern pattern, std::int32_t root, double last_s) {
    Case one;
    one.ends_s = {9.0, 9.0, 9.0};
    const double came[] = {1.0, 3.0, last_s};
    for (std::int32_t rank = 0; rank < 3; ++rank) one.calls.push_back({rank, came[rank], 9.0, 0, pattern, root});
    return one.analyze().found.waits;
  };
  const auto barrier = run(Pattern::barrier, -1, 6.0);
  REQUIRE(barrier.size() == 2);
  CHECK(barrier[0].seconds() == 5.0);
  CHECK(barrier[1].seconds() == 3.0);
  CHECK(barrier[1].cause == 2);
  const auto bcast = run(Pattern::from_root, 1, 6.0);
  REQUIRE(bcast.size() == 1);
  CHECK(bcast[0].rank == 0);
  CHECK(bcast[0].seconds() == 2.0);
  const auto reduce = run(Pattern::to_root, 0, 6.0);
  REQUIRE(reduce.size() == 2);
  CHECK(state_of(reduce[0]) == WaitState::early_reduce);
  CHECK(reduce[0].seconds() == 2.0);
  CHECK(reduce[0].cause == 1);
  CHECK(state_of(reduce[1]) == WaitState::wait_at_n_to_one);
  CHECK(reduce[1].seconds() == 3.0);
  CHECK(reduce[1].cause == 2);
  const auto scan = run(Pattern::prefix, -1, 2.0);
  REQUIRE(scan.size() == 1);  // 0 needs nobody, 1 came after 0, 2 needs 1
  CHECK(scan[0].rank == 2);
  CHECK(scan[0].seconds() == 1.0);
}

TEST_CASE("who leaves an n-to-n operation later than the first completes") {
  Case one;
  one.ends_s = {4.0, 5.0};
  one.calls = {{0, 1.0, 4.0, 0, Pattern::all}, {1, 3.0, 5.0, 0, Pattern::all}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 2);
  CHECK(state_of(got.found.waits[1]) == WaitState::nxn_completion);
  CHECK(got.found.waits[1].seconds() == 1.0);
  CHECK(got.all_costs() == doctest::Approx(got.waiting()));
}

TEST_CASE("a nonblocking collective is waited for in the call that ends it") {
  Case one;
  one.ends_s = {6.0, 6.0};
  one.calls = {{0, 0.0, 0.0, 0, Pattern::all, -1, true}, {0, 1.0, 6.0}, {1, 5.0, 5.0, 0, Pattern::all, -1, true}, {1, 5.0, 6.0}};
  one.blocks = {{0, 1.0, 6.0, -1, 0}, {1, 5.0, 6.0, -1, 2}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  CHECK(state_of(got.found.waits[0]) == WaitState::wait_at_nxn);
  CHECK(got.found.waits[0].begin_s == 1.0);
  CHECK(got.found.waits[0].seconds() == 4.0);
}

TEST_CASE("inside a tree a rank waits for the one that came late, however many pass it on") {
  // 2 comes late to a reduction; 1 waits for it, and 0, the root, for 1. 3 waits for 1, which came early.
  Case one;
  one.ends_s = {8.0, 8.0, 8.0, 8.0};
  one.calls = {{0, 0.0, 8.0, 0, Pattern::to_root, 0}, {1, 0.0, 7.5, 0, Pattern::to_root, 0},
               {2, 6.0, 7.0, 0, Pattern::to_root, 0}, {3, 0.0, 8.0, 0, Pattern::to_root, 0}};
  one.messages = {{2, 1, 6.5, 0.0}, {1, 3, 7.25, 0.0}};
  one.blocks = {{1, 0.0, 7.0, 0}, {3, 0.0, 7.75, 1}};
  const auto waits = one.analyze().found.waits;
  REQUIRE(waits.size() == 3);
  CHECK(state_of(waits[1]) == WaitState::late_member);
  CHECK(waits[1].rank == 1);
  CHECK(waits[1].seconds() == 6.0);
  CHECK(waits[2].rank == 3);
  CHECK(waits[2].seconds() == 6.0);
  CHECK(waits[2].cause == 2);
}

TEST_CASE("what both ranks did alike since they met is nobody's fault") {
  // Both compute phase 0 for 4 s after a barrier; rank 1 then 2 s of phase 1.
  Case one;
  one.ends_s = {7.0, 7.0};
  one.phases = {{0, 0, 1.0, 5.0}, {1, 0, 1.0, 5.0}, {1, 1, 5.0, 7.0}};
  one.calls = {{0, 1.0, 1.0, 0, Pattern::barrier}, {1, 1.0, 1.0, 0, Pattern::barrier},
               {0, 5.0, 7.0, 1, Pattern::barrier}, {1, 7.0, 7.0, 1, Pattern::barrier}};
  const auto got = one.analyze();
  CHECK(got.waiting() == 2.0);
  REQUIRE(got.costs.delays.size() == 1);
  CHECK(got.costs.delays[0].begin_s == 5.0);
  CHECK(got.costs.delays[0].direct_s == doctest::Approx(2.0));
}

TEST_CASE("columns that do not fit are refused") {
  Case one;
  one.ends_s = {1.0};
  one.calls = {{1, 0.0, 1.0}};
  CHECK_THROWS_AS(one.analyze(), std::invalid_argument);
  one.calls = {};
  one.messages = {{0, 5, 0.0, 0.0}};
  CHECK_THROWS_AS(one.analyze(), std::invalid_argument);
  one.messages = {};
  one.blocks = {{0, 0.0, 1.0, 3}};
  CHECK_THROWS_AS(one.analyze(), std::invalid_argument);
}

TEST_CASE("the critical path of a spawned rank goes on at who has spawned it") {
  Case one;
  one.ends_s = {3.0, 7.0};
  const auto got = one.analyze();
  const std::vector<double> begins_s{0.0, 2.0};
  const std::vector<std::int32_t> begun_by{-1, 0}, itself{-1, 1}, few{-1};
  const auto costs = find_delay_costs(got.found, got.line, begins_s, begun_by);
  REQUIRE(costs.path.size() == 2);
  CHECK(costs.path[0].rank == 0);
  CHECK(costs.path[0].end_s == 2.0);
  CHECK(costs.path[1].rank == 1);
  CHECK_THROWS_AS(find_delay_costs(got.found, got.line, begins_s, itself), std::invalid_argument);
  CHECK_THROWS_AS(find_delay_costs(got.found, got.line, begins_s, few), std::invalid_argument);
}

TEST_CASE("all costs add up to all waiting, and the critical path to the run") {
  Random random(20120521);
  for (int round = 0; round < 300; ++round) {
    Case one;
    const auto ranks = static_cast<std::int32_t>(1 + random.below(7));
    std::vector<double> now(static_cast<std::size_t>(ranks), 0.0);
    // Coarse times, so that many instants coincide, and chains of waits end at one of them.
    const auto step = [&] { return static_cast<double>(random.below(4)); };
    std::int32_t joints = 0;
    for (int event = 0; event < 30; ++event) {
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        const double spent = step();
        auto& own = now[static_cast<std::size_t>(rank)];
        if (spent > 0.0) one.phases.push_back({rank, static_cast<std::int32_t>(random.below(3)), own, own + spent});
        own += spent;
      }
      if (random.below(3) == 0) {
        const auto pattern = static_cast<Pattern>(1 + random.below(5));
        const double last = *std::max_element(now.begin(), now.end());
        const auto root = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(ranks)));
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
          auto& own = now[static_cast<std::size_t>(rank)];
          const double left = last + static_cast<double>(random.below(2));
          one.calls.push_back({rank, own, left, joints, pattern, root});
          own = left;
        }
        ++joints;
      } else if (ranks > 1) {
        const auto from = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(ranks)));
        const auto to = static_cast<std::int32_t>((from + 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(ranks - 1)))) % ranks);
        auto& sender = now[static_cast<std::size_t>(from)];
        auto& receiver = now[static_cast<std::size_t>(to)];
        const double sent = sender, posted = receiver, over = std::max(sent, posted) + static_cast<double>(random.below(2));
        const bool is_rendezvous = random.below(2) == 0;
        const auto message = static_cast<std::int32_t>(one.messages.size());
        one.messages.push_back({from, to, sent, posted});
        one.calls.push_back({from, sent, is_rendezvous ? over : sent});
        one.calls.push_back({to, posted, over});
        if (over > posted) one.blocks.push_back({to, posted, over, message});
        if (is_rendezvous && over > sent) one.blocks.push_back({from, sent, over, message});
        if (is_rendezvous) sender = over;
        receiver = over;
      }
    }
    one.ends_s = now;
    const auto got = one.analyze();
    CHECK(got.all_costs() == doctest::Approx(got.waiting()).epsilon(1e-12));
    double critical = 0.0;
    for (const CriticalStretch& stretch : got.costs.path) critical += stretch.end_s - stretch.begin_s;
    CHECK(critical == doctest::Approx(*std::max_element(now.begin(), now.end())));
    for (const Delay& delay : got.costs.delays) CHECK((delay.direct_s >= 0.0 && delay.indirect_s >= 0.0));
    for (std::size_t i = 0; i < got.found.waits.size(); ++i) {
      CHECK(got.costs.direct_s[i] <= got.found.waits[i].seconds() * (1 + 1e-12));
    }
  }
}

}  // namespace labkit::wait_states_test
