// Messages of a pair of hosts shared as one flow: the times and rates of flows of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labkit/network/certificate.hpp"
#include "labkit/network/flow_classes.hpp"
#include "random.hpp"
#include "random_network.hpp"

namespace labkit::flow_classes_test {

using namespace labkit::test;
using doctest::Approx;

TEST_CASE("members end in the order of what they have left, ties in the order of joining") {
  FlowClasses classes;
  const FlowClasses::Key key{1, 2, 0.5, 1e9};
  CHECK(classes.find(key) == kNone);
  classes.open(7, key);
  CHECK(classes.find(key) == 7);
  CHECK(classes.find({1, 2, 0.25, 1e9}) == kNone);
  CHECK(classes.is_idle(7));
  const std::uint32_t a = classes.announce(7, 10, 100);
  const std::uint32_t b = classes.announce(7, 4, 101);
  const std::uint32_t c = classes.announce(7, 3, 102);
  CHECK(!classes.is_idle(7));
  CHECK(classes.join(a, -1) == 10);
  CHECK(classes.join(b, 8) == 4);  // a has 8 left, b comes with 4
  CHECK(classes.join(c, 3) == 3);  // b has 3 left as c has: b came first
  CHECK(classes.count(7) == 3);
  double left = -1;
  CHECK(classes.pop(7, left) == 101);
  CHECK(left == 0);
  CHECK(classes.pop(7, left) == 102);
  CHECK(left == 4);
  CHECK(classes.pop(7, left) == 100);
  CHECK(classes.is_idle(7));
  classes.close(7);
  CHECK(classes.find(key) == kNone);
}

TEST_CASE("a class that never empties stays precise") {
  // Two members at any time, each of work 1, for a million messages: all tags stay small.
  FlowClasses classes;
  classes.open(0, {0, 1, 1, 1});
  double left = classes.join(classes.announce(0, 1.0, 0), 0);
  for (std::uint32_t i = 1; i < 1000000; ++i) {
    left -= 0.25;  // the class has moved so much for each
    (void)classes.join(classes.announce(0, 1.0, i), left);
    CHECK(classes.pop(0, left) == i - 1);
    CHECK(left == 0.25);  // to the last bit: all these numbers are exact as long as they are small
    left = 1.0;
    (void)classes.pop(0, left);
    left = classes.join(classes.announce(0, 1.0, i), 0);
  }
}

namespace {

/// The same flows, each by itself and as classes: five kinds of flow over links of both policies.
struct Twins {
  Sharing alone;
  Sharing together;
  std::vector<std::vector<LinkLoad>> loads;
  std::vector<double> weights, bounds;
  std::vector<std::vector<FlowId>> members;  // in `alone`
  std::vector<FlowId> classes;               // in `together`

  Twins(const std::vector<Link>& links, Random& random, SharingOptions options)
      : alone(links), together(links, options), members(5), classes(5, kNone) {
    for (std::size_t kind = 0; kind < 5; ++kind) {
      std::vector<LinkLoad> own;
      for (std::size_t link = 0; link < links.size(); ++link) {
        if (random.below(2) == 0) own.push_back({static_cast<LinkId>(link), random.below(3) == 0 ? 0.05 : 1.0});
      }
      if (own.empty()) own.push_back({0, 1.0});
      loads.push_back(own);
      weights.push_back(std::exp2(4 * random.unit() - 2));
      bounds.push_back(random.below(2) == 0 ? 1e8 * (0.01 + random.unit()) : kNever);
    }
  }
  void add(std::size_t kind) {
    members[kind].push_back(alone.create(loads[kind], weights[kind], bounds[kind]));
    alone.activate(members[kind].back());
    const std::uint32_t count = static_cast<std::uint32_t>(members[kind].size());
    if (count > 1) {
      together.resize(classes[kind], count, 1e6, 0);
    } else {
      classes[kind] = together.create(loads[kind], weights[kind], bounds[kind]);
      together.activate(classes[kind], 1e6);
    }
  }
  void remove(std::size_t kind) {
    if (members[kind].empty()) return;
    alone.remove(members[kind].back());
    members[kind].pop_back();
    if (members[kind].empty()) {
      together.remove(classes[kind], 0);
    } else {
      together.resize(classes[kind], static_cast<std::uint32_t>(members[kind].size()), 1e6, 0);
    }
  }
  void compare() {
    alone.solve_all();
    if (together.is_incremental()) {
      together.repair(0);
    } else {
      together.solve();
    }
    for (std::size_t kind = 0; kind < 5; ++kind) {
      for (const FlowId flow : members[kind]) {
        CHECK(together.rate(classes[kind]) == Approx(alone.rate(flow)).epsilon(1e-9));
      }
    }
    if (!together.is_incremental()) return;  // the certificate does not know coupling pipes
    CHECK(certify(together).without_bottleneck == 0);
    CHECK(certify(together).perturbation < 2e-10);
  }
};

}  // namespace

TEST_CASE("a class has the rate of its members, whoever comes and goes, in both solvers") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    for (const bool repairs : {false, true}) {
      CAPTURE(repairs);
      Random random(seed);
      std::vector<Link> links;
      for (std::size_t i = 0; i < 6; ++i) {
        const bool is_pipe = !repairs && random.below(3) == 0;  // repairs know no coupling pipes
        links.push_back({1e8 * (0.1 + random.unit()), 0, is_pipe ? Policy::fatpipe : Policy::shared});
      }
      SharingOptions options;
      options.solver = repairs ? Solver::incremental : Solver::filling;
      Twins twins(links, random, options);
      if (repairs) {
        twins.together.begin_incremental();
        twins.together.finish_incremental(0);
      }
      for (int step = 0; step < 60; ++step) {
        const std::size_t changes = 1 + random.below(4);
        for (std::size_t i = 0; i < changes; ++i) {
          const std::size_t kind = random.below(5);
          random.below(5) < 3 ? twins.add(kind) : twins.remove(kind);
        }
        twins.compare();
      }
    }
  }
}

TEST_CASE("every message ends when it would end by itself, whatever the solver") {
  std::uint64_t repairs = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto platform = random_platform(4, 3 + seed % 8, seed, seed % 3 == 0);
    for (const Model& model : {raw_model(), cross_traffic_model()}) {
      CAPTURE(model.name);
      const Load load{400, 1e-2, 200000};
      SharingOptions options{0.0, Solver::filling};
      options.classes = Classes::never;
      const Ran alone = simulate(platform, model, options, load, seed);
      options.classes = Classes::always;
      for (const Solver solver : {Solver::filling, Solver::incremental, Solver::automatic}) {
        options.solver = solver;
        const Ran together = simulate(platform, model, options, load, seed);
        for (std::size_t i = 0; i < alone.ends.size(); ++i) {
          CHECK(together.ends[i] == Approx(alone.ends[i]).epsilon(4e-10));
        }
        repairs += together.repairs;
      }
    }
  }
  CHECK(repairs > 10000);
}

TEST_CASE("equal messages that start together end together, at one sharing for all") {
  const auto platform = make_star(plain_star(4, 1e8, 1e-5));
  Load load{600, 0.0, 1};
  load.least_bytes = 100000;
  SharingOptions options;
  options.classes = Classes::always;
  const Ran together = simulate(platform, raw_model(), options, load, 3);
  options.classes = Classes::never;
  const Ran alone = simulate(platform, raw_model(), options, load, 3);
  std::vector<Time> different = together.ends;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  CHECK(different.size() <= 16);  // one a pair of hosts
  CHECK(together.solves <= 2 + 16);
  for (std::size_t i = 0; i < alone.ends.size(); ++i) CHECK(together.ends[i] == Approx(alone.ends[i]).epsilon(1e-12));
}

TEST_CASE("where ranks share hosts classes are used by themselves, with the same times") {
  Time makespans[2];
  for (const Classes classes : {Classes::never, Classes::automatic}) {
    SharingOptions options;
    options.classes = classes;
    std::vector<HostId> hosts;
    for (HostId rank = 0; rank < 24; ++rank) hosts.push_back(rank / 6);
    Engine engine(make_star(plain_star(4)), smpi_model(), hosts, options);
    for (Rank rank = 0; rank < 24; ++rank) engine.start(rank, 1e-6 * rank);
    std::vector<bool> has_posted(24, false);
    while (engine.advance(1000) != Advance::idle) {
      for (Rank rank = engine.next_ready(); rank >= 0; rank = engine.next_ready()) {
        if (has_posted[static_cast<std::size_t>(rank)]) {
          engine.finish(rank);
          continue;
        }
        has_posted[static_cast<std::size_t>(rank)] = true;
        std::vector<RequestId> all;
        for (Rank k = 1; k < 24; ++k) {
          ReceivePost receive;
          receive.rank = rank;
          receive.source = (rank + k) % 24;
          receive.capacity_bytes = 1 << 20;
          all.push_back(engine.receive(receive));
          SendPost send;
          send.rank = rank;
          send.dest = (rank + k) % 24;
          send.bytes = static_cast<std::uint64_t>(1000 * ((rank * 7 + k * 5) % 40));
          all.push_back(engine.send(send));
        }
        if (engine.wait_all(rank, all)) engine.finish(rank);
        for (const RequestId id : all) engine.release(id);
      }
    }
    makespans[classes == Classes::never ? 0 : 1] = engine.makespan();
  }
  CHECK(makespans[1] == Approx(makespans[0]).epsilon(1e-12));
  CHECK(makespans[0] > 0);
}

}  // namespace labkit::flow_classes_test
