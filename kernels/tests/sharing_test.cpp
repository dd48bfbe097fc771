// Each case: the inequalities, the shares they imply, the assertion.
#include <doctest/doctest.h>

#include "labkit/sharing.hpp"

using namespace labkit;

namespace {

FlowId add(Sharing& sharing, std::vector<LinkLoad> loads, double weight = 1, double bound = kNever) {
  const FlowId flow = sharing.create(loads, weight, bound);
  sharing.activate(flow);
  return flow;
}

}  // namespace

TEST_CASE("two flows on one link share it") {
  // x + y <= 10  =>  x = y = 5
  Sharing sharing({{10, 0, Policy::shared}});
  const FlowId x = add(sharing, {{0, 1}});
  const FlowId y = add(sharing, {{0, 1}});
  sharing.solve();
  CHECK(sharing.rate(x) == 5);
  CHECK(sharing.rate(y) == 5);
}
