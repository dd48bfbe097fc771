// Messages between the same two hosts as one flow: its Flow holds the first of them to end, in units
// of work (its factor is 1).
#include <algorithm>

#include "labkit/network/network.hpp"

namespace labkit {

std::uint32_t Network::announce(HostId src, HostId dst, const Demand& demand, std::uint32_t cookie) {
  const FlowClasses::Key key{src, dst, demand.weight, demand.bound};
  FlowId id = classes_->find(key);
  if (id == kNone) {
    id = create(demand);
    flows_[id].factor = 1.0;
    classes_->open(id, key);
  }
  return classes_->announce(id, demand.size_bytes / demand.factor, cookie);
}

/// What the first to end has left.
double Network::first_left(FlowId id) const {
  const Flow& flow = flows_[id];
  if (sharing_.is_incremental() && !sharing_.is_waiting(id)) return sharing_.work_left(id, queue_.now());
  return std::max(0.0, flow.remaining_bytes - flow.rate * (queue_.now() - flow.updated_s));
}

void Network::join_class(std::uint32_t message) {
  const FlowId id = classes_->flow_of(message);
  const bool is_alone = classes_->count(id) == 0;
  const double left_before = is_alone ? kNever : first_left(id);
  const double left = classes_->join(message, left_before);
  Flow& flow = flows_[id];
  flow.remaining_bytes = left;
  flow.updated_s = queue_.now();
  if (is_alone) {
    flow.rate = 0.0;
    flow.end_s = flow.queued_s = kNever;
    sharing_.activate(id, left);
  } else {
    sharing_.resize(id, classes_->count(id), left, queue_.now());
  }
  if (left < left_before) retimed_.push_back(id);
}

/// The first of the flow's messages has ended; its cookie.
std::uint32_t Network::end_of_class(FlowId id) {
  const Time now = queue_.now();
  Flow& flow = flows_[id];
  double left = 0.0;
  const std::uint32_t cookie = classes_->pop(id, left);
  if (classes_->count(id) == 0) {
    sharing_.deactivate(id, now);
    if (classes_->is_idle(id)) {
      classes_->close(id);
      sharing_.remove(id, now);
    }
    return cookie;
  }
  flow.remaining_bytes = left;
  flow.updated_s = now;
  flow.end_s = flow.queued_s = kNever;
  sharing_.resize(id, classes_->count(id), left, now);
  if (sharing_.is_incremental()) return cookie;
  if (left > 0.0) {
    retimed_.push_back(id);
  } else {  // together with the next one: no need to share anew between them
    flow.end_s = flow.queued_s = now;
    queue_.push(now, {kinds_.flow_end, id, ++flow.stamp});
  }
  return cookie;
}

}  // namespace labkit
