// A star (SimGrid's flat cluster): every host hangs on one switch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "labkit/topology/cluster.hpp"

namespace labkit {

struct BackboneSpec {
  double bandwidth_bytes_per_s = 1.25e9;
  double latency_s = 0.0;
  Policy policy = Policy::shared;
};

struct StarSpec : ClusterSpec {
  std::int32_t hosts = 1;
  std::optional<BackboneSpec> backbone;  ///< crossed once by every message
};  // without a loopback, a message to the own host goes up and down

/// Throws std::invalid_argument for hosts < 1, cores < 1 and impossible links.
std::shared_ptr<const Platform> make_star(const StarSpec& spec);

}  // namespace labkit
