#include "labkit/topology/zones.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "labkit/engine/event_queue.hpp"
#include "labkit/network/network.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/topology/torus.hpp"
#include "routes.hpp"

namespace labkit::zones_test {

using labkit::testing::latency;
using labkit::testing::names;
using Names = std::vector<std::string>;

namespace {

constexpr Host kHost{1e9, 1};

/// Two rooms of two hosts and a door each, and a star cluster, round a hall of three links.
std::shared_ptr<const Platform> house(Routing hall) {
  ZoneBuilder b;
  const ZoneId root = b.add_zone(-1, hall, "hall");
  std::vector<ZoneId> rooms;
  std::vector<std::pair<PointId, PointId>> doors;
  for (const std::string name : {"a", "b"}) {
    const ZoneId room = b.add_zone(root, Routing::full, name);
    const PointId one = b.add_host(room, kHost, name + "1");
    const PointId two = b.add_host(room, kHost, name + "2");
    const PointId left = b.add_router(room, name + "left");
    const PointId right = b.add_router(room, name + "right");
    const LinkId link = b.add_link({1e9, 1e-6, Policy::shared}, name + " inside");
    const LinkId hinge = b.add_link({1e9, 5e-7, Policy::shared}, name + " hinge");
    for (const auto& [src, dst, way] : {std::tuple{one, two, link}, {one, left, hinge}, {two, left, link},
                                        {one, right, link}, {two, right, hinge}, {left, right, hinge}}) {
      b.add_route(room, {src, dst, kNoPoint, kNoPoint, {way}});
      b.add_route(room, {dst, src, kNoPoint, kNoPoint, {way}});
    }
    rooms.push_back(room);
    doors.emplace_back(left, right);
  }
  StarSpec star;
  star.hosts = 2;
  star.backbone = BackboneSpec{5e9, 1e-5, Policy::shared};
  const auto cluster = b.add_cluster(root, make_star(star), "c");
  const LinkId ab = b.add_link({1e8, 1e-4, Policy::shared}, "ab");
  const LinkId bc = b.add_link({1e8, 1e-4, Policy::shared}, "bc");
  const auto join = [&](ZoneId x, ZoneId y, PointId gx, PointId gy, LinkId link) {
    b.add_route(root, {b.point_of(x), b.point_of(y), gx, gy, {link}});
    b.add_route(root, {b.point_of(y), b.point_of(x), gy, gx, {link}});
  };
  join(rooms[0], rooms[1], doors[0].second, doors[1].first, ab);
  join(rooms[1], cluster.zone, doors[1].second, cluster.router, bc);
  return b.build();
}

}  // namespace

TEST_CASE("a message between zones passes their gateways, and crosses the zone between") {
  for (const Routing hall : {Routing::floyd, Routing::dijkstra}) {
    const auto platform = house(hall);
    CHECK(platform->host_count() == 6);
    CHECK(names(*platform, 0, 1) == Names{"a inside"});
    CHECK(names(*platform, 0, 2) == Names{"a inside", "ab", "b hinge"});
    CHECK(names(*platform, 1, 3) == Names{"a hinge", "ab", "b inside"});
    CHECK(names(*platform, 3, 4) == Names{"b hinge", "bc", "c: backbone", "c: down 0"});
    CHECK(names(*platform, 5, 2) == Names{"c: up 1", "c: backbone", "bc", "b inside"});
    CHECK(names(*platform, 0, 5) == Names{"a inside", "ab", "b hinge", "bc", "c: backbone", "c: down 1"});
    CHECK(latency(*platform, 0, 5) == doctest::Approx(1e-6 + 1e-4 + 5e-7 + 1e-4 + 1e-5 + 1e-6));
    CHECK(names(*platform, 4, 5) == Names{"c: up 0", "c: backbone", "c: down 1"});
    CHECK(names(*platform, 1, 1) == Names{"common loopback"});
    CHECK(names(*platform, 4, 4) == Names{"c: up 0", "c: backbone", "c: down 0"});
    CHECK(platform->router().describe() == "6 hosts in 4 zones");
    testing::check_laws(*platform);
  }
}

TEST_CASE("a full zone takes only the routes it was given") {
  const auto platform = house(Routing::full);
  CHECK(names(*platform, 0, 2) == Names{"a inside", "ab", "b hinge"});
  Route route;
  CHECK_THROWS_WITH_AS(platform->route(0, 5, route),
                       "there is no route from 'a1' to host 1 of 'c': zone 'hall' has none that leads there",
                       std::invalid_argument);
}

TEST_CASE("a torus inside a zone is left without crossing a link of it") {
  ZoneBuilder b;
  const ZoneId root = b.add_zone(-1, Routing::full, "all");
  TorusSpec spec;
  spec.sizes = {2, 2};
  const auto left = b.add_cluster(root, make_torus(spec), "left");
  const auto right = b.add_cluster(root, make_torus(spec), "right");
  const LinkId bridge = b.add_link({1e8, 1e-3, Policy::shared}, "bridge");
  b.add_route(root, {b.point_of(left.zone), b.point_of(right.zone), left.router, right.router, {bridge}});
  b.add_route(root, {b.point_of(right.zone), b.point_of(left.zone), right.router, left.router, {bridge}});
  const auto platform = b.build();
  CHECK(names(*platform, 1, 6) == Names{"bridge"});
  CHECK(names(*platform, 4, 5) == Names{"right: 0 -> 1 (+x)"});
  testing::check_laws(*platform);
}

TEST_CASE("a star crosses a link that both ways share once") {
  ZoneBuilder b;
  const ZoneId root = b.add_zone(-1, Routing::star, "star");
  const PointId one = b.add_host(root, kHost, "one");
  const PointId two = b.add_host(root, kHost, "two");
  const LinkId own = b.add_link({1e9, 1e-6, Policy::shared}, "own");
  const LinkId back = b.add_link({1e9, 1e-6, Policy::shared}, "back");
  const LinkId loop = b.add_link({1e9, 0, Policy::fatpipe}, "loop");
  b.add_route(root, {one, kNoPoint, kNoPoint, kNoPoint, {own, back}});
  b.add_route(root, {kNoPoint, one, kNoPoint, kNoPoint, {back, own}});
  b.add_route(root, {two, kNoPoint, kNoPoint, kNoPoint, {back}});
  b.add_route(root, {kNoPoint, two, kNoPoint, kNoPoint, {back}});
  b.add_route(root, {two, two, kNoPoint, kNoPoint, {loop}});
  const auto platform = b.build();
  CHECK(names(*platform, 0, 1) == Names{"own", "back"});
  CHECK(names(*platform, 0, 0) == Names{"own", "back"});
  CHECK(names(*platform, 1, 1) == Names{"loop"});
}

TEST_CASE("a link that stands in a route twice is loaded twofold") {
  ZoneBuilder b;
  const ZoneId root = b.add_zone(-1, Routing::full, "all");
  const PointId one = b.add_host(root, kHost, "one");
  const PointId two = b.add_host(root, kHost, "two");
  const LinkId twice = b.add_link({1e6, 0.0, Policy::shared}, "twice");
  b.add_route(root, {one, two, kNoPoint, kNoPoint, {twice, twice}});
  const auto platform = b.build();
  Route route;
  platform->route(0, 1, route);
  CHECK(route.has_repeats);
  platform->route(1, 1, route);
  CHECK_FALSE(route.has_repeats);
  EventQueue queue;
  Model model;
  model.envelope_bytes = 0;
  model.cross_traffic = false;
  Network network(platform, model, queue, {1, 2});
  network.start(0, 1, 1000000, 7);
  network.settle();
  Event event{};
  std::uint32_t cookie = 0;
  REQUIRE(queue.advance());
  REQUIRE(queue.pop(event));
  REQUIRE(network.on_flow_end(event, cookie));
  CHECK(cookie == 7);
  CHECK(queue.now() == doctest::Approx(2.0));  // 1 MB at half of 1 MB/s
}

TEST_CASE("impossible zones are refused") {
  ZoneBuilder b;
  CHECK_THROWS_AS(b.add_zone(0, Routing::full, "no parent"), std::invalid_argument);
  const ZoneId root = b.add_zone(-1, Routing::full, "all");
  CHECK_THROWS_AS(b.add_zone(-1, Routing::full, "second root"), std::invalid_argument);
  const ZoneId inner = b.add_zone(root, Routing::full, "inner");
  const ZoneId other = b.add_zone(root, Routing::floyd, "other");
  const PointId host = b.add_host(inner, kHost, "host");
  const PointId far = b.add_host(other, kHost, "far");
  const LinkId link = b.add_link({1e9, 0.0, Policy::shared}, "link");
  const PointId in = b.point_of(inner);
  const PointId out = b.point_of(other);
  CHECK_THROWS_AS(b.add_route(root, {in, out, kNoPoint, far, {link}}), std::invalid_argument);
  CHECK_THROWS_AS(b.add_route(root, {in, out, far, host, {link}}), std::invalid_argument);
  CHECK_THROWS_AS(b.add_route(root, {in, out, host, far, {}}), std::invalid_argument);
  CHECK_THROWS_AS(b.add_route(root, {in, out, host, far, {link + 1}}), std::invalid_argument);
  CHECK_THROWS_AS(b.add_route(root, {host, out, host, far, {link}}), std::invalid_argument);
  CHECK_THROWS_AS(b.add_route(inner, {host, host, host, host, {link}}), std::invalid_argument);
  CHECK_THROWS_AS(b.add_route(inner, {host, kNoPoint, kNoPoint, kNoPoint, {link}}), std::invalid_argument);
  b.add_route(root, {in, out, host, far, {link}});
  CHECK_THROWS_AS(b.add_route(root, {in, out, host, far, {link}}), std::invalid_argument);
  ZoneId deep = root;
  CHECK_THROWS_AS(
      for (int i = 0; i < 300; ++i) deep = b.add_zone(deep, Routing::none, "deep"), std::invalid_argument);
}

}  // namespace labkit::zones_test
