// Why transfers took as long as they did: which link, or which bound, held each of them at every
// instant, and how full the links were.
//
// From what a run recorded (who, how much, from when to when) the allocation of every instant is
// solved once more, so a run that is not explained pays nothing. Between two solves all rates are
// constant: a flow's time counts for the link that stopped it in the filling, or for its own bound,
// and its bytes are summed up. That sum must come out as the size sent: `moved_error` says by how
// much it does not, and so checks the explanation against the run.
//
// A giant component of flows that all end at different times would cost a whole filling per end. The
// solver's work is therefore limited: beyond the limit some instants are left out, evenly over the
// run, and `solved` says how many of all were solved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "labkit/engine/types.hpp"
#include "labkit/network/model.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

struct Transfer {
  HostId source;
  HostId destination;
  std::uint64_t bytes;  ///< payload
  Time start_s;         ///< begin of the latency phase
  Time arrived_s;
  std::uint32_t way = 0;  ///< which of several routes it took
};

/// So long a transfer was held by this link.
struct Held {
  std::uint32_t transfer;
  LinkId link;  ///< kWindow: by the bound of the latency (the TCP window)
  Time seconds;
};
inline constexpr LinkId kWindow = -1;

struct LinkTotals {
  double bytes = 0.0;   ///< what it carried, the way back's share included, in terms of its capacity
  Time full_s = 0.0;    ///< how long its capacity was used up
  Time held_s = 0.0;    ///< seconds of transfers that it held, summed up
};

struct TransferAnalysis {
  std::vector<Time> latency_s;       ///< by transfer
  std::vector<Held> held;            ///< by transfer, then by time
  std::vector<LinkTotals> links;        ///< by link
  std::vector<double> utilisation;   ///< [link][bin]: mean share of the capacity, 0 to 1
  std::uint64_t instants = 0;        ///< at which the allocation changed
  std::uint64_t solved = 0;          ///< of them
  double moved_error = 0.0;          ///< largest relative error of a transfer's bytes
};

struct AnalysisOptions {
  Time end_s = 0.0;          ///< the bins reach from 0 to here
  std::uint32_t bins = 0;
  std::uint64_t work = 0;    ///< flows that may be filled in all; 0: no limit
};

TransferAnalysis analyze_transfers(const Platform& platform, const Model& model,
                                   std::span<const Transfer> transfers, AnalysisOptions options);

}  // namespace labkit
