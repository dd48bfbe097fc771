// Who gets how much of which link: weighted max-min fairness.
//
// The system. Flow f has a rate x_f, a weight w_f and a bound b_f; it loads link l with a_fl * x_f.
//     shared link:   sum_f a_fl x_f <= C_l
//     fat pipe:      max_f a_fl x_f <= C_l
//     x_f <= b_f
// The solution is the one where every flow runs at its bound, or crosses a saturated link on which
// no other flow has a higher weighted rate w x.
//
// Two solvers keep it. Filling (filling.hpp) solves touched components as a whole: synchronized
// loads, where many flows change at once, are cheapest so, and whoever calls it times the flows by
// their rates. Incremental (incremental.hpp) repairs what a single change touches, and times the
// flows itself: for giant components of flows that all end at different times. This class chooses:
// it counts how much filling does for how few changes, and goes over when that has cost more than
// going over does; a batch that changes a large part of the active flows brings it back, and so does
// a fat pipe that couples flows. All counts are deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "labkit/engine/types.hpp"
#include "labkit/network/filling.hpp"
#include "labkit/network/flow_table.hpp"
#include "labkit/network/incremental.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

enum class Solver : std::uint8_t {
  automatic,    ///< whichever is cheaper
  filling,      ///< filling only (the oracle)
  incremental,  ///< repairs wherever they are possible (for tests)
};

/// Are messages between the same two hosts shared as one flow?
enum class Classes : std::uint8_t {
  automatic,  ///< where several ranks share a host
  never,
  always,
};

struct SharingOptions {
  /// Relative error of the capacities that is allowed on links with many flows; 0: none.
  double tolerance = 0.0;
  Solver solver = Solver::automatic;
  /// Repairs after which one solve gives up and fills everything; 0: 20 * (links + 16).
  std::uint64_t repair_limit = 0;
  Classes classes = Classes::automatic;
};

class Sharing {
 public:
  explicit Sharing(const std::vector<Link>& links, SharingOptions options = {});

  /// A new flow, not active yet. Loads name distinct links; weight > 0; bound > 0, maybe infinite.
  FlowId create(std::span<const LinkLoad> loads, double weight, double bound) {
    return table_.create(loads, weight, bound);
  }
  /// From now on it takes bandwidth (from the next solve). The work (rate * seconds until its end)
  /// is needed only while is_incremental().
  void activate(FlowId flow, double work = kNever);
  /// From now on it stands for `count` messages, at least 1; its first end is `work` away.
  void resize(FlowId flow, std::uint32_t count, double work, Time now);
  /// From now on it takes no bandwidth.
  void deactivate(FlowId flow, Time now = 0.0);
  /// Another bound for a flow, active or not; not while is_incremental().
  void set_bound(FlowId flow, double bound);
  /// Another capacity for a link; `change` gives its active flows other weights and bounds. Not while is_incremental().
  void change_link(LinkId link, double capacity, const std::function<void(FlowId, double& weight, double& bound)>& change);
  /// Ends an active or inactive flow; its number will be used again.
  void remove(FlowId flow, Time now = 0.0);
  [[nodiscard]] bool is_settled() const { return changes_ == 0 && filling_.is_settled(); }

  // --- filling: whoever calls keeps the time ----------------------------------------------------
  /// Makes the rates right again. The flows whose rate differs from before, in a fixed order;
  /// valid until the next call.
  const std::vector<FlowId>& solve();
  /// The same, from scratch, over everything active (the oracle of the tests).
  const std::vector<FlowId>& solve_all();
  /// Filling has cost more than going over to repairs would (right after a solve only).
  [[nodiscard]] bool wants_incremental() const { return wants_incremental_; }

  // --- repairs: the flows are timed here ---------------------------------------------------------
  [[nodiscard]] bool is_incremental() const { return is_incremental_; }
  /// Goes over: begin, adopt every active flow with the work it has left, end with finish.
  void begin_incremental();
  void adopt(FlowId flow, double work, Time now) { incremental_->adopt(flow, work, now); }
  void finish_incremental(Time now) { incremental_->finish(now); }
  /// These changes are not for repairs: leave_incremental (having asked for every flow's
  /// work_left), then solve_all.
  [[nodiscard]] bool wants_filling() const;
  void leave_incremental() { is_incremental_ = false; }
  [[nodiscard]] double work_left(FlowId flow, Time now) const { return incremental_->work_left(flow, now); }
  /// Makes the rates right again; then next_end is right, too.
  void repair(Time now);
  /// When the first flow ends if nothing else happens, and which one.
  [[nodiscard]] Time next_end() const { return incremental_->next_end(); }
  [[nodiscard]] FlowId first_to_end() const { return incremental_->first(); }

  // --- reports ----------------------------------------------------------------------------------
  /// The rates may be off by the tolerance: repairs keep them, and some link has flows enough.
  [[nodiscard]] bool is_loose() const { return is_incremental_ && incremental_->is_loose(); }
  [[nodiscard]] double rate(FlowId flow) const {
    return is_incremental_ ? incremental_->rate(flow) : table_.flow(flow).rate;
  }
  [[nodiscard]] double weight(FlowId flow) const { return 1.0 / table_.flow(flow).inverse_weight; }
  [[nodiscard]] double bound(FlowId flow) const { return table_.flow(flow).bound; }
  /// Has come since the last repair: its work has not been touched.
  [[nodiscard]] bool is_waiting(FlowId flow) const { return is_incremental_ && table_.flow(flow).is_dirty; }
  [[nodiscard]] bool is_active(FlowId flow) const { return table_.flow(flow).is_active; }
  [[nodiscard]] std::size_t active_count() const { return table_.active_count(); }
  [[nodiscard]] std::size_t flow_slots() const { return table_.size(); }
  [[nodiscard]] std::vector<LinkLoad> loads(FlowId flow) const { return table_.loads(flow); }
  [[nodiscard]] const FlowTable& table() const { return table_; }
  [[nodiscard]] const SharingOptions& options() const { return options_; }
  /// Work done so far, for tests and benchmarks.
  [[nodiscard]] std::uint64_t flows_filled() const { return filling_.flows_filled(); }
  [[nodiscard]] std::uint64_t repairs() const { return incremental_ ? incremental_->repairs() : 0; }
  [[nodiscard]] std::uint64_t rebuilds() const { return rebuilds_; }

  /// Fetch a flow, then its uses, into the cache.
  void fetch(FlowId id) const { fetch_line(&table_.flow(id)); }
  void fetch_uses(FlowId id) const { fetch_line(table_.uses(table_.flow(id)).data()); }

 private:
  void weigh(std::uint64_t filled);
  void rebuild(Time now);

  SharingOptions options_;
  FlowTable table_;
  Filling filling_;
  std::unique_ptr<Incremental> incremental_;  // made when first needed: most loads never do
  std::vector<FlowId> starts_;  // incremental: flows that have come since the last repair
  std::vector<double> works_;   // by flow: theirs; what is left while everything is filled again
  std::uint64_t changes_ = 0;   // flows that came or went since the last solve
  std::uint64_t wasted_ = 0;    // flows filled beyond what the changes are worth
  std::uint64_t rebuilds_ = 0;
  bool is_incremental_ = false;
  bool wants_incremental_ = false;
};

}  // namespace labkit
