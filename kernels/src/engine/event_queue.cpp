#include "labkit/engine/event_queue.hpp"

#include <algorithm>

namespace labkit {

EventQueue::EventQueue() : table_(64, kNone) {
  current_ = bucket_of(0.0);  // the queue starts inside the instant 0
  heap_.clear();
}

std::uint32_t EventQueue::bucket_of(Time time) {
  std::size_t mask = table_.size() - 1;
  std::size_t place = hash(time) & mask;
  while (table_[place] != kNone) {
    if (buckets_[table_[place]].time == time) return table_[place];
    place = (place + 1) & mask;
  }
  if (2 * (used_ + 1) > table_.size()) {
    grow_table();
    mask = table_.size() - 1;
    place = hash(time) & mask;
    while (table_[place] != kNone) place = (place + 1) & mask;
  }
  std::uint32_t bucket;
  if (free_buckets_.empty()) {
    bucket = static_cast<std::uint32_t>(buckets_.size());
    buckets_.push_back({time, kNone, kNone});
  } else {
    bucket = free_buckets_.back();
    free_buckets_.pop_back();
    buckets_[bucket] = {time, kNone, kNone};
  }
  table_[place] = bucket;
  ++used_;
  heap_push({time, bucket});
  return bucket;
}

void EventQueue::grow_table() {
  std::vector<std::uint32_t> old(table_.size() * 2, kNone);
  old.swap(table_);
  const std::size_t mask = table_.size() - 1;
  for (const std::uint32_t bucket : old) {
    if (bucket == kNone) continue;
    std::size_t place = hash(buckets_[bucket].time) & mask;
    while (table_[place] != kNone) place = (place + 1) & mask;
    table_[place] = bucket;
  }
}

void EventQueue::forget(Time time) {
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = hash(time) & mask;
  while (buckets_[table_[hole]].time != time) hole = (hole + 1) & mask;
  // Close the gap: move back what would no longer be found behind it.
  std::size_t place = hole;
  for (;;) {
    place = (place + 1) & mask;
    if (table_[place] == kNone) break;
    const std::size_t home = hash(buckets_[table_[place]].time) & mask;
    if (((place - home) & mask) >= ((place - hole) & mask)) {
      table_[hole] = table_[place];
      hole = place;
    }
  }
  table_[hole] = kNone;
  --used_;
}

bool EventQueue::advance() {
  if (heap_.empty()) return false;
  const HeapEntry next = heap_.front();
  heap_pop();
  if (current_ != kNone) {
    forget(buckets_[current_].time);
    free_buckets_.push_back(current_);
    if (last_ == current_) last_ = kNone;
  }
  current_ = next.bucket;
  now_ = next.time;
  return true;
}

void EventQueue::heap_push(const HeapEntry& entry) {
  std::size_t place = heap_.size();
  heap_.push_back(entry);
  while (place > 0) {
    const std::size_t parent = (place - 1) / 4;
    if (!(entry.time < heap_[parent].time)) break;
    heap_[place] = heap_[parent];
    place = parent;
  }
  heap_[place] = entry;
}

void EventQueue::heap_pop() {
  const HeapEntry last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) return;
  std::size_t place = 0;
  for (;;) {
    const std::size_t first = 4 * place + 1;
    if (first >= size) break;
    std::size_t least = first;
    const std::size_t end = std::min(first + 4, size);
    for (std::size_t child = first + 1; child < end; ++child) {
      if (heap_[child].time < heap_[least].time) least = child;
    }
    if (!(heap_[least].time < last.time)) break;
    heap_[place] = heap_[least];
    place = least;
  }
  heap_[place] = last;
}

}  // namespace labkit
