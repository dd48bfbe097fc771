// Links whose bandwidth or latency changes with time, applied to a sharing.
//
// A flow under way feels a change as in SimGrid: its weight, the sum of the latencies and of weight_S / bandwidth over
// its links, follows. Its bound by the narrowest link stays that of its start, until a latency changes: then only the
// window bounds it. So do flows that load the link by their acknowledgements only. A message that is still in its latency
// phase keeps what it began with.
#pragma once

#include <vector>

#include "labkit/network/demand.hpp"
#include "labkit/network/model.hpp"
#include "labkit/network/sharing.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

class LinkChanges {
 public:
  LinkChanges(const Platform& platform, const Model& model);
  /// The time of the first change after `now`; kNever: there is none.
  [[nodiscard]] Time next(Time now) const;
  /// A flow was made from this demand.
  void made(FlowId flow, const Demand& demand);
  /// Give the sharing what the links have at this time.
  void apply(Sharing& sharing, Time now);

 private:
  struct Changing {
    LinkId link;
    double bandwidth;
    double latency_s;
  };
  const Platform& platform_;
  const Model& model_;
  std::vector<Changing> links_;
  std::vector<double> latencies_s_;  // by flow: of its route; 0: none
};

}  // namespace labkit
