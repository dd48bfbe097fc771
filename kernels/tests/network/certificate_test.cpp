// The certificate against allocations whose flaw is known, and on tolerant repairs of random loads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labkit/network/certificate.hpp"
#include "labkit/network/sharing.hpp"
#include "random.hpp"

namespace labkit::certificate_test {

using labkit::test::Random;

namespace {

std::vector<Link> shared_links(std::size_t count, double capacity) {
  return std::vector<Link>(count, Link{capacity, 0, Policy::shared});
}

/// Every flow from a random up link to a random down link, as on a star, with its reverse loads.
FlowId add(Sharing& sharing, Random& random, std::size_t hosts) {
  const std::size_t from = random.below(hosts);
  const std::size_t to = (from + 1 + random.below(hosts - 1)) % hosts;
  const auto up = [](std::size_t host) { return static_cast<LinkId>(2 * host); };
  const std::vector<LinkLoad> loads{{up(from), 1}, {up(to) + 1, 1}, {up(to), 0.05}, {up(from) + 1, 0.05}};
  const double bound = random.below(4) == 0 ? 1e6 * (0.1 + random.unit()) : kNever;
  const FlowId flow = sharing.create(loads, std::exp2(2 * random.unit() - 1), bound);
  sharing.activate(flow, 1e6 * random.unit());
  return flow;
}

}  // namespace

TEST_CASE("before it is solved, an allocation is not max-min") {
  // x + y <= 10 with x = 10 from before y came: y has rate 0 and no bottleneck
  Sharing sharing(shared_links(1, 10));
  const LinkLoad load{0, 1};
  sharing.activate(sharing.create({&load, 1}, 1, kNever));
  sharing.solve();
  CHECK(certify(sharing).perturbation == 0);
  CHECK(certify(sharing).without_bottleneck == 0);
  const FlowId y = sharing.create({&load, 1}, 1, kNever);
  sharing.activate(y);
  CHECK(certify(sharing).without_bottleneck == 1);
  sharing.solve();
  CHECK(certify(sharing).without_bottleneck == 0);
}

TEST_CASE("a link that is not full is no bottleneck") {
  // x, y <= 10 in all, 5 each; without y, before it is solved again, x = 5 needs a capacity of 5
  Sharing sharing(shared_links(1, 10));
  const LinkLoad load{0, 1};
  sharing.activate(sharing.create({&load, 1}, 1, kNever));
  const FlowId y = sharing.create({&load, 1}, 1, kNever);
  sharing.activate(y);
  sharing.solve();
  sharing.remove(y);
  CHECK(certify(sharing).perturbation == 0.5);
}

TEST_CASE("tolerant repairs stay within their tolerance, exact ones within 1e-10") {
  for (const double tolerance : {0.0, 1e-3, 1e-2}) {
    CAPTURE(tolerance);
    double largest = 0;
    Random random(17);
    Sharing sharing(shared_links(16, 1e8), {tolerance, Solver::incremental});
    sharing.begin_incremental();
    sharing.finish_incremental(0);
    std::vector<FlowId> active;
    for (int step = 0; step < 3000; ++step) {
      if (active.size() < 600 || random.below(2) == 0) {
        active.push_back(add(sharing, random, 8));
      } else {
        std::swap(active[random.below(active.size())], active.back());
        sharing.remove(active.back(), 0);
        active.pop_back();
      }
      sharing.repair(0);
      if (step % 50 != 0) continue;
      const Certificate found = certify(sharing);
      CHECK(found.without_bottleneck == 0);
      CHECK(found.perturbation <= std::max(tolerance, 1e-10) * (1 + 1e-6));
      largest = std::max(largest, found.perturbation);
    }
    if (tolerance > 0) CHECK(largest > 0.1 * tolerance);  // else the tolerance is not used at all
  }
}

}  // namespace labkit::certificate_test
