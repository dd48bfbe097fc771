// Which receive gets which message: by source, tag and context, with wildcards, never overtaking.
//
// Every rank has two queues in order of posting: receives that wait for a message, and sends
// (unexpected messages) that wait for a receive. A post takes the OLDEST partner in the other
// queue that fits, which is MPI's rule. Queues are short as a rule and are walked; one that has
// grown long gets an index until it is empty again.
//
// Where looking costs time (Model::match_s), every search counts the entries that a walk from the oldest one looks
// at in vain: those before the partner, or all when there is none. What a message's search and its receive's
// search have looked at stands with the receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/engine/match_index.hpp"
#include "labkit/engine/request.hpp"
#include "labkit/engine/types.hpp"

namespace labkit {

/// How many entries of a queue stand before a given one: a Fenwick tree over the order of posting.
class QueueOrder {
 public:
  void append(std::uint64_t order);
  void remove(std::uint64_t order);
  [[nodiscard]] std::uint32_t before(std::uint64_t order) const;

 private:
  [[nodiscard]] std::size_t place_of(std::uint64_t order) const;

  std::vector<std::uint64_t> orders_;  // ascending; those taken out stay until half of them are gone
  std::vector<bool> is_queued_;
  std::vector<std::uint32_t> sums_;
  std::size_t gone_ = 0;
};

class Matching {
 public:
  Matching(RequestSlab& slab, std::size_t ranks, bool counts_searched = false);

  /// Takes out the oldest posted receive of send.peer that fits the send, kNone if there is none.
  std::uint32_t take_receive(std::uint32_t send);
  /// Takes out the oldest unexpected send that fits the receive of rank receive.owner.
  std::uint32_t take_send(std::uint32_t receive);
  /// The entries looked at in vain for this receive and for its message; the number is taken away.
  [[nodiscard]] std::uint32_t take_searched(std::uint32_t receive);
  /// Looks without taking.
  [[nodiscard]] std::uint32_t find_send(Rank rank, Rank source, std::int32_t tag, Context context);
  void add_receive(std::uint32_t index);
  void add_send(std::uint32_t index);
  /// The receive gets a message that a matched probe has taken out.
  void note_claim(std::uint32_t send, std::uint32_t receive);
  /// Takes out a given queued request (cancel, matched probe).
  void remove(std::uint32_t index);

  /// The rank's queues are looked at soon.
  void fetch(Rank rank) const { fetch_line(&queues_[2 * static_cast<std::size_t>(rank)]); }

 private:
  static constexpr std::uint32_t kLong = 48;
  struct Queue {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t length = 0;
    std::uint32_t index = kNone;  // in indexes_
  };
  struct Index {
    std::unique_ptr<MatchIndex> matches;
    std::unique_ptr<QueueOrder> order;  // where searches are counted
  };
  [[nodiscard]] Queue& receives(Rank rank) { return queues_[2 * static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Queue& sends(Rank rank) { return queues_[2 * static_cast<std::size_t>(rank) + 1]; }
  void append(Queue& queue, std::uint32_t index);
  void unlink(Queue& queue, std::uint32_t index);
  void make_index(Queue& queue);
  std::uint32_t find_in_sends(Queue& queue, const MatchKey& pattern);
  void note_search(const Queue& queue, std::uint32_t searcher, std::uint32_t found);

  RequestSlab& slab_;
  std::vector<Queue> queues_;  // of rank r: receives at 2 r, sends at 2 r + 1
  std::vector<Index> indexes_;
  std::vector<std::uint32_t> free_indexes_;
  std::uint64_t order_ = 0;
  bool counts_searched_;
  std::vector<std::uint32_t> searched_;  // by slot
};

}  // namespace labkit
