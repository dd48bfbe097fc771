#include "labkit/topology/fat_tree.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace labkit {
namespace {

struct Level {
  std::int32_t down = 1;    // of the switches above
  std::int32_t up = 1;
  std::int32_t cables = 1;
  std::int64_t below = 1;   // D: hosts under one switch of this level, down[0] * .. * down[l-1]
  std::int64_t roots = 1;   // U: switches of this level above one host, up[0] * .. * up[l-1]
  std::int64_t nodes = 1;
  std::int64_t first_cable = 0;
  std::int64_t first_node = 0;
};

/// One entry per level, 0 .. L; the last one has neither cables nor parents.
std::vector<Level> measure(const FatTreeSpec& spec) {
  const std::size_t count = spec.down.size();
  std::vector<Level> levels(count + 1);
  for (std::size_t l = 0; l < count; ++l) {
    levels[l].down = spec.down[l];
    levels[l].up = spec.up[l];
    levels[l].cables = spec.cables[l];
    levels[l + 1].below = capped_product(levels[l].below, spec.down[l]);
    levels[l + 1].roots = capped_product(levels[l].roots, spec.up[l]);
  }
  for (std::size_t l = 0; l <= count; ++l) {
    levels[l].nodes = levels[l].roots;
    for (std::size_t j = l; j < count; ++j) levels[l].nodes = capped_product(levels[l].nodes, spec.down[j]);
    if (l == count) break;
    const std::int64_t own = capped_product(capped_product(levels[l].nodes, spec.up[l]), spec.cables[l]);
    levels[l + 1].first_cable = levels[l].first_cable + own;
    levels[l + 1].first_node = levels[l].first_node + levels[l].nodes;
  }
  return levels;
}

class FatTreeRouter final : public Router {
 public:
  FatTreeRouter(const FatTreeSpec& spec, std::vector<Level> levels)
      : spec_(spec), levels_(std::move(levels)), per_cable_(links_per_cable(spec)) {
    const Level& top = levels_.back();
    first_limiter_ = top.first_cable * per_cable_;
    first_loopback_ = first_limiter_;
    if (spec_.limiter_bandwidth_bytes_per_s) {
      has_limiter_ = true;
      first_loopback_ += top.first_node + top.nodes;
    }
  }

  void route(HostId src, HostId dst, Route& out) const override {
    if (src == dst && spec_.loopback) {
      out.links.push_back(static_cast<LinkId>(first_loopback_ + src));
      out.latency_s = spec_.loopback->latency_s;
      return;
    }
    std::size_t top = 1;
    while (src / levels_[top].below != dst / levels_[top].below) ++top;
    for (std::size_t l = 0; l < top; ++l) {
      if (has_limiter_) out.links.push_back(limiter(l, node(l, src, dst)));
      const std::int64_t rail = dst / levels_[l + 1].roots % levels_[l].cables;
      cross(link(l, src, dst, rail), out);
    }
    std::int64_t port = -1;
    for (std::size_t l = top; l-- > 0;) {
      const Level& level = levels_[l];
      const std::int64_t digit = dst / level.below % level.down;
      std::int64_t rail = port < digit ? 0 : (port - digit) / level.down + 1;
      if (port < 0 || rail >= level.cables) rail = src % level.cables;
      port = rail * level.down + digit;
      cross(link(l, dst, dst, rail) + (per_cable_ == 2 ? 1 : 0), out);
      if (has_limiter_) out.links.push_back(limiter(l + 1, node(l + 1, dst, dst)));
    }
    if (has_limiter_) out.links.push_back(limiter(0, dst));
    // A message within a host meets the host's limiter again, or the cable if that is one link for both ways.
    if (src == dst) out.has_repeats = has_limiter_ || out.links.front() == out.links.back();
  }

  [[nodiscard]] std::string link_name(LinkId id) const override {
    if (id >= first_loopback_) return "loopback " + std::to_string(id - first_loopback_);
    if (id >= first_limiter_) return "limiter of " + node_name(id - first_limiter_);
    std::int64_t cable = id / per_cable_;
    std::size_t l = 0;
    while (cable >= levels_[l + 1].first_cable) ++l;
    const Level& level = levels_[l];
    cable -= level.first_cable;
    const std::int64_t rail = cable % level.cables;
    const std::int64_t parent = cable / level.cables % level.up;
    const std::int64_t child = cable / level.cables / level.up;
    const std::int64_t above = child % level.roots + level.roots * (parent + level.up * (child / level.roots / level.down));
    const std::string low = node_name(level.first_node + child);
    const std::string high = node_name(levels_[l + 1].first_node + above);
    const std::string which = level.cables == 1 ? "" : ", cable " + std::to_string(rail);
    if (per_cable_ == 1) return low + " - " + high + which;
    return (id % 2 == 0 ? low + " -> " + high : high + " -> " + low) + which;
  }

  [[nodiscard]] std::string describe() const override {
    return "fat tree " + joined(spec_.down) + ":" + joined(spec_.up) + ":" + joined(spec_.cables) + " of " +
           std::to_string(levels_[0].nodes) + " hosts";
  }

 private:
  /// Number, within level l, of the node on the way between `host` and the roots of `dst`.
  [[nodiscard]] std::int64_t node(std::size_t l, HostId host, HostId dst) const {
    return dst % levels_[l].roots + levels_[l].roots * (host / levels_[l].below);
  }

  /// The (upward) link from that node of level l to its parent on the way to the roots of `dst`.
  [[nodiscard]] LinkId link(std::size_t l, HostId host, HostId dst, std::int64_t rail) const {
    const Level& level = levels_[l];
    const std::int64_t parent = dst / level.roots % level.up;
    const std::int64_t cable = (node(l, host, dst) * level.up + parent) * level.cables + rail;
    return static_cast<LinkId>((level.first_cable + cable) * per_cable_);
  }

  [[nodiscard]] LinkId limiter(std::size_t l, std::int64_t number) const {
    return static_cast<LinkId>(first_limiter_ + levels_[l].first_node + number);
  }

  void cross(LinkId id, Route& out) const {
    out.links.push_back(id);
    out.latency_s += spec_.link.latency_s;
  }

  [[nodiscard]] std::string node_name(std::int64_t node) const {
    std::size_t l = 0;
    while (l + 1 < levels_.size() && node >= levels_[l + 1].first_node) ++l;
    const std::string number = std::to_string(node - levels_[l].first_node);
    return l == 0 ? "host " + number : "switch " + std::to_string(l) + "." + number;
  }

  FatTreeSpec spec_;
  std::vector<Level> levels_;
  LinkId per_cable_;
  std::int64_t first_limiter_ = 0;
  std::int64_t first_loopback_ = 0;
  bool has_limiter_ = false;
};

void check_lists(const FatTreeSpec& spec, const std::string& what) {
  const std::size_t count = spec.down.size();
  if (count == 0 || spec.up.size() != count || spec.cables.size() != count) {
    throw std::invalid_argument(what + " needs equally many numbers for down, up and cables, at least one");
  }
  for (const auto* list : {&spec.down, &spec.up, &spec.cables}) {
    if (*std::min_element(list->begin(), list->end()) < 1) {
      throw std::invalid_argument(what + " has a number below 1");
    }
  }
}

}  // namespace

std::shared_ptr<const Platform> make_fat_tree(const FatTreeSpec& spec) {
  const std::string what = "a fat tree " + joined(spec.down) + ":" + joined(spec.up) + ":" + joined(spec.cables);
  check_lists(spec, what);
  std::vector<Level> levels = measure(spec);
  const std::int64_t count = levels[0].nodes;
  const std::int64_t cables = capped_product(levels.back().first_cable, links_per_cable(spec));
  const std::int64_t nodes = levels.back().first_node + levels.back().nodes;
  const std::int64_t limiters = spec.limiter_bandwidth_bytes_per_s ? nodes : 0;
  check_cluster_size(what, count, std::max(cables + limiters + (spec.loopback ? count : 0), nodes));
  std::vector<Link> links(static_cast<std::size_t>(cables), cable_link(spec));
  if (limiters > 0) links.insert(links.end(), static_cast<std::size_t>(limiters), limiter_link(spec));
  if (spec.loopback) links.insert(links.end(), static_cast<std::size_t>(count), loopback_link(spec));
  std::vector<Host> hosts(static_cast<std::size_t>(count), Host{spec.speed_flops, spec.cores});
  return std::make_shared<const Platform>(std::move(hosts), std::move(links),
                                          std::make_unique<const FatTreeRouter>(spec, std::move(levels)));
}

}  // namespace labkit
