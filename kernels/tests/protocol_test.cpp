// Timelines that a pencil can check: every expectation is a closed formula of the model.
#include <doctest/doctest.h>

#include <cmath>

#include "scenario.hpp"

using namespace labkit;
using namespace labkit::test;

namespace {

constexpr double kBandwidth = 1.25e8;
constexpr double kLatency = 24e-6;

/// One way of an undisturbed message between two hosts of a star.
double one_way(const Model& model, double payload) {
  const double size = payload + 16;
  const double latency = 2 * kLatency;
  const double share = model.cross_traffic ? kBandwidth : kBandwidth;  // 5 % fits beside nothing else
  double rate = share;
  if (model.tcp_gamma_bytes > 0) rate = std::min(rate, model.tcp_gamma_bytes / (2 * latency));
  return latency * model.latency_factor.at(size) + size / (rate * model.bandwidth_factor.at(size));
}

void check_ping_pong(const Model& model) {
  for (const std::uint64_t bytes : {0u, 1u, 8u, 240u, 241u, 65535u, 65536u, 1u << 20, 1u << 24}) {
    CAPTURE(model.name);
    CAPTURE(bytes);
    Scenario s(plain_star(2, kBandwidth, kLatency), model, 2);
    s.send(0, 1, bytes);
    s.receive(1, 0, bytes);
    s.send(1, 0, bytes);
    s.receive(0, 1, bytes);
    REQUIRE(s.run());
    const double expected = 2 * one_way(model, static_cast<double>(bytes));
    CHECK(s.engine.clock(0) == doctest::Approx(expected).epsilon(1e-12));
    CHECK(s.engine.recorder().messages() == 2);
    CHECK(s.engine.recorder().bytes() == 2 * bytes);
  }
}

}  // namespace

TEST_CASE("ping-pong takes what the model's formula says") {
  check_ping_pong(raw_model());
  check_ping_pong(cm02_model());
  check_ping_pong(lv08_model());
  check_ping_pong(smpi_model());
}
