// The node-local kernels for Python. labkit.local makes the outputs, charges, and explains what was refused.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "key_buffer.hpp"
#include "labkit/local/buckets.hpp"
#include "labkit/local/digits.hpp"
#include "labkit/local/merge.hpp"
#include "labkit/local/search.hpp"
#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

constexpr std::int64_t kWrongLengths = -1;
constexpr std::int64_t kNotSorted = -2;

/// Bounds of the runs; empty when the lengths are not those of n keys.
std::vector<std::int64_t> bounds_of(std::span<const std::int64_t> lengths, std::size_t n, std::int64_t& runs) {
  std::vector<std::int64_t> bounds(lengths.size() + 1);
  std::int64_t sum = 0;
  runs = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > static_cast<std::int64_t>(n) - sum) return {};
    sum += lengths[i];
    runs += lengths[i] > 0 ? 1 : 0;
    bounds[i + 1] = sum;
  }
  if (sum != static_cast<std::int64_t>(n)) return {};
  return bounds;
}

/// What both merges share: their checks, and how many runs there were.
template <class Work>
std::int64_t merge_with(const KeyBuffer& keys, nb::handle lengths_array, std::int64_t most_runs, Work work) {
  const KeyBuffer lengths(lengths_array, "lengths");
  std::int64_t runs = 0;
  const auto bounds = bounds_of(lengths.integers("lengths"), keys.size(), runs);
  if (bounds.empty()) return kWrongLengths;
  if (runs > most_runs) return runs;
  const local::MergeOutcome outcome = with_key_type(keys, [&]<class T>(T) {
    const Unlocked unlocked(keys.size());
    return work(keys.as<T>().data(), std::span<const std::int64_t>(bounds));
  });
  return outcome == local::MergeOutcome::done ? runs : kNotSorted;
}

std::int64_t merge_runs(nb::handle keys_array, nb::handle lengths, nb::handle out_array, std::int64_t most_runs) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer out(out_array, "out", true);
  if (!out.has_type_of(keys)) throw nb::type_error("keys and out must be of one type");
  out.require_size(keys.size(), "out");
  out.require_apart(keys);
  return merge_with(keys, lengths, most_runs, [&]<class T>(const T* data, std::span<const std::int64_t> bounds) {
    return local::merge_runs<T>(data, bounds, out.as_writable<T>().data());
  });
}

std::int64_t merge_order(nb::handle keys_array, nb::handle lengths, nb::handle order_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer order(order_array, "order", true);
  const auto places = order.writable_integers("order");
  order.require_size(keys.size(), "order");
  order.require_apart(keys);
  return merge_with(keys, lengths, INT64_MAX, [&]<class T>(const T* data, std::span<const std::int64_t> bounds) {
    return local::merge_order<T>(data, bounds, places.data());
  });
}

local::Digit digit_of(const KeyBuffer& keys, int shift, int bits) {
  if (shift < 0 || shift >= static_cast<int>(8 * keys.item_bytes()) || bits < 1 || bits > 16) {
    throw nb::value_error("no such digit");
  }
  return {shift, bits};
}

void count_digits(nb::handle keys_array, int shift, int bits, nb::handle counts_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer counts(counts_array, "counts", true);
  const local::Digit digit = digit_of(keys, shift, bits);
  counts.require_size(digit.count(), "counts");
  counts.require_apart(keys);
  const auto result = counts.writable_integers("counts");
  with_key_type(keys, [&]<class T>(T) {
    const Unlocked unlocked(keys.size());
    local::count_digits<T>(keys.as<T>(), digit, result);
  });
}

bool scatter_by_digit(nb::handle keys_array, int shift, int bits, nb::handle counts_array, nb::handle out_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer counts(counts_array, "counts");
  const KeyBuffer out(out_array, "out", true);
  const local::Digit digit = digit_of(keys, shift, bits);
  if (!out.has_type_of(keys)) throw nb::type_error("keys and out must be of one type");
  counts.require_size(digit.count(), "counts");
  out.require_size(keys.size(), "out");
  out.require_apart(keys);
  out.require_apart(counts);
  const auto expected = counts.integers("counts");
  return with_key_type(keys, [&]<class T>(T) {
    const Unlocked unlocked(keys.size());
    return local::scatter_by_digit<T>(keys.as<T>(), digit, expected, out.as_writable<T>().data());
  });
}

/// Call f with the classifier and the keys. False: the splitters are not sorted.
template <class F>
bool with_classifier(const KeyBuffer& keys, nb::handle splitters_array, F f) {
  const KeyBuffer splitters(splitters_array, "splitters");
  if (!splitters.has_type_of(keys)) throw nb::type_error("keys and splitters must be of one type");
  return with_key_type(keys, [&]<class T>(T) {
    const auto sorted = splitters.as<T>();
    if (!std::is_sorted(sorted.begin(), sorted.end())) return false;
    const local::Classifier<T> classifier(sorted);
    const Unlocked unlocked(keys.size());
    f(classifier, keys.as<T>());
    return true;
  });
}

bool classify(nb::handle keys_array, nb::handle splitters, nb::handle buckets_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer buckets(buckets_array, "buckets", true);
  const auto result = buckets.writable_integers("buckets");
  buckets.require_size(keys.size(), "buckets");
  buckets.require_apart(keys);
  return with_classifier(keys, splitters,
                         [&](const auto& classifier, auto data) { classifier.classify(data, result.data()); });
}

bool count_buckets(nb::handle keys_array, nb::handle splitters, nb::handle counts_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer counts(counts_array, "counts", true);
  const auto result = counts.writable_integers("counts");
  counts.require_size(nb::len(splitters) + 1, "counts");
  counts.require_apart(keys);
  return with_classifier(keys, splitters,
                         [&](const auto& classifier, auto data) { classifier.count(data, result); });
}

bool distribute(nb::handle keys_array, nb::handle splitters, nb::handle counts_array, nb::handle out_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer counts(counts_array, "counts", true);
  const KeyBuffer out(out_array, "out", true);
  const auto result = counts.writable_integers("counts");
  if (!out.has_type_of(keys)) throw nb::type_error("keys and out must be of one type");
  counts.require_size(nb::len(splitters) + 1, "counts");
  out.require_size(keys.size(), "out");
  out.require_apart(keys);
  out.require_apart(counts);
  return with_classifier(keys, splitters, [&](const auto& classifier, auto data) {
    using T = typename decltype(data)::value_type;
    classifier.distribute(data, result, out.as_writable<T>().data());
  });
}

void count_up_to(nb::handle keys_array, nb::handle limits_array, nb::handle including, nb::handle counts_array) {
  const KeyBuffer keys(keys_array, "keys");
  const KeyBuffer limits(limits_array, "limits");
  const KeyBuffer counts(counts_array, "counts", true);
  if (!limits.has_type_of(keys)) throw nb::type_error("keys and limits must be of one type");
  counts.require_size(limits.size(), "counts");
  counts.require_apart(keys);
  counts.require_apart(limits);
  std::int64_t* const result = counts.writable_integers("counts").data();
  const auto run = [&](auto is_including) {
    with_key_type(keys, [&]<class T>(T) {
      const Unlocked unlocked(limits.size());
      local::count_up_to<T>(keys.as<T>(), limits.as<T>(), is_including, result);
    });
  };
  if (nb::isinstance<nb::bool_>(including)) {
    const bool always = nb::cast<bool>(including);
    run([always](std::size_t) { return always; });
    return;
  }
  const KeyBuffer flags(including, "including");
  if (flags.is_signed() || flags.item_bytes() != 1) throw nb::type_error("including must be of uint8");
  flags.require_size(limits.size(), "including");
  run([flag = flags.as<std::uint8_t>()](std::size_t i) { return flag[i] != 0; });
}

const Registration local_kernels(50, [](nb::module_& module) {
  using nb::arg;
  module.def("merge_runs", &merge_runs, arg("keys"), arg("lengths"), arg("out"), arg("most_runs"),
             nb::sig("def merge_runs(keys: object, lengths: object, out: object, most_runs: int) -> int"),
             "Merge sorted runs into out unless there are more than most_runs that are not empty. Returns how "
             "many there are; -1: the lengths are wrong; -2: a run is not sorted.");
  module.def("merge_order", &merge_order, arg("keys"), arg("lengths"), arg("order"),
             nb::sig("def merge_order(keys: object, lengths: object, order: object) -> int"),
             "Write the order in which sorted runs merge. Returns as merge_runs does.");
  module.def("count_digits", &count_digits, arg("keys"), arg("shift"), arg("bits"), arg("counts"),
             nb::sig("def count_digits(keys: object, shift: int, bits: int, counts: object) -> None"),
             "Count how often each digit occurs.");
  module.def("scatter_by_digit", &scatter_by_digit, arg("keys"), arg("shift"), arg("bits"), arg("counts"),
             arg("out"),
             nb::sig("def scatter_by_digit(keys: object, shift: int, bits: int, counts: object, out: object) -> bool"),
             "Order keys by one digit, stably. False: the counts are not theirs.");
  module.def("classify", &classify, arg("keys"), arg("splitters"), arg("buckets"),
             nb::sig("def classify(keys: object, splitters: object, buckets: object) -> bool"),
             "Write the bucket of every key. False: the splitters are not sorted.");
  module.def("count_buckets", &count_buckets, arg("keys"), arg("splitters"), arg("counts"),
             nb::sig("def count_buckets(keys: object, splitters: object, counts: object) -> bool"),
             "Count the keys of every bucket. False: the splitters are not sorted.");
  module.def("distribute", &distribute, arg("keys"), arg("splitters"), arg("counts"), arg("out"),
             nb::sig("def distribute(keys: object, splitters: object, counts: object, out: object) -> bool"),
             "Write the keys bucket after bucket, and count them. False: the splitters are not sorted.");
  module.def("count_up_to", &count_up_to, arg("keys"), arg("limits"), arg("including"), arg("counts"),
             nb::sig("def count_up_to(keys: object, limits: object, including: object, counts: object) -> None"),
             "Count the sorted keys below each limit; those equal to it too where including (bool, or uint8 each).");
});

}  // namespace
}  // namespace labkit::bindings
