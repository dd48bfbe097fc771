#include "labkit/network/flow_classes.hpp"

#include <algorithm>

namespace labkit {

FlowId FlowClasses::find(const Key& key) const {
  const auto found = flows_.find(key);
  return found == flows_.end() ? kNone : found->second;
}

void FlowClasses::open(FlowId flow, const Key& key) {
  if (flow >= classes_.size()) classes_.resize(flow + 1);
  classes_[flow].key = key;
  flows_.emplace(key, flow);
}

void FlowClasses::close(FlowId flow) { flows_.erase(classes_[flow].key); }

std::uint32_t FlowClasses::announce(FlowId flow, double work, std::uint32_t cookie) {
  std::uint32_t id = free_message_;
  if (id == kNone) {
    id = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_message_ = messages_[id].flow;
  }
  messages_[id] = {work, flow, cookie};
  ++classes_[flow].announced;
  return id;
}

double FlowClasses::join(std::uint32_t id, double left) {
  const Message message = messages_[id];
  Class& one = classes_[message.flow];
  --one.announced;
  messages_[id].flow = free_message_;
  free_message_ = id;
  double moved = 0.0;  // by the class, for each member
  if (one.members.empty()) {
    one.ended = 0;
    left = message.work;
  } else {
    moved = one.members.front().tag - left;
    left = std::min(left, message.work);
  }
  one.members.push_back({moved + message.work, ++joined_, message.cookie});
  std::push_heap(one.members.begin(), one.members.end(), ends_later);
  return left;
}

std::uint32_t FlowClasses::pop(FlowId flow, double& left) {
  Class& one = classes_[flow];
  const Member first = one.members.front();
  std::pop_heap(one.members.begin(), one.members.end(), ends_later);
  one.members.pop_back();
  if (one.members.empty()) return first.cookie;
  left = one.members.front().tag - first.tag;
  if (++one.ended > one.members.size() + 64) count_afresh(one);
  return first.cookie;
}

/// Tags grow with all that a class has ever moved: before rounding shows, they are made small again.
void FlowClasses::count_afresh(Class& one) {
  const double moved = one.members.front().tag;
  for (Member& member : one.members) member.tag -= moved;
  std::make_heap(one.members.begin(), one.members.end(), ends_later);
  one.ended = 0;
}

}  // namespace labkit
