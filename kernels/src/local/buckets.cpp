#include "labkit/local/buckets.hpp"

#include <limits>
#include <memory>

#include "labkit/local/words.hpp"
#include "scatter.hpp"

namespace labkit::local {
namespace {

/// Keys that walk down the tree side by side: each step waits for a load, and so hides the others'.
constexpr std::size_t kAbreast = 8;

}  // namespace

template <class T>
Classifier<T>::Classifier(std::span<const T> splitters) : bucket_count_(splitters.size() + 1) {
  while ((std::size_t{1} << levels_) < bucket_count_) ++levels_;
  // What is missing to a full tree is the largest key: nothing is above it, so nothing gets there.
  tree_.assign(std::size_t{1} << levels_, std::numeric_limits<T>::max());
  for (int level = 0; level < levels_; ++level) {
    const std::size_t width = std::size_t{1} << level;
    const std::size_t step = std::size_t{1} << (levels_ - level);
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t splitter = i * step + step / 2 - 1;
      if (splitter < splitters.size()) tree_[width + i] = splitters[splitter];
    }
  }
}

template <class T>
template <class Sink>
void Classifier<T>::for_each_bucket(std::span<const T> keys, Sink sink) const {
  const T* const tree = tree_.data();
  const std::size_t leaves = tree_.size();
  std::size_t i = 0;
  for (; i + kAbreast <= keys.size(); i += kAbreast) {
    std::size_t nodes[kAbreast];
    for (std::size_t& node : nodes) node = 1;
    for (int level = 0; level < levels_; ++level) {
      for (std::size_t k = 0; k < kAbreast; ++k) {
        nodes[k] = 2 * nodes[k] + static_cast<std::size_t>(tree[nodes[k]] < keys[i + k]);
      }
    }
    for (std::size_t k = 0; k < kAbreast; ++k) sink(i + k, nodes[k] - leaves);
  }
  for (; i < keys.size(); ++i) {
    std::size_t node = 1;
    for (int level = 0; level < levels_; ++level) node = 2 * node + static_cast<std::size_t>(tree[node] < keys[i]);
    sink(i, node - leaves);
  }
}

template <class T>
void Classifier<T>::classify(std::span<const T> keys, std::int64_t* buckets) const {
  for_each_bucket(keys, [buckets](std::size_t i, std::size_t bucket) {
    buckets[i] = static_cast<std::int64_t>(bucket);
  });
}

template <class T>
void Classifier<T>::count(std::span<const T> keys, std::span<std::int64_t> counts) const {
  for (std::int64_t& count : counts) count = 0;
  for_each_bucket(keys, [counts](std::size_t, std::size_t bucket) { ++counts[bucket]; });
}

template <class T>
void Classifier<T>::distribute(std::span<const T> keys, std::span<std::int64_t> counts, T* out) const {
  const auto buckets = std::make_unique_for_overwrite<std::uint32_t[]>(keys.size());
  for (std::int64_t& count : counts) count = 0;
  for_each_bucket(keys, [counts, noted = buckets.get()](std::size_t i, std::size_t bucket) {
    noted[i] = static_cast<std::uint32_t>(bucket);
    ++counts[bucket];
  });
  // The buckets are our own notes, so the counts are theirs even if the keys change meanwhile.
  static_cast<void>(scatter_stably(keys, std::span<const std::int64_t>(counts), out,
                                   [noted = buckets.get()](std::size_t i) { return std::size_t{noted[i]}; }));
}

#define LABKIT_INSTANTIATE(T) template class Classifier<T>;
LABKIT_FOR_KEY_TYPES(LABKIT_INSTANTIATE)
#undef LABKIT_INSTANTIATE

}  // namespace labkit::local
