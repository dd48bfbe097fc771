// What Python holds of a machine: the engine's platform and where each rank runs on it.
#pragma once

#include <memory>
#include <vector>

#include "labkit/topology/platform.hpp"

namespace labkit::bindings {

struct BoundPlatform {
  std::shared_ptr<const Platform> platform;
  std::vector<HostId> rank_hosts;  ///< one per rank
};

}  // namespace labkit::bindings
