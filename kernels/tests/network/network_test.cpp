// The network against a second, plain simulation of the same fluid: every flow is kept in a list,
// every event solves everything anew with a textbook filling. Slow, short, and written from the
// definition (the reading in sharing.hpp and network.hpp), not from the code under test.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labkit/network/network.hpp"
#include "labkit/topology/star.hpp"
#include "random.hpp"
#include "scenario.hpp"

namespace labkit::network_test {

using namespace labkit::test;

namespace {

struct Message {
  Time start;
  HostId from;
  HostId to;
  std::uint64_t bytes;
};

struct Fluid {
  std::vector<std::pair<LinkId, double>> loads;
  double weight;
  double bound;
  double factor;
  double left;
  Time active_from;
  Time end = kNever;
  double rate = 0;
  bool is_fixed = false;
};

Fluid make_fluid(const Platform& platform, const Model& model, const Message& message) {
  Route route;
  Route back;
  platform.route(message.from, message.to, route);
  platform.route(message.to, message.from, back);
  Fluid fluid{};
  fluid.end = kNever;
  fluid.left = static_cast<double>(message.bytes) + 16;
  fluid.factor = model.bandwidth_factor.at(fluid.left);
  fluid.bound = kNever;
  fluid.weight = route.latency_s;
  for (const LinkId link : route.links) {
    const double bandwidth = platform.link(link).bandwidth_bytes_per_s;
    fluid.loads.emplace_back(link, 1.0);
    fluid.bound = std::min(fluid.bound, bandwidth);
    fluid.weight += model.weight_s_bytes / bandwidth;
  }
  for (const LinkId link : back.links) {
    if (!model.cross_traffic) break;
    const auto same = std::find_if(fluid.loads.begin(), fluid.loads.end(),
                                   [link](const auto& load) { return load.first == link; });
    if (same == fluid.loads.end()) {
      fluid.loads.emplace_back(link, 0.05);
    } else {
      same->second += 0.05;
    }
  }
  if (model.tcp_gamma_bytes > 0) {
    fluid.bound = std::min(fluid.bound, model.tcp_gamma_bytes / (2 * route.latency_s));
  }
  fluid.active_from = message.start + route.latency_s * model.latency_factor.at(fluid.left);
  return fluid;
}

/// Raise the common level until a link is full or a flow is at its bound; stop those; repeat.
void fill(std::vector<Fluid*>& active, const Platform& platform) {
  for (Fluid* fluid : active) fluid->is_fixed = false;
  for (std::size_t left = active.size(); left > 0;) {
    double level = kNever;
    for (const Fluid* fluid : active) {
      if (!fluid->is_fixed) level = std::min(level, fluid->bound * fluid->weight);
    }
    std::vector<double> room(platform.link_count());
    std::vector<double> use(platform.link_count(), 0.0);
    for (std::size_t i = 0; i < room.size(); ++i) {
      room[i] = platform.links()[i].bandwidth_bytes_per_s;
    }
    for (const Fluid* fluid : active) {
      for (const auto& [link, a] : fluid->loads) {
        const std::size_t l = static_cast<std::size_t>(link);
        (fluid->is_fixed ? room[l] : use[l]) += fluid->is_fixed ? -a * fluid->rate : a / fluid->weight;
      }
    }
    for (std::size_t l = 0; l < room.size(); ++l) {
      if (use[l] > 0) level = std::min(level, room[l] / use[l]);
    }
    for (Fluid* fluid : active) {
      if (fluid->is_fixed) continue;
      bool is_stopped = fluid->bound * fluid->weight <= level * (1 + 1e-13);
      for (const auto& [link, a] : fluid->loads) {
        const std::size_t l = static_cast<std::size_t>(link);
        is_stopped = is_stopped || room[l] / use[l] <= level * (1 + 1e-13);
      }
      if (!is_stopped) continue;
      fluid->rate = level / fluid->weight;
    }
    for (Fluid* fluid : active) {
      if (fluid->is_fixed || fluid->rate == 0) continue;
      fluid->is_fixed = true;
      --left;
    }
  }
}

std::vector<Time> reference(const Platform& platform, const Model& model,
                            const std::vector<Message>& messages) {
  std::vector<Fluid> all;
  for (const Message& message : messages) all.push_back(make_fluid(platform, model, message));
  Time now = 0;
  for (;;) {
    std::vector<Fluid*> active;
    Time next = kNever;
    for (Fluid& fluid : all) {
      if (fluid.end != kNever) continue;
      if (fluid.active_from > now) {
        next = std::min(next, fluid.active_from);
      } else {
        fluid.rate = 0;
        active.push_back(&fluid);
      }
    }
    if (active.empty() && next == kNever) break;
    fill(active, platform);
    for (const Fluid* fluid : active) {
      next = std::min(next, now + fluid->left / (fluid->rate * fluid->factor));
    }
    for (Fluid* fluid : active) {
      const Time end = now + fluid->left / (fluid->rate * fluid->factor);
      fluid->left -= fluid->rate * fluid->factor * (next - now);
      if (end <= next * (1 + 1e-14)) fluid->end = next;
    }
    now = next;
  }
  std::vector<Time> ends;
  for (const Fluid& fluid : all) ends.push_back(fluid.end);
  return ends;
}

constexpr std::uint32_t kStart = 0;
constexpr std::uint32_t kLatency = 1;
constexpr std::uint32_t kEnd = 2;

std::vector<Time> simulate(std::shared_ptr<const Platform> platform, const Model& model,
                           const std::vector<Message>& messages) {
  EventQueue queue;
  Network network(platform, model, queue, {kLatency, kEnd});
  std::vector<Time> ends(messages.size(), kNever);
  for (std::uint32_t i = 0; i < messages.size(); ++i) queue.push(messages[i].start, {kStart, i, 0});
  for (;;) {
    Event event;
    while (queue.pop(event)) {
      std::uint32_t cookie = kNone;
      if (event.kind == kStart) {
        const Message& message = messages[event.id];
        network.start(message.from, message.to, message.bytes, event.id);
      } else if (event.kind == kLatency) {
        network.on_latency_over(event);
      } else if (network.on_flow_end(event, cookie)) {
        CHECK(ends[cookie] == kNever);
        ends[cookie] = queue.now();
      }
    }
    if (!network.is_settled()) network.settle();
    if (!queue.advance()) break;
  }
  CHECK(network.sharing().active_count() == 0);
  return ends;
}

void compare(const StarSpec& spec, const Model& model, std::size_t count, bool is_synchronous,
             std::uint64_t seed) {
  Random random(seed);
  std::vector<Message> messages;
  const std::size_t hosts = static_cast<std::size_t>(spec.hosts);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = random.below(hosts);
    const std::size_t to = (from + 1 + random.below(hosts - 1)) % hosts;
    const double start = is_synchronous ? 1e-3 * static_cast<double>(random.below(3)) : 1e-2 * random.unit();
    const std::uint64_t bytes = is_synchronous ? 100000 : random.below(200000);
    messages.push_back({start, static_cast<HostId>(from), static_cast<HostId>(to), bytes});
  }
  const auto platform = make_star(spec);
  const std::vector<Time> expected = reference(*platform, model, messages);
  const std::vector<Time> got = simulate(platform, model, messages);
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-10));
  }
}

}  // namespace

TEST_CASE("the network agrees with a plain fluid simulation") {
  StarSpec plain = plain_star(6, 1e8, 2e-5);
  StarSpec full = plain;
  full.backbone = BackboneSpec{1.5e8, 1e-5, Policy::shared};
  full.limiter_bandwidth_bytes_per_s = 1.2e8;
  StarSpec duplex = plain;
  duplex.duplex = Duplex::shared;
  std::uint64_t seed = 0;
  for (const StarSpec& spec : {plain, full, duplex}) {
    for (const Model& model : {raw_model(), cm02_model(), lv08_model(), smpi_model()}) {
      for (const bool is_synchronous : {false, true}) {
        CAPTURE(model.name);
        CAPTURE(is_synchronous);
        compare(spec, model, 120, is_synchronous, ++seed);
      }
    }
  }
}

TEST_CASE("with bounds that bind: long latencies") {
  for (std::uint64_t seed = 100; seed < 104; ++seed) {
    compare(plain_star(5, 1e8, 1e-2), cm02_model(), 100, seed % 2 == 0, seed);
  }
}

TEST_CASE("a flow moves what was sent, whatever happens to its rate") {
  // Alone for 0.5 s at 1e6 B/s, then two flows join:
  const auto platform = make_star(plain_star(6, 1e6, 0.0));
  const std::vector<Time> ends =
      simulate(platform, raw_model(),
               {{0.0, 0, 1, 2000000 - 16}, {0.5, 2, 1, 100000 - 16}, {0.5, 3, 1, 200000 - 16}});
  // 0.5 s alone: 0.5 MB; thirds until flow 2 has its 0.1 MB: 0.3 s; halves until flow 3 has its
  // other 0.1 MB: 0.2 s; flow 1 then has 0.5 + 0.1 + 0.1 MB and needs 1.3 s more.
  CHECK(ends[1] == doctest::Approx(0.8).epsilon(1e-12));
  CHECK(ends[2] == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(ends[0] == doctest::Approx(2.3).epsilon(1e-12));
}

}  // namespace labkit::network_test
