#include "labkit/topology/dragonfly.hpp"

#include <map>
#include <stdexcept>

#include "routes.hpp"

namespace labkit::dragonfly_test {

using namespace labkit::testing;

namespace {

DragonflySpec of(std::int32_t groups, std::int32_t chassis, std::int32_t routers, std::int32_t nodes) {
  DragonflySpec spec;
  spec.groups = groups;
  spec.chassis = chassis;
  spec.routers = routers;
  spec.nodes = nodes;
  return spec;
}

std::uint32_t chosen(const Platform& platform, HostId src, HostId dst, std::uint64_t count = 0) {
  return platform.router().choose(src, dst, count, LinkUse(platform.link_count()));
}

}  // namespace

// All of them checked against SimGrid 3.32 (3,1;2,1;3,1;2: 36 hosts, 6 routers a group).
TEST_CASE("green to the gate, black to its chassis, blue, green, black") {
  const auto fly = make_dragonfly(of(3, 2, 3, 2));
  CHECK(fly->host_count() == 36);
  CHECK(fly->link_count() == 2 * (36 + 6 * 3 + 3 * 3 + 3));
  CHECK(names(*fly, 0, 1) == Names{"host 0 -> router 0.0.0", "router 0.0.0 -> host 1"});
  CHECK(names(*fly, 0, 12) == Names{"host 0 -> router 0.0.0", "router 0.0.0 -> router 0.0.1, green",
                                    "router 0.0.1 -> router 1.0.0, blue", "router 1.0.0 -> host 12"});
  CHECK(names(*fly, 20, 6) == Names{"host 20 -> router 1.1.1", "router 1.1.1 -> router 1.1.0, green",
                                    "router 1.1.0 -> router 1.0.0, black", "router 1.0.0 -> router 0.0.1, blue",
                                    "router 0.0.1 -> router 0.0.0, green", "router 0.0.0 -> router 0.1.0, black",
                                    "router 0.1.0 -> host 6"});
  CHECK(latency(*fly, 20, 6) == 1e-6 + 1e-6 + 1e-6 + 1e-6 + 1e-6 + 1e-6 + 1e-6);
  check_laws(*fly);
}

TEST_CASE("minimal has SimGrid's peculiarity within a group, shortest has not") {
  DragonflySpec spec = of(3, 2, 3, 2);
  const auto minimal = make_dragonfly(spec);
  spec.routing = DragonflyRouting::shortest;
  const auto shortest = make_dragonfly(spec);
  // From chassis 1 to chassis 0: no black cable at all; within chassis 1: one from chassis 0 that is not on the way.
  CHECK(names(*minimal, 20, 12) ==
        Names{"host 20 -> router 1.1.1", "router 1.1.1 -> router 1.1.0, green", "router 1.0.0 -> host 12"});
  CHECK(names(*minimal, 20, 18) == Names{"host 20 -> router 1.1.1", "router 1.1.1 -> router 1.1.0, green",
                                         "router 1.0.0 -> router 1.1.0, black", "router 1.1.0 -> host 18"});
  CHECK(names(*shortest, 20, 12) ==
        Names{"host 20 -> router 1.1.1", "router 1.1.1 -> router 1.1.0, green",
              "router 1.1.0 -> router 1.0.0, black", "router 1.0.0 -> host 12"});
  CHECK(names(*shortest, 20, 18) ==
        Names{"host 20 -> router 1.1.1", "router 1.1.1 -> router 1.1.0, green", "router 1.1.0 -> host 18"});
  CHECK(names(*shortest, 20, 6) == names(*minimal, 20, 6));
  check_laws(*minimal);
  check_laws(*shortest);
}

TEST_CASE("limiters of hosts and routers, both ends of a blue cable after it") {
  DragonflySpec spec = of(3, 2, 3, 2);
  spec.limiter_bandwidth_bytes_per_s = 1e9;
  const auto fly = make_dragonfly(spec);
  CHECK(fly->link_count() == 2 * 66 + 36 + 18);
  CHECK(names(*fly, 20, 0) ==
        Names{"limiter of host 20", "host 20 -> router 1.1.1", "limiter of router 1.1.1",
              "router 1.1.1 -> router 1.1.0, green", "limiter of router 1.1.0",
              "router 1.1.0 -> router 1.0.0, black", "router 1.0.0 -> router 0.0.1, blue",
              "limiter of router 1.0.0", "limiter of router 0.0.1", "router 0.0.1 -> router 0.0.0, green",
              "limiter of router 0.0.0", "router 0.0.0 -> host 0", "limiter of host 0"});
  CHECK(names(*fly, 0, 0) == Names{"limiter of host 0", "host 0 -> router 0.0.0", "limiter of router 0.0.0",
                                   "router 0.0.0 -> host 0", "limiter of host 0"});
  check_laws(*fly);
  spec.duplex = Duplex::shared;
  spec.loopback = LinkSpec{1e10, 1e-7};
  const auto shared = make_dragonfly(spec);
  CHECK(shared->link_count() == 66 + 36 + 18 + 36);
  CHECK(names(*shared, 5, 5) == Names{"loopback 5"});
  check_laws(*shared);
  spec.loopback.reset();
  spec.limiter_bandwidth_bytes_per_s.reset();
  CHECK(names(*make_dragonfly(spec), 5, 5) == Names{"host 5 - router 0.0.2", "host 5 - router 0.0.2"});
  CHECK(latency(*make_dragonfly(spec), 5, 5) == 2e-6);
}

TEST_CASE("colors widen their cables") {
  DragonflySpec spec = of(2, 2, 2, 1);
  spec.green = 2;
  spec.black = 3;
  spec.blue = 5;
  const auto fly = make_dragonfly(spec);
  std::map<double, int> widths;
  for (const Link& link : fly->links()) ++widths[link.bandwidth_bytes_per_s / 1.25e9];
  CHECK(widths == std::map<double, int>{{1, 16}, {2, 8}, {3, 8}, {5, 2}});
}

TEST_CASE("more groups than routers in a chassis, or in a group: gates in turn") {
  for (const auto& spec : {of(5, 2, 2, 1), of(7, 1, 2, 2), of(9, 1, 1, 1)}) check_laws(*make_dragonfly(spec));
  CHECK(names(*make_dragonfly(of(5, 2, 2, 1)), 0, 12) ==
        Names{"host 0 -> router 0.0.0", "router 0.0.0 -> router 0.0.1, green", "router 0.0.1 -> router 0.1.1, black",
              "router 0.1.1 -> router 3.0.0, blue", "router 3.0.0 -> host 12"});
}

TEST_CASE("Valiant: by any third group, each message by its own, the seed says which") {
  DragonflySpec spec = of(6, 1, 6, 1);
  spec.routing = DragonflyRouting::valiant;
  const auto fly = make_dragonfly(spec);
  std::map<std::uint32_t, int> seen;
  for (std::uint64_t count = 0; count < 4000; ++count) ++seen[chosen(*fly, 0, 35, count)];
  CHECK(seen.size() == 4);  // groups 1 to 4, as ways 2 to 5
  for (const auto& [way, times] : seen) {
    CHECK(way >= 2);
    CHECK(way <= 5);
    CHECK(times > 850);
  }
  CHECK(chosen(*fly, 0, 5) == 0);  // one group
  Route route;
  fly->route_by(0, 35, 4, route);
  Names by;
  for (const LinkId link : route.links) by.push_back(fly->router().link_name(link));
  CHECK(by == Names{"host 0 -> router 0.0.0", "router 0.0.0 -> router 0.0.3, green", "router 0.0.3 -> router 3.0.0, blue",
                    "router 3.0.0 -> router 3.0.5, green", "router 3.0.5 -> router 5.0.3, blue",
                    "router 5.0.3 -> router 5.0.5, green", "router 5.0.5 -> host 35"});
  spec.seed = 1;
  const auto other = make_dragonfly(spec);
  int same = 0;
  for (std::uint64_t count = 0; count < 4000; ++count) same += chosen(*fly, 0, 35, count) == chosen(*other, 0, 35, count);
  CHECK(same > 850);
  CHECK(same < 1150);
  spec.groups = 2;
  CHECK(chosen(*make_dragonfly(spec), 0, 11) == 0);
}

TEST_CASE("adaptive: the detour only where hops times load pays") {
  DragonflySpec spec = of(4, 1, 4, 1);
  spec.routing = DragonflyRouting::adaptive;
  const auto fly = make_dragonfly(spec);
  LinkUse use(fly->link_count());
  Route direct;
  fly->route(0, 15, direct);  // 0.0.0 -> 0.0.3 green, blue, 3.0.0 -> 3.0.3 green: 3 hops
  CHECK(fly->router().choose(0, 15, 0, use) == 0);
  // By a third group: green, blue, green, blue, green: 5 hops. 3 * (1 + load) > 5 from load 1 on.
  use[static_cast<std::size_t>(direct.links[2])] = 1;
  CHECK(fly->router().choose(0, 15, 0, use) != 0);
  use.assign(fly->link_count(), 1);
  CHECK(fly->router().choose(0, 15, 0, use) == 0);
  use.assign(fly->link_count(), 0);
  use[static_cast<std::size_t>(direct.links[0])] = 9;  // the host's own cable is on every way
  CHECK(fly->router().choose(0, 15, 0, use) == 0);
}

TEST_CASE("impossible dragonflies are refused") {
  CHECK_THROWS_AS(make_dragonfly(of(0, 1, 1, 1)), std::invalid_argument);
  CHECK_THROWS_AS(make_dragonfly(of(1, 1, 1, -1)), std::invalid_argument);
  CHECK_THROWS_AS(make_dragonfly(of(1 << 20, 1, 1, 2)), std::invalid_argument);
  CHECK_THROWS_AS(make_dragonfly(of(1, 1, 1 << 14, 1)), std::invalid_argument);
  CHECK_THROWS_AS(make_dragonfly(of(1 << 30, 1 << 30, 1 << 30, 1 << 30)), std::invalid_argument);
}

}  // namespace labkit::dragonfly_test
