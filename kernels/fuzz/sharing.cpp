// Any bytes as flows that come, change and go on a few links: what is solved step by step is what a solution
// from scratch gives, no link is overloaded, and every flow is held back by its bound or a full link.
//
// Capacities, weights and bounds come from few values, so that many things tie.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "bytes.hpp"
#include "check.hpp"
#include "labkit/network/certificate.hpp"
#include "labkit/network/sharing.hpp"

namespace {

using namespace labkit;
using fuzz::Bytes;

constexpr double kTolerance = 1e-9;
constexpr std::array<double, 6> kCapacities = {1.0, 2.0, 3.0, 10.0, 1e8, 1.25e9};
constexpr std::array<double, 6> kWeights = {1.0, 2.0, 0.5, 3.0, 1e-3, 1e3};
constexpr std::array<double, 6> kBounds = {kNever, 1.0, 2.0, 0.7, 1e8, 5e7};
constexpr std::size_t kMostFlows = 40;
constexpr int kMostSteps = 120;

struct World {
  explicit World(std::vector<Link> all) : links(std::move(all)), sharing(links) {}
  std::vector<Link> links;
  Sharing sharing;
  std::vector<FlowId> flows;
};

World make_world(Bytes& in) {
  std::vector<Link> links(1 + in.below(16));
  for (Link& link : links) {
    link = {in.one_of(kCapacities), 0.0, in.below(4) == 0 ? Policy::fatpipe : Policy::shared};
  }
  return World(std::move(links));
}

void add(Bytes& in, World& world) {
  if (world.flows.size() == kMostFlows) return;
  std::vector<LinkLoad> loads;
  for (std::size_t n = in.below(5); n > 0; --n) {
    const auto link = static_cast<LinkId>(in.below(world.links.size()));
    const bool is_new = std::none_of(loads.begin(), loads.end(), [link](const LinkLoad& load) { return load.link == link; });
    if (is_new) loads.push_back({link, in.below(3) == 0 ? 0.05 : 1.0});
  }
  const double weight = in.one_of(kWeights);
  const double bound = loads.empty() ? 1.0 : in.one_of(kBounds);
  const FlowId flow = world.sharing.create(loads, weight, bound);
  world.sharing.activate(flow);
  world.flows.push_back(flow);
}

void change(Bytes& in, World& world) {
  const std::uint8_t what = in.byte() % 8;
  if (what < 3 || world.flows.empty()) return add(in, world);
  const std::size_t which = in.below(world.flows.size());
  const FlowId flow = world.flows[which];
  switch (what) {
    case 3:
    case 4:
      world.sharing.remove(flow);
      world.flows.erase(world.flows.begin() + static_cast<std::ptrdiff_t>(which));
      return;
    case 5:
      return world.sharing.set_bound(flow, in.one_of(kBounds));
    case 6:
      return world.sharing.resize(flow, static_cast<std::uint32_t>(1 + in.below(9)), 0.0, 0.0);
    default:  // away and back within an instant
      world.sharing.deactivate(flow);
      world.sharing.activate(flow);
  }
}

void check_loads(const World& world) {
  std::vector<double> load(world.links.size(), 0.0);
  for (const FlowId flow : world.flows) {
    for (const LinkLoad& use : world.sharing.loads(flow)) {
      const auto link = static_cast<std::size_t>(use.link);
      const double rate = use.coefficient * world.sharing.rate(flow);
      load[link] = world.links[link].policy == Policy::fatpipe
                       ? std::max(load[link], rate)
                       : load[link] + rate * world.sharing.table().flow(flow).count;
    }
  }
  for (std::size_t link = 0; link < load.size(); ++link) {
    LABKIT_FUZZ_CHECK(load[link] <= world.links[link].bandwidth_bytes_per_s * (1 + kTolerance));
  }
}

std::vector<double> rates(const World& world) {
  std::vector<double> all;
  for (const FlowId flow : world.flows) all.push_back(world.sharing.rate(flow));
  return all;
}

void check_step(World& world) {
  world.sharing.solve();
  const std::vector<double> touched = rates(world);
  for (std::size_t i = 0; i < touched.size(); ++i) {
    LABKIT_FUZZ_CHECK(touched[i] > 0.0);
    LABKIT_FUZZ_CHECK(touched[i] <= world.sharing.bound(world.flows[i]) * (1 + kTolerance));
  }
  check_loads(world);
  const bool has_pipes = std::any_of(world.links.begin(), world.links.end(),
                                     [](const Link& link) { return link.policy == Policy::fatpipe; });
  if (!has_pipes) {
    const Certificate found = certify(world.sharing);
    LABKIT_FUZZ_CHECK(found.without_bottleneck == 0);
    LABKIT_FUZZ_CHECK(found.perturbation <= kTolerance);
  }
  world.sharing.solve_all();
  const std::vector<double> all = rates(world);
  for (std::size_t i = 0; i < all.size(); ++i) {
    LABKIT_FUZZ_CHECK(all[i] == touched[i] || std::abs(all[i] - touched[i]) <= kTolerance * all[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  World world = make_world(in);
  for (int step = 0; step < kMostSteps && !in.is_empty(); ++step) {
    for (std::size_t changes = 1 + in.below(3); changes > 0; --changes) change(in, world);
    check_step(world);
  }
  return 0;
}
