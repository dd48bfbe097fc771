// Shortest paths in a directed graph, one tree per source, computed when first asked for.
//
// Among equally short paths the choice is that of the algorithm of the same name, run over the whole
// graph with its vertices in rising order:
//   dijkstra: a vertex's predecessor is the one that is nearest to the source; of equally near ones,
//             the lowest.
//   floyd:    the path whose highest inner vertex is lowest; of those, the one whose highest inner vertex
//             behind that one is lowest, and so on. (Floyd and Warshall's loops replace a path only by a
//             shorter one, so the final path of a pair is found in the round of its highest inner vertex.)
//
// A vertex that hangs on one other vertex is on no path but its own, so only the others (the switches of
// a network) have trees: at most `most_entries` predecessors are kept, the oldest tree goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace labkit {

class ShortestPaths {
 public:
  enum class Ties : std::uint8_t { floyd, dijkstra };
  struct Edge {
    std::int32_t from;
    std::int32_t to;
    std::int32_t length;  ///< at least 1
  };
  /// Throws std::invalid_argument for a vertex that is not there, an edge from a vertex to itself, a
  /// second edge between two vertices, and a length below 1.
  ShortestPaths(std::int32_t vertices, std::vector<Edge> edges, Ties ties,
                std::size_t most_entries = std::size_t{1} << 24);
  /// Appends the numbers of the edges from src to dst, in order; false, with nothing appended, when
  /// there is no way. src != dst.
  bool path(std::int32_t src, std::int32_t dst, std::vector<std::int32_t>& out) const;
  [[nodiscard]] const Edge& edge(std::int32_t number) const {
    return edges_[static_cast<std::size_t>(number)];
  }
  /// How many predecessors are kept at the moment.
  [[nodiscard]] std::size_t kept_entries() const { return kept_.size() * inner_.size(); }

 private:
  using Tree = std::vector<std::int32_t>;  // the edge that leads to each inner vertex, or -1
  struct Hop {
    std::int32_t edge;
    std::int32_t to;  // inner number
  };
  void check(std::int32_t vertices) const;
  void find_leaves(std::int32_t vertices);
  void list_hops();
  const Tree& tree(std::int32_t root) const;
  [[nodiscard]] Tree grow(std::int32_t root) const;
  void grow_floyd(Tree& tree, const std::vector<std::int64_t>& distance,
                  const std::vector<std::int32_t>& order) const;

  std::vector<Edge> edges_;
  Ties ties_;
  std::size_t most_trees_;
  std::vector<std::int32_t> inner_of_;  // vertex -> inner number, or -1 for a leaf
  std::vector<std::int32_t> inner_;     // inner number -> vertex
  std::vector<std::int32_t> leaf_out_;  // of a leaf: its edge out and in
  std::vector<std::int32_t> leaf_in_;
  std::vector<std::size_t> first_hop_;  // of inner vertices, size + 1
  std::vector<Hop> hops_;
  mutable std::vector<Tree> trees_;          // by inner root; empty until asked for
  mutable std::deque<std::int32_t> kept_;    // roots with a tree, oldest first
};

}  // namespace labkit
