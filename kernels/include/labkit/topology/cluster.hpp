// What every cluster has, whatever joins its hosts: the hosts, their links, limiters and loopbacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "labkit/topology/platform.hpp"

namespace labkit {

enum class Duplex : std::uint8_t {
  split,    ///< a cable is two shared links, one per direction (SPLITDUPLEX)
  shared,   ///< a cable is one shared link for both directions (SHARED)
  fatpipe,  ///< a cable is one link that never fills (FATPIPE)
};

struct LinkSpec {
  double bandwidth_bytes_per_s = 1.25e9;
  double latency_s = 1e-6;
};

struct ClusterSpec {
  double speed_flops = 1e9;
  std::int32_t cores = 1;
  LinkSpec link;  ///< of a cable, per direction when split
  Duplex duplex = Duplex::split;
  std::optional<double> limiter_bandwidth_bytes_per_s;  ///< latency 0, everything through a node shares it
  std::optional<LinkSpec> loopback;                     ///< fat pipe per host
};

/// Most hosts and links of a torus or fat tree; memory is about 100 bytes a link while it runs.
inline constexpr std::int64_t kMaxClusterHosts = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxClusterLinks = std::int64_t{1} << 24;

/// Links per cable: 2 when split, else 1.
inline LinkId links_per_cable(const ClusterSpec& spec) { return spec.duplex == Duplex::split ? 2 : 1; }
inline Link cable_link(const ClusterSpec& spec) {
  return {spec.link.bandwidth_bytes_per_s, spec.link.latency_s,
          spec.duplex == Duplex::fatpipe ? Policy::fatpipe : Policy::shared};
}
inline Link limiter_link(const ClusterSpec& spec) {
  return {*spec.limiter_bandwidth_bytes_per_s, 0.0, Policy::shared};
}
inline Link loopback_link(const ClusterSpec& spec) {
  return {spec.loopback->bandwidth_bytes_per_s, spec.loopback->latency_s, Policy::fatpipe};
}

/// Throws std::invalid_argument, naming the topology and the numbers, when it is empty or beyond the limits.
void check_cluster_size(const std::string& what, std::int64_t hosts, std::int64_t links);

/// a * b, or a number beyond every limit when that is already reached; a, b >= 1.
std::int64_t capped_product(std::int64_t a, std::int64_t b);

/// "8x8x8"
std::string joined(const std::vector<std::int32_t>& sizes);

}  // namespace labkit
