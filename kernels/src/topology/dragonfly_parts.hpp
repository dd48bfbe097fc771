// A dragonfly's routers and cables: their numbers and names.
#pragma once

#include <cstdint>
#include <string>

#include "labkit/topology/dragonfly.hpp"

namespace labkit {

struct DragonflyRouter {
  std::int32_t group;
  std::int32_t chassis;
  std::int32_t place;
};

struct DragonflyParts {
  explicit DragonflyParts(const DragonflySpec& spec);

  [[nodiscard]] DragonflyRouter router_of(HostId host) const { return router(host / nodes); }
  [[nodiscard]] DragonflyRouter router(std::int64_t number) const;
  [[nodiscard]] std::int64_t number(const DragonflyRouter& at) const {
    return (std::int64_t{at.group} * chassis + at.chassis) * routers + at.place;
  }
  /// Where the blue cable to another group ends in a group.
  [[nodiscard]] DragonflyRouter gate(std::int32_t group, std::int32_t other) const;

  [[nodiscard]] LinkId up(HostId host) const { return host * per_cable; }
  [[nodiscard]] LinkId down(HostId host) const { return host * per_cable + per_cable - 1; }
  /// The links from a router; towards the lower number they are the downward ones.
  [[nodiscard]] LinkId green(const DragonflyRouter& at, std::int32_t place) const;
  [[nodiscard]] LinkId black(const DragonflyRouter& at, std::int32_t to_chassis) const;
  [[nodiscard]] LinkId blue(std::int32_t from, std::int32_t to) const;

  /// 0 for a host's cable, a limiter or a loopback.
  [[nodiscard]] double bandwidth_between_routers(LinkId link) const;
  [[nodiscard]] std::string link_name(LinkId link) const;
  [[nodiscard]] std::string describe() const;

  std::int32_t groups, chassis, routers, nodes;
  std::int64_t hosts = 0;
  std::int64_t first_green = 0;  // cables
  std::int64_t first_black = 0;
  std::int64_t first_blue = 0;
  std::int64_t cables = 0;
  std::int64_t first_limiter = 0;  // links
  std::int64_t first_loopback = 0;
  LinkId per_cable;
  double latency_s;
  double green_bandwidth, black_bandwidth, blue_bandwidth;
  bool has_limiters;

 private:
  [[nodiscard]] LinkId directed(std::int64_t cable, bool is_down) const {
    return static_cast<LinkId>(cable * per_cable + (is_down ? per_cable - 1 : 0));
  }
  [[nodiscard]] std::string router_name(const DragonflyRouter& at) const;
  [[nodiscard]] std::string joined_names(const DragonflyRouter& low, const DragonflyRouter& high, LinkId link) const;

  std::string title_;
};

}  // namespace labkit
