// Flows and the links they load: what every solver of the sharing looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "labkit/engine/small_list.hpp"
#include "labkit/engine/types.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

using FlowId = std::uint32_t;

/// A flow's use of a link: it takes coefficient * rate of the capacity.
struct LinkLoad {
  LinkId link;
  double coefficient;
};

class FlowTable {
 public:
  /// Levels and bounds closer than this are one.
  static constexpr double kBelowTie = 1.0 - 1e-12;
  /// Routes are long and flows many, so a use is 8 bytes: the coefficient is a number in a table.
  struct Use {
    std::uint32_t link;
    std::uint32_t place : 28;  // in the link's list, while active
    std::uint32_t kind : 4;    // which coefficient
  };
  /// It may stand for several messages (FlowClasses): weight, bound and rate are those of one.
  struct Flow {
    double inverse_weight;
    double bound;
    double rate;
    std::uint32_t first_use;
    std::uint16_t uses;
    bool is_active;
    bool is_dirty;             // Filling: waits to be filled again
    std::uint32_t seen;        // Filling: epoch of the last search that met it
    std::uint32_t bottleneck;  // Filling: the link that stopped it, kNone: its bound (or a fat pipe);
                               // of a free number: the next one
    std::uint32_t count;       // of messages
  };
  struct Member {
    FlowId flow;
    std::uint32_t use;
  };
  struct Link {
    double capacity = 0.0;
    SmallList<Member> members;  // active flows
    std::uint32_t fillers = 0;  // fat pipe: flows that could fill it alone
    bool is_fatpipe = false;
  };

  explicit FlowTable(const std::vector<labkit::Link>& links);

  /// A new flow, not active yet. Loads name distinct links; weight > 0; bound > 0, maybe infinite.
  /// Throws std::length_error beyond 65535 links or 16 different coefficients.
  FlowId create(std::span<const LinkLoad> loads, double weight, double bound);
  /// Enters the flow into the lists of its links.
  void activate(FlowId flow);
  /// Takes an active flow out of them.
  void deactivate(FlowId flow);
  /// Gives an inactive flow's number back.
  void free(FlowId flow);

  [[nodiscard]] std::size_t size() const { return flows_.size(); }  // free numbers included
  [[nodiscard]] std::size_t active_count() const { return active_; }
  [[nodiscard]] Flow& flow(FlowId id) { return flows_[id]; }
  [[nodiscard]] const Flow& flow(FlowId id) const { return flows_[id]; }
  [[nodiscard]] Link& link(std::uint32_t id) { return links_[id]; }
  [[nodiscard]] const Link& link(std::uint32_t id) const { return links_[id]; }
  [[nodiscard]] std::size_t link_count() const { return links_.size(); }
  [[nodiscard]] std::span<const Use> uses(const Flow& flow) const {
    return {uses_.data() + flow.first_use, flow.uses};
  }
  [[nodiscard]] const Use& use(std::uint32_t place) const { return uses_[place]; }
  [[nodiscard]] double coefficient(const Use& use) const { return coefficients_[use.kind]; }
  /// What a shared link's use adds to its load at rate 1, all messages together.
  [[nodiscard]] double coefficient(const Use& use, const Flow& flow) const {
    return coefficients_[use.kind] * flow.count;
  }
  [[nodiscard]] std::vector<LinkLoad> loads(FlowId flow) const;
  /// A fat pipe that none of its flows can fill alone limits nobody and connects nobody.
  [[nodiscard]] static bool is_idle(const Link& link) { return link.is_fatpipe && link.fillers == 0; }
  [[nodiscard]] bool can_fill(const Flow& flow, const Use& use) const {
    return coefficient(use) * flow.bound >= links_[use.link].capacity * kBelowTie;
  }
  /// Could a fat pipe make one flow's share depend on another's? Only where flows of different
  /// coefficient / weight meet in one; else it bounds each flow by itself.
  [[nodiscard]] bool has_coupling_pipes() const { return coupling_pipes_ > 0; }

 private:
  struct Pipe {                    // what has_coupling_pipes needs, by link; empty without fat pipes
    double first_usage = 0.0;      // coefficient / weight of the first flow since it was empty
    bool is_coupling = false;
  };
  std::uint32_t take_uses(std::size_t count);
  void give_uses(std::uint32_t first, std::size_t count);
  std::uint32_t kind_of(double coefficient);
  void watch_pipe(std::uint32_t link, double usage);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<Use> uses_;
  std::vector<double> coefficients_;
  std::vector<std::vector<std::uint32_t>> free_uses_;  // blocks of uses_ by length
  std::vector<Pipe> pipes_;
  std::uint32_t free_flow_ = kNone;
  std::size_t active_ = 0;
  std::size_t coupling_pipes_ = 0;
};

}  // namespace labkit
