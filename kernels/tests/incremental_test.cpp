// Repairs against filling: the same flows, rate by rate, and the same messages, end by end.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labkit/network.hpp"
#include "labkit/sharing.hpp"
#include "random.hpp"
#include "scenario.hpp"

using namespace labkit;
using namespace labkit::test;
using doctest::Approx;

namespace {

Link shared(double capacity) { return {capacity, 1e-6, Policy::shared}; }

/// Random routes over a few links, fixed by the pair: flows meet everywhere.
class RandomRouter final : public Router {
 public:
  RandomRouter(std::size_t links, std::uint64_t seed) : links_(links), seed_(seed) {}
  void route(HostId src, HostId dst, Route& out) const override {
    Random random(seed_ + static_cast<std::uint64_t>(src) * 1000 + static_cast<std::uint64_t>(dst));
    const std::size_t count = 1 + random.below(4);
    for (std::size_t i = 0; i < count; ++i) {
      const LinkId link = static_cast<LinkId>(random.below(links_));
      if (std::find(out.links.begin(), out.links.end(), link) != out.links.end()) continue;
      out.links.push_back(link);
      out.latency_s += 1e-6 * static_cast<double>(1 + link % 3);
    }
  }
  [[nodiscard]] std::string link_name(LinkId link) const override { return std::to_string(link); }
  [[nodiscard]] std::string describe() const override { return "random routes"; }

 private:
  std::size_t links_;
  std::uint64_t seed_;
};

std::shared_ptr<const Platform> random_platform(std::size_t hosts, std::size_t links, std::uint64_t seed,
                                                bool has_pipes) {
  Random random(seed);
  std::vector<Link> all;
  for (std::size_t i = 0; i < links; ++i) {
    const Policy policy = has_pipes && random.below(4) == 0 ? Policy::fatpipe : Policy::shared;
    all.push_back({1e8 * (0.2 + random.unit()), 1e-6 * static_cast<double>(1 + i % 3), policy});
  }
  return std::make_shared<const Platform>(std::vector<Host>(hosts, Host{1e9, 1}), all,
                                          std::make_unique<const RandomRouter>(links, seed));
}

struct Ran {
  std::vector<Time> ends;
  std::uint64_t repairs = 0;
  std::uint64_t rebuilds = 0;
};

struct Load {
  std::size_t messages = 400;
  double spread_s = 1e-2;
  std::uint64_t largest_bytes = 200000;
};

Ran simulate(std::shared_ptr<const Platform> platform, const Model& model, SharingOptions options, const Load& load,
             std::uint64_t seed) {
  EventQueue queue;
  Network network(platform, model, queue, {1, 2}, options);
  Random random(seed);
  Ran ran;
  struct Message {
    HostId from, to;
    std::uint64_t bytes;
  };
  std::vector<Message> messages;
  for (std::uint32_t i = 0; i < load.messages; ++i) {
    const std::size_t hosts = platform->host_count();
    messages.push_back({static_cast<HostId>(random.below(hosts)), static_cast<HostId>(random.below(hosts)),
                        random.below(load.largest_bytes)});
    queue.push(load.spread_s * random.unit(), {0, i, 0});
  }
  ran.ends.assign(messages.size(), kNever);
  for (;;) {
    Event event;
    while (queue.pop(event)) {
      std::uint32_t cookie = kNone;
      if (event.kind == 0) {
        const Message& message = messages[event.id];
        network.start(message.from, message.to, message.bytes, event.id);
      } else if (event.kind == 1) {
        network.on_latency_over(event);
      } else if (network.on_flow_end(event, cookie)) {
        CHECK(ran.ends[cookie] == kNever);
        ran.ends[cookie] = queue.now();
      }
    }
    if (!network.is_settled()) {
      network.settle();
      continue;
    }
    if (!queue.advance()) break;
  }
  CHECK(network.sharing().active_count() == 0);
  ran.repairs = network.sharing().repairs();
  ran.rebuilds = network.sharing().rebuilds();
  return ran;
}

Model cross_traffic_model() {
  Model model = lv08_model();
  model.cross_traffic = true;
  return model;
}

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
