// Random routes, random messages, and the network alone: when does each message end?
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "labkit/network/network.hpp"
#include "random.hpp"
#include "scenario.hpp"

namespace labkit::test {

/// Random routes over a few links, fixed by the pair: flows meet everywhere.
class RandomRouter final : public Router {
 public:
  RandomRouter(std::size_t links, std::uint64_t seed) : links_(links), seed_(seed) {}
  void route(HostId src, HostId dst, Route& out) const override {
    Random random(seed_ + static_cast<std::uint64_t>(src) * 1000 + static_cast<std::uint64_t>(dst));
    const std::size_t count = 1 + random.below(4);
    for (std::size_t i = 0; i < count; ++i) {
      const LinkId link = static_cast<LinkId>(random.below(links_));
      if (std::find(out.links.begin(), out.links.end(), link) != out.links.end()) continue;
      out.links.push_back(link);
      out.latency_s += 1e-6 * static_cast<double>(1 + link % 3);
    }
  }
  [[nodiscard]] std::string link_name(LinkId link) const override { return std::to_string(link); }
  [[nodiscard]] std::string describe() const override { return "random routes"; }

 private:
  std::size_t links_;
  std::uint64_t seed_;
};

inline std::shared_ptr<const Platform> random_platform(std::size_t hosts, std::size_t links, std::uint64_t seed,
                                                bool has_pipes) {
  Random random(seed);
  std::vector<Link> all;
  for (std::size_t i = 0; i < links; ++i) {
    const Policy policy = has_pipes && random.below(4) == 0 ? Policy::fatpipe : Policy::shared;
    all.push_back({1e8 * (0.2 + random.unit()), 1e-6 * static_cast<double>(1 + i % 3), policy});
  }
  return std::make_shared<const Platform>(std::vector<Host>(hosts, Host{1e9, 1}), all,
                                          std::make_unique<const RandomRouter>(links, seed));
}

struct Ran {
  std::vector<Time> ends;
  std::uint64_t repairs = 0;
  std::uint64_t rebuilds = 0;
  std::uint64_t solves = 0;
};

struct Load {
  std::size_t messages = 400;
  double spread_s = 1e-2;
  std::uint64_t largest_bytes = 200000;
  std::uint64_t least_bytes = 0;
};

inline Ran simulate(std::shared_ptr<const Platform> platform, const Model& model, SharingOptions options, const Load& load,
             std::uint64_t seed) {
  EventQueue queue;
  Network network(platform, model, queue, {1, 2}, options);
  Random random(seed);
  Ran ran;
  struct Message {
    HostId from, to;
    std::uint64_t bytes;
  };
  std::vector<Message> messages;
  for (std::uint32_t i = 0; i < load.messages; ++i) {
    const std::size_t hosts = platform->host_count();
    messages.push_back({static_cast<HostId>(random.below(hosts)), static_cast<HostId>(random.below(hosts)),
                        load.least_bytes + random.below(load.largest_bytes)});
    queue.push(load.spread_s * random.unit(), {0, i, 0});
  }
  ran.ends.assign(messages.size(), kNever);
  for (;;) {
    Event event;
    while (queue.pop(event)) {
      std::uint32_t cookie = kNone;
      if (event.kind == 0) {
        const Message& message = messages[event.id];
        network.start(message.from, message.to, message.bytes, event.id);
      } else if (event.kind == 1) {
        network.on_latency_over(event);
      } else if (network.on_flow_end(event, cookie)) {
        CHECK(ran.ends[cookie] == kNever);
        ran.ends[cookie] = queue.now();
      }
    }
    if (!network.is_settled()) {
      network.settle();
      ++ran.solves;
      continue;
    }
    if (!queue.advance()) break;
  }
  CHECK(network.sharing().active_count() == 0);
  ran.repairs = network.sharing().repairs();
  ran.rebuilds = network.sharing().rebuilds();
  return ran;
}

inline Model cross_traffic_model() {
  Model model = lv08_model();
  model.cross_traffic = true;
  return model;
}

}  // namespace labkit::test
