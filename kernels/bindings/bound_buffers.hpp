// A rank's buffers as Python describes them: (array or None, element bytes, count, counts, displacements).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/schedule/collective.hpp"

namespace labkit::bindings {

/// An array of int64, copied as a block, or any sequence of integers.
inline std::vector<std::int64_t> integers_of(nanobind::handle value) {
  using Integers = nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
  Integers array;
  if (nanobind::try_cast(value, array)) return {array.data(), array.data() + array.shape(0)};
  return nanobind::cast<std::vector<std::int64_t>>(value);
}

/// Bytes is the ndarray type to ask for: with nb::ro also memory that cannot be written.
template <class Bytes>
BoundBuffer bound_buffer(nanobind::handle value) {
  const auto parts = nanobind::cast<nanobind::tuple>(value);
  BoundBuffer buffer;
  if (!parts[0].is_none()) {
    const auto array = nanobind::cast<Bytes>(parts[0]);
    buffer.data = const_cast<std::byte*>(static_cast<const std::byte*>(array.data()));
  }
  buffer.element_bytes = nanobind::cast<std::int32_t>(parts[1]);
  buffer.count = nanobind::cast<std::int64_t>(parts[2]);
  if (!parts[3].is_none()) {
    buffer.counts = integers_of(parts[3]);
    buffer.displacements = integers_of(parts[4]);
  }
  return buffer;
}

template <class Bytes>
std::vector<BoundBuffer> bound_buffers(nanobind::handle value) {
  std::vector<BoundBuffer> buffers;
  for (const nanobind::handle one : nanobind::cast<nanobind::tuple>(value)) buffers.push_back(bound_buffer<Bytes>(one));
  return buffers;
}

}  // namespace labkit::bindings
