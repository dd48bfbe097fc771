// LogGPS: messages that never meet in the network, only at the two hosts' interfaces.
//
// A message of k bytes leaves when its host's interface is free, which is then busy for g + G k; its
// head arrives L later; when the destination's interface is free it takes G k to take it in (and is
// busy for g + G k). Between two ranks of a host: L + G k and no gap. The overheads o, the
// threshold S and the protocols are the engine's. LogGP counts G (k - 1): one byte is neglected.
// Ino, Fujimoto, Hagihara: LogGPS: a parallel computational model for synchronization analysis,
// PPoPP 2001, doi:10.1145/379539.379592.
#pragma once

#include <cstdint>
#include <vector>

#include "labkit/engine/event_queue.hpp"
#include "labkit/network/demand.hpp"
#include "labkit/network/model.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

class Delays {
 public:
  Delays(const Platform& platform, const Model& model, EventQueue& queue,
         std::uint32_t head_kind, std::uint32_t end_kind)
      : demands_(platform, model),
        model_(model),
        queue_(queue),
        head_kind_(head_kind),
        end_kind_(end_kind),
        out_free_s_(platform.host_count(), 0.0),
        in_free_s_(platform.host_count(), 0.0) {}

  void start(HostId src, HostId dst, std::uint64_t payload_bytes, std::uint32_t cookie);
  void on_head(const Event& event);
  /// Its cookie; its number is used again.
  std::uint32_t on_end(const Event& event);

 private:
  struct Message {
    double gap_s;   // g, or 0 within a host
    double body_s;  // G k
    HostId dst;
    std::uint32_t cookie;
  };
  DemandReader demands_;
  const Model& model_;
  EventQueue& queue_;
  std::uint32_t head_kind_;
  std::uint32_t end_kind_;
  std::vector<Time> out_free_s_;  // by host: when its interface can send again
  std::vector<Time> in_free_s_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_;
};

}  // namespace labkit
