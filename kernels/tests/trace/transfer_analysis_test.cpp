// The analysis of recorded transfers, on cases that can be worked out by hand, and by conservation.
#include <doctest/doctest.h>

#include <vector>

#include "labkit/engine/engine.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/trace/transfer_analysis.hpp"
#include "random.hpp"

namespace labkit::transfer_analysis_test {

using namespace labkit::test;

namespace {

std::shared_ptr<const Platform> star_of(std::int32_t hosts, double bandwidth, double latency) {
  StarSpec spec;
  spec.hosts = hosts;
  spec.speed_flops = 1e9;
  spec.cores = 1;
  spec.link = {bandwidth, latency};
  return make_star(spec);
}

Model plain() {
  Model model;
  model.envelope_bytes = 0;
  model.cross_traffic = false;
  return model;
}

constexpr LinkId kDown0 = 1;

}  // namespace

TEST_CASE("two transfers into one host share its link, then one has it alone") {
  // 100 B and 300 B at 100 B/s: both at 50 B/s until 2 s, then 200 B at 100 B/s until 4 s.
  const auto platform = star_of(3, 100.0, 0.0);
  const std::vector<Transfer> transfers = {{1, 0, 100, 0.0, 2.0}, {2, 0, 300, 0.0, 4.0}};
  const TransferAnalysis found = analyze_transfers(*platform, plain(), transfers, {4.0, 4, 0});
  CHECK(found.instants == 3);
  CHECK(found.solved == 3);
  CHECK(found.moved_error < 1e-12);
  CHECK(found.links[kDown0].bytes == doctest::Approx(400.0));
  CHECK(found.links[kDown0].full_s == doctest::Approx(4.0));
  for (std::size_t bin = 0; bin < 4; ++bin) {
    CHECK(found.utilisation[kDown0 * 4 + bin] == doctest::Approx(1.0));
  }
  REQUIRE(found.held.size() >= 2);
  CHECK(found.held[0].transfer == 0);
  CHECK(found.held[0].link == kDown0);
  CHECK(found.held[0].seconds == doctest::Approx(2.0));
  double second = 0.0;
  for (const Held& row : found.held) {
    if (row.transfer == 1) second += row.seconds;
  }
  CHECK(second == doctest::Approx(4.0));
}

TEST_CASE("half a bin is half used") {
  const auto platform = star_of(2, 100.0, 0.0);
  const std::vector<Transfer> transfers = {{1, 0, 150, 1.0, 2.5}};
  const TransferAnalysis found = analyze_transfers(*platform, plain(), transfers, {4.0, 4, 0});
  const double wanted[] = {0.0, 1.0, 0.5, 0.0};
  for (std::size_t bin = 0; bin < 4; ++bin) {
    CHECK(found.utilisation[kDown0 * 4 + bin] == doctest::Approx(wanted[bin]));
  }
}

TEST_CASE("the latency phase takes no bandwidth") {
  const auto platform = star_of(2, 100.0, 0.25);
  const std::vector<Transfer> transfers = {{1, 0, 100, 0.0, 1.5}, {1, 0, 0, 0.0, 0.5}};
  const TransferAnalysis found = analyze_transfers(*platform, plain(), transfers, {1.5, 0, 0});
  CHECK(found.latency_s[0] == doctest::Approx(0.5));
  CHECK(found.latency_s[1] == doctest::Approx(0.5));
  CHECK(found.held.size() == 1);
  CHECK(found.moved_error < 1e-12);
}

TEST_CASE("a transfer that is alone on a long way is held by its window") {
  const auto platform = star_of(2, 100.0, 1.0);
  Model model = plain();
  model.tcp_gamma_bytes = 40.0;  // 40 / (2 * 2 s) = 10 B/s
  const std::vector<Transfer> transfers = {{1, 0, 100, 0.0, 12.0}};
  const TransferAnalysis found = analyze_transfers(*platform, model, transfers, {12.0, 0, 0});
  REQUIRE(found.held.size() == 1);
  CHECK(found.held[0].link == kWindow);
  CHECK(found.held[0].seconds == doctest::Approx(10.0));
}

TEST_CASE("no transfers, and none that needs bandwidth") {
  const auto platform = star_of(2, 100.0, 0.0);
  CHECK(analyze_transfers(*platform, plain(), {}, {0.0, 3, 0}).instants == 0);
  const std::vector<Transfer> empty = {{1, 0, 0, 1.0, 1.0}};
  CHECK(analyze_transfers(*platform, plain(), empty, {1.0, 3, 5}).held.empty());
}

TEST_CASE("limited work leaves instants out, evenly, and nothing is out of bounds") {
  const auto platform = star_of(8, 100.0, 0.0);
  std::vector<Transfer> transfers;
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    const double start = 10.0 * random.unit();
    transfers.push_back({static_cast<HostId>(random.below(8)), static_cast<HostId>(random.below(8)), 50, start,
                         start + 0.1 + 5.0 * random.unit()});
  }
  const TransferAnalysis found = analyze_transfers(*platform, plain(), transfers, {15.0, 10, 300});
  CHECK(found.solved < found.instants);
  CHECK(found.solved > 1);
  for (const double share : found.utilisation) CHECK(share <= 1.0 + 1e-9);
}

}  // namespace labkit::transfer_analysis_test
