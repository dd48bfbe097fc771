// Who copies when: the contract between the engine and the owner of the bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "scenario.hpp"

namespace labkit::payload_test {

using namespace labkit::test;

namespace {

/// Payloads are std::string objects; counts every call.
class Strings final : public Client {
 public:
  void snapshot(Request& send) override {
    ++snapshots;
    ++alive;
    send.payload = new std::string(*static_cast<std::string*>(send.payload));
  }
  void deliver(Request& send, Request& receive) override {
    ++deliveries;
    auto* from = static_cast<std::string*>(send.payload);
    static_cast<std::string*>(receive.payload)->assign(*from, 0, std::min(send.bytes, receive.bytes));
    if (send.has_snapshot) drop(send);
  }
  void discard(Request& send) override {
    ++discards;
    drop(send);
  }
  void completed(Request& request) override { completions.push_back(request.owner); }

  int snapshots = 0;
  int deliveries = 0;
  int discards = 0;
  int alive = 0;
  std::vector<Rank> completions;

 private:
  void drop(Request& send) {
    delete static_cast<std::string*>(send.payload);
    send.payload = nullptr;
    --alive;
  }
};

struct Pair {
  Strings client;  // outlives the engine: snapshots that nobody received go back to it
  Scenario s;
  std::string sent;
  std::string got;

  explicit Pair(Model model) : s(plain_star(2), std::move(model), 2) {}
  RequestId send(std::uint64_t bytes, SendMode mode = SendMode::standard) {
    sent = std::string(bytes, 'x');
    SendPost post;
    post.dest = 1;
    post.bytes = bytes;
    post.mode = mode;
    post.payload = &sent;
    post.client = &client;
    post.wants_completed = true;
    return s.engine.send(post);
  }
  RequestId receive(std::uint64_t capacity) {
    ReceivePost post;
    post.rank = 1;
    post.capacity_bytes = capacity;
    post.payload = &got;
    post.client = &client;
    post.wants_completed = true;
    return s.engine.receive(post);
  }
};

}  // namespace

TEST_CASE("detached, unexpected: copied when posted, handed over when matched") {
  Pair pair(raw_model());
  pair.s.add(0, [&] {
    pair.s.engine.release(pair.send(5));
    pair.sent = "#####";  // the buffer is the sender's again
    return true;
  });
  pair.s.compute(1, 1.0);
  pair.s.add(1, [&] { return pair.s.engine.wait(1, pair.receive(5)); });
  REQUIRE(pair.s.run());
  CHECK(pair.got == "xxxxx");
  CHECK(pair.client.snapshots == 1);
  CHECK(pair.client.deliveries == 1);
  CHECK(pair.client.alive == 0);
  CHECK(pair.client.completions == std::vector<Rank>{0, 1});
}

TEST_CASE("detached, expected: straight from buffer to buffer") {
  Pair pair(raw_model());
  pair.s.compute(0, 1.0);
  pair.s.add(0, [&] { return pair.s.engine.sync(0); });
  pair.s.add(0, [&] {
    pair.s.engine.release(pair.send(5));
    CHECK(pair.got == "xxxxx");
    return true;
  });
  pair.s.add(1, [&] { return pair.s.engine.wait(1, pair.receive(5)); });
  REQUIRE(pair.s.run());
  CHECK(pair.client.snapshots == 0);
  CHECK(pair.client.deliveries == 1);
}

TEST_CASE("detached by a clock ahead: copied at once, for the owner goes on at once") {
  Pair pair(raw_model());
  pair.s.compute(0, 1.0);
  pair.s.add(0, [&] {
    pair.s.engine.release(pair.send(5));
    pair.sent = "#####";
    return true;
  });
  pair.s.add(1, [&] { return pair.s.engine.wait(1, pair.receive(3)); });
  REQUIRE(pair.s.run());
  CHECK(pair.got == "xxx");
  CHECK(pair.client.snapshots == 1);
  CHECK(pair.client.alive == 0);
}

TEST_CASE("rendezvous and synchronous: never copied aside") {
  for (const bool is_synchronous : {false, true}) {
    Pair pair(raw_model());
    const std::uint64_t bytes = is_synchronous ? 8 : 1 << 17;
    pair.s.add(0, [&] {
      const SendMode mode = is_synchronous ? SendMode::synchronous : SendMode::standard;
      return pair.s.engine.wait(0, pair.send(bytes, mode));
    });
    pair.s.compute(1, 1.0);
    pair.s.add(1, [&] { return pair.s.engine.wait(1, pair.receive(bytes)); });
    REQUIRE(pair.s.run());
    CHECK(pair.got.size() == bytes);
    CHECK(pair.client.snapshots == 0);
    CHECK(pair.client.deliveries == 1);
    CHECK(pair.client.completions == std::vector<Rank>{0, 1});
  }
}

TEST_CASE("buffered sends are copied whatever their size") {
  Pair pair(raw_model());
  pair.s.add(0, [&] {
    pair.s.engine.release(pair.send(1 << 17, SendMode::buffered));
    CHECK(pair.s.engine.clock(0) == 0.0);
    return true;
  });
  pair.s.compute(1, 1.0);
  pair.s.add(1, [&] { return pair.s.engine.wait(1, pair.receive(1 << 17)); });
  REQUIRE(pair.s.run());
  CHECK(pair.client.snapshots == 1);
  CHECK(pair.got.size() == 1 << 17);
}

TEST_CASE("what nobody receives is given back") {
  Strings client;
  {
    Engine engine(make_star(plain_star(2)), raw_model(), {0, 1});
    std::string text = "hello";
    SendPost post;
    post.dest = 1;
    post.bytes = 5;
    post.payload = &text;
    post.client = &client;
    engine.release(engine.send(post));
    const RequestId cancelled = engine.send(post);
    CHECK(engine.cancel(cancelled));
    CHECK(client.discards == 1);
    (void)engine.compute(0, 1.0);
    engine.release(engine.send(post));  // queued for later, never acts
    CHECK(client.alive == 2);
  }
  CHECK(client.discards == 3);
  CHECK(client.alive == 0);
}

}  // namespace labkit::payload_test
