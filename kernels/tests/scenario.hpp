// Small programs for the engine's tests: every rank is a list of steps, run by a driver in C++.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "labkit/engine/engine.hpp"
#include "labkit/topology/star.hpp"

namespace labkit::test {

inline Model raw_model() { return {}; }

inline Model cm02_model() {
  Model model;
  model.name = "cm02";
  model.tcp_gamma_bytes = 4194304;
  model.cross_traffic = true;
  return model;
}

inline Model lv08_model() {
  Model model = cm02_model();
  model.name = "lv08";
  model.weight_s_bytes = 20537;
  model.latency_factor = SizeFactor(13.01);
  model.bandwidth_factor = SizeFactor(0.97);
  return model;
}

inline Model smpi_model() {
  Model model = cm02_model();
  model.name = "smpi";
  model.weight_s_bytes = 8775;
  using Steps = std::vector<SizeFactor::Step>;
  model.bandwidth_factor = SizeFactor(Steps{{0, .812084},
                                            {257, .338112},
                                            {732, .341987},
                                            {1426, .608902},
                                            {3484, .77493},
                                            {5776, 1.08739},
                                            {9376, .58729},
                                            {15424, .697866},
                                            {65472, .940694}});
  model.latency_factor = SizeFactor(Steps{{0, 2.01467},
                                          {257, 1.95341},
                                          {732, 1.9503},
                                          {1426, 1.61075},
                                          {3484, 1.88101},
                                          {5776, 2.18796},
                                          {9376, 2.59299},
                                          {15424, 3.48845},
                                          {65472, 11.6436}});
  return model;
}

inline std::vector<HostId> one_rank_per_host(Rank ranks) {
  std::vector<HostId> hosts;
  for (Rank r = 0; r < ranks; ++r) hosts.push_back(r);
  return hosts;
}

inline StarSpec plain_star(std::int32_t hosts, double bandwidth = 1e9, double latency = 1e-6) {
  StarSpec spec;
  spec.hosts = hosts;
  spec.link = {bandwidth, latency};
  return spec;
}

/// Runs one list of steps per rank. A step returns true to go on at once, false when it blocked.
class Scenario {
 public:
  using Step = std::function<bool()>;
  Scenario(const StarSpec& spec, Model model, Rank ranks)
      : engine(make_star(spec), std::move(model), one_rank_per_host(ranks)),
        steps_(static_cast<std::size_t>(ranks)),
        next_(static_cast<std::size_t>(ranks), 0) {}
  Scenario(const StarSpec& spec, Model model, std::vector<HostId> hosts)
      : engine(make_star(spec), std::move(model), hosts),
        steps_(hosts.size()),
        next_(hosts.size(), 0) {}

  void add(Rank rank, Step step) { steps_[static_cast<std::size_t>(rank)].push_back(std::move(step)); }
  void compute(Rank rank, double seconds) {
    add(rank, [this, rank, seconds] { return engine.compute(rank, seconds); });
  }
  void send(Rank rank, Rank dest, std::uint64_t bytes, std::int32_t tag = 0,
            SendMode mode = SendMode::standard) {
    add(rank, [=, this] {
      SendPost post;
      post.rank = rank;
      post.dest = dest;
      post.bytes = bytes;
      post.tag = tag;
      post.mode = mode;
      post.is_blocking = true;
      return wait_and_release(rank, engine.send(post));
    });
  }
  void receive(Rank rank, Rank source, std::uint64_t capacity, std::int32_t tag = kAnyTag) {
    add(rank, [=, this] {
      ReceivePost post;
      post.rank = rank;
      post.source = source;
      post.tag = tag;
      post.capacity_bytes = capacity;
      return wait_and_release(rank, engine.receive(post));
    });
  }

  /// True when every rank came to its end.
  bool run() {
    for (Rank r = 0; r < engine.rank_count(); ++r) engine.start(r);
    for (;;) {
      Advance what = engine.advance(1000);
      for (; what == Advance::paused; what = engine.advance(1000)) ++pauses;
      if (what == Advance::idle) break;
      for (Rank r = engine.next_ready(); r >= 0; r = engine.next_ready()) resume(r);
    }
    bool is_over = true;
    for (Rank r = 0; r < engine.rank_count(); ++r) {
      is_over = is_over && engine.blocked(r) == Blocked::finished;
    }
    return is_over;
  }

  Engine engine;
  int pauses = 0;  // of advance()

 private:
  bool wait_and_release(Rank rank, RequestId id) {
    const bool goes_on = engine.wait(rank, id);
    engine.release(id);
    return goes_on;
  }
  void resume(Rank rank) {
    const std::size_t r = static_cast<std::size_t>(rank);
    while (next_[r] < steps_[r].size()) {
      if (!steps_[r][next_[r]++]()) return;
    }
    engine.finish(rank);
  }

  std::vector<std::vector<Step>> steps_;
  std::vector<std::size_t> next_;
};

// Posts for steps written out by hand.

inline RequestId post_receive(Scenario& s, Rank rank, Rank source, std::int32_t tag = kAnyTag) {
  ReceivePost post;
  post.rank = rank;
  post.source = source;
  post.tag = tag;
  post.capacity_bytes = 1 << 20;
  return s.engine.receive(post);
}

inline RequestId post_send(Scenario& s, Rank rank, Rank dest, std::uint64_t bytes,
                           std::int32_t tag = 0) {
  SendPost post;
  post.rank = rank;
  post.dest = dest;
  post.bytes = bytes;
  post.tag = tag;
  return s.engine.send(post);
}

}  // namespace labkit::test
