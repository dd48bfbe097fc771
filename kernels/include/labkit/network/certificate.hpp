// Is an allocation max-min fair? If not, how far must the capacities be moved until it is?
//
// Looks at nothing but rates, weights, bounds and capacities, by a way of its own: sum up every
// link's load and its highest weighted rate. A flow is content at its bound, or on a link where
// nobody stands higher: that link must then be full, so its capacity must be taken for its load.
// Of several such links the one that needs the smallest move counts. A load above the capacity
// must be moved as well. With capacities moved so, the rates are the exact max-min solution.
#pragma once

#include "labkit/network/flow_table.hpp"

namespace labkit {

class Sharing;

struct Certificate {
  /// The largest relative move of a capacity that is needed; 0 for the exact solution.
  double perturbation = 0.0;
  /// Flows that have neither a bound nor any link where nobody stands higher: none, if all is well.
  std::size_t without_bottleneck = 0;
};

/// Of shared links; fat pipes count as bounds of their flows. O(flows * links of a route).
[[nodiscard]] Certificate certify(const Sharing& sharing);

}  // namespace labkit
