// A dragonfly: groups of chassis of routers, each with its hosts, joined by green, black and blue cables.
//
// Host ((g * C + c) * R + r) * N + n is node n of router (g, c, r). Green: all routers of a chassis, pair by
// pair. Black: the routers at the same place of a group's chassis, pair by pair. Blue: one cable per pair of
// groups; in group i the one to group j ends at router number j % (C * R) of the group. A cable of a color
// is one link (or one per direction) with `green`, `black`, `blue` times the bandwidth.
//
// Within a group: green to the place of the destination's router, black to its chassis. To another group:
// so to the router of the blue cable, over it, and so to the destination.
//
// minimal   the routes of SimGrid 3.32, which is that, but for one peculiarity: within a group, a
//           message that has taken a green cable is taken to be in chassis 0. So from another chassis it
//           needs no black cable to chassis 0, and a needless one from chassis 0 to its own.
// shortest  without the peculiarity.
// valiant   shortest to a group drawn at random for each message, shortest on from there. Messages
//           within a group, and with fewer than three groups, go the shortest way.
// adaptive  the shortest way, or the one that valiant would take if that costs less when the message
//           starts: hops times the largest (messages under way + 1) / bandwidth of any cable between routers
//           (a message is under way from its start to its last byte). Knows the loads everywhere (UGAL-G).
// The last three are extensions: SimGrid has none of them. Where a chassis has fewer routers than there are
// groups, SimGrid 3.32 reads out of bounds.
//
// Limiters: of the two hosts and of every router on the way, each once; those of both ends of a blue cable
// after it, the others before the next cable. Without a declared loopback, a message within a host goes to
// its router and back: it crosses the host's limiter twice, and a cable of one link for both directions, and
// loads them twofold.
//
// Link numbers: the hosts' cables, green by chassis, black by group, pair and place, blue by pair; each
// its upward link (to the router; to the higher number), then (split only) its downward one. Then the
// limiters of hosts and routers, then the hosts' loopbacks.
#pragma once

#include <cstdint>
#include <memory>

#include "labkit/topology/cluster.hpp"

namespace labkit {

enum class DragonflyRouting : std::uint8_t { minimal, shortest, valiant, adaptive };

struct DragonflySpec : ClusterSpec {
  std::int32_t groups = 1;
  std::int32_t blue = 1;
  std::int32_t chassis = 1;
  std::int32_t black = 1;
  std::int32_t routers = 1;
  std::int32_t green = 1;
  std::int32_t nodes = 1;
  DragonflyRouting routing = DragonflyRouting::minimal;
  std::uint64_t seed = 0;  ///< of valiant and adaptive
};

/// Throws std::invalid_argument for a number below 1, more than kMaxClusterHosts hosts or
/// kMaxClusterLinks links, and impossible hosts or links.
std::shared_ptr<const Platform> make_dragonfly(const DragonflySpec& spec);

}  // namespace labkit
