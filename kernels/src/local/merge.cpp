#include "labkit/local/merge.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "labkit/local/words.hpp"

namespace labkit::local {
namespace {

using Size = std::ptrdiff_t;

/// Below so many keys, finding the middle costs more than the second pair of merges gains.
constexpr Size kSplitAbove = 64;

/// A key and where it stood.
struct Placed {
  std::uint64_t word;
  std::int64_t place;
  friend bool operator<(const Placed& left, const Placed& right) { return left.word < right.word; }
};

/// Two sorted ranges that become one, from both ends at once: two chains of comparisons that do not wait
/// for each other, and no branch that depends on a key.
template <class E>
struct Merge {
  const E* left;
  const E* left_end;
  const E* right;
  const E* right_end;
  E* out;
  E* out_end;

  /// Steps that can be taken at both ends without looking behind a range.
  [[nodiscard]] Size safe_steps() const { return std::min(left_end - left, right_end - right); }

  void step() {
    const bool is_right = *right < *left;
    *out++ = is_right ? *right : *left;
    right += is_right;
    left += !is_right;
    const bool is_left = right_end[-1] < left_end[-1];
    *--out_end = is_left ? left_end[-1] : right_end[-1];
    left_end -= is_left;
    right_end -= !is_left;
  }

  /// Take the rest. False: the ends crossed, so a range was not sorted.
  bool finish() {
    while (left < left_end && right < right_end) {
      for (Size i = safe_steps(); i > 0; --i) step();
    }
    if (left > left_end || right > right_end) return false;
    std::copy(right, right_end, std::copy(left, left_end, out));
    return true;
  }
};

/// How many of the first `count` keys of the merged sequence come from the left range.
template <class E>
Size count_from_left(const E* left, Size left_size, const E* right, Size right_size, Size count) {
  Size low = std::max<Size>(0, count - right_size);
  Size length = std::min(count, left_size) - low;
  while (length > 0) {
    const Size half = length / 2;
    const bool is_more = !(right[count - 1 - low - half] < left[low + half]);
    low = is_more ? low + half + 1 : low;
    length = is_more ? length - half - 1 : half;
  }
  return low;
}

/// Long ranges are cut in the middle of the result: four chains instead of two.
template <class E>
bool merge_two(const E* left, const E* left_end, const E* right, const E* right_end, E* out) {
  const Size left_size = left_end - left;
  const Size right_size = right_end - right;
  const Size size = left_size + right_size;
  if (size < kSplitAbove) return Merge<E>{left, left_end, right, right_end, out, out + size}.finish();
  const Size half = size / 2;
  const Size from_left = count_from_left(left, left_size, right, right_size, half);
  const E* const left_cut = left + from_left;
  const E* const right_cut = right + (half - from_left);
  Merge<E> low{left, left_cut, right, right_cut, out, out + half};
  Merge<E> high{left_cut, left_end, right_cut, right_end, out + half, out + size};
  for (Size i = std::min(low.safe_steps(), high.safe_steps()); i > 0; --i) {
    low.step();
    high.step();
  }
  const bool is_low_good = low.finish();
  return high.finish() && is_low_good;
}

/// The tree, walked depth first so that small merges stay in the cache. A node's children leave their
/// results in the other buffer; a run alone is read where it is.
template <class E>
class Tree {
 public:
  Tree(const E* keys, std::vector<std::int64_t> bounds) : keys_(keys), bounds_(std::move(bounds)) {}

  /// Merge all runs, at least two, into `out`.
  MergeOutcome run(E* out, E* scratch) {
    merge(0, bounds_.size() - 1, out, scratch);
    return is_sorted_ ? MergeOutcome::done : MergeOutcome::not_sorted;
  }

 private:
  const E* merge(std::size_t first, std::size_t last, E* out, E* other) {
    if (last - first == 1) return keys_ + bounds_[first];
    const std::size_t middle = middle_of(first, last);
    const E* left = merge(first, middle, other, out);
    const E* right = merge(middle, last, other, out);
    const Size left_size = bounds_[middle] - bounds_[first];
    const Size right_size = bounds_[last] - bounds_[middle];
    if (is_sorted_) {
      is_sorted_ = merge_two(left, left + left_size, right, right + right_size, out + bounds_[first]);
    }
    return out + bounds_[first];
  }

  /// The run boundary nearest to the middle key: a long run takes part in few merges.
  [[nodiscard]] std::size_t middle_of(std::size_t first, std::size_t last) const {
    const std::int64_t target = bounds_[first] + (bounds_[last] - bounds_[first]) / 2;
    const auto begin = bounds_.begin();
    const auto found = std::lower_bound(begin + static_cast<Size>(first) + 1, begin + static_cast<Size>(last), target);
    auto middle = static_cast<std::size_t>(found - begin);
    if (middle > first + 1 && target - bounds_[middle - 1] < bounds_[middle] - target) --middle;
    return std::min(middle, last - 1);
  }

  const E* keys_;
  std::vector<std::int64_t> bounds_;
  bool is_sorted_ = true;
};

/// The bounds without empty runs.
std::vector<std::int64_t> without_empty(std::span<const std::int64_t> bounds) {
  std::vector<std::int64_t> kept(bounds.begin(), bounds.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

/// Merge elements that carry their place; write the places.
template <class E, class Make, class PlaceOf>
MergeOutcome order_of(std::vector<std::int64_t> bounds, std::int64_t* order, Make make, PlaceOf place_of) {
  const std::int64_t n = bounds.back();
  const auto size = static_cast<std::size_t>(n);
  const auto elements = std::make_unique_for_overwrite<E[]>(size);
  const auto merged = std::make_unique_for_overwrite<E[]>(size);
  const auto scratch = std::make_unique_for_overwrite<E[]>(size);
  for (std::int64_t i = 0; i < n; ++i) elements[static_cast<std::size_t>(i)] = make(i);
  const MergeOutcome outcome = Tree<E>(elements.get(), std::move(bounds)).run(merged.get(), scratch.get());
  if (outcome == MergeOutcome::done) std::transform(merged.get(), merged.get() + n, order, place_of);
  return outcome;
}

}  // namespace

template <class T>
MergeOutcome merge_runs(const T* keys, std::span<const std::int64_t> bounds, T* out) {
  std::vector<std::int64_t> kept = without_empty(bounds);
  const std::int64_t n = kept.back();
  if (kept.size() <= 2) {
    std::copy(keys, keys + n, out);
    return MergeOutcome::done;
  }
  const auto scratch = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(n));
  return Tree<T>(keys, std::move(kept)).run(out, scratch.get());
}

template <class T>
MergeOutcome merge_order(const T* keys, std::span<const std::int64_t> bounds, std::int64_t* order) {
  std::vector<std::int64_t> kept = without_empty(bounds);
  const std::int64_t n = kept.back();
  if (kept.size() <= 2) {
    for (std::int64_t i = 0; i < n; ++i) order[i] = i;
    return MergeOutcome::done;
  }
  if constexpr (sizeof(T) <= 4) {  // key and place in one word, so that ties are compared too
    if (n <= std::numeric_limits<std::uint32_t>::max()) {
      return order_of<std::uint64_t>(
          std::move(kept), order,
          [keys](std::int64_t i) {
            return std::uint64_t{to_word(keys[i])} << 32 | static_cast<std::uint64_t>(i);
          },
          [](std::uint64_t element) { return static_cast<std::int64_t>(element & 0xFFFFFFFFU); });
    }
  }
  return order_of<Placed>(
      std::move(kept), order, [keys](std::int64_t i) { return Placed{to_word(keys[i]), i}; },
      [](const Placed& element) { return element.place; });
}

#define LABKIT_INSTANTIATE(T)                                                           \
  template MergeOutcome merge_runs<T>(const T*, std::span<const std::int64_t>, T*); \
  template MergeOutcome merge_order<T>(const T*, std::span<const std::int64_t>, std::int64_t*);
LABKIT_FOR_KEY_TYPES(LABKIT_INSTANTIATE)
#undef LABKIT_INSTANTIATE

}  // namespace labkit::local
