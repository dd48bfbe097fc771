// What this thread spends in the ranks' code between their calls: measured and kept, or given again.

#pragma once

#include <ctime>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace labkit::bindings {

/// Each rank's stretches of computation, in nanoseconds of CPU time, in the order of its calls.
class HostClock {
 public:
  using Stretches = std::vector<std::vector<std::int64_t>>;

  /// Measure from now on; each second counts for so many operations.
  void measure(std::size_t ranks, double flops_per_cpu_s) {
    flops_per_cpu_s_ = flops_per_cpu_s;
    stretches_.resize(ranks);
    ahead_.assign(ranks, false);
  }
  /// Give again what was measured before.
  void replay(Stretches stretches, double flops_per_cpu_s) {
    flops_per_cpu_s_ = flops_per_cpu_s;
    stretches_ = std::move(stretches);
    next_.assign(stretches_.size(), 0);
    ahead_.assign(stretches_.size(), false);
    is_replay_ = true;
  }
  [[nodiscard]] bool is_on() const { return flops_per_cpu_s_ > 0.0; }
  [[nodiscard]] const Stretches& stretches() const { return stretches_; }
  /// Whether every rank has had each of its stretches, and no one more.
  [[nodiscard]] bool is_used_up() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] != stretches_[rank].size()) return false;
    }
    return true;
  }

  /// Take for a call that is about to be made: a run that is traced has no more stretches than one that is not.
  [[nodiscard]] double take_ahead(std::size_t rank) {
    ahead_[rank] = false;
    const double flops = take(rank);
    ahead_[rank] = true;
    return flops;
  }
  /// What has been spent until now is nobody's.
  void skip() {
    if (!is_replay_) mark_ns_ = now_ns();
  }
  /// A rank's operations since the last call of this or `skip`; none where they were taken ahead.
  [[nodiscard]] double take(std::size_t rank) {
    if (ahead_[rank]) {
      ahead_[rank] = false;
      skip();
      return 0.0;
    }
    std::int64_t spent_ns = 0;
    if (is_replay_) {
      const std::size_t at = next_[rank]++;
      if (at < stretches_[rank].size()) spent_ns = stretches_[rank][at];
    } else {
      const std::int64_t now = now_ns();
      spent_ns = now - mark_ns_;
      mark_ns_ = now;
      stretches_[rank].push_back(spent_ns);
    }
    return 1e-9 * static_cast<double>(spent_ns) * flops_per_cpu_s_;
  }

 private:
  [[nodiscard]] static std::int64_t now_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
  }

  double flops_per_cpu_s_ = 0.0;
  std::int64_t mark_ns_ = 0;
  bool is_replay_ = false;
  std::vector<bool> ahead_;
  Stretches stretches_;
  std::vector<std::size_t> next_;
};

}  // namespace labkit::bindings
