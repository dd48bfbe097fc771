// Noise: detours are a function of seed, rank and time; work cut into pieces ends when the whole does.
#include "labkit/engine/noise.hpp"

#include <cmath>

#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>
#include "labkit/topology/degraded.hpp"
#include "labkit/topology/star.hpp"

namespace labkit::noise_test {


TEST_CASE("without_noise_work_takes_its_time") {
  const Noise quiet;
  CHECK_FALSE(quiet.is_used());
  CHECK(Noise(3, 1e-3, 0.0, {}).after(0, 2.0, 0.5) == 2.5);
}

TEST_CASE("slow_ranks_take_longer") {
  const Noise noise(0, 1e-3, 0.0, {1.0, 3.0});
  CHECK(noise.fits(2));
  CHECK_FALSE(noise.fits(3));
  CHECK(noise.after(0, 1.0, 0.5) == 1.5);
  CHECK(noise.after(1, 1.0, 0.5) == 2.5);
}

TEST_CASE("work_cut_into_pieces_ends_when_the_whole_does") {
  const Noise noise(42, 1e-3, 2e-4, {});
  for (Rank rank = 0; rank < 20; ++rank) {
    const Time whole = noise.after(rank, 0.01, 0.05);
    Time at = 0.01;
    for (int i = 0; i < 500; ++i) at = noise.after(rank, at, 1e-4);
    CHECK(at == doctest::Approx(whole).epsilon(1e-9));
    CHECK(whole > 0.06);
    CHECK(whole < 0.01 + 0.05 * 1.6);
  }
}

TEST_CASE("what_begins_later_does_not_end_earlier_and_a_detour_is_met_from_inside") {
  const Noise noise(7, 1e-3, 5e-4, {});
  Time last = 0.0;
  for (int i = 0; i < 5000; ++i) {
    const Time end = noise.after(3, 1e-5 * i, 1e-6);
    CHECK(end >= last * (1.0 - 1e-15));  // up to rounding
    CHECK(end >= 1e-5 * i + 1e-6);
    last = end;
  }
}

TEST_CASE("work_of_no_length_is_not_disturbed") {
  const Noise noise(7, 1e-3, 5e-4, {});
  for (int i = 0; i < 100; ++i) CHECK(noise.after(0, 1e-4 * i, 0.0) == 1e-4 * i);
}

TEST_CASE("long_work_meets_the_sum_of_its_detours_at_once") {
  const Noise noise(11, 1e-3, 1e-4, {});
  const double share = 1.0 / 0.9;
  Time before = -1.0;
  for (Rank rank = 0; rank < 8; ++rank) {
    for (const double seconds : {2e3, 1e6, 1e12}) {  // from two million slots on
      const Time end = noise.after(rank, 0.5, seconds);
      const double deviation = 1e-4 * std::sqrt(seconds / 1e-3 * share / 3.0);
      CHECK(std::abs(end - 0.5 - seconds * share) < 6.5 * deviation + 1e-3);
      CHECK(noise.after(rank, 0.5, seconds) == end);
    }
    const Time end = noise.after(rank, 0.0, 1e5);
    CHECK(end != before);  // each rank has its own
    before = end;
  }
  CHECK(noise.after(0, 1e300, 1e290) >= 1e300);
}

TEST_CASE("work_that_noise_makes_endless_is_refused") {
  const Noise noise(0, 1e-3, 1e-4, {1e300});
  CHECK_THROWS_AS((void)noise.after(0, 0.0, 1e10), std::invalid_argument);
}

TEST_CASE("noise_that_makes_no_sense_is_refused") {
  CHECK_THROWS_AS(Noise(0, 1e-3, 6e-4, {}), std::invalid_argument);
  CHECK_THROWS_AS(Noise(0, 1e-3, -1.0, {}), std::invalid_argument);
  CHECK_THROWS_AS(Noise(0, 1e-3, 0.0, {0.0}), std::invalid_argument);
}

TEST_CASE("degraded_links_keep_their_routes_and_change_their_numbers") {
  StarSpec spec;
  spec.hosts = 3;
  spec.link = {1e9, 1e-6};
  const auto whole = make_star(spec);
  Route before, after;
  whole->route(0, 1, before);
  const std::vector<LinkId> worse{before.links.front()};
  const auto bad = degraded(whole, worse, 0.25, 4.0);
  bad->route(0, 1, after);
  CHECK(after.links == before.links);
  CHECK(after.latency_s == doctest::Approx(before.latency_s + 3e-6));
  CHECK(bad->link(worse[0]).bandwidth_bytes_per_s == 2.5e8);
  CHECK(bad->link(before.links.back()).bandwidth_bytes_per_s == 1e9);
  CHECK(whole->link(worse[0]).bandwidth_bytes_per_s == 1e9);
  const std::vector<LinkId> missing{99};
  CHECK_THROWS_AS(degraded(whole, missing, 0.5, 1.0), std::invalid_argument);
  CHECK_THROWS_AS(degraded(whole, worse, 0.0, 1.0), std::invalid_argument);
}

}  // namespace labkit::noise_test
