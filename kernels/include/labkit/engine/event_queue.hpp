// Events in the order (time, sequence of pushing).
//
// Synchronized ranks make thousands of events for the same instant. So the heap holds one bucket
// per distinct time, a bucket is a list in order of pushing, and a hash finds the bucket of a
// time: an event of a busy instant costs an append, and only the first pays for the heap.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

struct Event {
  std::uint32_t kind;
  std::uint32_t id;
  std::uint32_t stamp;
};

class EventQueue {
 public:
  EventQueue();

  /// `at` must not be NaN nor lie before now().
  void push(Time at, const Event& event) {
    const Time key = at + 0.0;  // -0.0 and 0.0 are one instant
    const std::uint32_t node = new_node(event);
    const std::uint32_t slot = (last_ != kNone && buckets_[last_].time == key) ? last_ : bucket_of(key);
    last_ = slot;
    Bucket& bucket = buckets_[slot];
    if (bucket.tail == kNone) {
      bucket.head = node;
    } else {
      nodes_[bucket.tail].next = node;
    }
    bucket.tail = node;
    ++size_;
  }

  /// The next event of the current instant; false when there is none (yet).
  bool pop(Event& out) {
    if (current_ == kNone || buckets_[current_].head == kNone) return false;
    Bucket& bucket = buckets_[current_];
    const std::uint32_t node = bucket.head;
    out = nodes_[node].event;
    bucket.head = nodes_[node].next;
    if (bucket.head == kNone) bucket.tail = kNone;
    nodes_[node].next = free_node_;
    free_node_ = node;
    --size_;
    return true;
  }

  /// Show the caller two events of the current instant that come soon, the further one first.
  template <class Far, class Near>
  void look_ahead(Far&& far, Near&& near) const {
    if (current_ == kNone) return;
    std::uint32_t node = buckets_[current_].head;
    for (std::uint32_t i = 1; node != kNone; ++i) {
      if (i == kNearAhead) near(nodes_[node].event);
      if (i == kFarAhead) return far(nodes_[node].event);
      node = nodes_[node].next;
    }
  }

  /// Go on to the next instant that has events; false when there is none. The current instant
  /// must be used up.
  bool advance();

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] bool is_empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kNearAhead = 3, kFarAhead = 7;
  struct Node {
    Event event;
    std::uint32_t next;
  };
  struct Bucket {
    Time time;
    std::uint32_t head;
    std::uint32_t tail;
  };
  struct HeapEntry {
    Time time;
    std::uint32_t bucket;
  };

  std::uint32_t new_node(const Event& event) {
    if (free_node_ == kNone) {
      nodes_.push_back({event, kNone});
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    const std::uint32_t node = free_node_;
    free_node_ = nodes_[node].next;
    nodes_[node] = {event, kNone};
    return node;
  }
  static std::size_t hash(Time time) {
    std::uint64_t bits = std::bit_cast<std::uint64_t>(time);
    bits *= 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(bits ^ (bits >> 32));
  }
  std::uint32_t bucket_of(Time time);
  void forget(Time time);
  void grow_table();
  void heap_push(const HeapEntry& entry);
  void heap_pop();

  std::vector<Node> nodes_;
  std::vector<Bucket> buckets_;
  std::vector<HeapEntry> heap_;        // 4-ary; no two entries have the same time
  std::vector<std::uint32_t> table_;   // open addressing, linear probing: bucket numbers
  std::vector<std::uint32_t> free_buckets_;
  std::size_t used_ = 0;               // entries in table_
  std::size_t size_ = 0;
  std::uint32_t free_node_ = kNone;
  std::uint32_t last_ = kNone;         // bucket of the last push: most pushes repeat its time
  std::uint32_t current_ = kNone;
  Time now_ = 0.0;
};

}  // namespace labkit
