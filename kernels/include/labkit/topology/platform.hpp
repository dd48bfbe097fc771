// The machine: hosts, links, and a router that says which links a message takes.
//
// Nothing but a router knows the topology. Hosts and links are numbered densely from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "labkit/engine/types.hpp"
#include "labkit/topology/profile.hpp"

namespace labkit {

enum class Policy : std::uint8_t {
  shared,   ///< the flows' rates add up to at most the bandwidth
  fatpipe,  ///< every flow alone may have the bandwidth
};

struct Link {
  double bandwidth_bytes_per_s;
  double latency_s;
  Policy policy;
};

struct Host {
  double speed_flops;  ///< per core
  std::int32_t cores;
};

/// The links from one host to another, in order, and the sum of their latencies.
struct Route {
  std::vector<LinkId> links;
  double latency_s = 0.0;
  bool has_repeats = false;  ///< a link may stand in it twice: its flow then uses the link twofold
  void clear() {
    links.clear();
    latency_s = 0.0;
    has_repeats = false;
  }
};

/// By link: how many messages under way cross it (on their way there, from start to last byte).
using LinkUse = std::vector<std::uint32_t>;

/// A topology. Routes are asked for once per message (twice with cross-traffic), must be pure
/// functions of their arguments, and list a link at most once, or say that they have repeats.
class Router {
 public:
  virtual ~Router() = default;
  Router() = default;
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  /// Appends to an empty route. src == dst asks for the loopback.
  virtual void route(HostId src, HostId dst, Route& out) const = 0;
  /// Appends the links from a host to the router that joins a whole cluster to others, and back.
  virtual void to_gateway(HostId /*src*/, Route& /*out*/) const {}
  virtual void from_gateway(HostId /*dst*/, Route& /*out*/) const {}
  /// Where a pair of hosts has several ways, each message takes the one that is chosen when it starts:
  /// a number for route_by, which also tells the way of its acknowledgements (dst to src).
  [[nodiscard]] virtual bool chooses() const { return false; }
  /// `count`: messages the source host has sent before.
  [[nodiscard]] virtual std::uint32_t choose(HostId, HostId, std::uint64_t /*count*/, const LinkUse&) const { return 0; }
  /// Way 0 is the one of `route`.
  virtual void route_by(HostId src, HostId dst, std::uint32_t /*way*/, Route& out) const { route(src, dst, out); }
  /// For reports and traces only.
  [[nodiscard]] virtual std::string link_name(LinkId link) const = 0;
  [[nodiscard]] virtual std::string describe() const = 0;
};

class Platform {
 public:
  /// Throws std::invalid_argument for non-positive bandwidths or speeds, negative latencies.
  Platform(std::vector<Host> hosts, std::vector<Link> links, std::unique_ptr<const Router> router, Profiles profiles = {});
  [[nodiscard]] std::size_t host_count() const { return hosts_.size(); }
  [[nodiscard]] std::size_t link_count() const { return links_.size(); }
  [[nodiscard]] const Host& host(HostId id) const { return hosts_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Link& link(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const Router& router() const { return *router_; }
  [[nodiscard]] const Profiles& profiles() const { return profiles_; }
  /// A link's bandwidth (bytes/s) and latency (s) at some time.
  [[nodiscard]] double bandwidth(LinkId id, Time now) const {
    const double whole = link(id).bandwidth_bytes_per_s;
    if (profiles_.bandwidths.empty()) return whole;
    const auto found = profiles_.bandwidths.find(id);
    return found == profiles_.bandwidths.end() ? whole : found->second.at(now, whole);
  }
  [[nodiscard]] double latency(LinkId id, Time now) const {
    const double whole = link(id).latency_s;
    if (profiles_.latencies.empty()) return whole;
    const auto found = profiles_.latencies.find(id);
    return found == profiles_.latencies.end() ? whole : found->second.at(now, whole);
  }
  /// The route, with its latency; clears `out` first.
  void route(HostId src, HostId dst, Route& out) const {
    out.clear();
    router_->route(src, dst, out);
  }
  /// The same by the way that the router has chosen.
  void route_by(HostId src, HostId dst, std::uint32_t way, Route& out) const {
    if (way == 0) return route(src, dst, out);
    out.clear();
    router_->route_by(src, dst, way, out);
  }

 private:
  std::vector<Host> hosts_;
  std::vector<Link> links_;
  std::unique_ptr<const Router> router_;
  Profiles profiles_;
};

}  // namespace labkit
