// Any bytes as calls of the builders of machines, what the reader of platform files makes and what it never
// would: a call works or is refused with std::invalid_argument; a machine that was built has lawful routes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "check.hpp"
#include "labkit/topology/degraded.hpp"
#include "labkit/topology/dragonfly.hpp"
#include "labkit/topology/fat_tree.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/topology/torus.hpp"
#include "labkit/topology/zones.hpp"

namespace {

using namespace labkit;
using fuzz::Bytes;
using Machine = std::shared_ptr<const Platform>;

constexpr int kMostCalls = 300;
constexpr HostId kMostHosts = 24;  // whose routes are all asked for

std::int32_t size(Bytes& in) {
  const std::uint8_t choice = in.byte();
  if (choice == 255) return static_cast<std::int32_t>(in.word());
  if (choice == 254) return 0x7fffffff;
  return static_cast<std::int32_t>(choice % 5);
}
double quantity(Bytes& in) { return in.byte() % 16 == 0 ? in.any_double() : 1e-6 * (1 + in.byte()); }
std::vector<std::int32_t> sizes(Bytes& in) {
  std::vector<std::int32_t> all(in.below(4));
  for (std::int32_t& one : all) one = size(in);
  return all;
}

template <typename Spec>
Spec options(Bytes& in) {
  Spec spec;
  const std::uint8_t chosen = in.byte();
  spec.duplex = static_cast<Duplex>(chosen % 3);
  if ((chosen & 4) != 0) spec.limiter_bandwidth_bytes_per_s = quantity(in);
  if ((chosen & 8) != 0) spec.loopback = LinkSpec{quantity(in), quantity(in)};
  if ((chosen & 16) != 0) spec.link = {quantity(in), quantity(in)};
  if ((chosen & 32) != 0) spec.cores = size(in);
  if ((chosen & 64) != 0) spec.speed_flops = quantity(in);
  return spec;
}

Machine cluster(Bytes& in) {
  switch (in.below(4)) {
    case 0: {
      auto spec = options<StarSpec>(in);
      spec.hosts = size(in);
      if (in.flag()) spec.backbone = BackboneSpec{quantity(in), quantity(in), static_cast<Policy>(in.below(2))};
      return make_star(spec);
    }
    case 1: {
      auto spec = options<TorusSpec>(in);
      spec.sizes = sizes(in);
      return make_torus(spec);
    }
    case 2: {
      auto spec = options<FatTreeSpec>(in);
      spec.down = sizes(in);
      spec.up = sizes(in);
      spec.cables = sizes(in);
      return make_fat_tree(spec);
    }
    default: {
      auto spec = options<DragonflySpec>(in);
      for (std::int32_t* field : {&spec.groups, &spec.blue, &spec.chassis, &spec.black, &spec.routers, &spec.green,
                                  &spec.nodes}) {
        *field = size(in);
      }
      spec.routing = static_cast<DragonflyRouting>(in.below(4));
      return make_dragonfly(spec);
    }
  }
}

/// How many zones, points and links there are, so that most calls name what is there.
struct Known {
  std::size_t zones = 0;
  std::size_t points = 0;
  std::size_t links = 0;
};

void call(Bytes& in, ZoneBuilder& builder, Known& known) {
  switch (in.below(8)) {
    case 0:
      builder.add_zone(in.index(known.zones), static_cast<Routing>(in.below(5)), "zone");
      ++known.zones;
      ++known.points;
      return;
    case 1:
      builder.add_host(in.index(known.zones), Host{quantity(in), size(in)}, "host");
      ++known.points;
      return;
    case 2:
      builder.add_router(in.index(known.zones), "router");
      ++known.points;
      return;
    case 3:
      builder.add_link({quantity(in), quantity(in), static_cast<Policy>(in.below(2))}, "link");
      ++known.links;
      return;
    case 4: {
      const Machine made = cluster(in);
      if (made->host_count() > 64) return;
      builder.add_cluster(in.index(known.zones), made, "cluster");
      ++known.zones;
      known.points += made->host_count() + 1;
      known.links += made->link_count();
      return;
    }
    default: {
      ZoneRoute route;
      const ZoneId zone = in.index(known.zones);
      route.src = in.index(known.points);
      route.dst = in.index(known.points);
      const std::uint8_t chosen = in.byte();
      if ((chosen & 1) != 0) route.gateway_src = in.index(known.points);
      if ((chosen & 2) != 0) route.gateway_dst = in.index(known.points);
      route.links.resize(chosen / 4 % 4);
      for (LinkId& link : route.links) link = in.index(known.links);
      builder.add_route(zone, route);
    }
  }
}

void check_route(const Platform& machine, HostId src, HostId dst, std::uint32_t way, Route& route) {
  try {
    machine.route_by(src, dst, way, route);
  } catch (const std::invalid_argument&) {
    return;  // no way leads there
  }
  LABKIT_FUZZ_CHECK(!route.links.empty());
  LABKIT_FUZZ_CHECK(route.latency_s >= 0.0);
  double sum = 0.0;
  for (const LinkId link : route.links) {
    LABKIT_FUZZ_CHECK(link >= 0 && static_cast<std::size_t>(link) < machine.link_count());
    sum += machine.link(link).latency_s;
  }
  LABKIT_FUZZ_CHECK(std::abs(sum - route.latency_s) <= 1e-9 * sum || !std::isfinite(sum));
  std::vector<LinkId> sorted = route.links;
  std::sort(sorted.begin(), sorted.end());
  const bool has_repeats = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  LABKIT_FUZZ_CHECK(has_repeats == route.has_repeats);
}

void check_machine(const Platform& machine) {
  LABKIT_FUZZ_CHECK(machine.host_count() > 0);
  (void)machine.router().describe();
  for (std::size_t link = 0; link < std::min<std::size_t>(machine.link_count(), 200); ++link) {
    LABKIT_FUZZ_CHECK(!machine.router().link_name(static_cast<LinkId>(link)).empty());
  }
  const auto hosts = std::min(kMostHosts, static_cast<HostId>(machine.host_count()));
  const LinkUse idle(machine.link_count(), 0);
  Route route;
  for (HostId src = 0; src < hosts; ++src) {
    for (HostId dst = 0; dst < hosts; ++dst) {
      check_route(machine, src, dst, 0, route);
      if (!machine.router().chooses()) continue;
      const std::uint32_t way = machine.router().choose(src, dst, 3, idle);
      check_route(machine, src, dst, way, route);
      check_route(machine, dst, src, way, route);
    }
  }
}

Machine built(Bytes& in) {
  if (in.below(4) == 0) return cluster(in);
  ZoneBuilder builder;
  Known known;
  for (int calls = 0; calls < kMostCalls && !in.is_empty(); ++calls) {
    try {
      call(in, builder, known);
    } catch (const std::invalid_argument&) {
      continue;
    }
  }
  return builder.build();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  const std::uint8_t worse = in.byte();
  try {
    Machine machine = built(in);
    if (machine->link_count() > 100000) return 0;
    if ((worse & 3) == 0) {
      const LinkId chosen = static_cast<LinkId>(worse / 4);
      machine = degraded(machine, std::span(&chosen, 1), 0.5, 2.0);
    }
    check_machine(*machine);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
