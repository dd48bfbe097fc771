// Routes as names, and the laws every route obeys.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "labkit/topology/platform.hpp"

namespace labkit::testing {

using Names = std::vector<std::string>;

inline Names names(const Platform& platform, HostId from, HostId to) {
  Route route;
  platform.route(from, to, route);
  Names out;
  for (const LinkId link : route.links) out.push_back(platform.router().link_name(link));
  return out;
}

inline double latency(const Platform& platform, HostId from, HostId to) {
  Route route;
  platform.route(from, to, route);
  return route.latency_s;
}

/// Every link exists, none comes twice unless the route says so, the latency is the sum of the links', and no two links of the
/// platform have one name.
inline void check_laws(const Platform& platform) {
  std::set<std::string> all;
  for (std::size_t link = 0; link < platform.link_count(); ++link) {
    all.insert(platform.router().link_name(static_cast<LinkId>(link)));
  }
  CHECK(all.size() == platform.link_count());
  Route route;
  const auto hosts = static_cast<HostId>(platform.host_count());
  for (HostId src = 0; src < hosts; ++src) {
    for (HostId dst = 0; dst < hosts; ++dst) {
      platform.route(src, dst, route);
      REQUIRE(!route.links.empty());
      double sum = 0.0;
      for (const LinkId link : route.links) {
        REQUIRE(link >= 0);
        REQUIRE(static_cast<std::size_t>(link) < platform.link_count());
        sum += platform.link(link).latency_s;
      }
      if (src != dst) REQUIRE(route.latency_s == sum);
      std::vector<LinkId> sorted = route.links;
      std::sort(sorted.begin(), sorted.end());
      const bool has_repeats = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
      REQUIRE(has_repeats == route.has_repeats);
    }
  }
}

}  // namespace labkit::testing
