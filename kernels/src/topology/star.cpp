#include "labkit/topology/star.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

namespace labkit {
namespace {

// Link numbers: host h owns [h * per_host, (h + 1) * per_host): up, then (split only) down, then
// limiter, then loopback, as far as they exist; the backbone is the last link of all.
class StarRouter final : public Router {
 public:
  StarRouter(const StarSpec& spec, LinkId backbone) : spec_(spec), backbone_(backbone) {
    LinkId next = 1;
    if (spec_.duplex == Duplex::split) down_ = next++;
    if (spec_.limiter_bandwidth_bytes_per_s) limiter_ = next++;
    if (spec_.loopback) loopback_ = next++;
    per_host_ = next;
  }

  void route(HostId src, HostId dst, Route& out) const override {
    const LinkId from = src * per_host_;
    const LinkId to = dst * per_host_;
    if (src == dst && loopback_ != 0) {
      out.links.push_back(from + loopback_);
      out.latency_s = spec_.loopback->latency_s;
      return;
    }
    if (limiter_ != 0) out.links.push_back(from + limiter_);
    out.links.push_back(from);
    out.latency_s = spec_.link.latency_s;
    if (backbone_ >= 0) {
      out.links.push_back(backbone_);
      out.latency_s += spec_.backbone->latency_s;
    }
    if (src == dst && down_ == 0) return;  // one link for both directions, crossed once
    out.links.push_back(to + down_);
    out.latency_s += spec_.link.latency_s;
    if (limiter_ != 0 && src != dst) out.links.push_back(to + limiter_);
  }

  void to_gateway(HostId src, Route& out) const override {
    const LinkId from = src * per_host_;
    if (limiter_ != 0) out.links.push_back(from + limiter_);
    out.links.push_back(from);
    if (backbone_ >= 0) out.links.push_back(backbone_);
    out.latency_s += spec_.link.latency_s + (backbone_ >= 0 ? spec_.backbone->latency_s : 0.0);
  }

  void from_gateway(HostId dst, Route& out) const override {
    const LinkId to = dst * per_host_;
    if (backbone_ >= 0) out.links.push_back(backbone_);
    out.links.push_back(to + down_);
    if (limiter_ != 0) out.links.push_back(to + limiter_);
    out.latency_s += (backbone_ >= 0 ? spec_.backbone->latency_s : 0.0) + spec_.link.latency_s;
  }

  [[nodiscard]] std::string link_name(LinkId link) const override {
    if (link == backbone_) return "backbone";
    const std::string host = std::to_string(link / per_host_);
    const LinkId role = link % per_host_;
    if (role == 0) return (down_ != 0 ? "up " : "link ") + host;
    if (role == down_) return "down " + host;
    return (role == limiter_ ? "limiter " : "loopback ") + host;
  }

  [[nodiscard]] std::string describe() const override {
    return "star of " + std::to_string(spec_.hosts) + " hosts";
  }

 private:
  StarSpec spec_;
  LinkId backbone_;
  LinkId per_host_ = 1;
  LinkId down_ = 0;      // offsets from the host's first link; 0: there is none
  LinkId limiter_ = 0;
  LinkId loopback_ = 0;
};

LinkId links_per_host(const StarSpec& spec) {
  return 1 + (spec.duplex == Duplex::split ? 1 : 0) + (spec.limiter_bandwidth_bytes_per_s ? 1 : 0) +
         (spec.loopback ? 1 : 0);
}

}  // namespace

std::shared_ptr<const Platform> make_star(const StarSpec& spec) {
  if (spec.hosts < 1) {
    throw std::invalid_argument("a star has " + std::to_string(spec.hosts) + " hosts; it must have at least 1");
  }
  const LinkId per_host = links_per_host(spec);
  check_cluster_size("a star", spec.hosts, capped_product(spec.hosts, per_host) + 1);
  std::vector<Link> links;
  links.reserve(static_cast<std::size_t>(spec.hosts) * static_cast<std::size_t>(per_host) + 1);
  const Policy policy = spec.duplex == Duplex::fatpipe ? Policy::fatpipe : Policy::shared;
  const Link host_link{spec.link.bandwidth_bytes_per_s, spec.link.latency_s, policy};
  for (std::int32_t host = 0; host < spec.hosts; ++host) {
    links.push_back(host_link);
    if (spec.duplex == Duplex::split) links.push_back(host_link);
    if (spec.limiter_bandwidth_bytes_per_s) {
      links.push_back({*spec.limiter_bandwidth_bytes_per_s, 0.0, Policy::shared});
    }
    if (spec.loopback) {
      links.push_back(
          {spec.loopback->bandwidth_bytes_per_s, spec.loopback->latency_s, Policy::fatpipe});
    }
  }
  LinkId backbone = -1;
  if (spec.backbone) {
    backbone = static_cast<LinkId>(links.size());
    links.push_back(
        {spec.backbone->bandwidth_bytes_per_s, spec.backbone->latency_s, spec.backbone->policy});
  }
  std::vector<Host> hosts(static_cast<std::size_t>(spec.hosts), Host{spec.speed_flops, spec.cores});
  return std::make_shared<const Platform>(std::move(hosts), std::move(links),
                                          std::make_unique<const StarRouter>(spec, backbone));
}

}  // namespace labkit
