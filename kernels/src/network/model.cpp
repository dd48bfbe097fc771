#include "labkit/network/model.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace labkit {
namespace {

[[noreturn]] void refuse(const std::string& what, double got, const std::string& allowed) {
  throw std::invalid_argument(what + " is " + std::to_string(got) + "; it must be " + allowed);
}

void require_cost(const std::string& what, double value) {
  if (!(value >= 0.0) || !std::isfinite(value)) refuse(what, value, "finite and at least 0");
}

}  // namespace

SizeFactor::SizeFactor(std::vector<Step> steps) : steps_(std::move(steps)) {
  double previous = -1.0;
  for (const Step& step : steps_) {
    if (!(step.threshold_bytes > previous)) {
      refuse("a factor's threshold", step.threshold_bytes, "at least 0 and above the one before");
    }
    if (!(step.value > 0.0) || !std::isfinite(step.value)) {
      refuse("a factor", step.value, "finite and above 0");
    }
    previous = step.threshold_bytes;
  }
}

SizeCost::SizeCost(std::vector<Section> sections) : sections_(std::move(sections)) {
  bool is_first = true;
  std::uint64_t previous = 0;
  for (const Section& section : sections_) {
    if (!is_first && section.threshold_bytes <= previous) {
      refuse("a cost section's threshold", static_cast<double>(section.threshold_bytes),
             "above the one before");
    }
    require_cost("a cost section's constant", section.constant_s);
    require_cost("a cost section's seconds per byte", section.per_byte_s);
    previous = section.threshold_bytes;
    is_first = false;
  }
}

void Model::validate() const {
  require_cost("the model's weight S", weight_s_bytes);
  require_cost("the model's TCP gamma", tcp_gamma_bytes);
  require_cost("the cost of an entry of a matching queue", match_s);
  require_cost("the cost of Wtime", wtime_s);
  require_cost("the cost of Test", test_s);
  require_cost("the cost of Iprobe", iprobe_s);
  require_cost("the model's gap", gap_s);
  if (!(latency_s < HUGE_VAL) || !(gap_per_byte_s < HUGE_VAL)) refuse("the model's delay", latency_s, "finite");
  for (const auto& [operation, cost] : collective_network) {
    for (const double part : {cost.least_s, cost.start_s, cost.stage_s, cost.per_byte_s}) {
      require_cost("the collective network's " + operation, part);
    }
  }
  if (penalties.is_used() && !(penalties.bs > 0.0 && penalties.ys > 0.0)) {
    refuse("a penalty factor", penalties.bs, "above 0, as the others");
  }
  if (eager_below_bytes > detached_below_bytes) {
    refuse("the model's eager threshold", static_cast<double>(eager_below_bytes),
           "at most the detached threshold " + std::to_string(detached_below_bytes));
  }
}

}  // namespace labkit
