// InfiniBand's windows: transfers that leave or enter one host together slow each other down, links or not.
//
// For a transfer s -> d that would run at most at b alone (its bound), n_out transfers leaving s, n_in
// entering d, m of them from s, from k different hosts:
//     out = 1 when n_out == 1, else n_out * Bs, and * ys when any destination of s has more than 2 incoming
//     in  = 1 when n_in == 1, else m * Be * k
//     its bound is b / max(out, in)
// Transfers count from their start (latency included) to their end; those within a host do not count.
// Vienne, "Prediction de performances d'applications de calcul haute performance sur reseau Infiniband",
// Grenoble 2010, as in SimGrid's network model IB.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "labkit/engine/types.hpp"
#include "labkit/network/flow_table.hpp"

namespace labkit {

struct PenaltyFactors {
  double be = 0.0;  ///< of entering transfers
  double bs = 0.0;  ///< of leaving transfers
  double ys = 0.0;  ///< of leaving transfers whose destination is crowded
  [[nodiscard]] bool is_used() const { return be > 0.0; }
};

class Penalties {
 public:
  struct Change {
    FlowId flow;
    double bound;
  };
  Penalties(PenaltyFactors factors, std::size_t hosts) : factors_(factors), hosts_(hosts) {}
  /// A transfer starts; src and dst differ. What changed, its own bound included; valid until the next call.
  const std::vector<Change>& start(FlowId flow, HostId src, HostId dst, double bound);
  /// It has ended. Nothing for a flow that was not started here.
  const std::vector<Change>& end(FlowId flow);

 private:
  static constexpr std::uint32_t kCrowd = 3;  // so many incoming transfers crowd a host
  struct Transfer {
    HostId src = -1;  // -1: not one of ours
    HostId dst = -1;
    double alone = 0.0;  // its bound without penalties
    double bound = 0.0;
    std::uint32_t out_place = 0;
    std::uint32_t in_place = 0;
  };
  struct Host {
    std::vector<FlowId> out;
    std::vector<FlowId> in;
    std::vector<std::pair<HostId, std::uint32_t>> sources;  // hosts that send here, and how many transfers
    std::uint32_t crowded = 0;  // outgoing transfers whose destination is crowded
  };
  Host& host(HostId id) { return hosts_[static_cast<std::size_t>(id)]; }
  void count(HostId dst, HostId src, bool is_start);
  void crowd(HostId dst, bool is_crowded);
  void refresh_out(HostId src);
  void refresh(FlowId flow);

  PenaltyFactors factors_;
  std::vector<Host> hosts_;
  std::vector<Transfer> transfers_;  // by FlowId
  std::vector<Change> changes_;
};

}  // namespace labkit
