#include "labkit/topology/zones.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "zone_router.hpp"

namespace labkit {
namespace {

constexpr double kLoopbackBytesPerS = 10e9;  // SimGrid's network/loopback-bw
constexpr std::int32_t kMaxDepth = 256;

template <typename Container>
void check_index(const Container& container, std::int32_t index, const char* what) {
  if (index < 0 || static_cast<std::size_t>(index) >= container.size()) {
    throw std::invalid_argument(std::string("there is no such ") + what + ": " + std::to_string(index));
  }
}

/// Where the end of a route is a zone, a host or router inside it is the gateway; elsewhere there is none.
void check_gateway(const ZoneRouter& router, PointId end, PointId gateway) {
  const ZoneId zone = end == kNoPoint ? -1 : router.points[static_cast<std::size_t>(end)].inside;
  if ((zone >= 0) != (gateway != kNoPoint)) {
    throw std::invalid_argument("a route has a gateway where its end is a zone, and only there");
  }
  if (zone < 0) return;
  check_index(router.points, gateway, "point");
  const auto& point = router.points[static_cast<std::size_t>(gateway)];
  ZoneId around = point.zone;
  while (around != zone && around > 0) around = router.zones[static_cast<std::size_t>(around)].parent;
  if (around != zone || point.inside >= 0) {
    throw std::invalid_argument("a gateway is a host or router inside the zone it belongs to");
  }
}

}  // namespace

ZoneBuilder::ZoneBuilder() : router_(std::make_unique<ZoneRouter>()) {}
ZoneBuilder::~ZoneBuilder() = default;

ZoneId ZoneBuilder::add_zone(ZoneId parent, Routing routing, std::string name) {
  auto& zones = router_->zones;
  const auto id = static_cast<ZoneId>(zones.size());
  if ((id == 0) != (parent < 0)) throw std::invalid_argument("the first zone, and no other, has no parent");
  ZoneRouter::Zone zone{parent, kNoPoint, 0, 0, std::move(name), make_local_routes(routing), nullptr, 0, {}};
  if (id > 0) {
    check_index(zones, parent, "zone");
    auto& around = zones[static_cast<std::size_t>(parent)];
    if (around.cluster) throw std::invalid_argument("a cluster holds no zones");
    zone.depth = around.depth + 1;
    if (zone.depth > kMaxDepth) throw std::invalid_argument("zones lie more than 256 deep in each other");
    zone.point = static_cast<PointId>(router_->points.size());
    router_->points.push_back({parent, around.points++, id});
    router_->names.emplace(zone.point, zone.name);
  }
  zones.push_back(std::move(zone));
  return id;
}

PointId ZoneBuilder::add_router(ZoneId zone, std::string name) {
  check_index(router_->zones, zone, "zone");
  auto& around = router_->zones[static_cast<std::size_t>(zone)];
  if (around.cluster) throw std::invalid_argument("a cluster has its own hosts and router only");
  const auto id = static_cast<PointId>(router_->points.size());
  router_->points.push_back({zone, around.points++, -1});
  router_->names.emplace(id, std::move(name));
  return id;
}

PointId ZoneBuilder::add_host(ZoneId zone, const Host& host, std::string name) {
  const PointId id = add_router(zone, std::move(name));
  hosts_.push_back(host);
  router_->host_points.push_back(id);
  return id;
}

LinkId ZoneBuilder::add_link(const Link& link, std::string name) {
  const auto id = static_cast<LinkId>(links_.size());
  if (links_.size() >= static_cast<std::size_t>(kMaxZoneLinks)) {
    throw std::invalid_argument("there are more than 2^24 links, the most there may be");
  }
  links_.push_back(link);
  router_->latencies.push_back(link.latency_s);
  router_->link_names.emplace(id, std::move(name));
  return id;
}

ZoneBuilder::Cluster ZoneBuilder::add_cluster(ZoneId parent, std::shared_ptr<const Platform> cluster,
                                              std::string name) {
  if (!cluster) throw std::invalid_argument("a cluster zone needs a platform");
  if (links_.size() + cluster->link_count() > static_cast<std::size_t>(kMaxZoneLinks)) {
    throw std::invalid_argument("there are more than 2^24 links, the most there may be");
  }
  const ZoneId zone = add_zone(parent, Routing::none, std::move(name));
  auto& made = router_->zones[static_cast<std::size_t>(zone)];
  const auto first = static_cast<PointId>(router_->points.size());
  for (std::size_t i = 0; i < cluster->host_count(); ++i) {
    hosts_.push_back(cluster->host(static_cast<HostId>(i)));
    router_->host_points.push_back(static_cast<PointId>(router_->points.size()));
    router_->points.push_back({zone, made.points++, -1});
  }
  const PointId router = add_router(zone, made.name + "'s router");
  made.first_link = static_cast<LinkId>(links_.size());
  router_->cluster_links.push_back({made.first_link, zone});
  for (const Link& link : cluster->links()) {
    links_.push_back(link);
    router_->latencies.push_back(link.latency_s);
  }
  made.cluster = std::move(cluster);
  return {zone, first, router};
}

PointId ZoneBuilder::point_of(ZoneId zone) const {
  check_index(router_->zones, zone, "zone");
  return router_->zones[static_cast<std::size_t>(zone)].point;
}

void ZoneBuilder::add_route(ZoneId zone, const ZoneRoute& route) {
  check_index(router_->zones, zone, "zone");
  auto& around = router_->zones[static_cast<std::size_t>(zone)];
  if (around.cluster) throw std::invalid_argument("a cluster has its own routes only");
  const auto local = [&](PointId point) {
    if (point == kNoPoint) return kNoPoint;
    check_index(router_->points, point, "point");
    const auto& found = router_->points[static_cast<std::size_t>(point)];
    if (found.zone != zone) throw std::invalid_argument("a route's end is not in its zone");
    return found.local;
  };
  const std::int32_t src = local(route.src);
  const std::int32_t dst = local(route.dst);
  const bool is_star = !around.routes->has_common_loopback();
  if ((src < 0 || dst < 0) && !(is_star && (src >= 0 || dst >= 0))) {
    throw std::invalid_argument("a route needs two ends");
  }
  if (route.links.empty() && !is_star) throw std::invalid_argument("a route needs a link");
  const auto length = static_cast<std::int32_t>(route.links.size());
  around.routes->add(src, dst, store(route), length);
}

void ZoneBuilder::add_bypass(ZoneId zone, const ZoneRoute& route) {
  check_index(router_->zones, zone, "zone");
  check_index(router_->points, route.src, "point");
  check_index(router_->points, route.dst, "point");
  if (route.links.empty()) throw std::invalid_argument("a bypass needs a link");
  auto& known = router_->zones[static_cast<std::size_t>(zone)].bypasses;
  const auto key = pair_key(route.src, route.dst);
  if (known.contains(key)) throw std::invalid_argument("there already is a bypass");
  known.emplace(key, store(route));
}

/// Checks gateways and links, and keeps the route; returns its step.
std::int32_t ZoneBuilder::store(const ZoneRoute& route) {
  check_gateway(*router_, route.src, route.gateway_src);
  check_gateway(*router_, route.dst, route.gateway_dst);
  for (const LinkId link : route.links) check_index(links_, link, "link");
  const auto step = static_cast<std::int32_t>(router_->steps.size());
  router_->steps.push_back({static_cast<std::uint32_t>(router_->pool.size()),
                            static_cast<std::uint32_t>(route.links.size()), route.gateway_src,
                            route.gateway_dst});
  router_->pool.insert(router_->pool.end(), route.links.begin(), route.links.end());
  return step;
}

std::shared_ptr<const Platform> ZoneBuilder::build(Profiles profiles) {
  for (const auto& zone : router_->zones) {
    if (!zone.cluster) zone.routes->seal(zone.points);
  }
  router_->common_loopback = add_link({kLoopbackBytesPerS, 0.0, Policy::fatpipe}, "common loopback");
  auto router = std::exchange(router_, std::make_unique<ZoneRouter>());
  return std::make_shared<const Platform>(std::exchange(hosts_, {}), std::exchange(links_, {}),
                                          std::move(router), std::move(profiles));
}

}  // namespace labkit
