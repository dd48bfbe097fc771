#include "labkit/topology/shortest_paths.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

namespace labkit {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

// The highest inner vertices of a path, from its source on, each the highest behind the one before:
// a list from the last one back. Paths share their beginnings.
struct Peaks {
  std::int32_t vertex;
  std::int32_t before;  // -1: none
  std::int32_t count;
};

class PeakLists {
 public:
  /// The list of a path that goes on over one more inner vertex.
  std::int32_t extended(std::int32_t list, std::int32_t vertex) {
    while (list >= 0 && all_[at(list)].vertex < vertex) list = all_[at(list)].before;
    all_.push_back({vertex, list, count(list) + 1});
    return static_cast<std::int32_t>(all_.size()) - 1;
  }
  /// Whether a comes before b: compared from the source on, a beginning of the other comes first.
  [[nodiscard]] bool is_before(std::int32_t a, std::int32_t b) const {
    const bool is_shorter = count(a) < count(b);
    while (count(a) > count(b)) a = all_[at(a)].before;
    while (count(b) > count(a)) b = all_[at(b)].before;
    bool is_less = is_shorter;
    for (; a != b; a = all_[at(a)].before, b = all_[at(b)].before) {
      if (all_[at(a)].vertex != all_[at(b)].vertex) is_less = all_[at(a)].vertex < all_[at(b)].vertex;
    }
    return is_less;
  }

 private:
  [[nodiscard]] std::int32_t count(std::int32_t list) const { return list < 0 ? 0 : all_[at(list)].count; }
  std::vector<Peaks> all_;
};

}  // namespace

ShortestPaths::ShortestPaths(std::int32_t vertices, std::vector<Edge> edges, Ties ties,
                             std::size_t most_entries)
    : edges_(std::move(edges)), ties_(ties) {
  check(vertices);
  find_leaves(vertices);
  list_hops();
  most_trees_ = std::max<std::size_t>(1, most_entries / std::max<std::size_t>(1, inner_.size()));
  trees_.resize(inner_.size());
}

void ShortestPaths::check(std::int32_t vertices) const {
  std::vector<std::pair<std::int32_t, std::int32_t>> ends;
  for (const Edge& edge : edges_) {
    if (edge.from < 0 || edge.from >= vertices || edge.to < 0 || edge.to >= vertices) {
      throw std::invalid_argument("an edge ends at a vertex that is not there");
    }
    if (edge.from == edge.to) throw std::invalid_argument("an edge leads from a vertex to itself");
    if (edge.length < 1) throw std::invalid_argument("an edge is shorter than 1");
    ends.emplace_back(edge.from, edge.to);
  }
  std::sort(ends.begin(), ends.end());
  if (std::adjacent_find(ends.begin(), ends.end()) != ends.end()) {
    throw std::invalid_argument("two edges lead from one vertex to the same other");
  }
}

/// A leaf has one edge out and one in, both of the same neighbor, which has others, too.
void ShortestPaths::find_leaves(std::int32_t vertices) {
  const auto size = at(vertices);
  std::vector<std::int32_t> outs(size, 0);
  std::vector<std::int32_t> ins(size, 0);
  leaf_out_.assign(size, -1);
  leaf_in_.assign(size, -1);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    ++outs[at(edges_[i].from)];
    ++ins[at(edges_[i].to)];
    leaf_out_[at(edges_[i].from)] = leaf_in_[at(edges_[i].to)] = static_cast<std::int32_t>(i);
  }
  inner_of_.assign(size, -1);
  for (std::size_t v = 0; v < size; ++v) {
    bool is_leaf = outs[v] == 1 && ins[v] == 1;
    if (is_leaf) {
      const std::int32_t neighbor = edge(leaf_out_[v]).to;
      is_leaf = edge(leaf_in_[v]).from == neighbor && outs[at(neighbor)] > 1;
    }
    if (is_leaf) continue;
    inner_of_[v] = static_cast<std::int32_t>(inner_.size());
    inner_.push_back(static_cast<std::int32_t>(v));
  }
}

void ShortestPaths::list_hops() {
  first_hop_.assign(inner_.size() + 1, 0);
  for (const Edge& edge : edges_) {
    const std::int32_t from = inner_of_[at(edge.from)];
    if (from >= 0 && inner_of_[at(edge.to)] >= 0) ++first_hop_[at(from) + 1];
  }
  for (std::size_t v = 0; v < inner_.size(); ++v) first_hop_[v + 1] += first_hop_[v];
  hops_.resize(first_hop_.back());
  std::vector<std::size_t> next(first_hop_.begin(), first_hop_.end() - 1);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const std::int32_t from = inner_of_[at(edges_[i].from)];
    const std::int32_t to = inner_of_[at(edges_[i].to)];
    if (from >= 0 && to >= 0) hops_[next[at(from)]++] = {static_cast<std::int32_t>(i), to};
  }
}

const ShortestPaths::Tree& ShortestPaths::tree(std::int32_t root) const {
  Tree& found = trees_[at(root)];
  if (found.empty()) {
    if (kept_.size() >= most_trees_) {
      Tree().swap(trees_[at(kept_.front())]);
      kept_.pop_front();
    }
    found = grow(root);
    kept_.push_back(root);
  }
  return found;
}

/// Vertices are settled by (distance, number); a later predecessor must be strictly better.
ShortestPaths::Tree ShortestPaths::grow(std::int32_t root) const {
  using Entry = std::pair<std::int64_t, std::int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<std::int64_t> distance(inner_.size(), kFar);
  std::vector<std::int32_t> order;
  Tree tree(inner_.size(), -1);
  distance[at(root)] = 0;
  queue.emplace(0, root);
  while (!queue.empty()) {
    const auto [far, v] = queue.top();
    queue.pop();
    if (far > distance[at(v)]) continue;
    order.push_back(v);
    for (std::size_t i = first_hop_[at(v)]; i < first_hop_[at(v) + 1]; ++i) {
      const Hop& hop = hops_[i];
      const std::int64_t way = far + edge(hop.edge).length;
      if (way >= distance[at(hop.to)]) continue;
      distance[at(hop.to)] = way;
      tree[at(hop.to)] = hop.edge;
      queue.emplace(way, hop.to);
    }
  }
  if (ties_ == Ties::floyd) grow_floyd(tree, distance, order);
  return tree;
}

/// In order of distance, every hop on a shortest path offers its end one more list of peaks.
void ShortestPaths::grow_floyd(Tree& tree, const std::vector<std::int64_t>& distance,
                               const std::vector<std::int32_t>& order) const {
  PeakLists lists;
  std::vector<std::int32_t> best(inner_.size(), -1);
  std::vector<bool> has_one(inner_.size(), false);
  const std::int32_t root = order.front();
  for (const std::int32_t v : order) {
    std::int32_t offered = v == root ? -1 : lists.extended(best[at(v)], v);
    for (std::size_t i = first_hop_[at(v)]; i < first_hop_[at(v) + 1]; ++i) {
      const Hop& hop = hops_[i];
      if (distance[at(v)] + edge(hop.edge).length != distance[at(hop.to)]) continue;
      if (has_one[at(hop.to)] && !lists.is_before(offered, best[at(hop.to)])) continue;
      has_one[at(hop.to)] = true;
      best[at(hop.to)] = offered;
      tree[at(hop.to)] = hop.edge;
    }
  }
}

bool ShortestPaths::path(std::int32_t src, std::int32_t dst, std::vector<std::int32_t>& out) const {
  const std::size_t first = out.size();
  std::int32_t from = inner_of_[at(src)];
  std::int32_t to = inner_of_[at(dst)];
  if (from < 0) {
    out.push_back(leaf_out_[at(src)]);
    from = inner_of_[at(edge(out.back()).to)];
  }
  const std::int32_t last = to < 0 ? leaf_in_[at(dst)] : -1;
  if (last >= 0) to = inner_of_[at(edge(last).from)];
  const std::size_t begin = out.size();
  if (from != to) {
    const Tree& way = tree(from);
    for (std::int32_t v = to; v != from;) {
      const std::int32_t hop = way[at(v)];
      if (hop < 0) {
        out.resize(first);
        return false;
      }
      out.push_back(hop);
      v = inner_of_[at(edge(hop).from)];
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
  }
  if (last >= 0) out.push_back(last);
  return true;
}

}  // namespace labkit
