// Messages of one pair of hosts, as one flow: several ranks on a host, or many messages to one rank.
//
// Messages that load the same links with the same weight and bound have the same rate at every
// moment. So the sharing sees one flow that counts as many (FlowTable::Flow::count), whatever their
// sizes; here is kept which of them ends next. While a class moves w units of work for each of its
// members, each has w less to go: a member's tag is its work plus what the class had moved when it
// came, the smallest tag ends first, and what the others have left follows from it.
//
// Work is bytes / bandwidth factor, which a flow moves at its rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "labkit/engine/types.hpp"
#include "labkit/network/flow_table.hpp"

namespace labkit {

class FlowClasses {
 public:
  struct Key {
    HostId src;
    HostId dst;
    double weight;
    double bound;
    friend bool operator==(const Key&, const Key&) = default;
  };

  /// The flow of these messages, kNone while there is none.
  [[nodiscard]] FlowId find(const Key& key) const;
  /// A new class, known by its flow.
  void open(FlowId flow, const Key& key);
  /// Forgets a class without messages.
  void close(FlowId flow);

  /// A message of the class that will join it; its number is used again after its end.
  std::uint32_t announce(FlowId flow, double work, std::uint32_t cookie);
  [[nodiscard]] FlowId flow_of(std::uint32_t message) const { return messages_[message].flow; }
  /// The message takes bandwidth from now on. Takes what the first member to end has left (of no
  /// meaning without members), returns the same with the new one.
  double join(std::uint32_t message, double left);
  /// The first to end has ended. Its cookie; `left` is what the next one has left, if there is one.
  std::uint32_t pop(FlowId flow, double& left);

  /// Members that take bandwidth.
  [[nodiscard]] std::uint32_t count(FlowId flow) const {
    return static_cast<std::uint32_t>(classes_[flow].members.size());
  }
  /// Nobody takes bandwidth or will.
  [[nodiscard]] bool is_idle(FlowId flow) const {
    return classes_[flow].members.empty() && classes_[flow].announced == 0;
  }

 private:
  struct Message {
    double work;
    FlowId flow;  // of a free number: the next one
    std::uint32_t cookie;
  };
  struct Member {
    double tag;
    std::uint64_t order;  // of joining: equal tags end in it
    std::uint32_t cookie;
  };
  struct Class {
    Key key{};
    std::vector<Member> members;  // heap, the first to end in front
    std::uint32_t announced = 0;
    std::uint32_t ended = 0;      // since tags were counted afresh
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t bits = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.src)) << 32) |
                           static_cast<std::uint32_t>(key.dst);
      bits *= 0x9e3779b97f4a7c15ULL;
      return static_cast<std::size_t>(bits ^ (bits >> 29));
    }
  };
  static bool ends_later(const Member& a, const Member& b) {
    return a.tag > b.tag || (a.tag == b.tag && a.order > b.order);
  }
  static void count_afresh(Class& one);

  std::vector<Class> classes_;  // by flow
  std::unordered_map<Key, FlowId, Hash> flows_;  // never walked through
  std::vector<Message> messages_;
  std::uint32_t free_message_ = kNone;
  std::uint64_t joined_ = 0;
};

}  // namespace labkit
