#include "labkit/topology/fat_tree.hpp"

#include <stdexcept>

#include "routes.hpp"

namespace labkit::fat_tree_test {

using namespace labkit::testing;

namespace {

using Counts = std::vector<std::int32_t>;

FatTreeSpec of(Counts down, Counts up, Counts cables) {
  FatTreeSpec spec;
  spec.down = std::move(down);
  spec.up = std::move(up);
  spec.cables = std::move(cables);
  return spec;
}

}  // namespace

TEST_CASE("two levels: the destination chooses the root") {
  const auto tree = make_fat_tree(of({2, 2}, {1, 2}, {1, 1}));
  CHECK(names(*tree, 0, 1) == Names{"host 0 -> switch 1.0", "switch 1.0 -> host 1"});
  CHECK(names(*tree, 0, 2) == Names{"host 0 -> switch 1.0", "switch 1.0 -> switch 2.0", "switch 2.0 -> switch 1.1",
                                    "switch 1.1 -> host 2"});
  CHECK(names(*tree, 0, 3) == Names{"host 0 -> switch 1.0", "switch 1.0 -> switch 2.1", "switch 2.1 -> switch 1.1",
                                    "switch 1.1 -> host 3"});
  CHECK(latency(*tree, 0, 3) == 1e-6 + 1e-6 + 1e-6 + 1e-6);
  CHECK(tree->host_count() == 4);
  CHECK(tree->link_count() == 2 * (4 + 4));
  check_laws(*tree);
}

TEST_CASE("without a loopback a message within a host meets its first switch") {
  const auto tree = make_fat_tree(of({2, 2}, {1, 2}, {1, 1}));
  CHECK(names(*tree, 1, 1) == Names{"host 1 -> switch 1.0", "switch 1.0 -> host 1"});
  CHECK(latency(*tree, 1, 1) == 2e-6);
  FatTreeSpec spec = of({2, 2}, {1, 2}, {1, 1});
  spec.loopback = LinkSpec{1e10, 1e-7};
  CHECK(names(*make_fat_tree(spec), 1, 1) == Names{"loopback 1"});
  spec.loopback.reset();
  spec.duplex = Duplex::shared;
  CHECK(names(*make_fat_tree(spec), 1, 1) == Names{"host 1 - switch 1.0", "host 1 - switch 1.0"});  // both ways
  CHECK(latency(*make_fat_tree(spec), 1, 1) == 2e-6);
}

TEST_CASE("parallel cables of one level: up by the destination, down by the source") {
  const auto tree = make_fat_tree(of({4}, {1}, {2}));
  CHECK(names(*tree, 0, 1) == Names{"host 0 -> switch 1.0, cable 1", "switch 1.0 -> host 1, cable 0"});
  CHECK(names(*tree, 0, 2) == Names{"host 0 -> switch 1.0, cable 0", "switch 1.0 -> host 2, cable 0"});
  CHECK(names(*tree, 3, 0) == Names{"host 3 -> switch 1.0, cable 0", "switch 1.0 -> host 0, cable 1"});
}

// Checked against SimGrid 3.32: level 1 has switches 0, 1 over hosts {0, 1}, 2, 3 over {2, 3}, 4, 5 over {4, 5}.
TEST_CASE("parallel cables of two levels: the search for the next port goes on where the last one ended") {
  const auto tree = make_fat_tree(of({2, 3}, {2, 2}, {3, 2}));
  // Up: 4 % 6 = parent 0, cable 2; then 4 / 2 % 4 = parent 0, cable 1. Down from the root: cable 0 % 2 = 0 to the
  // third child is port 2; host 4 hangs on ports 0, 2, 4: the next one after 2 is 4, cable 2.
  CHECK(names(*tree, 0, 4) == Names{"host 0 -> switch 1.0, cable 2", "switch 1.0 -> switch 2.0, cable 1",
                                    "switch 2.0 -> switch 1.4, cable 0", "switch 1.4 -> host 4, cable 2"});
  // From 5 to 2: cable 5 % 2 = 1 to the second child is port 4; host 2 has no port beyond 4: 5 % 3 = cable 2.
  CHECK(names(*tree, 5, 2) == Names{"host 5 -> switch 1.4, cable 1", "switch 1.4 -> switch 2.2, cable 0",
                                    "switch 2.2 -> switch 1.2, cable 1", "switch 1.2 -> host 2, cable 2"});
  CHECK(tree->link_count() == 2 * (6 * 2 * 3 + 6 * 2 * 2));
  check_laws(*tree);
}

TEST_CASE("three levels of unequal arities") {
  const auto tree = make_fat_tree(of({3, 2, 2}, {1, 2, 3}, {1, 1, 1}));
  // 12 hosts, 4 leaves, 2 * 2 middle and 6 top switches. To 11 from 0: leaf 0, middle 11 % 2 = 1, top
  // 1 + 2 * (11 / 2 % 3) = 5; down: middle 1 + 2 * 1 = 3, leaf 3.
  CHECK(names(*tree, 0, 11) == Names{"host 0 -> switch 1.0", "switch 1.0 -> switch 2.1", "switch 2.1 -> switch 3.5",
                                     "switch 3.5 -> switch 2.3", "switch 2.3 -> switch 1.3", "switch 1.3 -> host 11"});
  CHECK(names(*tree, 0, 5) == Names{"host 0 -> switch 1.0", "switch 1.0 -> switch 2.1", "switch 2.1 -> switch 1.1",
                                    "switch 1.1 -> host 5"});
  check_laws(*tree);
}

TEST_CASE("limiters of every node, switches included, each once on the way to another host") {
  FatTreeSpec spec = of({2, 2}, {1, 2}, {1, 1});
  spec.limiter_bandwidth_bytes_per_s = 1e9;
  const auto tree = make_fat_tree(spec);
  CHECK(names(*tree, 0, 3) == Names{"limiter of host 0", "host 0 -> switch 1.0", "limiter of switch 1.0",
                                    "switch 1.0 -> switch 2.1", "switch 2.1 -> switch 1.1", "limiter of switch 2.1",
                                    "switch 1.1 -> host 3", "limiter of switch 1.1", "limiter of host 3"});
  CHECK(names(*tree, 0, 0) == Names{"limiter of host 0", "host 0 -> switch 1.0", "switch 1.0 -> host 0",
                                    "limiter of switch 1.0", "limiter of host 0"});
  CHECK(tree->link_count() == 2 * (4 + 4) + 4 + 2 + 2);
  spec.loopback = LinkSpec{1e10, 0};
  spec.duplex = Duplex::shared;
  const auto full = make_fat_tree(spec);
  CHECK(full->link_count() == 8 + 8 + 4);
  CHECK(names(*full, 0, 1) == Names{"limiter of host 0", "host 0 - switch 1.0", "host 1 - switch 1.0",
                                    "limiter of switch 1.0", "limiter of host 1"});
  check_laws(*tree);
  check_laws(*full);
}

TEST_CASE("levels of one child, and of more parents than children") {
  check_laws(*make_fat_tree(of({1, 3, 1}, {2, 1, 2}, {1, 2, 2})));
  check_laws(*make_fat_tree(of({2, 1, 4, 1}, {2, 2, 3, 1}, {3, 2, 2, 3})));
  check_laws(*make_fat_tree(of({1}, {1}, {1})));
}

TEST_CASE("a million hosts, routes without tables") {
  const auto tree = make_fat_tree(of({32, 32, 32, 32}, {1, 32, 32, 32}, {1, 1, 1, 1}));
  CHECK(tree->host_count() == std::size_t{1} << 20);
  CHECK(names(*tree, 0, (1 << 20) - 1).size() == 8);
  CHECK(tree->router().describe() == "fat tree 32x32x32x32:1x32x32x32:1x1x1x1 of 1048576 hosts");
}

TEST_CASE("impossible fat trees are refused") {
  CHECK_THROWS_AS(make_fat_tree(of({}, {}, {})), std::invalid_argument);
  CHECK_THROWS_AS(make_fat_tree(of({4, 4}, {1}, {1, 1})), std::invalid_argument);
  CHECK_THROWS_AS(make_fat_tree(of({4, 4}, {1, 0}, {1, 1})), std::invalid_argument);
  CHECK_THROWS_AS(make_fat_tree(of({1024, 1025}, {1, 1}, {1, 1})), std::invalid_argument);
  CHECK_THROWS_AS(make_fat_tree(of({4}, {1}, {1 << 24})), std::invalid_argument);
  CHECK_THROWS_AS(make_fat_tree(of({1 << 30, 1 << 30, 1 << 30}, {1 << 30, 1 << 30, 1 << 30}, {1, 1, 1})),
                  std::invalid_argument);
}

}  // namespace labkit::fat_tree_test
