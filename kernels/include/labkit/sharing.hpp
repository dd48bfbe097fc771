// Who gets how much of which link: weighted max-min fairness.
//
// The system. Flow f has a rate x_f, a weight w_f and a bound b_f; it loads link l with a_fl * x_f.
//     shared link:   sum_f a_fl x_f <= C_l
//     fat pipe:      max_f a_fl x_f <= C_l
//     x_f <= b_f
// The solution is the one where every flow runs at its bound, or crosses a saturated link on which
// no other flow has a higher weighted rate w x. It is found by progressive filling: raise one
// common level w_f x_f, stop the flows of the first link that fills, and so on.
//
// A saturated fat pipe stops ALL its flows at its level, so one with a larger weight may stay below
// the capacity (SimGrid 3.32 does the same, checked by running it). A fat pipe that none of its
// flows can fill alone (a b < C for all) is idle: it limits nobody and connects nobody.
//
// A change touches only what is connected to it through links in common: solve() fills again the
// connected components of the links touched since the last solve, and says whose rate changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "labkit/platform.hpp"
#include "labkit/small_list.hpp"
#include "labkit/types.hpp"

namespace labkit {

using FlowId = std::uint32_t;

/// A flow's use of a link: it takes coefficient * rate of the capacity.
struct LinkLoad {
  LinkId link;
  double coefficient;
};

class Sharing {
 public:
  explicit Sharing(const std::vector<Link>& links);

  /// A new flow, not active yet. Loads name distinct links; weight > 0; bound > 0, maybe infinite.
  FlowId create(std::span<const LinkLoad> loads, double weight, double bound);
  /// From now on it takes bandwidth (from the next solve).
  void activate(FlowId flow);
  /// Ends an active or inactive flow; its number will be used again.
  void remove(FlowId flow);

  [[nodiscard]] bool is_settled() const { return dirty_links_.empty() && dirty_flows_.empty(); }
  /// Makes the rates right again. The flows whose rate differs from before, in a fixed order;
  /// valid until the next call.
  const std::vector<FlowId>& solve();
  /// The same, from scratch, over everything active (the oracle of the tests).
  const std::vector<FlowId>& solve_all();

  [[nodiscard]] double rate(FlowId flow) const { return flows_[flow].rate; }
  [[nodiscard]] double weight(FlowId flow) const { return 1.0 / flows_[flow].inverse_weight; }
  [[nodiscard]] double bound(FlowId flow) const { return flows_[flow].bound; }
  [[nodiscard]] std::size_t active_count() const { return active_; }
  [[nodiscard]] std::vector<LinkLoad> loads(FlowId flow) const;
  /// Work done so far, for tests and benchmarks: flows filled again.
  [[nodiscard]] std::uint64_t flows_filled() const { return filled_; }

 private:
  struct Use {
    std::uint32_t link;
    std::uint32_t place;  // in the link's list, while active
    double coefficient;
  };
  struct Flow {
    double inverse_weight;
    double bound;
    double rate;
    std::uint32_t first_use;
    std::uint16_t uses;
    bool is_active;
    bool is_dirty;
    std::uint32_t seen;  // epoch of the last component search that met it
    std::uint32_t next_free;
  };
  struct Member {
    FlowId flow;
    std::uint32_t use;
  };
  struct LinkState {
    double capacity = 0.0;
    SmallList<Member> members;   // active flows
    double remaining = 0.0;
    double usage = 0.0;          // sum (fat pipe: maximum) of a / w over the flows not fixed yet
    double counted_usage = 0.0;  // usage when it was last summed up afresh
    std::uint32_t unfixed = 0;
    std::uint32_t fillers = 0;   // fat pipe: flows that could fill it alone
    std::uint32_t seen = 0;
    bool is_dirty = false;
    bool is_fatpipe = false;
  };
  // Levels closer than this are one level. It matters only where a fat pipe fills together with
  // something else: then the pipe counts first, so that rounding cannot decide who it stops.
  static constexpr double kBelowTie = 1.0 - 1e-12;
  struct HeapEntry {
    double level;
    std::uint32_t link;
  };

  void mark(std::uint32_t link) {
    if (links_[link].is_dirty) return;
    links_[link].is_dirty = true;
    dirty_links_.push_back(link);
  }
  void mark_flow(FlowId id) {
    if (flows_[id].is_dirty) return;
    flows_[id].is_dirty = true;
    dirty_flows_.push_back(id);
  }
  [[nodiscard]] static bool is_idle(const LinkState& link) {
    return link.is_fatpipe && link.fillers == 0;
  }
  [[nodiscard]] bool can_fill(const Flow& flow, const Use& use) const {
    return use.coefficient * flow.bound >= links_[use.link].capacity * kBelowTie;
  }
  std::uint32_t take_uses(std::size_t count);
  void give_uses(std::uint32_t first, std::size_t count);
  void begin_solve();
  void solve_around(FlowId seed);
  void visit(FlowId flow);
  void visit_links(const Flow& flow);
  void fill();
  void fill_alone(FlowId flow);
  void fill_by_scanning();
  void fill_by_heap();
  void prepare(std::uint32_t link);
  void recount(LinkState& link);
  double level_of(LinkState& link);
  double rank_of(LinkState& link) { return link.is_fatpipe ? level_of(link) * kBelowTie : level_of(link); }
  void find_tied(std::uint32_t link, double level);
  bool fix_members(std::uint32_t link);
  void fix(FlowId flow, double rate);
  void set_rate(FlowId flow, double rate);

  std::vector<Flow> flows_;
  std::vector<LinkState> links_;
  std::vector<Use> uses_;
  std::vector<std::vector<std::uint32_t>> free_uses_;  // blocks of uses_ by length
  std::uint32_t free_flow_ = kNone;
  std::size_t active_ = 0;
  std::uint64_t filled_ = 0;
  std::uint32_t epoch_ = 0;
  double floor_level_ = 0.0;  // levels only rise within one filling
  std::vector<std::uint32_t> dirty_links_;
  std::vector<FlowId> dirty_flows_;  // active flows that no dirty link will find
  std::vector<FlowId> changed_;
  std::vector<FlowId> component_flows_;
  std::vector<std::uint32_t> component_links_;
  std::vector<HeapEntry> heap_;
  std::vector<std::uint32_t> tied_;
};

}  // namespace labkit
