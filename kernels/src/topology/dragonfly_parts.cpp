#include "dragonfly_parts.hpp"

#include <algorithm>
#include <utility>

namespace labkit {
namespace {

constexpr std::int64_t pairs(std::int64_t count) { return count * (count - 1) / 2; }

/// Number of the pair (low, high) of `count` things: (0, 1), (0, 2), .. (1, 2), ..
constexpr std::int64_t pair_number(std::int64_t count, std::int64_t low, std::int64_t high) {
  return low * (2 * count - low - 1) / 2 + high - low - 1;
}

std::pair<std::int32_t, std::int32_t> pair_of(std::int64_t count, std::int64_t number) {
  std::int64_t low = 0;
  while (number >= count - low - 1) number -= count - low++ - 1;
  return {static_cast<std::int32_t>(low), static_cast<std::int32_t>(low + 1 + number)};
}

std::string part(std::int32_t count, std::int32_t width) { return std::to_string(count) + "x" + std::to_string(width); }

}  // namespace

DragonflyParts::DragonflyParts(const DragonflySpec& spec)
    : groups(spec.groups),
      chassis(spec.chassis),
      routers(spec.routers),
      nodes(spec.nodes),
      per_cable(links_per_cable(spec)),
      latency_s(spec.link.latency_s),
      green_bandwidth(spec.link.bandwidth_bytes_per_s * spec.green),
      black_bandwidth(spec.link.bandwidth_bytes_per_s * spec.black),
      blue_bandwidth(spec.link.bandwidth_bytes_per_s * spec.blue),
      has_limiters(spec.limiter_bandwidth_bytes_per_s.has_value()),
      title_("dragonfly " + part(spec.groups, spec.blue) + ":" + part(spec.chassis, spec.black) + ":" +
             part(spec.routers, spec.green) + ":" + std::to_string(spec.nodes)) {
  const std::int64_t all_routers = std::int64_t{groups} * chassis * routers;
  hosts = all_routers * nodes;
  first_green = hosts;
  first_black = first_green + std::int64_t{groups} * chassis * pairs(routers);
  first_blue = first_black + std::int64_t{groups} * pairs(chassis) * routers;
  cables = first_blue + pairs(groups);
  first_limiter = cables * per_cable;
  first_loopback = first_limiter + (has_limiters ? hosts + all_routers : 0);
}

DragonflyRouter DragonflyParts::router(std::int64_t number) const {
  return {static_cast<std::int32_t>(number / routers / chassis),
          static_cast<std::int32_t>(number / routers % chassis), static_cast<std::int32_t>(number % routers)};
}

DragonflyRouter DragonflyParts::gate(std::int32_t group, std::int32_t other) const {
  const auto number = static_cast<std::int32_t>(other % (std::int64_t{chassis} * routers));
  return {group, number / routers, number % routers};
}

LinkId DragonflyParts::green(const DragonflyRouter& at, std::int32_t place) const {
  const std::int64_t cable = (std::int64_t{at.group} * chassis + at.chassis) * pairs(routers) +
                             pair_number(routers, std::min(at.place, place), std::max(at.place, place));
  return directed(first_green + cable, place < at.place);
}

LinkId DragonflyParts::black(const DragonflyRouter& at, std::int32_t to_chassis) const {
  const std::int64_t pair = at.group * pairs(chassis) +
                            pair_number(chassis, std::min(at.chassis, to_chassis), std::max(at.chassis, to_chassis));
  return directed(first_black + pair * routers + at.place, to_chassis < at.chassis);
}

LinkId DragonflyParts::blue(std::int32_t from, std::int32_t to) const {
  return directed(first_blue + pair_number(groups, std::min(from, to), std::max(from, to)), to < from);
}

double DragonflyParts::bandwidth_between_routers(LinkId link) const {
  const std::int64_t cable = link / per_cable;
  if (cable < first_green || cable >= cables) return 0.0;
  return cable < first_black ? green_bandwidth : cable < first_blue ? black_bandwidth : blue_bandwidth;
}

std::string DragonflyParts::router_name(const DragonflyRouter& at) const {
  return "router " + std::to_string(at.group) + "." + std::to_string(at.chassis) + "." + std::to_string(at.place);
}

std::string DragonflyParts::joined_names(const DragonflyRouter& low, const DragonflyRouter& high, LinkId link) const {
  const std::string a = router_name(low);
  const std::string b = router_name(high);
  if (per_cable == 1) return a + " - " + b;
  return link % 2 == 0 ? a + " -> " + b : b + " -> " + a;
}

std::string DragonflyParts::link_name(LinkId link) const {
  if (link >= first_loopback) return "loopback " + std::to_string(link - first_loopback);
  if (link >= first_limiter) {
    const std::int64_t node = link - first_limiter;
    return "limiter of " + (node < hosts ? "host " + std::to_string(node) : router_name(router(node - hosts)));
  }
  const std::int64_t cable = link / per_cable;
  if (cable < first_green) {
    const std::string host = "host " + std::to_string(cable);
    const std::string own = router_name(router_of(static_cast<HostId>(cable)));
    if (per_cable == 1) return host + " - " + own;
    return link % 2 == 0 ? host + " -> " + own : own + " -> " + host;
  }
  if (cable < first_black) {
    const std::int64_t own = (cable - first_green) / pairs(routers);
    const auto [low, high] = pair_of(routers, (cable - first_green) % pairs(routers));
    return joined_names(router(own * routers + low), router(own * routers + high), link) + ", green";
  }
  if (cable < first_blue) {
    const std::int64_t pair = (cable - first_black) / routers;
    const auto place = static_cast<std::int32_t>((cable - first_black) % routers);
    const auto group = static_cast<std::int32_t>(pair / pairs(chassis));
    const auto [low, high] = pair_of(chassis, pair % pairs(chassis));
    return joined_names({group, low, place}, {group, high, place}, link) + ", black";
  }
  const auto [low, high] = pair_of(groups, cable - first_blue);
  return joined_names(gate(low, high), gate(high, low), link) + ", blue";
}

std::string DragonflyParts::describe() const { return title_ + " of " + std::to_string(hosts) + " hosts"; }

}  // namespace labkit
