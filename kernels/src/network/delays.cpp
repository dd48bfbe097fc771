#include "labkit/network/delays.hpp"

#include <algorithm>

namespace labkit {

void Delays::start(HostId src, HostId dst, std::uint64_t payload_bytes, std::uint32_t cookie) {
  const Demand& demand = demands_.read(src, dst, payload_bytes, queue_.now());
  const double latency = model_.latency_s < 0.0 ? demand.latency_s : model_.latency_s;
  const double per_byte =
      model_.gap_per_byte_s < 0.0 ? 1.0 / (demand.bound * demand.factor) : model_.gap_per_byte_s;
  const bool is_local = src == dst;
  const Message message{is_local ? 0.0 : model_.gap_s, per_byte * demand.size_bytes, is_local ? -1 : dst, cookie};
  std::uint32_t id;
  if (free_.empty()) {
    id = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back(message);
  } else {
    id = free_.back();
    free_.pop_back();
    messages_[id] = message;
  }
  Time leaves = queue_.now();
  if (!is_local) {
    Time& is_free = out_free_s_[static_cast<std::size_t>(src)];
    leaves = std::max(leaves, is_free);
    is_free = leaves + message.gap_s + message.body_s;
  }
  queue_.push(leaves + latency, {head_kind_, id, 0});
}

void Delays::on_head(const Event& event) {
  const Message& message = messages_[event.id];
  Time begins = queue_.now();
  if (message.dst >= 0) {
    Time& is_free = in_free_s_[static_cast<std::size_t>(message.dst)];
    begins = std::max(begins, is_free);
    is_free = begins + message.gap_s + message.body_s;
  }
  queue_.push(begins + message.body_s, {end_kind_, event.id, 0});
}

std::uint32_t Delays::on_end(const Event& event) {
  free_.push_back(event.id);
  return messages_[event.id].cookie;
}

}  // namespace labkit
