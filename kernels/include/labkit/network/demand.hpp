// What a message asks of the network: the links it loads, its weight, its bound, its latency phase.
//
// Asked by the network when a message starts, and again by whoever explains a run afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "labkit/network/flow_table.hpp"
#include "labkit/network/model.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

struct Demand {
  std::vector<LinkLoad> loads;  ///< the route's links first, then those loaded by the way back only
  std::size_t forward = 0;      ///< links of the route
  double size_bytes = 0.0;      ///< payload and envelope
  double weight = 1.0;
  double bound = 0.0;           ///< bytes per second before the bandwidth factor
  double factor = 1.0;          ///< bandwidth factor
  Time latency_s = 0.0;         ///< length of the latency phase
  double route_latency_s = 0.0; ///< sum of the links' latencies
};

class DemandReader {
 public:
  DemandReader(const Platform& platform, const Model& model) : platform_(platform), model_(model) {}
  /// Of a message that starts at `now`, by the way that the router has chosen for it. Valid until the next call.
  const Demand& read(HostId src, HostId dst, std::uint64_t payload_bytes, Time now, std::uint32_t way = 0);

 private:
  double collect_loads(HostId src, HostId dst, Time now, std::uint32_t way);
  [[nodiscard]] double latency(Time now) const;
  void merge_repeats();

  const Platform& platform_;
  const Model& model_;
  Route route_;
  Route reverse_;
  Demand demand_;
};

}  // namespace labkit
