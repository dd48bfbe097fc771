#include "labkit/topology/platform.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace labkit {

Platform::Platform(std::vector<Host> hosts, std::vector<Link> links,
                   std::unique_ptr<const Router> router, Profiles profiles)
    : hosts_(std::move(hosts)), links_(std::move(links)), router_(std::move(router)), profiles_(std::move(profiles)) {
  if (hosts_.empty()) throw std::invalid_argument("a platform needs at least one host");
  if (!router_) throw std::invalid_argument("a platform needs a router");
  for (const Host& host : hosts_) {
    if (!(host.speed_flops > 0.0) || !std::isfinite(host.speed_flops)) {
      throw std::invalid_argument("a host's speed is " + std::to_string(host.speed_flops) +
                                  " flop/s; it must be finite and above 0");
    }
    if (host.cores < 1) {
      throw std::invalid_argument("a host has " + std::to_string(host.cores) +
                                  " cores; it must have at least 1");
    }
  }
  for (const Link& link : links_) {
    if (!(link.bandwidth_bytes_per_s > 0.0) || !std::isfinite(link.bandwidth_bytes_per_s)) {
      throw std::invalid_argument("a link's bandwidth is " +
                                  std::to_string(link.bandwidth_bytes_per_s) +
                                  " B/s; it must be finite and above 0");
    }
    if (!(link.latency_s >= 0.0) || !std::isfinite(link.latency_s)) {
      throw std::invalid_argument("a link's latency is " + std::to_string(link.latency_s) +
                                  " s; it must be finite and at least 0");
    }
  }
  for (const auto& [id, profile] : profiles_.speeds) {
    if (id < 0 || static_cast<std::size_t>(id) >= hosts_.size()) throw std::invalid_argument("a profile of no host");
  }
  for (const auto* of_links : {&profiles_.bandwidths, &profiles_.latencies}) {
    for (const auto& [id, profile] : *of_links) {
      if (id < 0 || static_cast<std::size_t>(id) >= links_.size()) throw std::invalid_argument("a profile of no link");
    }
  }
  for (const auto& [id, profile] : profiles_.bandwidths) {
    for (const Profile::Step& step : profile.steps()) {
      if (!(step.value > 0.0)) throw std::invalid_argument("a bandwidth in a profile must be above 0");
    }
  }
}

}  // namespace labkit
