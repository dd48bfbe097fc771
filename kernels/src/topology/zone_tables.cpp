#include <algorithm>
#include <stdexcept>
#include <utility>

#include "zone_router.hpp"

namespace labkit {
namespace {

[[noreturn]] void refuse_second() { throw std::invalid_argument("there already is a route"); }

/// Only the pairs that have a route take memory.
class FullRoutes final : public LocalRoutes {
 public:
  void add(std::int32_t src, std::int32_t dst, std::int32_t step, std::int32_t /*length*/) override {
    if (!table_.emplace(pair_key(src, dst), step).second) refuse_second();
  }
  bool find(std::int32_t src, std::int32_t dst, std::vector<std::int32_t>& steps) const override {
    const auto found = table_.find(pair_key(src, dst));
    if (found == table_.end()) return false;
    steps.push_back(found->second);
    return true;
  }

 private:
  std::unordered_map<std::uint64_t, std::int32_t> table_;
};

class GraphRoutes final : public LocalRoutes {
 public:
  explicit GraphRoutes(ShortestPaths::Ties ties) : ties_(ties) {}

  void add(std::int32_t src, std::int32_t dst, std::int32_t step, std::int32_t length) override {
    if (src == dst) {
      if (!loops_.emplace(src, step).second) refuse_second();
      return;
    }
    if (!given_.emplace(pair_key(src, dst), step).second) refuse_second();
    edges_.push_back({src, dst, length});
    steps_.push_back(step);
  }

  void seal(std::int32_t points) override {
    given_.clear();
    vertex_.assign(static_cast<std::size_t>(points), -1);
    std::int32_t next = 0;
    const auto name = [&](std::int32_t point) {
      std::int32_t& vertex = vertex_[static_cast<std::size_t>(point)];
      if (vertex < 0) vertex = next++;
      return vertex;
    };
    if (ties_ == ShortestPaths::Ties::floyd) {
      for (std::int32_t point = 0; point < points; ++point) name(point);
    }
    for (auto& edge : edges_) {
      edge.from = name(edge.from);
      edge.to = name(edge.to);
    }
    for (std::int32_t point = 0; point < points; ++point) name(point);
    paths_ = std::make_unique<ShortestPaths>(points, std::exchange(edges_, {}), ties_);
  }

  bool find(std::int32_t src, std::int32_t dst, std::vector<std::int32_t>& steps) const override {
    if (src == dst) {
      const auto found = loops_.find(src);
      if (found == loops_.end()) return false;
      steps.push_back(found->second);
      return true;
    }
    const std::size_t first = steps.size();
    if (!paths_->path(vertex_[static_cast<std::size_t>(src)], vertex_[static_cast<std::size_t>(dst)], steps)) {
      return false;
    }
    for (std::size_t i = first; i < steps.size(); ++i) steps[i] = steps_[static_cast<std::size_t>(steps[i])];
    return true;
  }

 private:
  ShortestPaths::Ties ties_;
  std::vector<ShortestPaths::Edge> edges_;
  std::unordered_map<std::uint64_t, std::int32_t> given_;
  std::unordered_map<std::int32_t, std::int32_t> loops_;
  std::vector<std::int32_t> steps_;   // by edge
  std::vector<std::int32_t> vertex_;  // by point
  std::unique_ptr<const ShortestPaths> paths_;
};

class StarRoutes final : public LocalRoutes {
 public:
  void add(std::int32_t src, std::int32_t dst, std::int32_t step, std::int32_t /*length*/) override {
    if (src >= 0 && dst >= 0 && src != dst) {
      throw std::invalid_argument("a route of a star leads from a point to the middle, back, or to itself");
    }
    const auto point = static_cast<std::size_t>(std::max(src, dst));
    if (point >= ends_.size()) ends_.resize(point + 1);
    std::int32_t& mine = src < 0 ? ends_[point].down : dst < 0 ? ends_[point].up : ends_[point].loop;
    if (mine != kNoStep) refuse_second();
    mine = step;
  }
  void seal(std::int32_t points) override { ends_.resize(static_cast<std::size_t>(points)); }
  bool find(std::int32_t src, std::int32_t dst, std::vector<std::int32_t>& steps) const override {
    const Ends& from = ends_[static_cast<std::size_t>(src)];
    const Ends& to = ends_[static_cast<std::size_t>(dst)];
    if (src == dst && from.loop != kNoStep) {
      steps.push_back(from.loop);
      return true;
    }
    if (from.up == kNoStep || to.down == kNoStep) return false;
    steps.push_back(from.up);
    steps.push_back(to.down);
    return true;
  }
  [[nodiscard]] bool has_common_loopback() const override { return false; }

 private:
  struct Ends {
    std::int32_t up = kNoStep;
    std::int32_t down = kNoStep;
    std::int32_t loop = kNoStep;
  };
  std::vector<Ends> ends_;
};

class NoRoutes final : public LocalRoutes {
 public:
  void add(std::int32_t, std::int32_t, std::int32_t, std::int32_t) override {
    throw std::invalid_argument("this zone has no routes");
  }
  bool find(std::int32_t, std::int32_t, std::vector<std::int32_t>&) const override { return false; }
};

}  // namespace

std::unique_ptr<LocalRoutes> make_local_routes(Routing routing) {
  switch (routing) {
    case Routing::full:
      return std::make_unique<FullRoutes>();
    case Routing::floyd:
      return std::make_unique<GraphRoutes>(ShortestPaths::Ties::floyd);
    case Routing::dijkstra:
      return std::make_unique<GraphRoutes>(ShortestPaths::Ties::dijkstra);
    case Routing::star:
      return std::make_unique<StarRoutes>();
    case Routing::none:
      return std::make_unique<NoRoutes>();
  }
  throw std::invalid_argument("an unknown kind of zone");
}

}  // namespace labkit
