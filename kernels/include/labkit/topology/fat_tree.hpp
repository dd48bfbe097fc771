// A fat tree, routed as SimGrid 3.32's: up towards a root that the destination chooses, then down.
//
// Level 0 are the hosts, levels 1 .. L the switches. A node of level l has `up[l]` parents and
// `cables[l]` parallel cables to each; a switch of level l + 1 has `down[l]` children. Level l has
// up[0] * .. * up[l-1] * down[l] * .. * down[L-1] nodes; their numbers read as digits in that mixed
// radix, the first digit varying fastest. Parents of a node of level l: equal digits but for digit l.
//
// Up, at level l: to parent (dst / U) % up[l] with U = up[0] * .. * up[l-1], over cable
// (dst / (U * up[l])) % cables[l]; until the destination lies below.
// Down, to level l: the child is the only one; the cable is src % cables[l] where the way down
// begins, and at a lower level the first one whose port number (cable * down[l] + digit) is larger
// than the port just used, or src % cables[l] again where there is none. (In SimGrid the search for
// the next port goes on where the last one ended; with single cables it makes no difference.)
//
// Limiters: of every node on the way, switches included, each once; on the way down after the cable.
// Without a declared loopback, a message within a host goes up to its first switch and down again: it
// crosses the host's limiter twice, and a cable of one link for both directions, and loads them twofold.
//
// Link numbers: cables by level, by the lower node, by parent, by cable; each its upward link, then
// (split only) its downward one. Then the limiters of all nodes by level, then the hosts' loopbacks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/topology/cluster.hpp"

namespace labkit {

struct FatTreeSpec : ClusterSpec {
  std::vector<std::int32_t> down{1};
  std::vector<std::int32_t> up{1};
  std::vector<std::int32_t> cables{1};
};

/// Throws std::invalid_argument for lists that are empty, unequally long or hold a number < 1, more
/// than kMaxClusterHosts hosts or kMaxClusterLinks links, and impossible hosts or links.
std::shared_ptr<const Platform> make_fat_tree(const FatTreeSpec& spec);

}  // namespace labkit
