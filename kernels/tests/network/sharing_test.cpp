// Each case: the inequalities, the shares they imply, the assertion.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "labkit/network/sharing.hpp"

namespace labkit::sharing_test {

using doctest::Approx;

namespace {

FlowId add(Sharing& sharing, std::vector<LinkLoad> loads, double weight = 1, double bound = kNever) {
  const FlowId flow = sharing.create(loads, weight, bound);
  sharing.activate(flow);
  return flow;
}

Link shared(double capacity) { return {capacity, 0, Policy::shared}; }
Link fatpipe(double capacity) { return {capacity, 0, Policy::fatpipe}; }

}  // namespace

TEST_CASE("one flow alone gets the narrowest of its links") {
  // x <= 10, x <= 4, x <= 7  =>  x = 4
  Sharing sharing({shared(10), shared(4), shared(7)});
  const FlowId x = add(sharing, {{0, 1}, {1, 1}, {2, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == 4);
}

TEST_CASE("a coefficient scales what a flow takes") {
  // 0.05 x <= 1, x <= 100  =>  x = 20
  Sharing sharing({shared(1), shared(100)});
  const FlowId x = add(sharing, {{0, 0.05}, {1, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == Approx(20));
}

TEST_CASE("a flow without links runs at its bound") {
  Sharing sharing({shared(1)});
  const FlowId x = add(sharing, {}, 1, 42);
  const FlowId y = add(sharing, {});
  sharing.solve();
  CHECK(sharing.rate(x) == 42);
  CHECK(sharing.rate(y) == kNever);
}

TEST_CASE("a flow that changes, leaves and comes back within an instant gets its share") {
  // x <= 42 on a fat pipe of 1000, which holds nobody back: only the flow itself waits to be filled
  Sharing sharing({fatpipe(1000)});
  const FlowId x = add(sharing, {{0, 1}}, 1, 42);
  sharing.solve();
  sharing.resize(x, 1, 0, 0);
  sharing.deactivate(x, 0);
  sharing.solve();
  sharing.activate(x);
  sharing.solve();
  CHECK(sharing.rate(x) == 42);
}

TEST_CASE("flows on one link share it equally") {
  // x + y <= 10  =>  x = y = 5; then z joins: 10 / 3 each; then x leaves: 5 each
  Sharing sharing({shared(10)});
  const FlowId x = add(sharing, {{0, 1}});
  const FlowId y = add(sharing, {{0, 1}});
  CHECK(sharing.solve() == std::vector<FlowId>{x, y});
  CHECK(sharing.rate(x) == 5);
  CHECK(sharing.rate(y) == 5);
  const FlowId z = add(sharing, {{0, 1}});
  CHECK(sharing.solve().size() == 3);
  CHECK(sharing.rate(z) == Approx(10.0 / 3));
  sharing.remove(x);
  CHECK(sharing.solve().size() == 2);
  CHECK(sharing.rate(y) == 5);
  CHECK(sharing.rate(z) == 5);
  CHECK(sharing.solve().empty());
}

TEST_CASE("weights: the heavier flow gets the smaller share") {
  // x + y <= 12, x = 2 y (weights 1 and 2)  =>  x = 8, y = 4
  Sharing sharing({shared(12)});
  const FlowId x = add(sharing, {{0, 1}}, 1);
  const FlowId y = add(sharing, {{0, 1}}, 2);
  sharing.solve();
  CHECK(sharing.rate(x) == Approx(8));
  CHECK(sharing.rate(y) == Approx(4));
}

TEST_CASE("what a bounded flow leaves goes to the others") {
  // x + y + z <= 12, x <= 1  =>  x = 1, y = z = 5.5
  Sharing sharing({shared(12)});
  const FlowId x = add(sharing, {{0, 1}}, 1, 1);
  const FlowId y = add(sharing, {{0, 1}});
  const FlowId z = add(sharing, {{0, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == 1);
  CHECK(sharing.rate(y) == Approx(5.5));
  CHECK(sharing.rate(z) == Approx(5.5));
}

TEST_CASE("bounds that only bind after others have stopped") {
  // x + y + z <= 12, x <= 1, y <= 4.5: level 4 > 1 stops x; (12 - 1) / 2 = 5.5 > 4.5 stops y; z = 6.5
  Sharing sharing({shared(12)});
  const FlowId x = add(sharing, {{0, 1}}, 1, 1);
  const FlowId y = add(sharing, {{0, 1}}, 1, 4.5);
  const FlowId z = add(sharing, {{0, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == 1);
  CHECK(sharing.rate(y) == 4.5);
  CHECK(sharing.rate(z) == Approx(6.5));
}

TEST_CASE("the parking lot: one long flow against one short per link") {
  // x + a <= 6, x + b <= 12, x + c <= 2  =>  x = c = 1, a = 5, b = 11
  Sharing sharing({shared(6), shared(12), shared(2)});
  const FlowId x = add(sharing, {{0, 1}, {1, 1}, {2, 1}});
  const FlowId a = add(sharing, {{0, 1}});
  const FlowId b = add(sharing, {{1, 1}});
  const FlowId c = add(sharing, {{2, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == 1);
  CHECK(sharing.rate(c) == 1);
  CHECK(sharing.rate(a) == 5);
  CHECK(sharing.rate(b) == 11);
}

TEST_CASE("cross-traffic: an exchange of two hosts") {
  // up0: x + 0.05 y <= C, down1: x + 0.05 y <= C, and the same with x and y swapped
  // =>  x = y = C / 1.05
  Sharing sharing({shared(105), shared(105), shared(105), shared(105)});
  const FlowId x = add(sharing, {{0, 1}, {3, 1}, {2, 0.05}, {1, 0.05}});
  const FlowId y = add(sharing, {{2, 1}, {1, 1}, {0, 0.05}, {3, 0.05}});
  sharing.solve();
  CHECK(sharing.rate(x) == Approx(100));
  CHECK(sharing.rate(y) == Approx(100));
}

TEST_CASE("a fat pipe gives everybody all of it") {
  // max(x, y) <= 10  =>  x = y = 10
  Sharing sharing({fatpipe(10)});
  const FlowId x = add(sharing, {{0, 1}});
  const FlowId y = add(sharing, {{0, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == 10);
  CHECK(sharing.rate(y) == 10);
}

TEST_CASE("a fat pipe stops all its flows at one level, as in SimGrid 3.32") {
  // max(x, y) <= 10, weights 1 and 10  =>  the level is 10: x = 10, y = 1; after x: y = 10
  Sharing sharing({fatpipe(10), shared(100), shared(100)});
  const FlowId x = add(sharing, {{1, 1}, {0, 1}}, 1, 10);
  const FlowId y = add(sharing, {{2, 1}, {0, 1}}, 10, 10);
  sharing.solve();
  CHECK(sharing.rate(x) == 10);
  CHECK(sharing.rate(y) == 1);
  sharing.remove(x);
  CHECK(sharing.solve() == std::vector<FlowId>{y});
  CHECK(sharing.rate(y) == 10);
}

TEST_CASE("a fat pipe that nobody can fill connects nobody") {
  // x <= 4, y <= 5, both through a pipe of 10: two components, and a third flow touches only one
  Sharing sharing({fatpipe(10), shared(4), shared(5)});
  const FlowId x = add(sharing, {{1, 1}, {0, 1}}, 1, 4);
  const FlowId y = add(sharing, {{2, 1}, {0, 1}}, 7, 5);
  sharing.solve();
  CHECK(sharing.rate(x) == 4);
  CHECK(sharing.rate(y) == 5);
  const std::uint64_t before = sharing.flows_filled();
  const FlowId z = add(sharing, {{1, 1}});
  CHECK(sharing.solve() == std::vector<FlowId>{x, z});
  CHECK(sharing.flows_filled() - before == 2);
  // A flow that can fill it (bound 10) makes it count: level 10 / 1, so y stops at 10 / 7.
  const FlowId filler = add(sharing, {{0, 1}}, 1, 10);
  sharing.solve();
  CHECK(sharing.rate(filler) == 10);
  CHECK(sharing.rate(y) == Approx(10.0 / 7));
  sharing.remove(filler);
  sharing.solve();
  CHECK(sharing.rate(y) == 5);
  CHECK(sharing.rate(x) == 2);
}

TEST_CASE("only the touched component is filled again") {
  Sharing sharing({shared(10), shared(10)});
  add(sharing, {{0, 1}});
  add(sharing, {{0, 1}});
  add(sharing, {{1, 1}});
  sharing.solve();
  const std::uint64_t before = sharing.flows_filled();
  add(sharing, {{1, 1}});
  CHECK(sharing.solve().size() == 2);
  CHECK(sharing.flows_filled() - before == 2);
}

TEST_CASE("tiny rests survive huge neighbors") {
  // x + 1000 * (1e6 - 1/1024) <= 1e9 with the heavy ones at their bounds  =>  x = 1000 / 1024
  Sharing sharing({shared(1e9)});
  const FlowId x = add(sharing, {{0, 1}}, 1e6);
  for (int i = 0; i < 1000; ++i) add(sharing, {{0, 1}}, 1e-6, 1e6 - 1.0 / 1024);
  sharing.solve();
  CHECK(sharing.rate(x) == Approx(1000.0 / 1024).epsilon(1e-14));
}

}  // namespace labkit::sharing_test
