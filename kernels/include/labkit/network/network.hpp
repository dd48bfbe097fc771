// Messages on the wire: a latency phase, then a share of the links until the bytes have moved.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/engine/event_queue.hpp"
#include "labkit/network/certificate.hpp"
#include "labkit/network/delays.hpp"
#include "labkit/network/demand.hpp"
#include "labkit/network/flow_classes.hpp"
#include "labkit/network/link_changes.hpp"
#include "labkit/network/model.hpp"
#include "labkit/network/sharing.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

class Network {
 public:
  /// Its events carry these kinds; whoever pops them hands them back.
  struct EventKinds {
    std::uint32_t latency_over;
    std::uint32_t flow_end;
    std::uint32_t link_change = 0;  ///< on platforms whose links change only
  };
  Network(std::shared_ptr<const Platform> platform, const Model& model, EventQueue& queue,
          EventKinds kinds, SharingOptions options = {});

  /// A message starts now; the cookie comes back when its last byte has arrived. Returns the way that
  /// the router has chosen for it, 0 where there is but one.
  std::uint32_t start(HostId src, HostId dst, std::uint64_t payload_bytes, std::uint32_t cookie);
  void on_latency_over(const Event& event) {
    if (delays_) {
      delays_->on_head(event);
    } else if (classes_) {
      join_class(event.id);
    } else {
      activate(event.id);
    }
  }
  /// An event of this flow comes soon: fetch what it needs into the cache. Its cookie, once that is there.
  void fetch(std::uint32_t flow) const {
    if (delays_ || flow >= flows_.size()) return;
    fetch_line(&flows_[flow]);
    sharing_.fetch(flow);
  }
  [[nodiscard]] std::uint32_t fetched_cookie(std::uint32_t flow) const {
    if (delays_ || flow >= flows_.size()) return kNone;
    sharing_.fetch_uses(flow);
    return flows_[flow].cookie;
  }
  /// True when the flow has ended (its cookie is in `cookie`), false for an event out of date.
  bool on_flow_end(const Event& event, std::uint32_t& cookie);

  /// A link has another bandwidth or latency from now on.
  void on_link_change();

  [[nodiscard]] bool is_settled() const { return sharing_.is_settled(); }
  /// Before time moves on: share the links anew among the flows that changed.
  void settle();
  [[nodiscard]] const Sharing& sharing() const { return sharing_; }
  /// What a tolerance came to.
  struct ToleranceUse {
    std::uint64_t instants = 0;   ///< at which the links were shared anew
    std::uint64_t loose = 0;      ///< of these: with a link that may use the tolerance
    std::uint64_t certified = 0;  ///< of these: looked at by a certificate
    Certificate worst;            ///< of all certificates
  };
  [[nodiscard]] const ToleranceUse& tolerance_use() const { return tolerance_use_; }

 private:
  struct Flow {
    double remaining_bytes;
    double rate;              // bytes per second, bandwidth factor included
    double factor;            // bandwidth factor
    Time updated_s;           // when remaining_bytes was right
    Time end_s;
    Time queued_s;            // when its event comes; never after end_s
    std::uint32_t cookie;
    std::uint32_t stamp;      // of its valid event
  };

  FlowId create(const Demand& demand);
  void activate(FlowId flow);
  void reschedule(FlowId flow);
  void hand_over();
  void take_back();
  void queue_next_end();
  void certify_sometimes();
  void change_links();
  std::uint32_t choose_way(HostId src, HostId dst);
  void count_use(FlowId flow, std::uint32_t change);
  bool on_next_end(const Event& event, std::uint32_t& cookie);
  std::uint32_t end(FlowId flow);

  // classes (network_classes.cpp): a flow is several messages; its Flow is the first one to end
  std::uint32_t announce(HostId src, HostId dst, const Demand& demand, std::uint32_t cookie);
  void join_class(std::uint32_t message);
  std::uint32_t end_of_class(FlowId flow);
  double first_left(FlowId flow) const;
  void rebound(const std::vector<Penalties::Change>& changes);

  std::shared_ptr<const Platform> platform_;
  DemandReader demands_;
  EventQueue& queue_;
  EventKinds kinds_;
  Sharing sharing_;
  LinkUse use_;                       // these two only where the router chooses a way for each message
  std::vector<std::uint64_t> sent_;   // by host
  std::vector<Flow> flows_;  // by FlowId
  Time next_end_s_ = kNever;  // while the sharing times the flows: when its event comes
  std::uint32_t next_end_stamp_ = 0;
  ToleranceUse tolerance_use_;
  std::unique_ptr<FlowClasses> classes_;
  std::vector<FlowId> retimed_;  // flows whose first end is another one since the last sharing
  std::unique_ptr<Penalties> penalties_;  // InfiniBand only
  std::unique_ptr<Delays> delays_;        // messages that share no links: then nothing else is in use
  std::unique_ptr<LinkChanges> link_changes_;  // links with profiles only
  std::uint64_t under_way_ = 0;                // messages, where links change
  bool has_change_ = false;                    // an event of the next change is in the queue
};

}  // namespace labkit
