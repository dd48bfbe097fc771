// MPI's rule: a message goes to the oldest fitting receive, a receive gets the oldest fitting
// message. The oracle is a plain list that is searched from its beginning.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "labkit/engine/matching.hpp"
#include "random.hpp"

namespace labkit::matching_test {

using labkit::test::Random;

namespace {

struct Item {
  std::uint32_t index;
  Rank source;
  std::int32_t tag;
  Context context;
};

bool fits(const Item& receive, const Item& send) {
  return receive.context == send.context &&
         (receive.source == kAnySource || receive.source == send.source) &&
         (receive.tag == kAnyTag || receive.tag == send.tag);
}

/// Both queues of one rank, as slowly and as plainly as possible.
struct Oracle {
  std::vector<Item> receives;
  std::vector<Item> sends;
  std::map<std::uint32_t, std::uint32_t> searched;  // by index: entries looked at in vain

  std::uint32_t take(std::vector<Item>& from, const Item& item, bool is_send) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!(is_send ? fits(from[i], item) : fits(item, from[i]))) continue;
      const std::uint32_t index = from[i].index;
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
      searched[is_send ? index : item.index] = static_cast<std::uint32_t>(i) + searched[index];
      return index;
    }
    searched[item.index] = static_cast<std::uint32_t>(from.size());
    return kNone;
  }
};

struct Bench {
  explicit Bench(std::uint64_t seed) : matching(slab, 2, true), random(seed) {}

  std::uint32_t make(RequestKind kind, const Item& item) {
    const std::uint32_t index = slab.allocate();
    Request& request = slab.at(index);
    request.kind = kind;
    request.state = RequestState::posted;
    request.owner = kind == RequestKind::send ? item.source : 0;
    request.peer = kind == RequestKind::send ? 0 : item.source;
    request.tag = item.tag;
    request.context = item.context;
    return index;
  }

  void send(Item item) {
    item.index = make(RequestKind::send, item);
    const std::uint32_t expected = oracle.take(oracle.receives, item, true);
    const std::uint32_t got = matching.take_receive(item.index);
    REQUIRE(got == expected);
    if (got == kNone) {
      matching.add_send(item.index);
      oracle.sends.push_back(item);
    } else {
      REQUIRE(matching.take_searched(got) == oracle.searched[got]);
      slab.free(item.index);
      slab.free(got);
    }
  }

  void receive(Item item) {
    item.index = make(RequestKind::receive, item);
    REQUIRE(matching.find_send(0, item.source, item.tag, item.context) == peek(item));
    const std::uint32_t expected = oracle.take(oracle.sends, item, false);
    const std::uint32_t got = matching.take_send(item.index);
    REQUIRE(got == expected);
    if (got == kNone) {
      matching.add_receive(item.index);
      oracle.receives.push_back(item);
    } else {
      REQUIRE(matching.take_searched(item.index) == oracle.searched[item.index]);
      slab.free(item.index);
      slab.free(got);
    }
  }

  [[nodiscard]] std::uint32_t peek(const Item& item) const {
    for (const Item& send : oracle.sends) {
      if (fits(item, send)) return send.index;
    }
    return kNone;
  }

  void remove_one(std::vector<Item>& from) {
    if (from.empty()) return;
    const std::size_t i = random.below(from.size());
    matching.remove(from[i].index);
    slab.free(from[i].index);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
  }

  RequestSlab slab;
  Matching matching;
  Oracle oracle;
  Random random;
};

void exercise(std::uint64_t seed, std::size_t sources, std::size_t tags, std::size_t bias,
              std::size_t wildcards, int steps) {
  Bench bench(seed);
  Random& random = bench.random;
  std::size_t longest = 0;
  for (int i = 0; i < steps; ++i) {
    // Swing between more sends and more receives, so that both queues grow long and empty again.
    const std::size_t towards_sends = (i / 700) % 2 == 0 ? bias : 10 - bias;
    Item item{0, static_cast<Rank>(random.below(sources)),
              static_cast<std::int32_t>(random.below(tags)),
              static_cast<Context>(random.below(2))};
    if (random.below(50) == 0) {
      bench.remove_one(random.below(2) == 0 ? bench.oracle.sends : bench.oracle.receives);
    } else if (random.below(10) < towards_sends) {
      bench.send(item);
    } else {
      if (random.below(10) < wildcards) item.source = kAnySource;
      if (random.below(10) < wildcards) item.tag = kAnyTag;
      bench.receive(item);
    }
    longest = std::max({longest, bench.oracle.sends.size(), bench.oracle.receives.size()});
  }
  CHECK(longest > 50);
}

}  // namespace

TEST_CASE("random posts match as the oracle says: exact receives") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) exercise(seed, 40, 5, 7, 0, 4000);
}

TEST_CASE("random posts match as the oracle says: few wildcards") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) exercise(100 + seed, 40, 5, 8, 1, 4000);
}

TEST_CASE("random posts match as the oracle says: many wildcards") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) exercise(200 + seed, 200, 50, 9, 5, 4000);
}

TEST_CASE("a stream between two ranks keeps its order") {
  Bench bench(1);
  for (int i = 0; i < 500; ++i) bench.send({0, 3, 1, 0});
  for (int i = 0; i < 500; ++i) bench.receive({0, i % 3 == 0 ? kAnySource : 3, i % 2 == 0 ? kAnyTag : 1, 0});
  CHECK(bench.oracle.sends.empty());
  for (int i = 0; i < 500; ++i) bench.receive({0, 3, 1, 0});
  for (int i = 0; i < 500; ++i) bench.send({0, 3, 1, 0});
  CHECK(bench.oracle.receives.empty());
  CHECK(bench.slab.live_count() == 0);
}

}  // namespace labkit::matching_test
