#include "labkit/network/link_changes.hpp"

#include <algorithm>

namespace labkit {
namespace {

constexpr double kLeastWeight = 1e-12;  // of a flow that only its acknowledgements lead over links that become faster

}  // namespace

LinkChanges::LinkChanges(const Platform& platform, const Model& model) : platform_(platform), model_(model) {
  const auto add = [this](LinkId id) {
    const Link& link = platform_.link(id);
    links_.push_back({id, link.bandwidth_bytes_per_s, link.latency_s});
  };
  for (const auto& [id, profile] : platform.profiles().bandwidths) add(id);
  for (const auto& [id, profile] : platform.profiles().latencies) {
    if (!platform.profiles().bandwidths.contains(id)) add(id);
  }
}

Time LinkChanges::next(Time now) const {
  Time first = kNever;
  for (const auto* profiles : {&platform_.profiles().bandwidths, &platform_.profiles().latencies}) {
    for (const auto& [id, profile] : *profiles) first = std::min(first, profile.next(now));
  }
  return first;
}

void LinkChanges::made(FlowId flow, const Demand& demand) {
  if (flow >= latencies_s_.size()) latencies_s_.resize(flow + 1, 0.0);
  latencies_s_[flow] = demand.route_latency_s;
}

void LinkChanges::apply(Sharing& sharing, Time now) {
  for (Changing& link : links_) {
    const double bandwidth = platform_.bandwidth(link.link, now);
    const double latency_s = platform_.latency(link.link, now);
    if (bandwidth == link.bandwidth && latency_s == link.latency_s) continue;
    const double later_s = latency_s - link.latency_s;
    const double more = later_s + model_.weight_s_bytes * (1.0 / bandwidth - 1.0 / link.bandwidth);
    sharing.change_link(link.link, bandwidth, [&](FlowId flow, double& weight, double& bound) {
      double& route_s = latencies_s_[flow];
      if (route_s == 0.0) return;  // then its weight is 1
      weight = std::max(weight + more, kLeastWeight);
      if (later_s == 0.0) return;
      route_s += later_s;
      const bool is_bounded = model_.tcp_gamma_bytes > 0.0 && route_s > 0.0;
      bound = is_bounded ? model_.tcp_gamma_bytes / (2.0 * route_s) : kNever;
    });
    link.bandwidth = bandwidth;
    link.latency_s = latency_s;
  }
}

}  // namespace labkit
