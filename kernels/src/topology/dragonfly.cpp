#include "labkit/topology/dragonfly.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "dragonfly_parts.hpp"

namespace labkit {
namespace {

/// Appends links and limiters as a message moves.
class Walk {
 public:
  Walk(const DragonflyParts& parts, Route& out) : parts_(parts), out_(out) {}

  void limit(std::int64_t node) {
    if (parts_.has_limiters) out_.links.push_back(static_cast<LinkId>(parts_.first_limiter + node));
  }
  void limit(const DragonflyRouter& router) { limit(parts_.hosts + parts_.number(router)); }
  void cross(LinkId link) {
    out_.links.push_back(link);
    out_.latency_s += parts_.latency_s;
  }
  /// Green, then black; `after_green` is the chassis where the message then is taken to be.
  void move(DragonflyRouter& at, std::int32_t place, std::int32_t chassis, std::int32_t after_green) {
    if (at.place != place) {
      limit(at);
      cross(parts_.green(at, place));
      at.place = place;
      at.chassis = after_green;
    }
    if (at.chassis != chassis) {
      limit(at);
      cross(parts_.black(at, chassis));
      at.chassis = chassis;
    }
  }
  /// To another group; the limiters of both ends of the blue cable come after it.
  void change(DragonflyRouter& at, std::int32_t group) {
    const DragonflyRouter gate = parts_.gate(at.group, group);
    move(at, gate.place, gate.chassis, at.chassis);
    cross(parts_.blue(at.group, group));
    limit(at);
    at = parts_.gate(group, at.group);
  }

 private:
  const DragonflyParts& parts_;
  Route& out_;
};

std::uint64_t mixed(std::uint64_t x) {  // splitmix64's finish
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class DragonflyTopology final : public Router {
 public:
  explicit DragonflyTopology(const DragonflySpec& spec) : spec_(spec), parts_(spec) {}

  void route(HostId src, HostId dst, Route& out) const override { route_by(src, dst, 0, out); }

  [[nodiscard]] bool chooses() const override {
    return spec_.routing == DragonflyRouting::valiant || spec_.routing == DragonflyRouting::adaptive;
  }

  /// 0: no detour; k: by group k - 1.
  [[nodiscard]] std::uint32_t choose(HostId src, HostId dst, std::uint64_t count,
                                     const LinkUse& use) const override {
    const std::int32_t from = parts_.router_of(src).group;
    const std::int32_t to = parts_.router_of(dst).group;
    if (from == to || spec_.groups < 3) return 0;
    const std::uint64_t pair = (static_cast<std::uint64_t>(src) << 32) | static_cast<std::uint32_t>(dst);
    const std::uint64_t drawn = mixed(mixed(mixed(spec_.seed) ^ pair) ^ count);
    auto by = static_cast<std::int32_t>(drawn % static_cast<std::uint64_t>(spec_.groups - 2));
    if (by >= std::min(from, to)) ++by;
    if (by >= std::max(from, to)) ++by;
    const auto detour = static_cast<std::uint32_t>(by) + 1;
    if (spec_.routing == DragonflyRouting::valiant) return detour;
    return cost(src, dst, 0, use) <= cost(src, dst, detour, use) ? 0 : detour;
  }

  void route_by(HostId src, HostId dst, std::uint32_t way, Route& out) const override {
    if (src == dst && spec_.loopback) {
      out.links.push_back(static_cast<LinkId>(parts_.first_loopback + src));
      out.latency_s = spec_.loopback->latency_s;
      return;
    }
    Walk walk(parts_, out);
    DragonflyRouter at = parts_.router_of(src);
    const DragonflyRouter end = parts_.router_of(dst);
    walk.limit(src);
    walk.cross(parts_.up(src));
    if (way > 0) walk.change(at, static_cast<std::int32_t>(way) - 1);
    const bool is_other_group = at.group != end.group;
    if (is_other_group) walk.change(at, end.group);
    const bool is_simgrids = spec_.routing == DragonflyRouting::minimal && !is_other_group;
    walk.move(at, end.place, end.chassis, is_simgrids ? 0 : at.chassis);
    walk.limit(end);
    walk.cross(parts_.down(dst));
    walk.limit(dst);
    // A message within a host meets the host's limiter again, and a cable of one link for both directions.
    if (src == dst) out.has_repeats = parts_.per_cable == 1 || parts_.has_limiters;
  }

  [[nodiscard]] std::string link_name(LinkId link) const override { return parts_.link_name(link); }

  [[nodiscard]] std::string describe() const override {
    static constexpr std::array<const char*, 4> names{"", ", shortest ways", ", Valiant routing", ", adaptive routing"};
    return parts_.describe() + names[static_cast<std::size_t>(spec_.routing)];
  }

 private:
  [[nodiscard]] double cost(HostId src, HostId dst, std::uint32_t way, const LinkUse& use) const {
    Route found;
    route_by(src, dst, way, found);
    double hops = 0.0;
    double worst = 0.0;
    for (const LinkId link : found.links) {
      const double bandwidth = parts_.bandwidth_between_routers(link);
      if (bandwidth == 0.0) continue;  // a host's cable or a limiter: the same on every way
      hops += 1.0;
      worst = std::max(worst, (static_cast<double>(use[static_cast<std::size_t>(link)]) + 1.0) / bandwidth);
    }
    return hops * worst;
  }

  DragonflySpec spec_;
  DragonflyParts parts_;
};

std::int64_t count_links(const DragonflySpec& spec, std::int64_t hosts, std::int64_t routers) {
  const auto pairs = [](std::int64_t n) { return n < 2 ? 0 : capped_product(n, n - 1) / 2; };
  const auto times = [](std::int64_t a, std::int64_t b) { return b == 0 ? 0 : capped_product(a, b); };
  const std::int64_t cables = hosts + times(capped_product(spec.groups, spec.chassis), pairs(spec.routers)) +
                              times(capped_product(spec.groups, spec.routers), pairs(spec.chassis)) +
                              pairs(spec.groups);
  return cables * links_per_cable(spec) + (spec.limiter_bandwidth_bytes_per_s ? hosts + routers : 0) +
         (spec.loopback ? hosts : 0);
}

}  // namespace

std::shared_ptr<const Platform> make_dragonfly(const DragonflySpec& spec) {
  for (const std::int32_t number : {spec.groups, spec.blue, spec.chassis, spec.black, spec.routers, spec.green, spec.nodes}) {
    if (number < 1) throw std::invalid_argument("a dragonfly has a number below 1");
  }
  const std::int64_t routers = capped_product(capped_product(spec.groups, spec.chassis), spec.routers);
  const std::int64_t hosts = capped_product(routers, spec.nodes);
  check_cluster_size("a dragonfly", hosts, count_links(spec, hosts, routers));
  const DragonflyParts parts(spec);
  std::vector<Link> links;
  const auto add = [&](std::int64_t cables, std::int32_t width) {
    Link link = cable_link(spec);
    link.bandwidth_bytes_per_s *= width;
    links.insert(links.end(), static_cast<std::size_t>(cables) * static_cast<std::size_t>(parts.per_cable), link);
  };
  add(hosts, 1);
  add(parts.first_black - parts.first_green, spec.green);
  add(parts.first_blue - parts.first_black, spec.black);
  add(parts.cables - parts.first_blue, spec.blue);
  if (parts.has_limiters) links.insert(links.end(), static_cast<std::size_t>(hosts + routers), limiter_link(spec));
  if (spec.loopback) links.insert(links.end(), static_cast<std::size_t>(hosts), loopback_link(spec));
  std::vector<Host> all(static_cast<std::size_t>(hosts), Host{spec.speed_flops, spec.cores});
  return std::make_shared<const Platform>(std::move(all), std::move(links),
                                          std::make_unique<const DragonflyTopology>(spec));
}

}  // namespace labkit
