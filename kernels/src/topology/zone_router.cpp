#include "zone_router.hpp"

#include <algorithm>
#include <stdexcept>

namespace labkit {

void ZoneRouter::route(HostId src, HostId dst, Route& out) const {
  const PointId from = host_points[static_cast<std::size_t>(src)];
  if (src == dst) {
    to_itself(from, out);
  } else {
    between(from, host_points[static_cast<std::size_t>(dst)], out);
  }
  if (out.links.empty()) {
    throw std::invalid_argument("the route from " + name_of(from) + " to " +
                                name_of(host_points[static_cast<std::size_t>(dst)]) + " crosses no link");
  }
  out.has_repeats = repeats(out.links);
}

bool ZoneRouter::repeats(const std::vector<LinkId>& links) {
  if (links.size() > 32) {
    std::vector<LinkId> sorted = links;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  }
  for (auto link = links.begin(); link != links.end(); ++link) {
    if (std::find(links.begin(), link, *link) != link) return true;
  }
  return false;
}

void ZoneRouter::append(const RouteStep& step, bool only_new, std::size_t begin, Route& out) const {
  for (std::uint32_t i = step.first; i < step.first + step.count; ++i) {
    const LinkId link = pool[i];
    const auto first = out.links.begin() + static_cast<std::ptrdiff_t>(begin);
    if (only_new && std::find(first, out.links.end(), link) != out.links.end()) continue;
    out.links.push_back(link);
    out.latency_s += latencies[static_cast<std::size_t>(link)];
  }
}

void ZoneRouter::to_itself(PointId point, Route& out) const {
  const Point& here = points[static_cast<std::size_t>(point)];
  const Zone& zone = zones[static_cast<std::size_t>(here.zone)];
  if (zone.cluster) return within_cluster(zone, here.local, here.local, out);
  std::vector<std::int32_t> found;
  if (!zone.routes->find(here.local, here.local, found)) {
    if (!zone.routes->has_common_loopback()) refuse(zone, point, point);
    out.links.push_back(common_loopback);
    return;
  }
  for (const std::int32_t step : found) {
    append(steps[static_cast<std::size_t>(step)], !zone.routes->has_common_loopback(), 0, out);
  }
}

void ZoneRouter::within_cluster(const Zone& zone, std::int32_t src, std::int32_t dst, Route& out) const {
  const auto hosts = static_cast<std::int32_t>(zone.cluster->host_count());
  const Router& router = zone.cluster->router();
  const std::size_t begin = out.links.size();
  Route inner;
  if (src < hosts && dst < hosts) {
    router.route(src, dst, inner);
  } else if (src < hosts) {
    router.to_gateway(src, inner);
  } else if (dst < hosts) {
    router.from_gateway(dst, inner);
  }
  out.links.insert(out.links.end(), inner.links.begin(), inner.links.end());
  for (std::size_t i = begin; i < out.links.size(); ++i) out.links[i] += zone.first_link;
  out.latency_s += inner.latency_s;
}

/// From one point to another one anywhere: climb to the zone they have in common.
void ZoneRouter::between(PointId src, PointId dst, Route& out) const {
  PointId near = src;
  PointId far = dst;
  ZoneId from = points[static_cast<std::size_t>(src)].zone;
  ZoneId to = points[static_cast<std::size_t>(dst)].zone;
  while (from != to) {
    const Zone& a = zones[static_cast<std::size_t>(from)];
    const Zone& b = zones[static_cast<std::size_t>(to)];
    if (a.depth >= b.depth) {
      near = a.point;
      from = a.parent;
    }
    if (b.depth >= a.depth) {
      far = b.point;
      to = b.parent;
    }
  }
  const Zone& zone = zones[static_cast<std::size_t>(from)];
  if (zone.cluster) {
    within_cluster(zone, points[static_cast<std::size_t>(near)].local,
                   points[static_cast<std::size_t>(far)].local, out);
  } else if (near != far) {
    across(zone, src, dst, near, far, out);
  } else {  // one lies around the other: no route says how to leave it
    refuse(zone, src, dst);
  }
}

/// The zone's own routes from near to far, which hold src and dst, and the ways between their gateways.
void ZoneRouter::across(const Zone& zone, PointId src, PointId dst, PointId near, PointId far,
                        Route& out) const {
  if (!zone.bypasses.empty() && bypass(zone, src, dst, out)) return;
  std::vector<std::int32_t> found;
  const auto local = [&](PointId point) { return points[static_cast<std::size_t>(point)].local; };
  if (!zone.routes->find(local(near), local(far), found)) refuse(zone, src, dst);
  const bool is_star = !zone.routes->has_common_loopback();
  PointId at = src;
  const auto go_on = [&](PointId gateway) {
    if (gateway != kNoPoint && at != kNoPoint && gateway != at) between(at, gateway, out);
  };
  std::size_t begin = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const RouteStep& step = steps[static_cast<std::size_t>(found[i])];
    go_on(step.gateway_src);
    if (i == 0) begin = out.links.size();
    append(step, is_star, begin, out);
    at = step.gateway_dst;
  }
  if (at == kNoPoint && dst != far) refuse(zone, src, dst);
  go_on(dst);
}

/// The zones around a point, as points, from the innermost one to the one directly in `common`.
std::vector<PointId> ZoneRouter::around(PointId point, const Zone& common) const {
  std::vector<PointId> found;
  for (ZoneId at = points[static_cast<std::size_t>(point)].zone; at >= 0;) {
    const Zone& zone = zones[static_cast<std::size_t>(at)];
    if (&zone == &common) break;
    found.push_back(zone.point);
    at = zone.parent;
  }
  return found;
}

bool ZoneRouter::bypass(const Zone& zone, PointId src, PointId dst, Route& out) const {
  const std::vector<PointId> from = around(src, zone);
  const std::vector<PointId> to = around(dst, zone);
  const RouteStep* step = nullptr;
  const auto look = [&](PointId a, PointId b) {
    const auto found = zone.bypasses.find(pair_key(a, b));
    if (found != zone.bypasses.end()) step = &steps[static_cast<std::size_t>(found->second)];
    return step != nullptr;
  };
  if (from.empty() && to.empty()) {
    if (!look(src, dst)) return false;
    append(*step, false, 0, out);
    return true;
  }
  const auto pair = [&](std::size_t a, std::size_t b) {
    return a < from.size() && b < to.size() && look(from[a], to[b]);
  };
  for (std::size_t most = 0; most < std::max(from.size(), to.size()) && step == nullptr; ++most) {
    for (std::size_t i = 0; i < most; ++i) {
      if (pair(i, most) || pair(most, i)) break;
    }
    if (step == nullptr) pair(most, most);
  }
  if (step == nullptr) return false;
  if (src != step->gateway_src) between(src, step->gateway_src, out);
  append(*step, false, 0, out);
  if (dst != step->gateway_dst) between(step->gateway_dst, dst, out);
  return true;
}

std::string ZoneRouter::name_of(PointId point) const {
  const auto named = names.find(point);
  if (named != names.end()) return "'" + named->second + "'";
  const Point& here = points[static_cast<std::size_t>(point)];
  return "host " + std::to_string(here.local) + " of '" + zones[static_cast<std::size_t>(here.zone)].name + "'";
}

void ZoneRouter::refuse(const Zone& zone, PointId src, PointId dst) const {
  throw std::invalid_argument("there is no route from " + name_of(src) + " to " + name_of(dst) +
                              ": zone '" + zone.name + "' has none that leads there");
}

std::string ZoneRouter::link_name(LinkId link) const {
  const auto named = link_names.find(link);
  if (named != link_names.end()) return named->second;
  const auto after = std::upper_bound(cluster_links.begin(), cluster_links.end(), link,
                                      [](LinkId value, const LinkRange& range) { return value < range.first; });
  const LinkRange& range = *(after - 1);
  const Zone& zone = zones[static_cast<std::size_t>(range.zone)];
  return zone.name + ": " + zone.cluster->router().link_name(link - range.first);
}

std::string ZoneRouter::describe() const {
  return std::to_string(host_points.size()) + " hosts in " + std::to_string(zones.size()) +
         (zones.size() == 1 ? " zone" : " zones");
}

}  // namespace labkit
