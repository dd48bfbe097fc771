// A load that uses everything, and its result to the last bit.
//
// Built twice, with -O1 and -O3 (engine included); the two must print the same (`make
// levels`). Each line: load, messages, events, makespan, hash of all clocks.
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "labkit/engine/engine.hpp"
#include "labkit/topology/star.hpp"
#include "random.hpp"

namespace {

using namespace labkit;
using labkit::test::Random;

struct Letter {
  Rank from;
  Rank to;
  std::uint64_t bytes;
  std::int32_t tag;
  SendMode mode;
};

/// Rounds of random messages, all non-blocking, so that no order can deadlock.
class MixedLoad final : public Driver {
 public:
  MixedLoad(Engine& engine, int rounds, std::uint64_t seed) : engine_(engine), random_(seed) {
    const std::size_t p = static_cast<std::size_t>(engine.rank_count());
    ranks_.resize(p);
    for (int round = 0; round < rounds; ++round) {
      std::vector<Letter> letters;
      for (std::size_t i = 0; i < 2 * p; ++i) letters.push_back(random_letter(p, round));
      rounds_.push_back(std::move(letters));
    }
  }

  void resume(Rank rank) override {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    if (state.is_computing) {
      state.is_computing = false;
      if (!post_round(rank, state)) return;
    }
    for (;;) {
      if (state.waits_for_any) {
        const std::size_t which = engine_.any_index(rank);
        engine_.release(state.ids[which]);
        state.ids[which] = {};
        state.waits_for_any = false;
        if (!wait_for_rest(rank, state)) return;
      }
      for (const RequestId id : state.ids) {
        if (!id.is_null()) engine_.release(id);
      }
      state.ids.clear();
      if (state.round == rounds_.size()) {
        engine_.finish(rank);
        return;
      }
      if (!start_round(rank, state)) return;
    }
  }

 private:
  struct RankState {
    std::size_t round = 0;
    bool waits_for_any = false;
    bool is_computing = false;
    std::vector<RequestId> ids;
  };

  Letter random_letter(std::size_t p, int round) {
    Letter letter{};
    letter.from = static_cast<Rank>(random_.below(p));
    letter.to = static_cast<Rank>(random_.below(p));
    const std::size_t kind = random_.below(4);
    letter.bytes = kind == 0   ? random_.below(64)
                   : kind == 1 ? random_.below(10000)
                   : kind == 2 ? 60000 + random_.below(10000)
                               : random_.below(1 << 21);
    letter.tag = round;
    letter.mode = random_.below(8) == 0 ? SendMode::synchronous : SendMode::standard;
    return letter;
  }

  /// False when the rank is blocked.
  bool start_round(Rank rank, RankState& state) {
    Random mine = random_of(rank, ++state.round);
    state.is_computing = !engine_.compute(rank, 1e-4 * mine.unit());
    return !state.is_computing && post_round(rank, state);
  }

  static Random random_of(Rank rank, std::size_t round) {
    return Random(static_cast<std::uint64_t>(rank) * 1000 + round);
  }

  bool post_round(Rank rank, RankState& state) {
    const std::vector<Letter>& letters = rounds_[state.round - 1];
    Random mine = random_of(rank, state.round);
    (void)mine.unit();  // that of the computation
    for (const Letter& letter : letters) {
      if (letter.to == rank) {
        ReceivePost post;
        post.rank = rank;
        post.source = letter.tag % 2 == 0 ? kAnySource : letter.from;
        post.tag = letter.tag;
        post.capacity_bytes = 1 << 21;
        state.ids.push_back(engine_.receive(post));
      }
      if (letter.from == rank) {
        SendPost post;
        post.rank = rank;
        post.dest = letter.to;
        post.tag = letter.tag;
        post.bytes = letter.bytes;
        post.mode = letter.mode;
        state.ids.push_back(engine_.send(post));
      }
    }
    if (mine.below(2) == 0 || state.ids.empty()) return engine_.wait_all(rank, state.ids);
    state.waits_for_any = true;
    return engine_.wait_any(rank, state.ids);
  }

  bool wait_for_rest(Rank rank, RankState& state) { return engine_.wait_all(rank, state.ids); }

  Engine& engine_;
  Random random_;
  std::vector<std::vector<Letter>> rounds_;
  std::vector<RankState> ranks_;
};

Model model_named(int which) {
  Model model;
  if (which == 0) return model;
  model.tcp_gamma_bytes = 4194304;
  model.cross_traffic = true;
  if (which == 1) return model;
  model.weight_s_bytes = 20537;
  model.latency_factor = SizeFactor({{0, 2.01467}, {1426, 1.61075}, {65472, 11.6436}});
  model.bandwidth_factor = SizeFactor({{0, .812084}, {1426, .608902}, {65472, .940694}});
  model.send_overhead = SizeCost({{0, 1e-6, 1e-10}});
  model.isend_overhead = SizeCost({{0, 2e-6, 1e-10}});
  model.recv_overhead = SizeCost({{0, 1.5e-6, 2e-10}});
  model.eager_below_bytes = which == 3 ? 4096 : 0;
  return model;
}

StarSpec star_named(int which) {
  StarSpec spec;
  spec.hosts = 24;
  spec.link = {1.25e8, 2.4e-5};
  if (which == 1) spec.backbone = BackboneSpec{1e9, 1e-5, Policy::shared};
  if (which == 2) {
    spec.backbone = BackboneSpec{1.25e8, 0, Policy::fatpipe};
    spec.limiter_bandwidth_bytes_per_s = 1.5e8;
    spec.loopback = LinkSpec{1e9, 1e-6};
  }
  return spec;
}

bool run(int star, int model, Rank ranks) {
  std::vector<HostId> hosts;
  for (Rank r = 0; r < ranks; ++r) hosts.push_back(r % 24);
  Engine engine(make_star(star_named(star)), model_named(model), hosts);
  MixedLoad load(engine, 12, 7);
  for (Rank r = 0; r < ranks; ++r) {
    engine.set_driver(r, &load);
    engine.start(r);
  }
  while (engine.advance(1u << 20) == Advance::budget) {
  }
  std::uint64_t hash = 1469598103934665603ULL;
  bool is_over = true;
  for (Rank r = 0; r < ranks; ++r) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(engine.clock(r))) * 1099511628211ULL;
    is_over = is_over && engine.blocked(r) == Blocked::finished;
  }
  std::printf("star %d model %d ranks %d: %" PRIu64 " messages %" PRIu64 " events makespan %016" PRIx64
              " (%.9g s) clocks %016" PRIx64 "\n",
              star, model, ranks, engine.recorder().messages(), engine.events(),
              std::bit_cast<std::uint64_t>(engine.makespan()), engine.makespan(), hash);
  return is_over;
}

}  // namespace

int main() {
  bool is_over = true;
  for (int star = 0; star < 3; ++star) {
    for (int model = 0; model < 4; ++model) {
      is_over = run(star, model, 24) && is_over;
      is_over = run(star, model, 61) && is_over;
    }
  }
  if (!is_over) std::printf("a load did not come to its end\n");
  return is_over ? 0 : 1;
}
