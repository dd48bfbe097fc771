// Random systems: is it the max-min solution, does nothing overflow, is incremental = from scratch?
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labkit/network/sharing.hpp"
#include "random.hpp"

namespace labkit::sharing_property_test {

using labkit::test::Random;

namespace {

constexpr double kTolerance = 1e-9;

struct World {
  std::vector<Link> links;
  Sharing sharing;
  std::vector<FlowId> active;
  Random random;
  bool has_equal_weights;

  World(std::vector<Link> all, std::uint64_t seed, bool equal)
      : links(all), sharing(all), random(seed), has_equal_weights(equal) {}

  void add_flow() {
    std::vector<LinkLoad> loads;
    const int count = 1 + static_cast<int>(random.below(5));
    for (int i = 0; i < count; ++i) {
      const LinkId link = static_cast<LinkId>(random.below(links.size()));
      const bool is_new = std::none_of(loads.begin(), loads.end(),
                                       [link](const LinkLoad& load) { return load.link == link; });
      if (is_new) loads.push_back({link, random.below(3) == 0 ? 0.05 : 1.0});
    }
    const double weight = has_equal_weights ? 1.0 : std::exp2(6 * random.unit() - 3);
    const double bound = random.below(3) == 0 ? 1e8 * (0.01 + random.unit()) : kNever;
    const FlowId flow = sharing.create(loads, weight, bound);
    sharing.activate(flow);
    active.push_back(flow);
  }
  void remove_flow() {
    if (active.empty()) return;
    const std::size_t which = random.below(active.size());
    sharing.remove(active[which]);
    active[which] = active.back();
    active.pop_back();
  }
};

World make_world(std::uint64_t seed) {
  Random random(seed);
  const bool equal = random.below(2) == 0;
  std::vector<Link> links;
  const std::size_t count = 2 + random.below(30);
  for (std::size_t i = 0; i < count; ++i) {
    const double capacity = equal ? 1e8 : 1e8 * (0.1 + random.unit());
    links.push_back({capacity, 0, random.below(5) == 0 ? Policy::fatpipe : Policy::shared});
  }
  return World(std::move(links), seed + 1, equal);
}

/// The load of every link; a fat pipe's is its largest single load.
std::vector<double> loads_of(const World& world) {
  std::vector<double> load(world.links.size(), 0.0);
  for (const FlowId flow : world.active) {
    for (const LinkLoad& use : world.sharing.loads(flow)) {
      const std::size_t link = static_cast<std::size_t>(use.link);
      const double part = use.coefficient * world.sharing.rate(flow);
      load[link] = world.links[link].policy == Policy::fatpipe ? std::max(load[link], part)
                                                               : load[link] + part;
    }
  }
  return load;
}

void check_no_overload(const World& world) {
  const std::vector<double> load = loads_of(world);
  for (std::size_t link = 0; link < load.size(); ++link) {
    CHECK(load[link] <= world.links[link].bandwidth_bytes_per_s * (1 + kTolerance));
  }
}

/// Every flow runs at its bound, or has a saturated link where nobody's weighted rate is higher.
void check_bottlenecks(const World& world) {
  const std::vector<double> load = loads_of(world);
  std::vector<double> highest(world.links.size(), 0.0);
  const Sharing& sharing = world.sharing;
  for (const FlowId flow : world.active) {
    for (const LinkLoad& use : sharing.loads(flow)) {
      double& here = highest[static_cast<std::size_t>(use.link)];
      here = std::max(here, sharing.rate(flow) * sharing.weight(flow));
    }
  }
  for (const FlowId flow : world.active) {
    const double rate = sharing.rate(flow);
    CHECK(rate > 0);
    CHECK(rate <= sharing.bound(flow) * (1 + kTolerance));
    bool has_bottleneck = rate >= sharing.bound(flow) * (1 - kTolerance);
    for (const LinkLoad& use : sharing.loads(flow)) {
      const std::size_t link = static_cast<std::size_t>(use.link);
      const bool is_full = load[link] >= world.links[link].bandwidth_bytes_per_s * (1 - kTolerance);
      has_bottleneck = has_bottleneck ||
                       (is_full && rate * sharing.weight(flow) >= highest[link] * (1 - kTolerance));
    }
    CHECK(has_bottleneck);
  }
}

std::vector<double> rates_of(const World& world) {
  std::vector<double> rates;
  for (const FlowId flow : world.active) rates.push_back(world.sharing.rate(flow));
  return rates;
}

}  // namespace

TEST_CASE("random systems are max-min fair, step by step") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    World world = make_world(1000 + seed);
    CAPTURE(seed);
    for (int step = 0; step < 40; ++step) {
      const std::size_t changes = 1 + world.random.below(4);
      for (std::size_t i = 0; i < changes; ++i) {
        if (world.random.below(5) < 3) {
          world.add_flow();
        } else {
          world.remove_flow();
        }
      }
      world.sharing.solve();
      check_no_overload(world);
      check_bottlenecks(world);
    }
  }
}

TEST_CASE("solving the touched part gives what solving everything gives") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    World world = make_world(2000 + seed);
    CAPTURE(seed);
    for (int step = 0; step < 40; ++step) {
      if (world.random.below(5) < 3) {
        world.add_flow();
      } else {
        world.remove_flow();
      }
      const std::vector<double> before = rates_of(world);
      const std::vector<FlowId> changed = world.sharing.solve();
      const std::vector<double> touched = rates_of(world);
      // Who was not named has kept its rate to the last bit.
      for (std::size_t i = 0; i < touched.size(); ++i) {
        const bool is_named =
            std::find(changed.begin(), changed.end(), world.active[i]) != changed.end();
        CHECK((is_named || before[i] == touched[i]));
      }
      world.sharing.solve_all();
      const std::vector<double> all = rates_of(world);
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(touched[i] == doctest::Approx(all[i]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("the order of adding does not matter") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    World world = make_world(3000 + seed);
    for (int i = 0; i < 50; ++i) world.add_flow();
    world.sharing.solve();
    World mirror(world.links, 0, true);
    std::vector<FlowId> ids(world.active.size());
    for (std::size_t i = ids.size(); i-- > 0;) {
      const FlowId old = world.active[i];
      ids[i] = mirror.sharing.create(world.sharing.loads(old), world.sharing.weight(old),
                                     world.sharing.bound(old));
      mirror.sharing.activate(ids[i]);
      mirror.sharing.solve();  // one at a time against all at once
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      CHECK(mirror.sharing.rate(ids[i]) ==
            doctest::Approx(world.sharing.rate(world.active[i])).epsilon(1e-12));
    }
  }
}

}  // namespace labkit::sharing_property_test
