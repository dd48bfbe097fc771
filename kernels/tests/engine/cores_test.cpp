// Shared cores: k computations on c cores go on at min(1, c/k) each. Times by hand, then against a plain simulation.
#include "labkit/engine/cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "random.hpp"
#include "scenario.hpp"

namespace labkit::cores_test {

using namespace labkit::test;
using doctest::Approx;

namespace {

StarSpec star_of(std::int32_t hosts, std::int32_t cores) {
  StarSpec spec = plain_star(hosts);
  spec.cores = cores;
  return spec;
}

/// One host with so many cores, and so many ranks on it.
struct OneHost : Scenario {
  OneHost(std::int32_t cores, Rank ranks)
      : Scenario(star_of(1, cores), raw_model(), std::vector<HostId>(static_cast<std::size_t>(ranks), 0)) {}
  void sleep(Rank rank, double seconds) {
    add(rank, [this, rank, seconds] { return engine.sleep(rank, seconds), true; });
  }
  double end(Rank rank) const { return engine.clock(rank); }
};

struct Job {
  HostId host;
  double begins_s;
  double left_s;
  double ended_s = -1.0;
};

/// From the definition: from one begin or end to the next, everybody's work shrinks by its share.
void run_plainly(std::vector<Job>& jobs, const std::vector<std::int32_t>& cores) {
  double now = 0.0;
  for (;;) {
    std::vector<double> active(cores.size(), 0.0);
    for (const Job& job : jobs) active[static_cast<std::size_t>(job.host)] += job.begins_s <= now && job.ended_s < 0.0;
    const auto rate = [&](const Job& job) {
      const auto host = static_cast<std::size_t>(job.host);
      return std::min(1.0, cores[host] / active[host]);
    };
    double next = std::numeric_limits<double>::infinity();
    for (const Job& job : jobs) {
      if (job.ended_s >= 0.0) continue;
      next = std::min(next, job.begins_s > now ? job.begins_s : now + job.left_s / rate(job));
    }
    if (next == std::numeric_limits<double>::infinity()) return;
    for (Job& job : jobs) {
      if (job.ended_s >= 0.0 || job.begins_s > now) continue;
      job.left_s -= (next - now) * rate(job);
      if (job.left_s <= 1e-13) job.ended_s = next;
    }
    now = next;
  }
}

}  // namespace

TEST_CASE("1, 1 and 2 s on one core end at 3, 3 and 4 s") {
  // Three at a third until 3 s, when two have had their second; the last one's second second alone.
  OneHost s(1, 3);
  for (Rank r = 0; r < 3; ++r) s.compute(r, r < 2 ? 1.0 : 2.0);
  REQUIRE(s.run());
  CHECK(s.end(0) == 3.0);
  CHECK(s.end(1) == 3.0);
  CHECK(s.end(2) == 4.0);
}

TEST_CASE("1, 1 and 2 s on two cores end at 1.5, 1.5 and 2.5 s") {
  // Three at two thirds until 1.5 s, then one with a core of its own.
  OneHost s(2, 3);
  for (Rank r = 0; r < 3; ++r) s.compute(r, r < 2 ? 1.0 : 2.0);
  REQUIRE(s.run());
  CHECK(s.end(0) == Approx(1.5).epsilon(1e-15));
  CHECK(s.end(1) == s.end(0));
  CHECK(s.end(2) == Approx(2.5).epsilon(1e-15));
}

TEST_CASE("nobody is slower while there are cores enough") {
  OneHost s(3, 4);  // four ranks, but never more than three of them compute at once
  s.compute(0, 1.0);
  s.compute(1, 1.5);
  s.compute(2, 2.0);
  s.sleep(3, 1.0);
  s.compute(3, 0.25);
  REQUIRE(s.run());
  CHECK(s.end(0) == 1.0);
  CHECK(s.end(1) == 1.5);
  CHECK(s.end(2) == 2.0);
  CHECK(s.end(3) == 1.25);
}

TEST_CASE("three computations on three cores of a host with more ranks, and the fourth that joins them") {
  // Until 1 s three at full speed; then four at 3/4. Rank 3's 0.75 s last 1 s; the others' 2 s in all are over
  // 1 s after that beginning but for 0.25 s, which three do at full speed.
  OneHost s(3, 4);
  for (Rank r = 0; r < 3; ++r) s.compute(r, 2.0);
  s.sleep(3, 1.0);
  s.compute(3, 0.75);
  REQUIRE(s.run());
  CHECK(s.end(3) == Approx(2.0).epsilon(1e-15));
  for (Rank r = 0; r < 3; ++r) CHECK(s.end(r) == Approx(2.25).epsilon(1e-15));
}

TEST_CASE("who begins later shares what is left") {
  // Alone until 1 s; then both have 1 s of work left, at half the speed: both end at 3 s.
  OneHost s(1, 2);
  s.compute(0, 2.0);
  s.sleep(1, 1.0);
  s.compute(1, 1.0);
  REQUIRE(s.run());
  CHECK(s.end(0) == 3.0);
  CHECK(s.end(1) == 3.0);
}

TEST_CASE("one who ends and begins again at once keeps its share") {
  OneHost s(1, 2);
  for (int i = 0; i < 10; ++i) s.compute(0, 0.25);
  s.compute(1, 1.0);
  REQUIRE(s.run());
  CHECK(s.end(1) == 2.0);
  CHECK(s.end(0) == 3.5);
}

TEST_CASE("work of no length ends at once, and needs no switch") {
  OneHost s(1, 2);
  double seen = -1.0;
  s.compute(0, 1.0);
  s.sleep(1, 0.5);
  s.add(1, [&] {
    CHECK(s.engine.compute(1, 0.0));
    seen = s.engine.clock(1);
    return true;
  });
  REQUIRE(s.run());
  CHECK(seen == 0.5);
  CHECK(s.end(0) == 1.0);
}

TEST_CASE("sleeping and reading the clock need no core, looking for a message does") {
  OneHost s(1, 4);
  s.compute(0, 1.0);
  s.sleep(1, 1.0);
  s.add(2, [&] { return s.engine.poll(2, 1.0); });
  s.add(3, [&] { return (void)s.engine.wtime(3), true; });
  REQUIRE(s.run());
  CHECK(s.end(0) == 2.0);
  CHECK(s.end(1) == 1.0);
  CHECK(s.end(2) == 2.0);
}

TEST_CASE("a rank that computes is not idle, and its clock stands until it is over") {
  OneHost s(1, 2);
  s.add(0, [&] {
    CHECK_FALSE(s.engine.compute(0, 1.0));
    CHECK(s.engine.blocked(0) == Blocked::compute);
    CHECK(s.engine.clock(0) == 0.0);
    return false;
  });
  s.compute(1, 3.0);
  REQUIRE(s.run());
  CHECK(s.end(0) == 2.0);
  CHECK(s.end(1) == 4.0);
}

TEST_CASE("hosts of their own, hosts with cores enough and crowded hosts in one run") {
  Scenario s(star_of(3, 2), raw_model(), {0, 1, 1, 2, 2, 2, 2});
  for (Rank r = 0; r < 7; ++r) {
    CHECK(s.engine.shares_cores(r) == (r >= 3));
    s.compute(r, 1.0);
  }
  CHECK(s.engine.shares_cores());
  REQUIRE(s.run());
  for (Rank r = 0; r < 7; ++r) CHECK(s.engine.clock(r) == (r >= 3 ? 2.0 : 1.0));
  const auto crowded = crowded_hosts(s.engine.platform(), {0, 1, 1, 2, 2, 2, 2});
  REQUIRE(crowded.size() == 1);
  CHECK(crowded[0].host == 2);
  CHECK(crowded[0].cores == 2);
  CHECK(crowded[0].ranks == 4);
}

TEST_CASE("without crowded hosts nobody ever blocks") {
  Scenario s(star_of(2, 2), raw_model(), {0, 1, 1, 0});
  CHECK_FALSE(s.engine.shares_cores());
  for (Rank r = 0; r < 4; ++r) {
    s.add(r, [&s, r] {
      CHECK(s.engine.compute(r, 1.0 + r));
      return true;
    });
  }
  REQUIRE(s.run());
  for (Rank r = 0; r < 4; ++r) CHECK(s.engine.clock(r) == 1.0 + r);
}

TEST_CASE("a message is sent when its sender has computed, not before") {
  Scenario s(star_of(2, 1), raw_model(), {0, 0, 1});
  s.compute(0, 1.0);
  s.send(0, 2, 984);
  s.compute(1, 1.0);
  s.receive(2, 0, 984);
  REQUIRE(s.run());
  CHECK(s.engine.clock(2) == Approx(2.0 + 2e-6 + 1e-6).epsilon(1e-14));  // 2 us of latency, 1000 bytes at 1 GB/s
}

TEST_CASE("a detour is work, and work is perturbed when it begins") {
  OneHost s(1, 2);
  s.engine.set_noise(Noise(0, 0.0, 0.0, {1.0, 3.0}));
  s.compute(0, 1.0);
  s.compute(1, 1.0);
  REQUIRE(s.run());
  CHECK(s.end(0) == 2.0);  // 1 s and 3 s of work
  CHECK(s.end(1) == 4.0);
}

TEST_CASE("a record has when it began and ended, and how long it takes alone") {
  OneHost s(1, 2);
  s.engine.recorder().keep_messages(true);
  s.sleep(0, 1.0);
  s.compute(0, 1.0);
  s.compute(1, 2.0);
  REQUIRE(s.run());
  const auto& rows = s.engine.recorder().computations();
  REQUIRE(rows.size() == 3);  // the sleep among them
  const auto& first = rows[1];
  const auto& second = rows[2];
  CHECK(first.begin_s == (first.rank == 0 ? 1.0 : 0.0));
  CHECK(first.end_s == 3.0);
  CHECK(second.end_s == 3.0);
  CHECK(first.alone_s + second.alone_s == 3.0);
}

TEST_CASE("time that is none is refused") {
  OneHost s(1, 2);
  CHECK_THROWS_AS((void)s.engine.compute(0, -1.0), std::invalid_argument);
  CHECK_THROWS_AS((void)s.engine.compute(0, kNever), std::invalid_argument);
  CHECK_THROWS_AS(s.engine.sleep(0, -1.0), std::invalid_argument);
}

TEST_CASE("random begins and works on random hosts, as the definition says") {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    const auto hosts = static_cast<std::int32_t>(1 + random.below(3));
    const auto cores = static_cast<std::int32_t>(1 + random.below(3));
    const std::size_t ranks = 1 + random.below(12);
    const bool is_coarse = round % 2 == 0;  // then many begins and ends coincide
    const auto time = [&] { return is_coarse ? 0.25 * static_cast<double>(random.below(8)) : 2.0 * random.unit(); };
    std::vector<Job> jobs;
    std::vector<HostId> places;
    for (std::size_t i = 0; i < ranks; ++i) {
      jobs.push_back({static_cast<HostId>(random.below(static_cast<std::size_t>(hosts))), time(), time() + 1e-3});
      places.push_back(jobs.back().host);
    }
    Scenario s(star_of(hosts, cores), raw_model(), places);
    for (std::size_t i = 0; i < ranks; ++i) {
      const auto rank = static_cast<Rank>(i);
      s.add(rank, [&s, &jobs, i, rank] { return s.engine.sleep(rank, jobs[i].begins_s), true; });
      s.compute(rank, jobs[i].left_s);
    }
    REQUIRE(s.run());
    run_plainly(jobs, std::vector<std::int32_t>(static_cast<std::size_t>(hosts), cores));
    for (std::size_t i = 0; i < ranks; ++i) {
      CHECK(s.engine.clock(static_cast<Rank>(i)) == Approx(jobs[i].ended_s).epsilon(1e-12));
    }
  }
}

}  // namespace labkit::cores_test
