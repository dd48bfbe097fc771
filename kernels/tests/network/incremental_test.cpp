// Repairs against filling: the same flows, rate by rate, and the same messages, end by end.
#include <doctest/doctest.h>

#include <vector>

#include "labkit/network/sharing.hpp"
#include "random_network.hpp"

namespace labkit::incremental_test {

using namespace labkit::test;
using doctest::Approx;

namespace {

Link shared(double capacity) { return {capacity, 1e-6, Policy::shared}; }

}  // namespace

TEST_CASE("a shared link, step by step") {
  // x + y <= 10: 5 each; z with bound 1 comes: 4.5, 4.5, 1; x goes: y = 9
  Sharing sharing({shared(10)}, {0.0, Solver::incremental});
  const auto add = [&](double bound) {
    const LinkLoad load{0, 1};
    const FlowId flow = sharing.create({&load, 1}, 1, bound);
    sharing.activate(flow, 100);
    return flow;
  };
  sharing.begin_incremental();
  sharing.finish_incremental(0);
  const FlowId x = add(kNever);
  const FlowId y = add(kNever);
  sharing.repair(0);
  CHECK(sharing.rate(x) == Approx(5));
  CHECK(sharing.rate(y) == Approx(5));
  CHECK(sharing.next_end() == Approx(20));
  CHECK(sharing.first_to_end() == x);
  const FlowId z = add(1);
  sharing.repair(4);
  CHECK(sharing.rate(x) == Approx(4.5));
  CHECK(sharing.rate(z) == Approx(1));
  CHECK(sharing.work_left(x, 4) == Approx(80));
  sharing.remove(x, 6);
  sharing.repair(6);
  CHECK(sharing.rate(y) == Approx(9));
  CHECK(sharing.work_left(y, 6) == Approx(71));
  CHECK(sharing.next_end() == Approx(6 + 71.0 / 9));
}

TEST_CASE("flows move between bottlenecks") {
  // x + a <= 6, x + b <= 12, x + c <= 2: x = c = 1, a = 5, b = 11; c goes: x = 2, a = 4, b = 10; then a: x = 2
  Sharing sharing({shared(6), shared(12), shared(2)}, {0.0, Solver::incremental});
  sharing.begin_incremental();
  sharing.finish_incremental(0);
  const auto add = [&](std::vector<LinkLoad> loads) {
    const FlowId flow = sharing.create(loads, 1, kNever);
    sharing.activate(flow, 1000);
    sharing.repair(0);
    return flow;
  };
  const FlowId x = add({{0, 1}, {1, 1}, {2, 1}});
  const FlowId a = add({{0, 1}});
  const FlowId b = add({{1, 1}});
  const FlowId c = add({{2, 1}});
  CHECK(sharing.rate(x) == Approx(1));
  CHECK(sharing.rate(a) == Approx(5));
  CHECK(sharing.rate(b) == Approx(11));
  CHECK(sharing.rate(c) == Approx(1));
  sharing.remove(c, 0);
  sharing.repair(0);
  CHECK(sharing.rate(x) == Approx(2));
  CHECK(sharing.rate(a) == Approx(4));
  CHECK(sharing.rate(b) == Approx(10));
}

TEST_CASE("every message ends when filling says, whatever the solver") {
  std::uint64_t repairs = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    const auto platform = random_platform(12, 4 + seed % 20, seed, seed % 3 == 0);
    for (const Model& model : {raw_model(), cross_traffic_model()}) {
      CAPTURE(model.name);
      const Load load{300, 2e-2, 200000};
      const Ran all = simulate(platform, model, {0.0, Solver::filling}, load, seed);
      for (const Solver solver : {Solver::incremental, Solver::automatic}) {
        const Ran some = simulate(platform, model, {0.0, solver}, load, seed);
        for (std::size_t i = 0; i < all.ends.size(); ++i) {
          CHECK(some.ends[i] == Approx(all.ends[i]).epsilon(4e-10));
        }
        repairs += some.repairs;
      }
    }
  }
  CHECK(repairs > 10000);
}

TEST_CASE("repairs that do not come to an end are given up for a filling") {
  const auto platform = random_platform(12, 16, 5, false);
  const Load load{300, 2e-2, 200000};
  SharingOptions options{0.0, Solver::incremental};
  options.repair_limit = 3;
  const Ran some = simulate(platform, cross_traffic_model(), options, load, 5);
  const Ran all = simulate(platform, cross_traffic_model(), {0.0, Solver::filling}, load, 5);
  CHECK(some.rebuilds > 20);
  for (std::size_t i = 0; i < all.ends.size(); ++i) CHECK(some.ends[i] == Approx(all.ends[i]).epsilon(4e-10));
}

TEST_CASE("a giant component switches by itself, both ways, and keeps the times") {
  // 40 hosts, everybody to everybody at random times: thousands of flows at once, then a burst.
  const auto platform = make_star(plain_star(40, 1e8, 1e-5));
  const Load load{2500, 1e-3, 400000};
  const Ran all = simulate(platform, cross_traffic_model(), {0.0, Solver::filling}, load, 9);
  const Ran automatic = simulate(platform, cross_traffic_model(), {0.0, Solver::automatic}, load, 9);
  CHECK(all.repairs == 0);
  CHECK(automatic.repairs > 1000);
  for (std::size_t i = 0; i < all.ends.size(); ++i) CHECK(automatic.ends[i] == Approx(all.ends[i]).epsilon(4e-10));
}

}  // namespace labkit::incremental_test
