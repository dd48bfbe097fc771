// Where a wait begins and how long it is, behind other messages of a call and in later calls: worked out by hand.
#include <doctest/doctest.h>

#include <vector>

#include "waits_case.hpp"

namespace labkit::placed_waits_test {

using namespace labkit::test;

TEST_CASE("behind a message that was on time: the wait is as long as the other side was late") {
  Case one;
  one.ends_s = {7.0, 7.0, 7.0};
  one.phases = {{1, 0, 1.0, 2.5}};
  one.calls = {{0, 1.0, 6.0}, {1, 2.5, 6.0}, {2, 1.0, 4.5}};
  one.messages = {{2, 0, 1.0, 1.0}, {0, 1, 1.0, 2.5}};
  one.blocks = {{0, 1.0, 4.5, 0}, {0, 4.5, 6.0, 1}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  CHECK(state_of(got.found.waits[0]) == WaitState::late_receiver);
  CHECK(got.found.waits[0].begin_s == 1.0);
  CHECK(got.found.waits[0].until_s == 2.5);
  CHECK(got.costs_of(1) == doctest::Approx(1.5));
  one.blocks[1].begin_s = 5.5;  // and no longer than its message was waited for
  const auto shorter = one.analyze();
  REQUIRE(shorter.found.waits.size() == 1);
  CHECK(shorter.found.waits[0].begin_s == 2.0);
  CHECK(shorter.found.waits[0].until_s == 2.5);
}

TEST_CASE("several late sides of one call do not count the same time twice") {
  Case one;
  one.ends_s = {9.0, 9.0, 9.0, 9.0};
  one.calls = {{0, 1.0, 8.0}, {1, 2.0, 2.5}, {2, 4.0, 4.5}, {3, 5.0, 5.5}};
  one.messages = {{1, 0, 2.0, 1.0}, {2, 0, 4.0, 1.0}, {3, 0, 5.0, 1.0}};
  one.blocks = {{0, 1.0, 5.0, 0}, {0, 5.0, 7.0, 1}, {0, 7.0, 8.0, 2}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 3);
  CHECK(got.waiting() == doctest::Approx(4.0));
  CHECK(got.found.waits[1].begin_s == 2.0);
  CHECK(got.found.waits[1].until_s == 4.0);
  CHECK(got.found.waits[2].until_s == 5.0);
  CHECK(got.all_costs() == doctest::Approx(4.0));
}

TEST_CASE("in a later call a rank waits for who came late since the own side was posted") {
  Case one;
  one.ends_s = {7.0, 7.0, 7.0};
  one.phases = {{1, 0, 1.0, 2.5}};
  one.calls = {{0, 1.0, 1.0}, {0, 1.0, 4.5}, {0, 4.5, 6.0}, {1, 2.5, 6.0}, {2, 1.0, 4.5}};
  one.messages = {{2, 0, 1.0, 1.0}, {0, 1, 1.0, 2.5}};
  one.sent_in = {4, 0};
  one.blocks = {{0, 1.0, 4.5, 0}, {0, 4.5, 6.0, 1}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  CHECK(got.found.waits[0].call == 2);
  CHECK(got.found.waits[0].begin_s == 4.5);
  CHECK(got.found.waits[0].until_s == 6.0);
  CHECK(got.found.waits[0].came_s == 2.5);
  REQUIRE(got.costs.delays.size() == 1);
  CHECK(got.costs.delays[0].rank == 1);
  CHECK(got.costs.delays[0].end_s == 2.5);
  one.calls[2].begin_s = one.blocks[1].begin_s = 5.0;  // in time the message would have been over before
  const auto later = one.analyze();
  REQUIRE(later.found.waits.size() == 1);
  CHECK(later.found.waits[0].seconds() == 1.0);
  one.calls[1].end_s = one.blocks[0].end_s = 1.5;  // of what the other was late the rank has computed 1 s
  const auto less = one.analyze();
  REQUIRE(less.found.waits.size() == 1);
  CHECK(less.found.waits[0].seconds() == doctest::Approx(0.5));
  one.calls[1].end_s = one.blocks[0].end_s = 4.5;
  one.calls[2].begin_s = one.blocks[1].begin_s = 4.5;
  one.calls.push_back({1, 0.0, 2.5});  // nor is late who was held in a call
  one.sent_in = {5, 0};
  CHECK(one.analyze().found.waits.empty());
}

TEST_CASE("a probe waits for a message that is received in a later call") {
  Case one;
  one.ends_s = {7.0, 6.0};
  one.calls = {{0, 1.0, 5.5}, {0, 5.75, 6.5}, {1, 5.0, 5.25}};
  one.messages = {{1, 0, 5.0, 5.75}};
  one.blocks = {{0, 1.0, 5.5, 0}};
  const auto got = one.analyze();
  REQUIRE(got.found.waits.size() == 1);
  CHECK(state_of(got.found.waits[0]) == WaitState::late_sender);
  CHECK(got.found.waits[0].call == 0);
  CHECK(got.found.waits[0].begin_s == 1.0);
  CHECK(got.found.waits[0].until_s == 5.0);
}

}  // namespace labkit::placed_waits_test
