// A machine some of whose links are worse than they should be.
#pragma once

#include <memory>
#include <span>

#include "labkit/topology/platform.hpp"

namespace labkit {

/// The same machine and the same routes, with these links' bandwidths and latencies multiplied.
/// Throws std::invalid_argument for a link that is not there, or factors that are not finite: the
/// bandwidth's must be above 0, the latency's at least 0.
std::shared_ptr<const Platform> degraded(std::shared_ptr<const Platform> platform, std::span<const LinkId> links,
                                         double bandwidth_factor, double latency_factor);

}  // namespace labkit
