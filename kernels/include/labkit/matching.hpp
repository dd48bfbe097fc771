// Which receive gets which message: by source, tag and context, with wildcards, never overtaking.
//
// Every rank has two queues in order of posting: receives that wait for a message, and sends
// (unexpected messages) that wait for a receive. A post takes the OLDEST partner in the other
// queue that fits, which is MPI's rule.
#pragma once

#include <cstdint>
#include <vector>

#include "labkit/request.hpp"
#include "labkit/types.hpp"

namespace labkit {

class Matching {
 public:
  Matching(RequestSlab& slab, std::size_t ranks);

  /// Takes out the oldest posted receive of send.peer that fits the send, kNone if there is none.
  std::uint32_t take_receive(const Request& send);
  /// Takes out the oldest unexpected send that fits the receive of rank receive.owner.
  std::uint32_t take_send(const Request& receive);
  /// Looks without taking.
  [[nodiscard]] std::uint32_t find_send(Rank rank, Rank source, std::int32_t tag, Context context) const;
  void add_receive(std::uint32_t index);
  void add_send(std::uint32_t index);
  /// Takes out a given queued request (cancel, matched probe).
  void remove(std::uint32_t index);
  [[nodiscard]] bool has_sends(Rank rank) const { return sends_[static_cast<std::size_t>(rank)].head != kNone; }

 private:
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  void append(List& list, std::uint32_t index);
  void unlink(List& list, std::uint32_t index);

  RequestSlab& slab_;
  std::vector<List> receives_;
  std::vector<List> sends_;
};

}  // namespace labkit
