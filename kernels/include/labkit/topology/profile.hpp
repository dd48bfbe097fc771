// What changes with time by itself: a host's speed, a link's bandwidth, its latency.
//
// A profile is a list of steps; from the time of a step on, its value holds. Where it has a period, all steps
// come again each time a period has passed. Everything is a function of the time alone, so nothing need
// happen while nobody computes and nothing is under way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

class Profile {
 public:
  struct Step {
    Time at;
    double value;
  };

  /// Steps in the order of their times; period_s 0: they come once. Throws std::invalid_argument.
  explicit Profile(std::vector<Step> steps, double period_s = 0.0) : steps_(std::move(steps)), period_s_(period_s) {
    if (steps_.empty()) throw std::invalid_argument("a profile needs at least one step");
    Time last = -1.0;
    for (const Step& step : steps_) {
      if (!(step.at > last) || !(step.at < kNever)) throw std::invalid_argument("the times of a profile must rise, from 0 on");
      if (!(step.value >= 0.0) || !std::isfinite(step.value)) {
        throw std::invalid_argument("a value of a profile must be finite and at least 0");
      }
      last = step.at;
    }
    if (!(period_s == 0.0 || period_s >= kLeastPeriod) || !(period_s < kNever)) {
      throw std::invalid_argument("a period must be finite, and at least a microsecond, or 0");
    }
    if (period_s > 0.0 && !(last < steps_.front().at + period_s)) {
      throw std::invalid_argument("a period must be longer than the time from the first step to the last");
    }
  }

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] double period_s() const { return period_s_; }

  /// The value at this time; before the first step, `initial`.
  [[nodiscard]] double at(Time now, double initial) const {
    const Place place = find(now);
    return place.next == 0 && place.cycle == 0.0 ? initial : steps_[place.next == 0 ? steps_.size() - 1 : place.next - 1].value;
  }

  /// The time of the first step after this time; kNever: there is none.
  [[nodiscard]] Time next(Time now) const {
    const Place place = find(now);
    if (place.next < steps_.size()) return time_of(place.next, place.cycle);
    return period_s_ > 0.0 ? time_of(0, place.cycle + 1.0) : kNever;
  }

  /// The values are the speed's shares of the nominal one, which holds before the first step: when work that takes
  /// `seconds` at the nominal speed ends, begun at `now`; kNever: never.
  [[nodiscard]] Time after(Time now, double seconds) const {
    if (seconds <= 0.0) return now;
    double share = at(now, 1.0);
    for (;;) {
      if (period_s_ > 0.0 && now >= steps_.front().at) {  // whole periods at once
        const double whole = work_of_period();
        if (!(whole > 0.0)) return kNever;
        const double periods = std::floor(seconds / whole);
        if (periods >= 2.0) {
          now += (periods - 1.0) * period_s_;
          seconds -= (periods - 1.0) * whole;
        }
      }
      const Time until = next(now);
      if (until == kNever || (until - now) * share >= seconds) return share > 0.0 ? now + seconds / share : kNever;
      seconds -= (until - now) * share;
      now = until;
      share = at(now, 1.0);
    }
  }

  /// The same profile with other values.
  [[nodiscard]] Profile scaled(double factor) const {
    Profile out = *this;
    for (Step& step : out.steps_) step.value *= factor;
    return out;
  }

 private:
  static constexpr double kLeastPeriod = 1e-6;  // shorter ones are not told apart late in a run
  struct Place {
    double cycle;      // periods that have passed at the first step
    std::size_t next;  // the first step of this cycle that is still to come
  };
  [[nodiscard]] Time time_of(std::size_t step, double cycle) const { return steps_[step].at + cycle * period_s_; }
  [[nodiscard]] Place find(Time now) const {
    double cycle = 0.0;
    if (period_s_ > 0.0 && now > steps_.front().at) {
      cycle = std::floor((now - steps_.front().at) / period_s_);
      if (cycle > 0.0 && time_of(0, cycle) > now) {  // the division may have rounded
        cycle -= 1.0;
      } else if (time_of(0, cycle + 1.0) <= now) {
        cycle += 1.0;
      }
    }
    const auto after = std::partition_point(steps_.begin(), steps_.end(),
                                            [&](const Step& step) { return step.at + cycle * period_s_ <= now; });
    return {cycle, static_cast<std::size_t>(after - steps_.begin())};
  }
  [[nodiscard]] double work_of_period() const {
    double work = 0.0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Time ends = i + 1 < steps_.size() ? steps_[i + 1].at : steps_.front().at + period_s_;
      work += (ends - steps_[i].at) * steps_[i].value;
    }
    return work;
  }

  std::vector<Step> steps_;
  double period_s_;
};

/// By the number of a host or a link; most machines have none.
struct Profiles {
  std::map<HostId, Profile> speeds;       ///< shares of the host's speed
  std::map<LinkId, Profile> bandwidths;   ///< bytes per second
  std::map<LinkId, Profile> latencies;    ///< seconds
  [[nodiscard]] bool has_links() const { return !bandwidths.empty() || !latencies.empty(); }
};

}  // namespace labkit
