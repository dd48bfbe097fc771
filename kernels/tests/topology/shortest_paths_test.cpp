#include "labkit/topology/shortest_paths.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

#include "random.hpp"

namespace labkit::shortest_paths_test {


namespace {

using Edge = ShortestPaths::Edge;
using Ties = ShortestPaths::Ties;
using Matrix = std::vector<std::vector<long>>;
constexpr long kFar = std::numeric_limits<long>::max() / 4;

/// Predecessors of every pair by the three loops, as the textbook writes them.
Matrix floyd(std::size_t n, const std::vector<Edge>& edges) {
  Matrix cost(n, std::vector<long>(n, kFar));
  Matrix before(n, std::vector<long>(n, -1));
  for (const Edge& e : edges) {
    cost[static_cast<std::size_t>(e.from)][static_cast<std::size_t>(e.to)] = e.length;
    before[static_cast<std::size_t>(e.from)][static_cast<std::size_t>(e.to)] = e.from;
  }
  for (std::size_t c = 0; c < n; ++c)
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        if (cost[a][c] < kFar && cost[c][b] < kFar && cost[a][c] + cost[c][b] < cost[a][b]) {
          cost[a][b] = cost[a][c] + cost[c][b];
          before[a][b] = before[c][b];
        }
  return before;
}

/// Predecessors from one source: repeatedly settle the nearest unsettled vertex, the lowest of several.
Matrix dijkstra(std::size_t n, const std::vector<Edge>& edges) {
  Matrix before(n, std::vector<long>(n, -1));
  for (std::size_t source = 0; source < n; ++source) {
    std::vector<long> cost(n, kFar);
    std::vector<bool> is_settled(n, false);
    cost[source] = 0;
    for (std::size_t round = 0; round < n; ++round) {
      std::size_t v = n;
      for (std::size_t i = 0; i < n; ++i)
        if (!is_settled[i] && cost[i] < kFar && (v == n || cost[i] < cost[v])) v = i;
      if (v == n) break;
      is_settled[v] = true;
      for (const Edge& e : edges) {
        const auto to = static_cast<std::size_t>(e.to);
        if (static_cast<std::size_t>(e.from) != v || cost[v] + e.length >= cost[to]) continue;
        cost[to] = cost[v] + e.length;
        before[source][to] = e.from;
      }
    }
  }
  return before;
}

void check_against(const Matrix& before, std::size_t n, const std::vector<Edge>& edges, Ties ties,
                   std::size_t most) {
  const ShortestPaths paths(static_cast<std::int32_t>(n), edges, ties, most);
  for (std::size_t src = 0; src < n; ++src) {
    for (std::size_t dst = 0; dst < n; ++dst) {
      if (src == dst) continue;
      std::vector<std::int32_t> found{-7};
      const bool is_there = paths.path(static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), found);
      REQUIRE(is_there == (before[src][dst] >= 0));
      REQUIRE(found.front() == -7);
      if (!is_there) REQUIRE(found.size() == 1);
      long v = static_cast<long>(dst);
      for (std::size_t i = found.size() - 1; is_there && i > 0; --i) {
        const Edge& e = paths.edge(found[i]);
        REQUIRE(e.to == v);
        REQUIRE(e.from == before[src][static_cast<std::size_t>(v)]);
        v = e.from;
      }
      if (is_there) REQUIRE(v == static_cast<long>(src));
    }
  }
  CHECK(paths.kept_entries() <= std::max(most, n));
}

/// Vertices with few or many leaves, cables both ways or one way, and lengths that make ties.
std::vector<Edge> random_edges(test::Random& random, std::int32_t n) {
  std::vector<std::vector<bool>> has(static_cast<std::size_t>(n),
                                     std::vector<bool>(static_cast<std::size_t>(n), false));
  std::vector<Edge> edges;
  const auto join = [&](std::int32_t a, std::int32_t b, std::int32_t length) {
    if (a == b || has[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]) return;
    has[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = true;
    edges.push_back({a, b, length});
  };
  const auto below = [&](std::int32_t bound) {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(bound)));
  };
  const std::int32_t count = below(3 * n);
  const bool is_directed = below(4) == 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t a = below(n);
    const std::int32_t b = below(n);
    const std::int32_t length = 1 + below(3);
    join(a, b, length);
    if (!is_directed) join(b, a, length);
  }
  return edges;
}

}  // namespace

TEST_CASE("paths and their ties are those of the textbook's loops") {
  test::Random random(20240607);
  for (int round = 0; round < 400; ++round) {
    const auto n = 1 + static_cast<std::int32_t>(random.below(14));
    const auto edges = random_edges(random, n);
    const auto size = static_cast<std::size_t>(n);
    check_against(floyd(size, edges), size, edges, Ties::floyd, 1 << 20);
    check_against(dijkstra(size, edges), size, edges, Ties::dijkstra, 1 << 20);
  }
}

TEST_CASE("a small memory changes no path") {
  test::Random random(5);
  for (int round = 0; round < 40; ++round) {
    const auto edges = random_edges(random, 12);
    check_against(floyd(12, edges), 12, edges, Ties::floyd, 30);
    check_against(dijkstra(12, edges), 12, edges, Ties::dijkstra, 1);
  }
}

TEST_CASE("hosts on switches take no trees") {
  std::vector<Edge> edges;  // two switches, 0 and 1, with a thousand hosts each
  edges.push_back({0, 1, 1});
  edges.push_back({1, 0, 1});
  for (std::int32_t host = 2; host < 2002; ++host) {
    edges.push_back({host, host % 2, 1});
    edges.push_back({host % 2, host, 1});
  }
  const ShortestPaths paths(2002, edges, Ties::floyd);
  std::vector<std::int32_t> found;
  for (std::int32_t host = 3; host < 2002; ++host) {
    found.clear();
    REQUIRE(paths.path(2, host, found));
    CHECK(found.size() == (host % 2 == 0 ? 2 : 3));
  }
  CHECK(paths.kept_entries() == 2);
}

TEST_CASE("impossible graphs are refused") {
  CHECK_THROWS_AS(ShortestPaths(2, {{0, 2, 1}}, Ties::floyd), std::invalid_argument);
  CHECK_THROWS_AS(ShortestPaths(2, {{1, 1, 1}}, Ties::floyd), std::invalid_argument);
  CHECK_THROWS_AS(ShortestPaths(2, {{0, 1, 0}}, Ties::floyd), std::invalid_argument);
  CHECK_THROWS_AS(ShortestPaths(2, {{0, 1, 1}, {0, 1, 2}}, Ties::floyd), std::invalid_argument);
}

}  // namespace labkit::shortest_paths_test
