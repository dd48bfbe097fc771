#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "labkit/engine/event_queue.hpp"
#include "random.hpp"

namespace labkit::event_queue_test {

using labkit::test::Random;

namespace {

struct Reference {
  Time at;
  std::uint32_t sequence;
};

std::vector<std::uint32_t> drain(EventQueue& queue) {
  std::vector<std::uint32_t> ids;
  Event event;
  do {
    while (queue.pop(event)) ids.push_back(event.id);
  } while (queue.advance());
  return ids;
}

}  // namespace

TEST_CASE("events come by time, then by order of pushing") {
  EventQueue queue;
  queue.push(2.0, {0, 1, 0});
  queue.push(1.0, {0, 2, 0});
  queue.push(2.0, {0, 3, 0});
  queue.push(0.0, {0, 4, 0});
  queue.push(1.0, {0, 5, 0});
  queue.push(-0.0, {0, 6, 0});
  CHECK(drain(queue) == std::vector<std::uint32_t>{4, 6, 2, 5, 1, 3});
  CHECK(queue.is_empty());
  CHECK(queue.now() == 2.0);
}

TEST_CASE("an event pushed for the current instant comes in the same instant, last") {
  EventQueue queue;
  queue.push(1.0, {0, 1, 0});
  queue.push(1.0, {0, 2, 0});
  REQUIRE(queue.advance());
  Event event;
  REQUIRE(queue.pop(event));
  CHECK(event.id == 1);
  queue.push(queue.now(), {0, 3, 0});
  CHECK(drain(queue) == std::vector<std::uint32_t>{2, 3});
}

TEST_CASE("random pushes and pops agree with a sort") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    EventQueue queue;
    std::vector<Reference> waiting;
    std::uint32_t sequence = 0;
    const bool has_ties = seed % 2 == 0;
    const auto push = [&] {
      const Time at = queue.now() + (has_ties ? static_cast<double>(random.below(8)) : random.unit());
      queue.push(at, {7, sequence, 0});
      waiting.push_back({at, sequence++});
    };
    for (int i = 0; i < 200; ++i) push();
    Event event;
    int pushes = 3000;
    for (;;) {
      if (!queue.pop(event)) {
        if (!queue.advance()) break;
        continue;
      }
      const auto least =
          std::min_element(waiting.begin(), waiting.end(), [](const Reference& a, const Reference& b) {
            return a.at < b.at || (a.at == b.at && a.sequence < b.sequence);
          });
      REQUIRE(least->sequence == event.id);
      REQUIRE(least->at == queue.now());
      REQUIRE(event.kind == 7);
      waiting.erase(least);
      for (std::size_t k = random.below(3); k > 0 && pushes > 0; --k, --pushes) push();
    }
    CHECK(waiting.empty());
    CHECK(queue.is_empty());
  }
}

}  // namespace labkit::event_queue_test
