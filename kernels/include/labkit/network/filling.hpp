// Progressive filling: the whole solution for the parts of the system that were touched.
//
// Raise one common level w_f x_f, stop the flows of the first link that fills, and so on. A change
// touches only what is connected to it through links in common: solve() fills again the connected
// components of the links touched since the last solve, and says whose rate changed.
//
// A saturated fat pipe stops ALL its flows at its level, so one with a larger weight may stay below
// the capacity (SimGrid 3.32 does the same, checked by running it). A fat pipe that none of its
// flows can fill alone (a b < C for all) is idle: it limits nobody and connects nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/network/flow_table.hpp"

namespace labkit {

class Filling {
 public:
  explicit Filling(FlowTable& table) : table_(table), links_(table.link_count()) {
    for (std::uint32_t id = 0; id < links_.size(); ++id) links_[id].is_fatpipe = table.link(id).is_fatpipe;
  }

  /// The flow has become active (it stands in its links' lists).
  void added(FlowId flow);
  /// The flow is active no more (but its uses can still be read).
  void removed(FlowId flow);

  [[nodiscard]] bool is_settled() const { return dirty_links_.empty() && dirty_flows_.empty(); }
  /// Makes the rates right again, and every flow's bottleneck. The flows whose rate differs from
  /// before, in a fixed order; valid until the next call.
  const std::vector<FlowId>& solve();
  /// The same, from scratch, over everything active (the oracle of the tests).
  const std::vector<FlowId>& solve_all();
  /// Work done so far: flows filled again.
  [[nodiscard]] std::uint64_t flows_filled() const { return filled_; }

 private:
  struct LinkWork {
    double remaining = 0.0;
    double usage = 0.0;          // sum (fat pipe: maximum) of a / w over the flows not fixed yet
    double counted_usage = 0.0;  // usage when it was last summed up afresh
    std::uint32_t unfixed = 0;
    std::uint32_t seen = 0;
    bool is_dirty = false;
    bool is_fatpipe = false;
  };
  struct HeapEntry {
    double level;
    std::uint32_t link;
  };
  // Equal levels matter only where a fat pipe fills together with something else: then the pipe
  // counts first, so that rounding cannot decide who it stops.
  static constexpr double kBelowTie = FlowTable::kBelowTie;

  void mark(std::uint32_t link) {
    if (links_[link].is_dirty) return;
    links_[link].is_dirty = true;
    dirty_links_.push_back(link);
  }
  void mark_flow(FlowId id) {
    if (table_.flow(id).is_dirty) return;
    table_.flow(id).is_dirty = true;
    dirty_flows_.push_back(id);
  }
  void begin_solve();
  void solve_around(FlowId seed);
  void visit(FlowId flow);
  void visit_links(const FlowTable::Flow& flow);
  void fill();
  void fill_alone(FlowId flow);
  void fill_by_scanning();
  void fill_by_heap();
  void prepare(std::uint32_t link);
  void recount(std::uint32_t link);
  double level_of(std::uint32_t link);
  double rank_of(std::uint32_t link) {
    return links_[link].is_fatpipe ? level_of(link) * kBelowTie : level_of(link);
  }
  void find_tied(std::uint32_t link, double level);
  bool fix_members(std::uint32_t link);
  void fix(FlowId flow, double rate, std::uint32_t bottleneck);
  void set_rate(FlowId flow, double rate);

  FlowTable& table_;
  std::vector<LinkWork> links_;
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
