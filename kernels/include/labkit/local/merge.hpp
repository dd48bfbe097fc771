// Merging sorted runs: a tree of stable two-way merges between two buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace labkit::local {

/// Why nothing useful was written.
enum class MergeOutcome : std::uint8_t { done, not_sorted };

/// Merge the runs keys[bounds[i], bounds[i+1]) into `out`, which has room for all keys and overlaps nothing.
/// `bounds` starts with 0 and does not decrease. Ties go by run, then by position.
///
/// Runs that are not sorted do no harm: the result is then some order of all keys, or `not_sorted`.
template <class T>
MergeOutcome merge_runs(const T* keys, std::span<const std::int64_t> bounds, T* out);

/// The order in which merge_runs takes the keys: order[i] is the position of the i-th key.
template <class T>
MergeOutcome merge_order(const T* keys, std::span<const std::int64_t> bounds, std::int64_t* order);

}  // namespace labkit::local
