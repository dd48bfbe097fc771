// Splitter classification: the bucket of every key of an unsorted sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace labkit::local {

/// Sorted splitters as a search tree in the order of its levels (P. Sanders, S. Winkel: Super Scalar Sample
/// Sort, ESA 2004, doi:10.1007/978-3-540-30140-0_69). Bucket j holds the keys x with s[j-1] < x <= s[j].
template <class T>
class Classifier {
 public:
  /// The splitters are sorted.
  explicit Classifier(std::span<const T> splitters);

  [[nodiscard]] std::size_t bucket_count() const { return bucket_count_; }
  /// buckets[i] = how many splitters are below keys[i].
  void classify(std::span<const T> keys, std::int64_t* buckets) const;
  /// counts[j] = keys in bucket j, for all bucket_count() of them.
  void count(std::span<const T> keys, std::span<std::int64_t> counts) const;
  /// Write the keys bucket after bucket, stably, and count them. `out` has as many keys and overlaps nothing.
  void distribute(std::span<const T> keys, std::span<std::int64_t> counts, T* out) const;

 private:
  template <class Sink>
  void for_each_bucket(std::span<const T> keys, Sink sink) const;

  std::vector<T> tree_;  // from 1; the children of i are 2 i and 2 i + 1
  std::size_t bucket_count_;
  int levels_ = 0;
};

}  // namespace labkit::local
