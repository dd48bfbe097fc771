#include "labkit/topology/torus.hpp"

#include <stdexcept>

#include "routes.hpp"

namespace labkit::torus_test {

using namespace labkit::testing;

namespace {

TorusSpec of(std::vector<std::int32_t> sizes) {
  TorusSpec spec;
  spec.sizes = std::move(sizes);
  return spec;
}

/// Hops of one dimension alone, upwards positive.
int signed_hops(const Platform& ring, HostId from, HostId to) {
  const Names way = names(ring, from, to);
  return way.front().find("(+") != std::string::npos ? static_cast<int>(way.size()) : -static_cast<int>(way.size());
}

}  // namespace

TEST_CASE("a ring of three goes the short way round") {
  const auto ring = make_torus(of({3}));
  CHECK(names(*ring, 0, 1) == Names{"0 -> 1 (+x)"});
  CHECK(names(*ring, 0, 2) == Names{"0 -> 2 (-x)"});
  CHECK(names(*ring, 2, 0) == Names{"2 -> 0 (+x)"});
  CHECK(names(*ring, 2, 1) == Names{"2 -> 1 (-x)"});
  CHECK(ring->link_count() == 3 * 2 + 1);
  CHECK(latency(*ring, 0, 2) == 1e-6);
}

TEST_CASE("two hosts use the cable of the first one for both directions") {
  const auto pair = make_torus(of({2}));
  CHECK(names(*pair, 0, 1) == Names{"0 -> 1 (+x)"});
  CHECK(names(*pair, 1, 0) == Names{"1 -> 0 (-x)"});
  CHECK(pair->router().link_name(2) == "1 -> 0 (+x)");  // the second one's, never used
}

TEST_CASE("ties go upwards, but from half-way to 0 downwards") {
  const auto ring = make_torus(of({6}));
  CHECK(signed_hops(*ring, 0, 3) == 3);
  CHECK(signed_hops(*ring, 1, 4) == 3);
  CHECK(signed_hops(*ring, 2, 5) == 3);
  CHECK(signed_hops(*ring, 3, 0) == -3);
  CHECK(signed_hops(*ring, 4, 1) == 3);
  CHECK(signed_hops(*ring, 5, 2) == 3);
  CHECK(signed_hops(*ring, 1, 5) == -2);
  CHECK(signed_hops(*ring, 5, 1) == 2);
  CHECK(names(*ring, 5, 2) == Names{"5 -> 0 (+x)", "0 -> 1 (+x)", "1 -> 2 (+x)"});
}

TEST_CASE("dimensions are crossed in order, from the one that varies fastest") {
  const auto grid = make_torus(of({4, 3}));  // host = x + 4 y
  CHECK(names(*grid, 0, 11) == Names{"0 -> 3 (-x)", "3 -> 11 (-y)"});
  CHECK(names(*grid, 5, 3) == Names{"5 -> 6 (+x)", "6 -> 7 (+x)", "7 -> 3 (-y)"});
  CHECK(names(*grid, 10, 0) == Names{"10 -> 9 (-x)", "9 -> 8 (-x)", "8 -> 0 (+y)"});
}

TEST_CASE("a dimension of size one is never crossed") {
  const auto box = make_torus(of({3, 1, 2}));
  CHECK(names(*box, 0, 5) == Names{"0 -> 2 (-x)", "2 -> 5 (+z)"});
  CHECK(names(*box, 5, 1) == Names{"5 -> 4 (-x)", "4 -> 1 (-z)"});
  check_laws(*box);
}

TEST_CASE("five dimensions") {
  const auto torus = make_torus(of({2, 3, 2, 1, 4}));  // strides 1 2 6 12 12
  CHECK(names(*torus, 0, 47) == Names{"0 -> 1 (+x)", "1 -> 5 (-y)", "5 -> 11 (+z)", "11 -> 47 (-d5)"});
  CHECK(names(*torus, 0, 24) == Names{"0 -> 12 (+d5)", "12 -> 24 (+d5)"});
  CHECK(names(*torus, 24, 0) == Names{"24 -> 12 (-d5)", "12 -> 0 (-d5)"});
  check_laws(*torus);
}

TEST_CASE("limiters of the source, of every host on the way, and of the destination") {
  TorusSpec spec = of({2, 2});
  spec.limiter_bandwidth_bytes_per_s = 1e9;
  spec.loopback = LinkSpec{1e10, 1e-7};
  const auto grid = make_torus(spec);
  CHECK(names(*grid, 0, 3) == Names{"limiter 0", "0 -> 1 (+x)", "limiter 1", "1 -> 3 (+y)", "limiter 3"});
  CHECK(names(*grid, 2, 2) == Names{"loopback 2"});
  CHECK(latency(*grid, 2, 2) == 1e-7);
  CHECK(grid->link_count() == 4 * (2 * 2 + 2));
  check_laws(*grid);
}

TEST_CASE("one link per cable where both directions share it") {
  TorusSpec spec = of({3, 2});
  spec.duplex = Duplex::shared;
  const auto grid = make_torus(spec);
  CHECK(names(*grid, 0, 1) == names(*grid, 1, 0));
  CHECK(names(*grid, 0, 5) == Names{"2 - 0 (x)", "2 - 5 (y)"});
  CHECK(grid->link(0).policy == Policy::shared);
  spec.duplex = Duplex::fatpipe;
  CHECK(make_torus(spec)->link(0).policy == Policy::fatpipe);
  check_laws(*grid);
}

TEST_CASE("without a loopback all hosts have one in common that never fills") {
  const auto ring = make_torus(of({3}));
  CHECK(names(*ring, 1, 1) == Names{"loopback"});
  CHECK(names(*ring, 2, 2) == Names{"loopback"});
  CHECK(latency(*ring, 1, 1) == 0.0);
  CHECK(ring->link(6).bandwidth_bytes_per_s == 10e9);
  CHECK(ring->link(6).policy == Policy::fatpipe);
  CHECK(names(*make_torus(of({1})), 0, 0) == Names{"loopback"});
  TorusSpec limited = of({3});
  limited.limiter_bandwidth_bytes_per_s = 1e9;
  CHECK(names(*make_torus(limited), 1, 1) == Names{"limiter 1"});
  check_laws(*make_torus(limited));
}

TEST_CASE("a million hosts, routes without tables") {
  const auto torus = make_torus(of({128, 128, 64}));
  CHECK(torus->host_count() == std::size_t{1} << 20);
  const Names way = names(*torus, 0, 64 + 128 * (64 + 128 * 32));
  CHECK(way.size() == 64 + 64 + 32);
  CHECK(torus->router().describe() == "torus of 128x128x64 hosts");
}

TEST_CASE("impossible tori are refused") {
  CHECK_THROWS_AS(make_torus(of({})), std::invalid_argument);
  CHECK_THROWS_AS(make_torus(of({4, 0})), std::invalid_argument);
  CHECK_THROWS_AS(make_torus(of({1024, 1025})), std::invalid_argument);
  CHECK_THROWS_AS(make_torus(of(std::vector<std::int32_t>(9, 1 << 30))), std::invalid_argument);
  CHECK_THROWS_AS(make_torus(of(std::vector<std::int32_t>(20, 2))), std::invalid_argument);  // links
  TorusSpec spec = of({2});
  spec.link.bandwidth_bytes_per_s = 0;
  CHECK_THROWS_AS(make_torus(spec), std::invalid_argument);
}

}  // namespace labkit::torus_test
