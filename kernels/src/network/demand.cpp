#include "labkit/network/demand.hpp"

#include <algorithm>

namespace labkit {

/// Fills the loads of a message from src to dst; returns the smallest bandwidth of the route.
double DemandReader::collect_loads(HostId src, HostId dst, Time now, std::uint32_t way) {
  std::vector<LinkLoad>& loads = demand_.loads;
  platform_.route_by(src, dst, way, route_);
  loads.clear();
  double narrowest = kNever;
  for (const LinkId link : route_.links) {
    loads.push_back({link, 1.0});
    narrowest = std::min(narrowest, platform_.bandwidth(link, now));
  }
  if (route_.has_repeats) merge_repeats();
  demand_.forward = loads.size();
  if (!model_.cross_traffic) return narrowest;
  platform_.route_by(dst, src, way, reverse_);
  for (const LinkId link : reverse_.links) {
    const auto end = loads.begin() + static_cast<std::ptrdiff_t>(demand_.forward);
    const auto same = std::find_if(loads.begin(), end, [link](const LinkLoad& load) { return load.link == link; });
    if (same == end) {
      loads.push_back({link, kCrossTrafficShare});
    } else if (platform_.link(link).policy == Policy::shared) {
      same->coefficient += kCrossTrafficShare;  // a link crossed both ways
    }
  }
  if (reverse_.has_repeats) merge_repeats();
  return narrowest;
}

/// A shared link that stands in a route twice is loaded twofold; a fat pipe knows only the largest load.
void DemandReader::merge_repeats() {
  std::vector<LinkLoad>& loads = demand_.loads;
  std::size_t kept = 0;
  for (const LinkLoad load : loads) {
    const auto end = loads.begin() + static_cast<std::ptrdiff_t>(kept);
    const auto same = std::find_if(loads.begin(), end,
                                   [&](const LinkLoad& other) { return other.link == load.link; });
    if (same == end) {
      loads[kept++] = load;
    } else if (platform_.link(load.link).policy == Policy::shared) {
      same->coefficient += load.coefficient;
    }
  }
  loads.resize(kept);
}

/// Of the route, whose own sum has the latencies that its links have without profiles.
double DemandReader::latency(Time now) const {
  double sum = route_.latency_s;
  if (platform_.profiles().latencies.empty()) return sum;
  for (const LinkId link : route_.links) sum += platform_.latency(link, now) - platform_.link(link).latency_s;
  return std::max(sum, 0.0);
}

const Demand& DemandReader::read(HostId src, HostId dst, std::uint64_t payload_bytes, Time now,
                                 std::uint32_t way) {
  demand_.size_bytes = static_cast<double>(payload_bytes + model_.envelope_bytes);
  demand_.bound = collect_loads(src, dst, now, way);
  const double latency = demand_.route_latency_s = this->latency(now);
  demand_.weight = 1.0;
  if (latency > 0.0) {
    demand_.weight = latency;
    if (model_.weight_s_bytes > 0.0) {
      for (const LinkId link : route_.links) {
        demand_.weight += model_.weight_s_bytes / platform_.bandwidth(link, now);
      }
    }
    if (model_.tcp_gamma_bytes > 0.0) {
      demand_.bound = std::min(demand_.bound, model_.tcp_gamma_bytes / (2.0 * latency));
    } else if (model_.contention == Contention::maxmin && platform_.profiles().has_links()) {
      demand_.bound = kNever;  // the links alone bound it, as in SimGrid: one that becomes faster is used whole
    }
  }
  demand_.factor = model_.bandwidth_factor.at(demand_.size_bytes);
  demand_.latency_s = latency > 0.0 ? latency * model_.latency_factor.at(demand_.size_bytes) : 0.0;
  if (!model_.message_latency.is_free()) demand_.latency_s += model_.message_latency.at(payload_bytes);
  return demand_;
}

}  // namespace labkit
