#include "labkit/topology/degraded.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace labkit {
namespace {

class DegradedRouter final : public Router {
 public:
  DegradedRouter(std::shared_ptr<const Platform> whole, std::vector<double> extra_s)
      : whole_(std::move(whole)), extra_s_(std::move(extra_s)) {}
  void route(HostId src, HostId dst, Route& out) const override {
    whole_->router().route(src, dst, out);
    add_extra(out);
  }
  [[nodiscard]] bool chooses() const override { return whole_->router().chooses(); }
  [[nodiscard]] std::uint32_t choose(HostId src, HostId dst, std::uint64_t count, const LinkUse& use) const override {
    return whole_->router().choose(src, dst, count, use);
  }
  void route_by(HostId src, HostId dst, std::uint32_t way, Route& out) const override {
    whole_->router().route_by(src, dst, way, out);
    add_extra(out);
  }
  [[nodiscard]] std::string link_name(LinkId link) const override { return whole_->router().link_name(link); }
  [[nodiscard]] std::string describe() const override { return whole_->router().describe() + ", degraded"; }

 private:
  void add_extra(Route& out) const {
    for (const LinkId link : out.links) out.latency_s += extra_s_[static_cast<std::size_t>(link)];
  }

  std::shared_ptr<const Platform> whole_;
  std::vector<double> extra_s_;  // by link
};

}  // namespace

std::shared_ptr<const Platform> degraded(std::shared_ptr<const Platform> platform, std::span<const LinkId> ids,
                                         double bandwidth_factor, double latency_factor) {
  if (!(bandwidth_factor > 0.0) || !(latency_factor >= 0.0) || !std::isfinite(bandwidth_factor) ||
      !std::isfinite(latency_factor)) {
    throw std::invalid_argument("a degraded link needs finite factors, above 0 for the bandwidth");
  }
  std::vector<Link> links = platform->links();
  std::vector<double> extra_s(links.size(), 0.0);
  for (const LinkId id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= links.size()) {
      throw std::invalid_argument("link " + std::to_string(id) + " is not one of the " +
                                  std::to_string(links.size()) + " links");
    }
    Link& link = links[static_cast<std::size_t>(id)];
    const double latency_s = platform->link(id).latency_s;
    link.bandwidth_bytes_per_s = platform->link(id).bandwidth_bytes_per_s * bandwidth_factor;
    link.latency_s = latency_s * latency_factor;
    extra_s[static_cast<std::size_t>(id)] = link.latency_s - latency_s;
  }
  Profiles profiles = platform->profiles();
  for (const LinkId id : ids) {
    if (const auto found = profiles.bandwidths.find(id); found != profiles.bandwidths.end()) {
      found->second = found->second.scaled(bandwidth_factor);
    }
    if (const auto found = profiles.latencies.find(id); found != profiles.latencies.end()) {
      found->second = found->second.scaled(latency_factor);
    }
  }
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < platform->host_count(); ++i) hosts.push_back(platform->host(static_cast<HostId>(i)));
  return std::make_shared<Platform>(std::move(hosts), std::move(links),
                                    std::make_unique<DegradedRouter>(std::move(platform), std::move(extra_s)), std::move(profiles));
}

}  // namespace labkit
