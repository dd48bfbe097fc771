// The cost model: every number that turns a message into time, apart from the platform's links.
//
// Names and reading follow SimGrid 3.32 (its network model CM02 and SMPI's parameters), so that
// a model object with SimGrid's values predicts SimGrid's times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "labkit/network/penalties.hpp"

namespace labkit {

/// A factor that depends on the message size: the value of the largest threshold STRICTLY below
/// the size; 1 below (and at) the first threshold.
class SizeFactor {
 public:
  struct Step {
    double threshold_bytes;
    double value;
  };
  SizeFactor() = default;
  /// One factor for every size.
  explicit SizeFactor(double constant) : below_first_(constant) {}
  /// Thresholds must ascend strictly and values be positive; throws std::invalid_argument.
  explicit SizeFactor(std::vector<Step> steps);
  [[nodiscard]] double at(double size_bytes) const {
    double value = below_first_;
    for (const Step& step : steps_) {
      if (!(step.threshold_bytes < size_bytes)) break;
      value = step.value;
    }
    return value;
  }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  double below_first_ = 1.0;
  std::vector<Step> steps_;
};

/// A piecewise affine cost "threshold:a:b;..." in seconds: a + b * payload of the last section
/// whose threshold is STRICTLY below the payload; up to and at the first threshold, the first
/// section. No sections: free. A 0-byte message costs the first section's a, as in SimGrid 3.32
/// (SimGrid 4.0 charges 0).
class SizeCost {
 public:
  struct Section {
    std::uint64_t threshold_bytes;
    double constant_s;
    double per_byte_s;
  };
  SizeCost() = default;
  /// Thresholds must ascend strictly and costs be non-negative; throws std::invalid_argument.
  explicit SizeCost(std::vector<Section> sections);
  [[nodiscard]] double at(std::uint64_t payload_bytes) const {
    if (sections_.empty()) return 0.0;
    const Section* use = &sections_.front();
    for (const Section& section : sections_) {
      if (payload_bytes <= section.threshold_bytes) break;
      use = &section;
    }
    return use->constant_s + use->per_byte_s * static_cast<double>(payload_bytes);
  }
  [[nodiscard]] bool is_free() const { return sections_.empty(); }
  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }

 private:
  std::vector<Section> sections_;
};

/// What an operation of all ranks takes on a network of its own, such as the collective tree of a Blue Gene:
/// max(least_s, start_s + stage_s * log2(ranks)) + per_byte_s * bytes, once the last rank that it needs has come.
struct CollectiveCost {
  double least_s = 0.0;
  double start_s = 0.0;
  double stage_s = 0.0;
  double per_byte_s = 0.0;
  [[nodiscard]] double at(double stages, double bytes) const {
    const double start = start_s + stage_s * stages;
    return (start > least_s ? start : least_s) + per_byte_s * bytes;
  }
};

/// The share of a flow's rate that loads the links of the reverse route (acknowledgements).
inline constexpr double kCrossTrafficShare = 0.05;

/// How messages meet: in the links they share, or only at the hosts' interfaces (delays.hpp).
enum class Contention : std::uint8_t { maxmin, delay };

/// Plain data; the named models (raw, cm02, lv08, smpi, lab) are values of it, made elsewhere.
struct Model {
  std::string name = "raw";
  // The network. Sizes seen by the factors include the envelope.
  double weight_s_bytes = 0.0;  ///< S: every link adds S / bandwidth to a flow's weight
  SizeFactor latency_factor;
  SizeCost message_latency;  ///< what a message takes besides its links: neither its ends nor a link are busy
  SizeFactor bandwidth_factor;
  double tcp_gamma_bytes = 0.0;  ///< window: rate <= gamma / (2 latency); 0: no such bound
  bool cross_traffic = false;
  PenaltyFactors penalties;  ///< InfiniBand; unused by the others
  Contention contention = Contention::maxmin;
  // Of delays only; a negative latency or gap per byte is that of the message's route.
  double latency_s = -1.0;
  double gap_s = 0.0;
  double gap_per_byte_s = -1.0;
  std::uint64_t envelope_bytes = 16;
  // The protocol. Thresholds compare the payload: "payload < threshold".
  std::uint64_t detached_below_bytes = 65536;  ///< the sender goes on; the flow waits for the receive
  std::uint64_t eager_below_bytes = 0;         ///< the flow starts at once (SimGrid's async-small)
  SizeCost send_overhead;   ///< os: before a blocking send that is detached or synchronous
  SizeCost isend_overhead;  ///< ois: before every non-blocking send
  SizeCost recv_overhead;   ///< or: after a receive whose sender was detached
  double match_s = 0.0;     ///< of each entry that is looked at in vain in a matching queue; charged to the receive
  std::map<std::string, CollectiveCost> collective_network;  ///< by operation; empty: the machine has none
  // What calls cost the caller.
  double wtime_s = 1e-8;
  double test_s = 1e-4;
  double iprobe_s = 1e-4;
  /// A message of a rank to itself: 0 s (a copy) when true, else it travels the host's loopback.
  bool is_self_free = false;

  /// Throws std::invalid_argument naming the field, the value and what is allowed.
  void validate() const;
};

}  // namespace labkit
