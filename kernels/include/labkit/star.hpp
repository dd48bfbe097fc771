// A star (SimGrid's flat cluster): every host hangs on one switch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "labkit/platform.hpp"

namespace labkit {

enum class Duplex : std::uint8_t {
  split,    ///< one shared link up and one down per host (SPLITDUPLEX)
  shared,   ///< one shared link per host for both directions (SHARED)
  fatpipe,  ///< one link per host that never fills (FATPIPE)
};

struct LinkSpec {
  double bandwidth_bytes_per_s = 1.25e9;
  double latency_s = 1e-6;
};

struct BackboneSpec {
  double bandwidth_bytes_per_s = 1.25e9;
  double latency_s = 0.0;
  Policy policy = Policy::shared;
};

struct StarSpec {
  std::int32_t hosts = 1;
  double speed_flops = 1e9;
  std::int32_t cores = 1;
  LinkSpec link;  ///< per direction when split
  Duplex duplex = Duplex::split;
  std::optional<BackboneSpec> backbone;                ///< crossed once by every message
  std::optional<double> limiter_bandwidth_bytes_per_s;  ///< per host, latency 0, both directions share it
  std::optional<LinkSpec> loopback;  ///< fat pipe per host; without one, a message to the own host goes up and down
};

/// Throws std::invalid_argument for hosts < 1, cores < 1 and impossible links.
std::shared_ptr<const Platform> make_star(const StarSpec& spec);

}  // namespace labkit
