#include "labkit/network.hpp"

#include <algorithm>
#include <utility>

namespace labkit {

Network::Network(std::shared_ptr<const Platform> platform, const Model& model, EventQueue& queue,
                 EventKinds kinds)
    : platform_(std::move(platform)),
      model_(model),
      queue_(queue),
      kinds_(kinds),
      sharing_(platform_->links()) {}

/// Fills loads_ for a message from src to dst; returns the smallest bandwidth of the route.
double Network::collect_loads(HostId src, HostId dst) {
  platform_->route(src, dst, route_);
  loads_.clear();
  double narrowest = kNever;
  for (const LinkId link : route_.links) {
    loads_.push_back({link, 1.0});
    narrowest = std::min(narrowest, platform_->link(link).bandwidth_bytes_per_s);
  }
  if (!model_.cross_traffic) return narrowest;
  platform_->route(dst, src, reverse_);
  const std::size_t forward = loads_.size();
  for (const LinkId link : reverse_.links) {
    const auto end = loads_.begin() + static_cast<std::ptrdiff_t>(forward);
    const auto same = std::find_if(loads_.begin(), end,
                                   [link](const LinkLoad& load) { return load.link == link; });
    if (same == end) {
      loads_.push_back({link, kCrossTrafficShare});
    } else if (platform_->link(link).policy == Policy::shared) {
      same->coefficient += kCrossTrafficShare;  // a link crossed both ways
    }
  }
  return narrowest;
}

void Network::start(HostId src, HostId dst, std::uint64_t payload_bytes, std::uint32_t cookie) {
  const double size = static_cast<double>(payload_bytes + model_.envelope_bytes);
  double bound = collect_loads(src, dst);
  const double latency = route_.latency_s;
  double weight = 1.0;
  if (latency > 0.0) {
    weight = latency;
    if (model_.weight_s_bytes > 0.0) {
      for (const LinkId link : route_.links) {
        weight += model_.weight_s_bytes / platform_->link(link).bandwidth_bytes_per_s;
      }
    }
    if (model_.tcp_gamma_bytes > 0.0) {
      bound = std::min(bound, model_.tcp_gamma_bytes / (2.0 * latency));
    }
  }
  const FlowId id = sharing_.create(loads_, weight, bound);
  if (id >= flows_.size()) flows_.resize(id + 1, Flow{0, 0, 1, 0, kNever, kNever, 0, 0});
  Flow& flow = flows_[id];
  flow.remaining_bytes = size;
  flow.rate = 0.0;
  flow.factor = model_.bandwidth_factor.at(size);
  flow.end_s = flow.queued_s = kNever;
  flow.cookie = cookie;
  const double wait = latency > 0.0 ? latency * model_.latency_factor.at(size) : 0.0;
  if (wait > 0.0) {
    queue_.push(queue_.now() + wait, {kinds_.latency_over, id, 0});
  } else {
    activate(id);
  }
}

void Network::activate(FlowId id) {
  flows_[id].updated_s = queue_.now();
  sharing_.activate(id);
}

void Network::settle() {
  for (const FlowId flow : sharing_.solve()) reschedule(flow);
}

/// The rate has changed. An event that now comes too early stays and is pushed again when it
/// fires; only one that would come too late is replaced.
void Network::reschedule(FlowId id) {
  Flow& flow = flows_[id];
  const Time now = queue_.now();
  if (flow.rate > 0.0) {
    flow.remaining_bytes = std::max(0.0, flow.remaining_bytes - flow.rate * (now - flow.updated_s));
  }
  flow.updated_s = now;
  flow.rate = sharing_.rate(id) * flow.factor;
  flow.end_s = now + flow.remaining_bytes / flow.rate;
  if (flow.end_s < flow.queued_s) {
    flow.queued_s = flow.end_s;
    queue_.push(flow.end_s, {kinds_.flow_end, id, ++flow.stamp});
  }
}

bool Network::on_flow_end(const Event& event, std::uint32_t& cookie) {
  Flow& flow = flows_[event.id];
  if (event.stamp != flow.stamp) return false;
  if (flow.end_s > queue_.now()) {
    flow.queued_s = flow.end_s;
    queue_.push(flow.end_s, {kinds_.flow_end, event.id, ++flow.stamp});
    return false;
  }
  cookie = flow.cookie;
  ++flow.stamp;  // whatever is still queued for it is out of date
  sharing_.remove(event.id);
  return true;
}

}  // namespace labkit
