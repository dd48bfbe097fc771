// What Python holds of a machine: the engine's platform and where each rank runs on it.
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "labkit/topology/platform.hpp"

namespace labkit::bindings {

struct BoundPlatform {
  std::shared_ptr<const Platform> platform;
  std::vector<HostId> rank_hosts;  ///< one per rank
};

inline BoundPlatform placed(std::shared_ptr<const Platform> platform, std::vector<HostId> rank_hosts) {
  const auto hosts = static_cast<HostId>(platform->host_count());
  for (const HostId host : rank_hosts)
    if (host < 0 || host >= hosts) throw std::invalid_argument("a rank's host is not one of the platform's");
  return {std::move(platform), std::move(rank_hosts)};
}

}  // namespace labkit::bindings
