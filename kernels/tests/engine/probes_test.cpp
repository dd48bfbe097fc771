// Probes, claimed messages, cancelling.
#include <doctest/doctest.h>

#include <stdexcept>

#include "scenario.hpp"

namespace labkit::probes_test {

using namespace labkit::test;

namespace {

Scenario hosts(Rank ranks) { return {plain_star(ranks), raw_model(), ranks}; }

}  // namespace

TEST_CASE("probe sees the envelope of an unexpected message, wait_probe waits for it") {
  Scenario s = hosts(3);
  s.compute(0, 1.0);
  s.send(0, 1, 24, 7);
  s.send(2, 1, 99, 5);
  Envelope envelope;
  s.add(1, [&] {
    CHECK_FALSE(s.engine.probe(1, 0, 7, 0, envelope));
    return s.engine.wait_probe(1, kAnySource, 7, 0);
  });
  s.add(1, [&] {
    CHECK(s.engine.clock(1) == 1.0);  // visible when it is sent, not when it has traveled
    REQUIRE(s.engine.probe(1, kAnySource, 7, 0, envelope));
    CHECK(envelope.source == 0);
    CHECK(envelope.tag == 7);
    CHECK(envelope.bytes == 24);
    CHECK_FALSE(s.engine.probe(1, kAnySource, 7, 1, envelope));
    REQUIRE(s.engine.probe(1, 2, kAnyTag, 0, envelope));
    CHECK(envelope.bytes == 99);
    return true;
  });
  s.receive(1, 0, 24, 7);
  s.receive(1, 2, 99, 5);
  REQUIRE(s.run());
  CHECK(s.engine.clock(1) > 1.0);
}

TEST_CASE("wait_probe of a rank whose clock is ahead") {
  Scenario s = hosts(2);
  s.send(0, 1, 24, 7);
  s.compute(1, 4.0);
  s.add(1, [&] { return s.engine.wait_probe(1, 0, kAnyTag, 0); });
  s.add(1, [&] {
    CHECK(s.engine.clock(1) == 4.0);
    return true;
  });
  s.receive(1, 0, 24, 7);
  REQUIRE(s.run());
}

TEST_CASE("a claimed message is received by its claimer only") {
  Scenario s = hosts(2);
  RequestId first;
  RequestId second;
  Envelope envelope;
  s.send(0, 1, 10, 1);
  s.send(0, 1, 20, 1);
  s.add(1, [&] { return s.engine.wait_probe(1, 0, 1, 0); });
  s.add(1, [&] {
    REQUIRE(s.engine.probe(1, 0, 1, 0, envelope));
    s.engine.claim(envelope.send);
    first = post_receive(s, 1, 0, 1);  // gets the second message
    ReceivePost post;
    post.rank = 1;
    post.capacity_bytes = 100;
    second = s.engine.receive_claimed(post, envelope.send);
    const RequestId both[2] = {first, second};
    return s.engine.wait_all(1, both);
  });
  s.add(1, [&] {
    CHECK(s.engine.status(first).bytes == 20);
    CHECK(s.engine.status(second).bytes == 10);
    CHECK(s.engine.status(second).source == 0);
    CHECK(s.engine.status(second).tag == 1);
    return true;
  });
  REQUIRE(s.run());
}

TEST_CASE("cancel takes back what is not matched") {
  Scenario s = hosts(2);
  RequestId receive;
  s.add(0, [&] {
    receive = post_receive(s, 0, 1);
    CHECK(s.engine.cancel(receive));
    CHECK(s.engine.is_complete(receive));
    CHECK(s.engine.status(receive).is_cancelled);
    CHECK(s.engine.wait(0, receive));
    s.engine.release(receive);
    CHECK_FALSE(s.engine.is_live(receive));
    CHECK_THROWS_AS(s.engine.release(receive), std::logic_error);
    const RequestId detached = post_send(s, 0, 1, 8);
    CHECK(s.engine.cancel(detached));
    s.engine.release(detached);
    const RequestId large = post_send(s, 0, 1, 1 << 20);
    CHECK(s.engine.cancel(large));
    s.engine.release(large);
    return true;
  });
  s.send(0, 1, 77);
  RequestId id;
  s.add(1, [&] {
    id = post_receive(s, 1, 0);
    return s.engine.wait(1, id);
  });
  s.add(1, [&] {
    CHECK(s.engine.status(id).bytes == 77);
    CHECK_FALSE(s.engine.cancel(id));
    return true;
  });
  REQUIRE(s.run());
  CHECK(s.engine.requests_of(0).empty());
}

}  // namespace labkit::probes_test
