// Zones in zones, routed as SimGrid's: every zone joins its points (hosts and routers, or zones) by routes
// of its own, and a message between two zones passes the gateways that the common zone's route names.
//
// Kinds of zones:
//   full      a route for every ordered pair that has one
//   floyd,    routes are the edges of a graph, as long as they have links; a message takes a shortest path
//   dijkstra  (ties: labkit/shortest_paths.hpp; floyd numbers points in the order in which they were added,
//             dijkstra in the order in which routes name them)
//   star      links from each point to the middle and back; a link that both ways share is crossed once
//   none      no routes
//   cluster   a star, torus, fat tree, ... of its own, and a router in it; the links between a host and the
//             router are the topology's (Router::to_gateway, Router::from_gateway)
//
// A bypass of a zone comes first, where the zone is the innermost one around both ends: for hosts and routers of
// the zone itself their own pair, for others the innermost pair of zones around them that has one.
//
// Where a path goes on from a zone at another gateway than it came in by, the links between the two
// gateways are crossed, too. A message within a host of a full, floyd or dijkstra zone takes the host's
// route to itself or else one fat pipe of 10 GB/s and 0 s that all hosts have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "labkit/topology/platform.hpp"

namespace labkit {

using ZoneId = std::int32_t;
/// A host, a router, or a zone seen from the zone around it.
using PointId = std::int32_t;
inline constexpr PointId kNoPoint = -1;
inline constexpr LinkId kMaxZoneLinks = LinkId{1} << 24;

enum class Routing : std::uint8_t { full, floyd, dijkstra, star, none };

/// Links from one point of a zone to another. In a star one end is kNoPoint: the middle; a route from a
/// point to itself is its loopback. Gateways: where the ends are zones, hosts or routers inside them.
struct ZoneRoute {
  PointId src = kNoPoint;
  PointId dst = kNoPoint;
  PointId gateway_src = kNoPoint;
  PointId gateway_dst = kNoPoint;
  std::vector<LinkId> links;
};

class ZoneRouter;

/// Collects zones, points, links and routes, then becomes a platform. Every call throws
/// std::invalid_argument when it names a zone, point or link that is not there, or gives a pair of points
/// a second route.
class ZoneBuilder {
 public:
  ZoneBuilder();
  ~ZoneBuilder();
  ZoneBuilder(const ZoneBuilder&) = delete;
  ZoneBuilder& operator=(const ZoneBuilder&) = delete;

  /// The first zone is the root, with parent -1.
  ZoneId add_zone(ZoneId parent, Routing routing, std::string name);
  PointId add_host(ZoneId zone, const Host& host, std::string name);
  PointId add_router(ZoneId zone, std::string name);
  LinkId add_link(const Link& link, std::string name);
  /// A whole cluster as a zone: its hosts become `first_host` and the following points, in their order.
  struct Cluster {
    ZoneId zone;
    PointId first_host;
    PointId router;
  };
  Cluster add_cluster(ZoneId parent, std::shared_ptr<const Platform> cluster, std::string name);
  /// A zone as a point of its parent.
  [[nodiscard]] PointId point_of(ZoneId zone) const;
  void add_route(ZoneId zone, const ZoneRoute& route);
  /// Links that replace what the zone's routing finds from src to dst: two hosts or routers of the zone, or two
  /// zones inside it, at whatever depth.
  void add_bypass(ZoneId zone, const ZoneRoute& route);
  /// Hosts are numbered in the order in which they were added. The builder is empty afterwards.
  std::shared_ptr<const Platform> build(Profiles profiles = {});

 private:
  std::int32_t store(const ZoneRoute& route);

  std::unique_ptr<ZoneRouter> router_;
  std::vector<Host> hosts_;
  std::vector<Link> links_;
};

}  // namespace labkit
