// Which receive gets which message: by source, tag and context, with wildcards, never overtaking.
//
// Every rank has two queues in order of posting: receives that wait for a message, and sends
// (unexpected messages) that wait for a receive. A post takes the OLDEST partner in the other
// queue that fits, which is MPI's rule. Queues are short as a rule and are walked; one that has
// grown long gets an index until it is empty again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/engine/match_index.hpp"
#include "labkit/engine/request.hpp"
#include "labkit/engine/types.hpp"

namespace labkit {

class Matching {
 public:
  Matching(RequestSlab& slab, std::size_t ranks);

  /// Takes out the oldest posted receive of send.peer that fits the send, kNone if there is none.
  std::uint32_t take_receive(const Request& send);
  /// Takes out the oldest unexpected send that fits the receive of rank receive.owner.
  std::uint32_t take_send(const Request& receive);
  /// Looks without taking.
  [[nodiscard]] std::uint32_t find_send(Rank rank, Rank source, std::int32_t tag, Context context);
  void add_receive(std::uint32_t index);
  void add_send(std::uint32_t index);
  /// Takes out a given queued request (cancel, matched probe).
  void remove(std::uint32_t index);

 private:
  static constexpr std::uint32_t kLong = 48;
  struct Queue {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t length = 0;
    std::uint32_t index = kNone;  // in indexes_
  };
  [[nodiscard]] Queue& receives(Rank rank) { return queues_[2 * static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Queue& sends(Rank rank) { return queues_[2 * static_cast<std::size_t>(rank) + 1]; }
  void append(Queue& queue, std::uint32_t index);
  void unlink(Queue& queue, std::uint32_t index);
  void make_index(Queue& queue);
  std::uint32_t find_in_sends(Queue& queue, const MatchKey& pattern);

  RequestSlab& slab_;
  std::vector<Queue> queues_;  // of rank r: receives at 2 r, sends at 2 r + 1
  std::vector<std::unique_ptr<MatchIndex>> indexes_;
  std::vector<std::uint32_t> free_indexes_;
  std::uint64_t order_ = 0;
};

}  // namespace labkit
