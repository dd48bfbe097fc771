// Operations: what an agent does for a rank, beside what the rank does.
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scenario.hpp"

namespace labkit::operations_test {

using namespace labkit::test;
using doctest::Approx;

namespace {

constexpr double kLatency = 1e-6;
constexpr double kBandwidth = 1e9;
constexpr Context kBeside = 7;

double one_way(double payload) { return 2 * kLatency + (payload + 16) / kBandwidth; }

Scenario hosts(Rank ranks, Model model = raw_model()) {
  return {plain_star(ranks, kBandwidth, kLatency), std::move(model), ranks};
}

/// Receives one message of rank 1, and is over.
class Receiving : public Driver {
 public:
  explicit Receiving(Engine& engine) : engine_(engine) {}
  void begin(Rank rank, std::uint64_t bytes) {
    operation = engine_.begin_operation(rank, "receiving");
    ReceivePost post;
    post.rank = operation.agent;
    post.source = 1;
    post.tag = 0;
    post.context = kBeside;
    post.capacity_bytes = bytes;
    id_ = engine_.receive(post);
    engine_.follow(rank, operation.agent);
    if (engine_.wait(operation.agent, id_)) {
      end();
    } else {
      engine_.set_driver(operation.agent, this);
    }
  }
  void resume(Rank) override { end(); }
  Operation operation;

 private:
  void end() {
    engine_.release(id_);
    engine_.end_operation(operation.agent);
  }
  Engine& engine_;
  RequestId id_;
};

void send_beside(Engine& engine, std::uint64_t bytes) {
  SendPost post;
  post.rank = 1;
  post.dest = 0;
  post.tag = 0;
  post.context = kBeside;
  post.bytes = bytes;
  engine.release(engine.send(post));
}

}  // namespace

TEST_CASE("an operation goes on while its rank computes, and the later of the two decides") {
  for (const double computed_s : {0.0, 0.5 * one_way(100000), 3.0}) {
    Scenario s = hosts(2);
    Receiving receiving(s.engine);
    double at_return_s = -1.0;
    s.add(1, [&] {
      send_beside(s.engine, 100000);
      return true;
    });
    s.add(0, [&] {
      receiving.begin(0, 100000);
      at_return_s = s.engine.clock(0);
      CHECK(s.engine.compute(0, computed_s));
      return s.engine.wait(0, receiving.operation.request);
    });
    REQUIRE(s.run());
    CHECK(at_return_s == 0.0);
    CHECK(s.engine.clock(0) == Approx(std::max(computed_s, one_way(100000))).epsilon(1e-14));
    s.engine.release(receiving.operation.request);
  }
}

TEST_CASE("its messages are its rank's, for hosts and records, but not for the rank's own receives") {
  Scenario s = hosts(2);
  s.engine.recorder().keep_messages(true);
  Receiving receiving(s.engine);
  s.send(1, 0, 8);
  s.add(1, [&] {
    send_beside(s.engine, 1000);
    return true;
  });
  s.add(0, [&] {
    receiving.begin(0, 1000);
    CHECK(s.engine.owner_of(receiving.operation.agent) == 0);
    CHECK(receiving.operation.agent >= s.engine.rank_count());
    return true;
  });
  s.receive(0, 1, 8);
  s.add(0, [&] { return s.engine.wait(0, receiving.operation.request); });
  REQUIRE(s.run());
  const Recorder& found = s.engine.recorder();
  REQUIRE(found.rows().size() == 2);
  REQUIRE(found.operations().size() == 1);
  REQUIRE(found.sides().size() == 1);
  const MessageRecord& row = found.rows()[static_cast<std::size_t>(found.sides()[0].message)];
  CHECK(row.bytes == 1000);
  CHECK(row.destination == 0);
  CHECK(found.sides()[0].send_operation == -1);
  CHECK(found.sides()[0].recv_operation == 0);
  CHECK(found.operations()[0].end_s == row.end_s);
  CHECK(s.engine.makespan() == s.engine.clock(0));
}

TEST_CASE("what it pays for a receive delays its end, not its rank") {
  Model model = raw_model();
  model.detached_below_bytes = 65536;
  model.recv_overhead = SizeCost({{0, 0.25, 0}});
  Scenario s = hosts(2, model);
  Receiving receiving(s.engine);
  s.add(1, [&] {
    send_beside(s.engine, 8);
    return true;
  });
  double tested_s = 0.0;
  s.add(0, [&] {
    receiving.begin(0, 8);
    CHECK(s.engine.compute(0, 0.125));
    tested_s = s.engine.clock(0);
    return s.engine.wait(0, receiving.operation.request);
  });
  REQUIRE(s.run());
  CHECK(tested_s == 0.125);
  CHECK(s.engine.clock(0) == Approx(0.25 + one_way(8)).epsilon(1e-14));
}

TEST_CASE("agents are used again, and a handle that is given up does not stop them") {
  Scenario s = hosts(2);
  std::vector<Rank> agents;
  Receiving first(s.engine), second(s.engine), third(s.engine);
  for (int k = 0; k < 3; ++k) {
    s.add(1, [&] {
      send_beside(s.engine, 100000);
      return true;
    });
  }
  s.add(0, [&] {
    first.begin(0, 100000);
    second.begin(0, 100000);
    s.engine.release(second.operation.request);
    return s.engine.wait(0, first.operation.request);
  });
  s.add(0, [&] {
    CHECK(s.engine.compute(0, 1.0));
    return s.engine.sync(0);
  });
  s.add(0, [&] {
    CHECK_FALSE(s.engine.is_live(second.operation.request));
    third.begin(0, 100000);
    return s.engine.wait(0, third.operation.request);
  });
  REQUIRE(s.run());
  CHECK(first.operation.agent != second.operation.agent);
  CHECK(third.operation.agent == first.operation.agent);
}

TEST_CASE("a run that keeps calls has none") {
  Scenario s = hosts(1);
  CallLog log({1e9});
  s.engine.set_call_log(&log);
  CHECK_THROWS_AS((void)s.engine.begin_operation(0, "no"), std::logic_error);
  s.engine.set_call_log(nullptr);
}

}  // namespace labkit::operations_test
