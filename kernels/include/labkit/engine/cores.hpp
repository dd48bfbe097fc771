// Cores that ranks share: of k computations on a host with c cores, each goes on at min(1, c/k) of a core's speed.
//
// Equal shares are a clock of the host's own, which goes on by min(1, c/k) in each second: a computation of
// w seconds that begins when it shows V is over when it shows V + w, whoever comes and goes meanwhile. So
// nobody's share is ever written down: a host keeps its clock and a heap of ends, and a change costs
// O(log k). What begins and ends within an instant is settled once, as the network's sharing is.
//
// Only hosts that have more ranks than cores are kept here; on all others nobody ever shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/engine/event_queue.hpp"
#include "labkit/engine/types.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

/// A host that has more ranks than cores.
struct CrowdedHost {
  HostId host;
  std::int32_t cores;
  std::int32_t ranks;
};

/// In the order of the hosts. Every entry of rank_hosts is a host of the platform.
[[nodiscard]] std::vector<CrowdedHost> crowded_hosts(const Platform& platform, const std::vector<HostId>& rank_hosts);

class Cores {
 public:
  /// Ends are announced by events of the kind `end_kind`.
  Cores(const Platform& platform, const std::vector<HostId>& rank_hosts, EventQueue& queue, std::uint32_t end_kind);

  /// Whether some host is crowded at all.
  [[nodiscard]] bool is_used() const { return !hosts_.empty(); }
  [[nodiscard]] bool are_shared_by(Rank rank) const { return is_used() && place(rank) != kNone; }
  /// The rank, one that shares, computes from now on: so many seconds if it had a core of its own.
  void begin(Rank rank, double work_s);
  /// Appends the ranks whose computations are over: in the order of their ends, then of their beginnings.
  void on_end(const Event& event, std::vector<Rank>& over);
  /// Whether every change has been settled; settle() when the instant is over.
  [[nodiscard]] bool is_settled() const { return changed_.empty(); }
  void settle();

 private:
  struct End {
    double at_s;          // of the host's own clock
    std::uint64_t order;  // of beginning
    Rank rank;
  };
  struct Shared {
    double cores = 1.0;
    double clock_s = 0.0;  // its own, at updated_s
    Time updated_s = 0.0;
    std::vector<End> ends;  // heap: who ends first is in front
    std::uint32_t stamp = 0;
    bool is_changed = false;
  };

  [[nodiscard]] std::uint32_t place(Rank rank) const { return places_[static_cast<std::size_t>(rank)]; }
  static bool is_later(const End& a, const End& b) { return a.at_s != b.at_s ? a.at_s > b.at_s : a.order > b.order; }
  /// Computations to a core where there are more of them than cores, else 1.
  static double slowdown(const Shared& host);
  void catch_up(Shared& host) const;
  void mark(std::uint32_t index);

  EventQueue& queue_;
  std::uint32_t end_kind_;
  std::vector<Shared> hosts_;
  std::vector<std::uint32_t> places_;   // by rank: its host's index in hosts_, or kNone
  std::vector<std::uint32_t> changed_;  // indices of hosts
  std::uint64_t begun_ = 0;
};

}  // namespace labkit
