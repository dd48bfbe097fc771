#include <doctest/doctest.h>

#include <stdexcept>

#include "labkit/network/model.hpp"
#include "labkit/topology/star.hpp"

namespace labkit::platform_test {


namespace {

std::vector<std::string> names(const Platform& platform, HostId from, HostId to, double* latency) {
  Route route;
  platform.route(from, to, route);
  std::vector<std::string> out;
  for (const LinkId link : route.links) out.push_back(platform.router().link_name(link));
  *latency = route.latency_s;
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a plain star goes up and down") {
  StarSpec spec;
  spec.hosts = 4;
  const auto star = make_star(spec);
  double latency = 0;
  CHECK(names(*star, 1, 3, &latency) == Names{"up 1", "down 3"});
  CHECK(latency == 2e-6);
  CHECK(names(*star, 2, 2, &latency) == Names{"up 2", "down 2"});
  CHECK(star->link_count() == 8);
  CHECK(star->host_count() == 4);
}

TEST_CASE("backbone, limiters and loopbacks stand where SimGrid puts them") {
  StarSpec spec;
  spec.hosts = 3;
  spec.link = {1e9, 1e-6};
  spec.backbone = BackboneSpec{5e9, 1e-5, Policy::shared};
  spec.limiter_bandwidth_bytes_per_s = 2e9;
  spec.loopback = LinkSpec{1e10, 5e-7};
  const auto star = make_star(spec);
  double latency = 0;
  CHECK(names(*star, 0, 2, &latency) ==
        Names{"limiter 0", "up 0", "backbone", "down 2", "limiter 2"});
  CHECK(latency == doctest::Approx(1.2e-5));
  CHECK(names(*star, 1, 1, &latency) == Names{"loopback 1"});
  CHECK(latency == 5e-7);
  Route route;
  star->route(1, 1, route);
  CHECK(star->link(route.links[0]).policy == Policy::fatpipe);
}

TEST_CASE("one link for both directions is crossed once by a message to the own host") {
  StarSpec spec;
  spec.hosts = 2;
  spec.duplex = Duplex::shared;
  const auto star = make_star(spec);
  double latency = 0;
  CHECK(names(*star, 0, 1, &latency) == Names{"link 0", "link 1"});
  CHECK(names(*star, 1, 1, &latency) == Names{"link 1"});
  CHECK(latency == 1e-6);
}

TEST_CASE("impossible platforms are refused") {
  StarSpec spec;
  spec.hosts = 0;
  CHECK_THROWS_AS(make_star(spec), std::invalid_argument);
  spec = {};
  spec.link.bandwidth_bytes_per_s = 0;
  CHECK_THROWS_AS(make_star(spec), std::invalid_argument);
  spec = {};
  spec.link.latency_s = -1;
  CHECK_THROWS_AS(make_star(spec), std::invalid_argument);
  spec = {};
  spec.cores = 0;
  CHECK_THROWS_AS(make_star(spec), std::invalid_argument);
  spec = {};
  spec.speed_flops = 0;
  CHECK_THROWS_AS(make_star(spec), std::invalid_argument);
}

TEST_CASE("factors: the largest threshold strictly below the size counts") {
  const SizeFactor factor({{0, 2.0}, {100, 3.0}, {200, 4.0}});
  CHECK(factor.at(0) == 1.0);
  CHECK(factor.at(1) == 2.0);
  CHECK(factor.at(100) == 2.0);
  CHECK(factor.at(101) == 3.0);
  CHECK(factor.at(1e9) == 4.0);
  CHECK(SizeFactor().at(5) == 1.0);
  CHECK(SizeFactor(13.01).at(5) == 13.01);
  CHECK_THROWS_AS(SizeFactor({{5, 1.0}, {5, 2.0}}), std::invalid_argument);
  CHECK_THROWS_AS(SizeFactor({{5, 0.0}}), std::invalid_argument);
}

TEST_CASE("costs: sections begin strictly above their threshold, the first holds below it, too") {
  const SizeCost cost({{0, 1.0, 0.5}, {100, 2.0, 0.0}});
  CHECK(cost.at(0) == 1.0);
  CHECK(cost.at(10) == 6.0);
  CHECK(cost.at(100) == 51.0);
  CHECK(cost.at(101) == 2.0);
  CHECK(SizeCost().at(7) == 0.0);
  CHECK(SizeCost({{1000, 3.0, 0.0}}).at(7) == 3.0);
  CHECK_THROWS_AS(SizeCost({{5, 1.0, 0.0}, {5, 1.0, 0.0}}), std::invalid_argument);
  CHECK_THROWS_AS(SizeCost({{5, -1.0, 0.0}}), std::invalid_argument);
}

TEST_CASE("models are checked as a whole") {
  Model model;
  model.validate();
  model.tcp_gamma_bytes = -1;
  CHECK_THROWS_AS(model.validate(), std::invalid_argument);
  model = {};
  model.eager_below_bytes = 70000;
  CHECK_THROWS_AS(model.validate(), std::invalid_argument);
}

}  // namespace labkit::platform_test
