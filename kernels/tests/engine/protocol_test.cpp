// Timelines that a pencil can check: every expectation is a closed formula of the model.
#include <doctest/doctest.h>

#include <algorithm>

#include "scenario.hpp"

namespace labkit::protocol_test {

using namespace labkit::test;
using doctest::Approx;

namespace {

constexpr double kBandwidth = 1.25e8;
constexpr double kLatency = 24e-6;

/// One way of an undisturbed message between two hosts of a star.
double one_way(const Model& model, double payload) {
  const double size = payload + 16;
  const double latency = 2 * kLatency;
  double rate = kBandwidth;
  if (model.tcp_gamma_bytes > 0) rate = std::min(rate, model.tcp_gamma_bytes / (2 * latency));
  return latency * model.latency_factor.at(size) + size / (rate * model.bandwidth_factor.at(size));
}

Model with_overheads() {
  Model model;
  model.send_overhead = SizeCost({{0, 1e-3, 1e-6}, {1000, 2e-3, 0}});
  model.isend_overhead = SizeCost({{0, 4e-3, 0}});
  model.recv_overhead = SizeCost({{0, 8e-3, 0}});
  return model;
}

Scenario two_hosts(const Model& model) { return {plain_star(2, kBandwidth, kLatency), model, 2}; }

}  // namespace

TEST_CASE("ping-pong takes what the model's formula says") {
  for (const Model& model : {raw_model(), cm02_model(), lv08_model(), smpi_model()}) {
    for (const std::uint64_t bytes :
         {0u, 1u, 8u, 240u, 241u, 242u, 65535u, 65536u, 1u << 20, 1u << 24}) {
      CAPTURE(model.name);
      CAPTURE(bytes);
      Scenario s = two_hosts(model);
      s.send(0, 1, bytes);
      s.receive(1, 0, bytes);
      s.send(1, 0, bytes);
      s.receive(0, 1, bytes);
      REQUIRE(s.run());
      CHECK(s.engine.clock(0) == Approx(2 * one_way(model, static_cast<double>(bytes))).epsilon(1e-12));
      CHECK(s.engine.recorder().messages() == 2);
      CHECK(s.engine.recorder().bytes() == 2 * bytes);
    }
  }
}

TEST_CASE("the window bounds the rate on long routes") {
  // gamma / (2 lat) = 4194304 / 0.2 = 20.97 MB/s, far below the link's 125 MB/s
  Scenario s(plain_star(2, kBandwidth, 0.05), cm02_model(), 2);
  s.send(0, 1, 1 << 20);
  s.receive(1, 0, 1 << 20);
  REQUIRE(s.run());
  CHECK(s.engine.clock(1) == Approx(0.1 + ((1 << 20) + 16) / (4194304 / 0.2)).epsilon(1e-12));
}

TEST_CASE("detached: the sender goes on, the flow waits for the receive") {
  Scenario s = two_hosts(raw_model());
  s.send(0, 1, 65535);
  s.compute(1, 5.0);
  s.receive(1, 0, 65535);
  REQUIRE(s.run());
  CHECK(s.engine.clock(0) == 0.0);
  CHECK(s.engine.clock(1) == Approx(5.0 + one_way(raw_model(), 65535)).epsilon(1e-14));
}

TEST_CASE("rendezvous: from the size of the threshold on, both wait for the end") {
  const double duration = one_way(raw_model(), 65536);
  SUBCASE("the receiver is late") {
    Scenario s = two_hosts(raw_model());
    s.send(0, 1, 65536);
    s.compute(1, 5.0);
    s.receive(1, 0, 65536);
    REQUIRE(s.run());
    CHECK(s.engine.clock(0) == Approx(5.0 + duration).epsilon(1e-14));
    CHECK(s.engine.clock(1) == s.engine.clock(0));
  }
  SUBCASE("the sender is late") {
    Scenario s = two_hosts(raw_model());
    s.compute(0, 7.0);
    s.send(0, 1, 65536);
    s.receive(1, 0, 65536);
    REQUIRE(s.run());
    CHECK(s.engine.clock(0) == Approx(7.0 + duration).epsilon(1e-14));
    CHECK(s.engine.clock(1) == s.engine.clock(0));
  }
}

TEST_CASE("eager: the flow starts with the send") {
  Model model = raw_model();
  model.eager_below_bytes = 1000;
  const double duration = one_way(model, 999);
  SUBCASE("a late receive finds the message there") {
    Scenario s = two_hosts(model);
    s.send(0, 1, 999);
    s.compute(1, 5.0);
    s.receive(1, 0, 999);
    REQUIRE(s.run());
    CHECK(s.engine.clock(0) == 0.0);
    CHECK(s.engine.clock(1) == 5.0);
  }
  SUBCASE("a receive in the middle waits for the rest") {
    Scenario s = two_hosts(model);
    s.send(0, 1, 999);
    s.compute(1, duration / 2);
    s.receive(1, 0, 999);
    REQUIRE(s.run());
    CHECK(s.engine.clock(1) == Approx(duration).epsilon(1e-14));
  }
  SUBCASE("an early receive changes nothing") {
    Scenario s = two_hosts(model);
    s.compute(0, 1.0);
    s.send(0, 1, 999);
    s.receive(1, 0, 999);
    REQUIRE(s.run());
    CHECK(s.engine.clock(1) == Approx(1.0 + duration).epsilon(1e-14));
  }
  SUBCASE("at the threshold it is detached") {
    Scenario s = two_hosts(model);
    s.send(0, 1, 1000);
    s.compute(1, 5.0);
    s.receive(1, 0, 1000);
    REQUIRE(s.run());
    CHECK(s.engine.clock(1) == Approx(5.0 + one_way(model, 1000)).epsilon(1e-14));
  }
}

TEST_CASE("synchronous: however small, the sender waits for the end") {
  Scenario s = two_hosts(with_overheads());
  s.send(0, 1, 8, 0, SendMode::synchronous);
  s.compute(1, 5.0);
  s.receive(1, 0, 8);
  REQUIRE(s.run());
  // os is paid (hidden by the late receiver), or is not: the sender did not go on.
  CHECK(s.engine.clock(0) == Approx(5.0 + one_way(raw_model(), 8)).epsilon(1e-14));
  CHECK(s.engine.clock(1) == s.engine.clock(0));
}

TEST_CASE("overheads: os before a detached send, or after its receive") {
  Scenario s = two_hosts(with_overheads());
  s.send(0, 1, 500);
  s.receive(1, 0, 500);
  REQUIRE(s.run());
  const double os = 1e-3 + 500e-6;
  CHECK(s.engine.clock(0) == Approx(os).epsilon(1e-14));
  CHECK(s.engine.clock(1) == Approx(os + one_way(raw_model(), 500) + 8e-3).epsilon(1e-14));
}

TEST_CASE("overheads: none of a blocking rendezvous, os of a synchronous send") {
  Scenario s = two_hosts(with_overheads());
  s.send(0, 1, 1 << 20);
  s.receive(1, 0, 1 << 20);
  s.send(0, 1, 2000, 0, SendMode::synchronous);
  s.receive(1, 0, 2000);
  REQUIRE(s.run());
  const double expected = one_way(raw_model(), 1 << 20) + 2e-3 + one_way(raw_model(), 2000);
  CHECK(s.engine.clock(0) == Approx(expected).epsilon(1e-14));
  CHECK(s.engine.clock(1) == Approx(expected).epsilon(1e-14));
}

TEST_CASE("overheads: a message of 0 bytes costs the constants") {
  Scenario s = two_hosts(with_overheads());
  s.send(0, 1, 0);
  s.receive(1, 0, 0);
  REQUIRE(s.run());
  CHECK(s.engine.clock(0) == Approx(1e-3).epsilon(1e-14));
  CHECK(s.engine.clock(1) == Approx(1e-3 + one_way(raw_model(), 0) + 8e-3).epsilon(1e-14));
}

TEST_CASE("overheads: start-ups of one sender and receiver follow each other") {
  // Three Isend pay ois one after another; three receives pay `or` one after another.
  Scenario s = two_hosts(with_overheads());
  s.add(0, [&s] {
    std::vector<RequestId> ids;
    for (int i = 0; i < 3; ++i) {
      SendPost post;
      post.dest = 1;
      post.bytes = 8;
      ids.push_back(s.engine.send(post));
    }
    CHECK(s.engine.clock(0) == Approx(12e-3).epsilon(1e-14));
    return s.engine.wait_all(0, ids);
  });
  s.add(1, [&s] {
    std::vector<RequestId> ids;
    for (int i = 0; i < 3; ++i) {
      ReceivePost post;
      post.rank = 1;
      post.capacity_bytes = 8;
      ids.push_back(s.engine.receive(post));
    }
    return s.engine.wait_all(1, ids);
  });
  REQUIRE(s.run());
  CHECK(s.engine.clock(0) == Approx(12e-3).epsilon(1e-14));
  // The first message is there at 4 ms + t and keeps the receiver busy until 12 ms + t; the others
  // have come by then (8 and 12 ms + t).
  CHECK(s.engine.clock(1) == Approx(28e-3 + one_way(raw_model(), 8)).epsilon(1e-14));
}

TEST_CASE("a star with backbone: concurrent pairs share it") {
  StarSpec spec = plain_star(4, 1e8, 1e-5);
  spec.backbone = BackboneSpec{1e8, 3e-5, Policy::shared};
  Scenario s(spec, raw_model(), 4);
  for (const Rank from : {0, 2}) {
    s.send(from, from + 1, 1 << 20);
    s.receive(from + 1, from, 1 << 20);
  }
  REQUIRE(s.run());
  const double expected = 5e-5 + ((1 << 20) + 16) / 0.5e8;
  CHECK(s.engine.clock(1) == Approx(expected).epsilon(1e-12));
  CHECK(s.engine.clock(3) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("a fat-pipe backbone is not shared") {
  StarSpec spec = plain_star(4, 1e8, 1e-5);
  spec.backbone = BackboneSpec{1e8, 3e-5, Policy::fatpipe};
  Scenario s(spec, raw_model(), 4);
  for (const Rank from : {0, 2}) {
    s.send(from, from + 1, 1 << 20);
    s.receive(from + 1, from, 1 << 20);
  }
  REQUIRE(s.run());
  CHECK(s.engine.clock(3) == Approx(5e-5 + ((1 << 20) + 16) / 1e8).epsilon(1e-12));
}

TEST_CASE("duplex: an exchange shares one link per host, or does not") {
  for (const Duplex duplex : {Duplex::split, Duplex::shared}) {
    StarSpec spec = plain_star(2, 1e8, 1e-5);
    spec.duplex = duplex;
    Scenario s(spec, raw_model(), 2);
    for (const Rank r : {0, 1}) {
      s.add(r, [&s, r] {
        ReceivePost receive;
        receive.rank = r;
        receive.capacity_bytes = 1 << 20;
        SendPost send;
        send.rank = r;
        send.dest = 1 - r;
        send.bytes = 1 << 20;
        const RequestId both[2] = {s.engine.receive(receive), s.engine.send(send)};
        return s.engine.wait_all(r, both);
      });
    }
    REQUIRE(s.run());
    const double rate = duplex == Duplex::split ? 1e8 : 0.5e8;
    CHECK(s.engine.clock(0) == Approx(2e-5 + ((1 << 20) + 16) / rate).epsilon(1e-12));
  }
}

TEST_CASE("limiters: what a host sends and receives together") {
  StarSpec spec = plain_star(2, 1e8, 1e-5);
  spec.limiter_bandwidth_bytes_per_s = 1.2e8;
  Scenario s(spec, raw_model(), 2);
  for (const Rank r : {0, 1}) {
    s.add(r, [&s, r] {
      ReceivePost receive;
      receive.rank = r;
      receive.capacity_bytes = 1 << 20;
      SendPost send;
      send.rank = r;
      send.dest = 1 - r;
      send.bytes = 1 << 20;
      const RequestId both[2] = {s.engine.receive(receive), s.engine.send(send)};
      return s.engine.wait_all(r, both);
    });
  }
  REQUIRE(s.run());
  CHECK(s.engine.clock(0) == Approx(2e-5 + ((1 << 20) + 16) / 0.6e8).epsilon(1e-12));
}

TEST_CASE("messages to oneself: by the loopback, or free") {
  for (const bool is_free : {false, true}) {
    StarSpec spec = plain_star(1, 1e8, 1e-5);
    spec.loopback = LinkSpec{1e9, 2e-6};
    Model model = raw_model();
    model.is_self_free = is_free;
    Scenario s(spec, model, 1);
    s.add(0, [&s] {
      SendPost send;
      send.bytes = 1 << 20;
      ReceivePost receive;
      receive.source = 0;
      receive.capacity_bytes = 1 << 20;
      const RequestId both[2] = {s.engine.send(send), s.engine.receive(receive)};
      return s.engine.wait_all(0, both);
    });
    REQUIRE(s.run());
    const double expected = is_free ? 0.0 : 2e-6 + ((1 << 20) + 16) / 1e9;
    CHECK(s.engine.clock(0) == Approx(expected).epsilon(1e-12));
    CHECK(s.engine.recorder().messages() == 1);
  }
}

TEST_CASE("two ranks of one host meet over its loopback") {
  StarSpec spec = plain_star(1, 1e8, 1e-5);
  spec.cores = 2;
  Scenario with_up_and_down(spec, raw_model(), std::vector<HostId>{0, 0});
  with_up_and_down.send(0, 1, 1000);
  with_up_and_down.receive(1, 0, 1000);
  REQUIRE(with_up_and_down.run());
  CHECK(with_up_and_down.engine.clock(1) == Approx(2e-5 + 1016 / 1e8).epsilon(1e-12));
  spec.loopback = LinkSpec{1e9, 2e-6};
  Scenario with_loopback(spec, raw_model(), std::vector<HostId>{0, 0});
  with_loopback.send(0, 1, 1000);
  with_loopback.receive(1, 0, 1000);
  REQUIRE(with_loopback.run());
  CHECK(with_loopback.engine.clock(1) == Approx(2e-6 + 1016 / 1e9).epsilon(1e-12));
}

TEST_CASE("recorded messages tell their story") {
  Scenario s = two_hosts(raw_model());
  s.engine.recorder().keep_messages(true);
  s.compute(0, 1.0);
  s.send(0, 1, 65536, 5);
  s.compute(1, 3.0);
  s.receive(1, 0, 65536);
  REQUIRE(s.run());
  REQUIRE(s.engine.recorder().rows().size() == 1);
  const MessageRecord& row = s.engine.recorder().rows()[0];
  CHECK(row.source == 0);
  CHECK(row.destination == 1);
  CHECK(row.tag == 5);
  CHECK(row.bytes == 65536);
  CHECK(row.send_posted_s == 1.0);
  CHECK(row.recv_posted_s == 3.0);
  CHECK(row.start_s == 3.0);
  CHECK(row.end_s == s.engine.clock(1));
}

}  // namespace labkit::protocol_test
