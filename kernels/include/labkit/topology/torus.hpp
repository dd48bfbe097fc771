// A torus of any dimension, routed as SimGrid's: one dimension after another, the shorter way round.
//
// Hosts: number x0 + d0 * (x1 + d1 * (x2 + ...)). Every host owns one cable per dimension, to its
// neighbor one further up in that dimension (round the end; to itself where the size is 1).
//
// Which way round: upwards when that is shorter; where both ways are equally long, upwards too,
// unless the source stands exactly half-way (at d/2, going to 0), which goes downwards. So in a
// dimension of size 2 both directions use the cable that host 0 owns.
//
// Limiters: a message crosses the limiter of its source, of every host on its way, and of its
// destination, each before the next cable. Without a declared loopback, a message within a host
// crosses the host's limiter alone; without a limiter either, one fat pipe of 10 GB/s and 0 s that
// all hosts have in common (SimGrid 3.32 has no route there and stops).
//
// Link numbers: host h owns [h * k, (h + 1) * k): for each dimension its cable's upward link, then
// (split only) the downward one; then its limiter and its loopback, if there are any. The common
// loopback, where it is needed, is the last link of all.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/topology/cluster.hpp"

namespace labkit {

struct TorusSpec : ClusterSpec {
  std::vector<std::int32_t> sizes{1};  ///< hosts per dimension, the first one varies fastest
};

/// Throws std::invalid_argument for no dimension, a size < 1, more than kMaxClusterHosts hosts or
/// kMaxClusterLinks links, and impossible hosts or links.
std::shared_ptr<const Platform> make_torus(const TorusSpec& spec);

}  // namespace labkit
