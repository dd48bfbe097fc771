// What a machine of zones looks like while it runs: points, zones, and the routes of each zone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "labkit/topology/shortest_paths.hpp"
#include "labkit/topology/zones.hpp"

namespace labkit {

/// A stored route: links [first, first + count) of the pool.
struct RouteStep {
  std::uint32_t first;
  std::uint32_t count;
  PointId gateway_src;
  PointId gateway_dst;
};
inline constexpr std::int32_t kNoStep = -1;

inline std::uint64_t pair_key(std::int32_t src, std::int32_t dst) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(src)) << 32U | static_cast<std::uint32_t>(dst);
}

/// How a zone joins its points; points have numbers of their own in their zone, from 0 on.
class LocalRoutes {
 public:
  virtual ~LocalRoutes() = default;
  /// Refuses a second route between two points. -1 stands for the middle of a star.
  virtual void add(std::int32_t src, std::int32_t dst, std::int32_t step, std::int32_t length) = 0;
  virtual void seal(std::int32_t /*points*/) {}
  /// Appends the stored routes from src to dst, in order; false when there is no way.
  virtual bool find(std::int32_t src, std::int32_t dst, std::vector<std::int32_t>& steps) const = 0;
  /// Whether a host without a route to itself takes the loopback all hosts have in common.
  [[nodiscard]] virtual bool has_common_loopback() const { return true; }
};
std::unique_ptr<LocalRoutes> make_local_routes(Routing routing);

class ZoneRouter final : public Router {
 public:
  struct Zone {
    ZoneId parent;
    PointId point;  // in the parent
    std::int32_t depth;
    std::int32_t points;
    std::string name;
    std::unique_ptr<LocalRoutes> routes;      // none in a cluster
    std::shared_ptr<const Platform> cluster;  // with its links from first_link on
    LinkId first_link;
    std::unordered_map<std::uint64_t, std::int32_t> bypasses;  // steps by points
  };
  struct Point {
    ZoneId zone;
    std::int32_t local;
    ZoneId inside = -1;  // the zone this point is
  };
  struct LinkRange {  // a cluster's links
    LinkId first;
    ZoneId zone;
  };

  void route(HostId src, HostId dst, Route& out) const override;
  [[nodiscard]] std::string link_name(LinkId link) const override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string name_of(PointId point) const;

  std::vector<Zone> zones;
  std::vector<Point> points;
  std::vector<PointId> host_points;
  std::unordered_map<PointId, std::string> names;  // of points outside clusters, and of their routers
  std::vector<RouteStep> steps;
  std::vector<LinkId> pool;
  std::vector<double> latencies;  // by link
  std::unordered_map<LinkId, std::string> link_names;
  std::vector<LinkRange> cluster_links;  // rising
  LinkId common_loopback = -1;

 private:
  void between(PointId src, PointId dst, Route& out) const;
  void within_cluster(const Zone& zone, std::int32_t src, std::int32_t dst, Route& out) const;
  void to_itself(PointId point, Route& out) const;
  void across(const Zone& zone, PointId src, PointId dst, PointId near, PointId far, Route& out) const;
  bool bypass(const Zone& zone, PointId src, PointId dst, Route& out) const;
  [[nodiscard]] std::vector<PointId> around(PointId point, const Zone& common) const;
  void append(const RouteStep& step, bool only_new, std::size_t begin, Route& out) const;
  [[nodiscard]] static bool repeats(const std::vector<LinkId>& links);
  [[noreturn]] void refuse(const Zone& zone, PointId src, PointId dst) const;
};

}  // namespace labkit
