// InfiniBand's penalties: what is kept while transfers come and go is what the definition says of those present.
#include "labkit/network/penalties.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>
#include "random.hpp"

namespace labkit::penalties_test {

using namespace labkit::test;

namespace {

constexpr PenaltyFactors kVienne{0.965, 0.925, 1.35};

struct Present {
  HostId src;
  HostId dst;
  double alone;
};

double by_definition(const std::map<FlowId, Present>& present, const Present& one, const PenaltyFactors& f) {
  std::map<HostId, int> entering;
  for (const auto& [id, other] : present) ++entering[other.dst];
  double leaving = 0.0, out = 0.0, mine = 0.0;
  std::set<HostId> sources;
  for (const auto& [id, other] : present) {
    if (other.src == one.src) leaving += 1.0;
    if (other.dst == one.dst) sources.insert(other.src);
    if (other.src == one.src && other.dst == one.dst) mine += 1.0;
  }
  for (const auto& [id, other] : present) {
    if (other.src != one.src) continue;
    const double ys = entering[other.dst] > 2 ? f.ys : 1.0;
    out = std::max(out, leaving > 1.0 ? leaving * f.bs * ys : 1.0);
  }
  const double in = entering[one.dst] > 1 ? mine * f.be * static_cast<double>(sources.size()) : 1.0;
  return one.alone / std::max(in, out);
}

void compare(const PenaltyFactors& factors, std::uint64_t seed) {
  Random random(seed);
  constexpr int kHosts = 5;
  Penalties penalties(factors, kHosts);
  std::map<FlowId, Present> present;
  std::map<FlowId, double> bounds;
  for (int step = 0; step < 400; ++step) {
    const bool is_start = present.size() < 3 || (present.size() < 14 && random.below(2) == 0);
    if (is_start) {
      FlowId id = 0;
      while (present.contains(id)) ++id;
      const auto src = static_cast<HostId>(random.below(kHosts));
      auto dst = static_cast<HostId>(random.below(kHosts - 1));
      if (dst >= src) ++dst;
      present[id] = {src, dst, 1e9 + 1e6 * static_cast<double>(random.below(100))};
      for (const auto& change : penalties.start(id, src, dst, present[id].alone)) bounds[change.flow] = change.bound;
    } else {
      auto gone = present.begin();
      std::advance(gone, static_cast<long>(random.below(present.size())));
      const FlowId id = gone->first;
      present.erase(gone);
      bounds.erase(id);
      for (const auto& change : penalties.end(id)) bounds[change.flow] = change.bound;
    }
    REQUIRE(bounds.size() == present.size());
    for (const auto& [id, one] : present) {
      REQUIRE(bounds[id] == doctest::Approx(by_definition(present, one, factors)).epsilon(1e-12));
    }
  }
}

}  // namespace

TEST_CASE("penalties_follow_the_definition_while_transfers_come_and_go") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) compare(kVienne, seed);
}

TEST_CASE("the_largest_penalty_of_a_host_counts_even_where_crowds_speed_up") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) compare({0.4, 1.5, 0.7}, seed);
}

TEST_CASE("the_end_of_a_transfer_that_was_not_counted_changes_nothing") {
  Penalties penalties(kVienne, 3);
  CHECK(penalties.end(7).empty());
  CHECK(penalties.start(2, 0, 1, 5.0).size() == 1);
  CHECK(penalties.end(1).empty());
  CHECK(penalties.end(2).empty());
  CHECK(penalties.end(2).empty());
}

}  // namespace labkit::penalties_test
