// Looks up from long work: whether a time limit has passed or somebody has interrupted.
#pragma once

#include <chrono>
#include <functional>

namespace labkit {

/// Asks at most every `kEvery` of the host's time, whatever a step costs; "no" is final.
class Lookout {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kEvery = std::chrono::milliseconds(50);

  Lookout() = default;
  explicit Lookout(const std::function<bool()>& ask, Clock::duration every = kEvery)
      : ask_(&ask), every_(every), next_(Clock::now() + every) {}
  /// Asks if it is time. False: the work ends here.
  bool step() {
    if (++steps_ % kStepsPerClock != 0 || ask_ == nullptr) return !is_over_;
    return Clock::now() < next_ ? !is_over_ : look();
  }
  /// Asks.
  bool look() {
    if (ask_ != nullptr && !is_over_) is_over_ = !(*ask_)();
    next_ = Clock::now() + every_;
    return !is_over_;
  }
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  static constexpr unsigned kStepsPerClock = 8;
  const std::function<bool()>* ask_ = nullptr;
  Clock::duration every_ = kEvery;
  Clock::time_point next_;
  unsigned steps_ = 0;
  bool is_over_ = false;
};

}  // namespace labkit
