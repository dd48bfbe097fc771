// Cost of one message from C++, end to end: post, match, flow, completion.
//
//     engine_bench [ranks] [unsynchronized | hosts [ranks per host] | cores [ranks per host]]
//
// Prints one line per workload: messages, CPU nanoseconds per message, live bytes per rank.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "labkit/engine/engine.hpp"
#include "labkit/topology/star.hpp"

namespace {

using namespace labkit;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec) +
         static_cast<double>(usage.ru_stime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_stime.tv_usec);
}

Model lv08(bool cross_traffic) {
  Model model;
  model.name = "lv08";
  model.weight_s_bytes = 20537;
  model.latency_factor = SizeFactor(13.01);
  model.bandwidth_factor = SizeFactor(0.97);
  model.tcp_gamma_bytes = 4194304;
  model.cross_traffic = cross_traffic;
  return model;
}

/// A size between 0 and 2 * bytes, fixed by the pair.
std::uint64_t unequal(std::uint64_t bytes, Rank from, Rank to) {
  std::uint64_t z = static_cast<std::uint64_t>(from) * 0x9e3779b97f4a7c15ULL +
                    static_cast<std::uint64_t>(to) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 30)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) % (2 * bytes);
}

/// Every rank exchanges with one partner per round: XOR (recursive doubling) or shift (pairwise).
class Rounds final : public Driver {
 public:
  Rounds(Engine& engine, int rounds, bool is_xor, std::uint64_t bytes, bool is_unequal)
      : engine_(engine), rounds_(rounds), is_xor_(is_xor), bytes_(bytes), is_unequal_(is_unequal),
        round_(static_cast<std::size_t>(engine.rank_count()), 0),
        pending_(round_.size()) {}

  void resume(Rank rank) override {
    const std::size_t r = static_cast<std::size_t>(rank);
    const Rank p = engine_.rank_count();
    for (;;) {
      Pair& pair = pending_[r];
      if (!pair.send.is_null()) {
        engine_.release(pair.send);
        engine_.release(pair.receive);
        pair = {};
      }
      if (round_[r] == rounds_) {
        engine_.finish(rank);
        return;
      }
      const int k = round_[r]++;
      const Rank dest = is_xor_ ? rank ^ (1 << (k % log2(p))) : (rank + k + 1) % p;
      const Rank source = is_xor_ ? dest : (rank + p - k - 1) % p;
      ReceivePost receive;
      receive.rank = rank;
      receive.source = source;
      receive.tag = 7;
      receive.capacity_bytes = 2 * bytes_;
      SendPost send;
      send.rank = rank;
      send.dest = dest;
      send.tag = 7;
      send.bytes = is_unequal_ ? unequal(bytes_, rank, dest) : bytes_;
      pair.receive = engine_.receive(receive);
      pair.send = engine_.send(send);
      const RequestId both[2] = {pair.receive, pair.send};
      if (!engine_.wait_all(rank, both)) return;
    }
  }

 private:
  struct Pair {
    RequestId send;
    RequestId receive;
  };
  static int log2(Rank p) {
    int k = 0;
    while ((1 << (k + 1)) <= p) ++k;
    return k;
  }
  Engine& engine_;
  int rounds_;
  bool is_xor_;
  std::uint64_t bytes_;
  bool is_unequal_;
  std::vector<int> round_;
  std::vector<Pair> pending_;
};

/// Every rank posts all its messages to everybody at once and waits for them all.
class Linear final : public Driver {
 public:
  Linear(Engine& engine, std::uint64_t bytes, bool is_unequal)
      : engine_(engine), bytes_(bytes), is_unequal_(is_unequal),
        is_posted_(static_cast<std::size_t>(engine.rank_count()), false) {}
  void resume(Rank rank) override {
    const std::size_t r = static_cast<std::size_t>(rank);
    const Rank p = engine_.rank_count();
    if (is_posted_[r]) {
      engine_.finish(rank);
      return;
    }
    is_posted_[r] = true;
    std::vector<RequestId> ids;
    for (Rank k = 1; k < p; ++k) {
      ReceivePost receive;
      receive.rank = rank;
      receive.source = (rank + p - k) % p;
      receive.tag = 7;
      receive.capacity_bytes = 2 * bytes_;
      ids.push_back(engine_.receive(receive));
    }
    for (Rank k = 1; k < p; ++k) {
      SendPost send;
      send.rank = rank;
      send.dest = (rank + k) % p;
      send.tag = 7;
      send.bytes = is_unequal_ ? unequal(bytes_, rank, send.dest) : bytes_;
      ids.push_back(engine_.send(send));
    }
    const bool goes_on = engine_.wait_all(rank, ids);
    for (const RequestId id : ids) engine_.release(id);
    if (goes_on) engine_.finish(rank);
  }

 private:
  Engine& engine_;
  std::uint64_t bytes_;
  bool is_unequal_;
  std::vector<bool> is_posted_;
};

/// Every rank computes again and again, never twice equally long.
class Computing final : public Driver {
 public:
  Computing(Engine& engine, int times)
      : engine_(engine), left_(static_cast<std::size_t>(engine.rank_count()), times) {}
  void resume(Rank rank) override {
    int& left = left_[static_cast<std::size_t>(rank)];
    while (left > 0) {
      const double seconds = 1e-9 * static_cast<double>(1 + unequal(500, rank, left--));
      if (!engine_.compute(rank, seconds)) return;
    }
    engine_.finish(rank);
  }

 private:
  Engine& engine_;
  std::vector<int> left_;
};

/// Computations of ranks that have a core each, and of ranks that share cores.
void run_cores(Rank ranks, Rank ranks_per_host) {
  constexpr int kTimes = 200;
  for (const Rank cores : {ranks_per_host, (ranks_per_host + 1) / 2, 1}) {
    StarSpec spec;
    spec.hosts = (ranks + ranks_per_host - 1) / ranks_per_host;
    spec.cores = cores;
    std::vector<HostId> hosts;
    for (Rank r = 0; r < ranks; ++r) hosts.push_back(r / ranks_per_host);
    Engine engine(make_star(spec), Model{}, hosts);
    Computing driver(engine, kTimes);
    for (Rank r = 0; r < ranks; ++r) {
      engine.set_driver(r, &driver);
      engine.start(r);
    }
    const double before = cpu_seconds();
    while (engine.advance(1u << 20) != Advance::idle) {
    }
    const double used = cpu_seconds() - before;
    std::printf("%5d ranks on %5d cores  p=%-6d %9d computations %8.1f ns each  makespan %.17g\n", ranks_per_host,
                cores, ranks, ranks * kTimes, 1e9 * used / (static_cast<double>(ranks) * kTimes), engine.makespan());
  }
}

template <class MakeDriver>
void run_driver(const char* name, Rank ranks, Model model, double stagger_s, MakeDriver make,
                SharingOptions options = {}, Rank ranks_per_host = 1) {
  StarSpec spec;
  spec.hosts = (ranks + ranks_per_host - 1) / ranks_per_host;
  std::vector<HostId> hosts;
  for (Rank r = 0; r < ranks; ++r) hosts.push_back(r / ranks_per_host);
  Engine engine(make_star(spec), std::move(model), hosts, options);
  auto driver = make(engine);
  std::uint64_t state = 1;
  for (Rank r = 0; r < ranks; ++r) {
    engine.set_driver(r, &driver);
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    engine.start(r, stagger_s * static_cast<double>(state >> 40) / static_cast<double>(1 << 24));
  }
  const double before = cpu_seconds();
  while (engine.advance(1u << 20) != Advance::idle) {
  }
  const double used = cpu_seconds() - before;
  const double messages = static_cast<double>(engine.recorder().messages());
  std::printf("%-46s p=%-6d %9.0f messages %8.1f ns each  events/msg %.2f  makespan %.17g\n", name,
              ranks, messages, 1e9 * used / messages,
              static_cast<double>(engine.events()) / messages, engine.makespan());
}

void run(const char* name, Rank ranks, int rounds, bool is_xor, std::uint64_t bytes, Model model,
         double stagger_s, bool is_unequal = false) {
  run_driver(name, ranks, std::move(model), stagger_s,
             [&](Engine& engine) { return Rounds(engine, rounds, is_xor, bytes, is_unequal); });
}

void run_linear(const char* name, Rank ranks, std::uint64_t bytes, Model model, double stagger_s,
                bool is_unequal = false, SharingOptions options = {}, Rank ranks_per_host = 1) {
  run_driver(
      name, ranks, std::move(model), stagger_s,
      [&](Engine& engine) { return Linear(engine, bytes, is_unequal); }, options, ranks_per_host);
}

/// Several ranks on a host: flow classes, and for a few ranks the same without them.
void run_hosts(Rank ranks, Rank ranks_per_host) {
  for (const bool is_unequal : {false, true}) {
    for (const double stagger_s : {0.0, 1e-4}) {
      for (const Classes classes : {Classes::automatic, Classes::never}) {
        if (classes == Classes::never && ranks > 64) continue;
        char name[80];
        std::snprintf(name, sizeof name, "linear %s, %d a host, %s%s", is_unequal ? "0-128 KiB" : "64 KiB",
                      ranks_per_host, stagger_s > 0 ? "random starts" : "together",
                      classes == Classes::never ? ", no classes" : "");
        SharingOptions options;
        options.classes = classes;
        run_linear(name, ranks, 65536, lv08(true), stagger_s, is_unequal, options, ranks_per_host);
      }
    }
  }
}

/// One giant component of flows that all end at different times.
void run_unsynchronized(Rank ranks) {
  for (const bool cross_traffic : {false, true}) {
    for (const double tolerance : {0.0, 1e-3, 1e-2}) {
      char name[80];
      std::snprintf(name, sizeof name, "linear 0-128 KiB, random starts,%s tolerance %g",
                    cross_traffic ? " cross-traffic," : "", tolerance);
      run_linear(name, ranks, 65536, lv08(cross_traffic), 1e-4, true, {tolerance, Solver::automatic});
    }
    if (ranks <= 64) {
      run_linear("the same, filling only", ranks, 65536, lv08(cross_traffic), 1e-4, true, {0.0, Solver::filling});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[2], "unsynchronized") == 0) {
    run_unsynchronized(std::atoi(argv[1]));
    return 0;
  }
  if (argc > 2 && std::strcmp(argv[2], "hosts") == 0) {
    run_hosts(std::atoi(argv[1]), argc > 3 ? std::atoi(argv[3]) : 16);
    return 0;
  }
  if (argc > 2 && std::strcmp(argv[2], "cores") == 0) {
    run_cores(std::atoi(argv[1]), argc > 3 ? std::atoi(argv[3]) : 16);
    return 0;
  }
  const Rank p = argc > 1 ? std::atoi(argv[1]) : 4096;
  run("recursive doubling 8 B, raw", p, 96, true, 8, Model{}, 0);
  run("recursive doubling 8 B, lv08", p, 96, true, 8, lv08(true), 0);
  run("recursive doubling 8 B, lv08, random starts", p, 96, true, 8, lv08(true), 1e-3);
  run("recursive doubling 1 MiB, lv08", p, 96, true, 1 << 20, lv08(true), 0);
  run("recursive doubling 1 MiB, lv08, random starts", p, 48, true, 1 << 20, lv08(true), 1e-2);
  const Rank q = std::min<Rank>(p, 1024);
  run("pairwise alltoall 64 KiB, raw", q, q - 1, false, 65536, Model{}, 0);
  run("pairwise alltoall 64 KiB, lv08", q, q - 1, false, 65536, lv08(true), 0);
  run("pairwise alltoall 8 B, lv08", q, q - 1, false, 8, lv08(true), 0);
  run("pairwise alltoall 0-128 KiB, raw", 256, 255, false, 65536, Model{}, 0, true);
  run("pairwise alltoall 0-128 KiB, lv08", 256, 255, false, 65536, lv08(true), 0, true);
  run_linear("linear alltoall 0-128 KiB, lv08", 64, 65536, lv08(true), 0, true);
  run_linear("linear alltoall 64 KiB, raw", 256, 65536, Model{}, 0);
  run_linear("linear alltoall 64 KiB, lv08", 256, 65536, lv08(true), 0);
  run_linear("linear alltoall 64 KiB, raw, random starts", 64, 65536, Model{}, 1e-3);
  run_linear("linear alltoall 64 KiB, lv08, random starts", 64, 65536, lv08(true), 1e-3);
  return 0;
}
