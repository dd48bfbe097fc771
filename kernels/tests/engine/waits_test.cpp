// Waits, clocks that run ahead, drivers.
#include <chrono>
#include <doctest/doctest.h>

#include <stdexcept>

#include "scenario.hpp"

namespace labkit::waits_test {

using namespace labkit::test;
using doctest::Approx;

namespace {

constexpr double kLatency = 1e-6;
constexpr double kBandwidth = 1e9;

double one_way(double payload) { return 2 * kLatency + (payload + 16) / kBandwidth; }

Scenario hosts(Rank ranks) { return {plain_star(ranks, kBandwidth, kLatency), raw_model(), ranks}; }

}  // namespace

TEST_CASE("wait_all ends with the last") {
  Scenario s = hosts(3);
  s.compute(1, 2.0);
  s.send(1, 0, 8);
  s.compute(2, 1.0);
  s.send(2, 0, 8);
  s.add(0, [&s] {
    const RequestId both[3] = {post_receive(s, 0, 1), RequestId{}, post_receive(s, 0, 2)};
    return s.engine.wait_all(0, both);
  });
  REQUIRE(s.run());
  CHECK(s.engine.clock(0) == Approx(2.0 + one_way(8)).epsilon(1e-14));
}

TEST_CASE("wait_any returns with the first to complete, and its clock") {
  Scenario s = hosts(3);
  std::vector<RequestId> ids;
  std::vector<std::size_t> order;
  std::vector<double> times;
  const auto note = [&] {
    const std::size_t which = s.engine.any_index(0);
    order.push_back(which);
    times.push_back(s.engine.clock(0));
    s.engine.release(ids[which]);
    ids[which] = {};
  };
  s.compute(1, 2.0);
  s.send(1, 0, 8);
  s.compute(2, 1.0);
  s.send(2, 0, 8);
  s.add(0, [&] {
    ids = {RequestId{}, post_receive(s, 0, 1), post_receive(s, 0, 2)};
    return s.engine.wait_any(0, ids);
  });
  s.add(0, [&] {
    note();
    return s.engine.wait_any(0, ids);
  });
  s.add(0, [&] {
    note();
    CHECK_THROWS_AS((void)s.engine.wait_any(0, ids), std::invalid_argument);
    return true;
  });
  REQUIRE(s.run());
  CHECK(order == std::vector<std::size_t>{2, 1});
  CHECK(times[0] == Approx(1.0 + one_way(8)).epsilon(1e-14));
  CHECK(times[1] == Approx(2.0 + one_way(8)).epsilon(1e-14));
}

TEST_CASE("wait_any of a rank whose clock is ahead sees all that has completed by then") {
  // Rank 0 computes until 10; by then both are complete, and the first in the LIST is taken, though
  // the other came first.
  Scenario s = hosts(3);
  std::vector<RequestId> ids;
  s.compute(1, 2.0);
  s.send(1, 0, 8);
  s.compute(2, 1.0);
  s.send(2, 0, 8);
  s.add(0, [&] {
    ids = {post_receive(s, 0, 1), post_receive(s, 0, 2)};
    (void)s.engine.compute(0, 10.0);
    return s.engine.wait_any(0, ids);
  });
  s.add(0, [&] {
    CHECK(s.engine.any_index(0) == 0);
    CHECK(s.engine.clock(0) == 10.0);
    CHECK(s.engine.now() == 10.0);
    return true;
  });
  REQUIRE(s.run());
}

TEST_CASE("sync stops a rank until the engine has caught up") {
  Scenario s = hosts(2);
  RequestId id;
  s.send(1, 0, 8);
  s.add(0, [&] {
    id = post_receive(s, 0, 1);
    CHECK_FALSE(s.engine.is_complete(id));
    (void)s.engine.compute(0, 1.0);
    CHECK_FALSE(s.engine.is_complete(id));  // not known yet: nothing has run
    return s.engine.sync(0);
  });
  s.add(0, [&] {
    CHECK(s.engine.is_complete(id));
    CHECK(s.engine.clock(0) == 1.0);
    CHECK(s.engine.request(id).completion_s == Approx(one_way(8)).epsilon(1e-14));
    CHECK(s.engine.status(id).source == 1);
    CHECK(s.engine.status(id).bytes == 8);
    CHECK(s.engine.sync(0));
    return true;
  });
  REQUIRE(s.run());
}

TEST_CASE("posts of a clock ahead act at that clock, in order, and never overtake") {
  // Rank 0 sends A at 1 (its clock is ahead: an event), is woken at exactly 1 and sends B.
  Scenario s = hosts(2);
  std::vector<std::uint64_t> got;
  RequestId wake_up;
  s.compute(0, 1.0);
  s.add(0, [&] {
    s.engine.release(post_send(s, 0, 1, 100));
    return s.engine.sync(0);
  });
  s.add(0, [&] {
    CHECK(s.engine.now() == 1.0);
    s.engine.release(post_send(s, 0, 1, 200));
    return true;
  });
  RequestId id;
  for (int i = 0; i < 2; ++i) {
    s.add(1, [&] {
      id = post_receive(s, 1, kAnySource);
      return s.engine.wait(1, id);
    });
    s.add(1, [&] {
      got.push_back(s.engine.status(id).bytes);
      return true;
    });
  }
  REQUIRE(s.run());
  CHECK(got == std::vector<std::uint64_t>{100, 200});
}

TEST_CASE("a message posted earlier in simulated time matches first, whoever ran first") {
  // Rank 0 runs first but computes for 2 s; rank 2 sends at 1 s. The wildcard receive gets rank 2's.
  Scenario s = hosts(3);
  RequestId id;
  s.compute(0, 2.0);
  s.send(0, 1, 8);
  s.compute(2, 1.0);
  s.send(2, 1, 8);
  s.add(1, [&] {
    id = post_receive(s, 1, kAnySource);
    return s.engine.wait(1, id);
  });
  s.add(1, [&] {
    CHECK(s.engine.status(id).source == 2);
    return true;
  });
  s.receive(1, 0, 8);
  REQUIRE(s.run());
}

TEST_CASE("a receive that is too small knows how much was sent") {
  Scenario s = hosts(2);
  RequestId id;
  s.send(0, 1, 100);
  s.add(1, [&] {
    ReceivePost post;
    post.rank = 1;
    post.capacity_bytes = 99;
    id = s.engine.receive(post);
    return s.engine.wait(1, id);
  });
  s.add(1, [&] {
    CHECK(s.engine.status(id).is_truncated);
    CHECK(s.engine.status(id).bytes == 100);
    return true;
  });
  REQUIRE(s.run());
}

TEST_CASE("two receives facing each other: nothing is left to run, both are blocked") {
  Scenario s = hosts(2);
  s.receive(0, 1, 8);
  s.receive(1, 0, 8);
  CHECK_FALSE(s.run());
  CHECK(s.engine.blocked(0) == Blocked::wait_all);
  CHECK(s.engine.blocked(1) == Blocked::wait_all);
}

TEST_CASE("requests that are let go free themselves") {
  Scenario s = hosts(2);
  s.add(0, [&] {
    for (int i = 0; i < 100; ++i) s.engine.release(post_send(s, 0, 1, i % 2 == 0 ? 8 : 1 << 20));
    return true;
  });
  s.add(1, [&] {
    for (int i = 0; i < 100; ++i) s.engine.release(post_receive(s, 1, 0));
    return true;
  });
  REQUIRE(s.run());
  CHECK(s.engine.recorder().messages() == 100);
  CHECK(s.engine.requests_of(0).empty());
  CHECK(s.engine.requests_of(1).empty());
}

TEST_CASE("calls that cost: Wtime, and what may not be asked") {
  Scenario s = hosts(1);
  s.add(0, [&] {
    CHECK(s.engine.wtime(0) == 1e-8);
    (void)s.engine.compute(0, 1.0);
    CHECK(s.engine.wtime(0) == Approx(1.0 + 2e-8).epsilon(1e-15));
    CHECK_THROWS_AS((void)s.engine.compute(0, -1.0), std::invalid_argument);
    CHECK_THROWS_AS((void)s.engine.compute(0, kNever), std::invalid_argument);
    CHECK_THROWS_AS((void)post_send(s, 0, 1, 8), std::invalid_argument);
    CHECK_THROWS_AS((void)post_send(s, 0, 0, 8, -1), std::invalid_argument);
    CHECK_THROWS_AS((void)post_receive(s, 0, 1), std::invalid_argument);
    return true;
  });
  REQUIRE(s.run());
  CHECK_THROWS_AS(Engine(nullptr, raw_model(), {0}), std::invalid_argument);
  CHECK_THROWS_AS(Engine(make_star(plain_star(1)), raw_model(), {}), std::invalid_argument);
  CHECK_THROWS_AS(Engine(make_star(plain_star(1)), raw_model(), {1}), std::invalid_argument);
}

TEST_CASE("the budget of events gives the caller a turn") {
  Scenario s = hosts(2);
  for (int i = 0; i < 10; ++i) {
    s.send(0, 1, 1 << 20);
    s.receive(1, 0, 1 << 20);
  }
  REQUIRE(s.run());
  Engine engine(make_star(plain_star(2)), raw_model(), {0, 1});
  engine.start(0, 1.0);
  engine.start(1, 2.0);
  CHECK(engine.advance(1) == Advance::budget);
  CHECK(engine.advance(100) == Advance::ready);
  CHECK(engine.next_ready() == 0);
  CHECK(engine.next_ready() == -1);
  CHECK(engine.clock(0) == 1.0);
  CHECK(engine.advance(100) == Advance::ready);
  CHECK(engine.next_ready() == 1);
  CHECK(engine.advance(100) == Advance::idle);
}

TEST_CASE("a pause for the host's time changes nothing that is computed") {
  const auto played = [](bool pauses) {
    Scenario s = hosts(8);
    if (pauses) s.engine.pause_every(std::chrono::nanoseconds(0));
    for (int i = 0; i < 50; ++i) {
      for (Rank r = 0; r < 8; ++r) {
        if (r % 2 == 0) s.send(r, (r + 1 + 2 * (i % 4)) % 8, 1000 * static_cast<std::uint64_t>(i + r), i);
        if (r % 2 == 1) s.receive(r, kAnySource, 1 << 20, i);
      }
    }
    REQUIRE(s.run());
    CHECK((s.pauses > 0) == pauses);
    return std::pair(s.engine.makespan(), s.engine.events());
  };
  CHECK(played(true) == played(false));
}

namespace {

/// Plays ping-pong natively, then hands its rank back.
class PingPong final : public Driver {
 public:
  PingPong(Engine& engine, int rounds) : engine_(engine), rounds_(rounds) {}
  void resume(Rank rank) override {
    int& done = done_[rank];
    for (;;) {
      if (!held_[rank].is_null()) engine_.release(held_[rank]);
      held_[rank] = {};
      if (done == 2 * rounds_) {
        engine_.set_driver(rank, nullptr);
        engine_.wake(rank);
        return;
      }
      const bool sends = (done++ % 2 == 0) == (rank == 0);
      if (sends) {
        SendPost post;
        post.rank = rank;
        post.dest = 1 - rank;
        post.bytes = 8;
        post.is_blocking = true;
        held_[rank] = engine_.send(post);
      } else {
        ReceivePost post;
        post.rank = rank;
        post.source = 1 - rank;
        post.capacity_bytes = 8;
        held_[rank] = engine_.receive(post);
      }
      if (!engine_.wait(rank, held_[rank])) return;
    }
  }

 private:
  Engine& engine_;
  int rounds_;
  int done_[2] = {0, 0};
  RequestId held_[2];
};

}  // namespace

TEST_CASE("a driver runs its ranks inside advance and hands them back") {
  Engine engine(make_star(plain_star(2, kBandwidth, kLatency)), raw_model(), {0, 1});
  PingPong ping_pong(engine, 50);
  for (const Rank r : {0, 1}) {
    engine.set_driver(r, &ping_pong);
    engine.start(r);
  }
  // Rank 1's last act is a send that lets it go on: it is handed back first.
  REQUIRE(engine.advance(1u << 20) == Advance::ready);
  CHECK(engine.next_ready() == 1);
  REQUIRE(engine.advance(1u << 20) == Advance::ready);
  CHECK(engine.next_ready() == 0);
  CHECK(engine.clock(0) == Approx(100 * one_way(8)).epsilon(1e-12));
  CHECK(engine.recorder().messages() == 100);
}

}  // namespace labkit::waits_test
