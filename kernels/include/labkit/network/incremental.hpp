// The sharing kept right by local repairs: for giant components of flows that all end at
// different times, where filling everything again at every event costs O(flows) or worse.
//
// State. Every flow has one bottleneck: a link, or itself (its bound). All flows of a link's list
// have the link's level: rate = level / weight. Always, for every flow f and every link l it loads,
//     level(f) = min(bound, levels of its links),  level(l) = infinite where nobody is stopped,
// so the rates are the max-min solution for the capacities C'_l = load_l of the links with flows of
// their own, and it only remains to bring every load back to its capacity. A link whose load has
// left [low, high] is filled again by itself: its flows rise together (who meets a lower level on
// another link moves there) or fall together (with whoever stands higher). That changes loads of
// other links, which may need the same; it ends when all loads are within their limits.
//
// Limits. high = C + e, low = C - e with e = eps * min(C, what the link's own flows take), at least
// 1e-12 C. eps is 1e-10; a tolerance given by the user replaces it on links with many flows only:
// with few flows, whose next messages depend on each other, errors would amplify. There e is
// eps * min(C, 8 * what its own flows take): half the repairs, and a level is off by at most 8 eps.
//
// Time. A flow needs `left` = work * weight units of level (of several messages: the first to end), and gains level * dt. `left` counts from
// the link's date, the moment of its last change of level: so a change of level touches the link's
// own flows, which it must visit anyway, and the next end of a link is its smallest `left`. One heap
// holds one key per link. Flows at their bound stand in one more list, by time.
//
// Fat pipes are taken as bounds of their flows: exact while no pipe couples flows
// (FlowTable::has_coupling_pipes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/engine/types.hpp"
#include "labkit/network/flow_table.hpp"

namespace labkit {

class Incremental {
 public:
  /// Relative limits of a load, and the flows from which on a link may use the tolerance instead
  /// (8 would save another sixth at 64 hosts; 128 would lose all there: 46 us instead of 13).
  static constexpr double kExact = 1e-10;
  static constexpr std::uint32_t kManyFlows = 48;

  Incremental(const FlowTable& table, double tolerance);

  /// Starts anew from a filling's solution: begin, adopt every active flow with the work it has
  /// left (units of rate * seconds), finish.
  void begin();
  void adopt(FlowId flow, double work, Time now);
  void finish(Time now);

  /// A flow that has just entered its links' lists.
  void start(FlowId flow, double work, Time now);
  /// A flow that is about to leave them.
  void end(FlowId flow, Time now);
  /// A flow that counts as more or fewer messages than before, the first of which has so much left.
  void resize(FlowId flow, double work, Time now);
  [[nodiscard]] bool is_settled() const { return dirty_.empty(); }
  /// Brings all loads back within their limits. False: given up (too many repairs); then only
  /// work_left and begin may be called.
  bool solve(Time now);

  /// When the first flow ends if nothing else happens; infinite without flows. Valid when settled.
  [[nodiscard]] Time next_end() const { return keys_[ends_.front()]; }
  /// Which one that is.
  [[nodiscard]] FlowId first() const { return links_[ends_.front()].flows.front().flow; }
  [[nodiscard]] double rate(FlowId flow) const {
    return level_of(flow) * table_.flow(flow).inverse_weight;
  }
  [[nodiscard]] double work_left(FlowId flow, Time now) const;

  /// Some link has flows enough for the tolerance.
  [[nodiscard]] bool is_loose() const { return loose_ > 0; }
  /// Work done so far: loads repaired.
  [[nodiscard]] std::uint64_t repairs() const { return repairs_; }
  /// Repairs in one solve after which it gives up; for tests. The default is 20 * (links + 16).
  void set_repair_limit(std::uint64_t limit) { repair_limit_ = limit; }

 private:
  /// Where a flow stands, and what a repair needs of it.
  struct Placed {
    double bound_level;
    double inverse_weight;  // of all its messages together
    std::uint32_t place;       // in its bottleneck's list
    std::uint32_t first_use;
    std::uint32_t uses;
  };
  struct Entry {
    double left;   // level * seconds from the link's date on; in the list self_: the time of its end
    double usage;  // coefficient / weight
    FlowId flow;
  };
  /// What the repairs of other links touch.
  struct Load {
    double load = 0.0;
    double high = 0.0;
    double low = 0.0;
    double highest = 0.0;  // at least the level of any flow here that another link stops
  };
  struct LinkState {
    std::vector<Entry> flows;  // stopped here; a heap by (left, flow)
    double capacity = 0.0;
    double usage = 0.0;        // sum of theirs
    Time date = 0.0;           // when `left` was right
    std::uint32_t repairs = 0;  // since the load was last summed up
    bool is_dirty = false;
    bool has_old_key = false;
    bool is_fatpipe = false;
    bool is_loose = false;  // may use the tolerance
  };
  struct Dirty {
    double level;
    std::uint32_t link;
  };
  struct Mover {
    FlowId flow;
    double level;
    double amount;  // its usage of the link it comes to, or its `left`
  };

  [[nodiscard]] double level_of(FlowId flow) const {
    const std::uint32_t bottleneck = bottlenecks_[flow];
    return bottleneck == self_ ? placed_[flow].bound_level : levels_[bottleneck];
  }
  [[nodiscard]] std::uint32_t lowest_link(const Placed& placed, double& level) const;
  void place(FlowId flow);

  // lists and times (incremental_lists.cpp)
  void sift_up(std::vector<Entry>& flows, std::uint32_t place);
  void sift_down(std::vector<Entry>& flows, std::uint32_t place);
  void make_heap(std::vector<Entry>& flows);
  void join(FlowId flow, std::uint32_t link, double left, Time now);
  double leave(FlowId flow, Time now);
  void reset(FlowId flow, double left, Time now);
  [[nodiscard]] double usage_of(const Placed& placed, std::uint32_t link) const;
  void advance(std::uint32_t link, Time now);
  void note_key(std::uint32_t link);
  void update_key(std::uint32_t link, Time now);
  void sift_key(std::uint32_t place);

  // loads (incremental.cpp) and repairs (incremental_repairs.cpp)
  void set_limits(std::uint32_t link);
  void check(std::uint32_t link) {
    const Load& load = loads_[link];
    if (load.load > load.high || load.load < load.low) mark(link);
  }
  void mark(std::uint32_t link);
  [[nodiscard]] double urgency(std::uint32_t link) const;
  void recount(std::uint32_t link);
  void repair(std::uint32_t link, Time now);
  void raise(std::uint32_t link, Time now);
  double raised_level(std::uint32_t link, double others, double usage);
  void move_away(std::uint32_t link, double level, double old_level, Time now);
  void lower(std::uint32_t link, Time now);
  double take_higher(std::uint32_t link, double floor, double usage);
  void add_load(const Placed& placed, double level_change, double level);
  void move_together(std::uint32_t link, double level_change, double level);
  void come_to(FlowId flow, std::uint32_t link, double level_change, double level);

  const FlowTable& table_;
  double tolerance_;
  std::uint32_t self_;               // the list of flows at their bound
  std::vector<double> levels_;       // by link
  std::vector<Load> loads_;
  std::vector<LinkState> links_;     // and self_
  std::vector<Placed> placed_;       // by flow
  std::vector<std::uint32_t> bottlenecks_;  // by flow: a link, or self_; apart, so that scans stay in the cache
  std::vector<Time> keys_;           // by link, and self_: its next end
  std::vector<std::uint32_t> ends_;  // heap of links by (key, link)
  std::vector<std::uint32_t> end_places_;
  std::vector<std::uint32_t> old_keys_;
  std::vector<Dirty> dirty_;         // heap by (level, link)
  std::vector<double> others_;       // of the flows of one link: the lowest level elsewhere
  std::vector<Mover> movers_;
  std::uint64_t repair_limit_;
  std::uint64_t repairs_ = 0;
  std::size_t loose_ = 0;            // links that may use the tolerance
};

}  // namespace labkit
