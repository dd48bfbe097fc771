// How much a buffer holds: asked at every message, and nearly always of the same type.

#include "calls.hpp"

namespace labkit::waits {

namespace {

/// The size of an element, bytes; 0 where MPI does not say.
std::uint64_t size_of(Handle type) {
  using Size = int (*)(Handle, Ints);
  static const auto ask = reinterpret_cast<Size>(original("PMPI_Type_size"));
  int size = 0;
  return ask(type, &size) == 0 && size > 0 ? static_cast<std::uint64_t>(size) : 0;
}

/// Whether a type is one of MPI's own.
bool is_named(Handle type) {
  using Envelope = int (*)(Handle, Ints, Ints, Ints, Ints);
  static const auto ask = reinterpret_cast<Envelope>(original("PMPI_Type_get_envelope"));
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = 0;
  return ask(type, &integers, &addresses, &types, &combiner) == 0 &&
         combiner == rank_page().constants().combiner_named;
}

}  // namespace

std::uint64_t bytes_of(Count count, Handle type) {
  // MPI's own types stay what they are; the handle of one that was made may be another one's tomorrow, though never
  // that of one of MPI's own.
  static Handle named = 0;
  static Handle made = 0;
  static std::uint64_t named_size = 0;
  if (count <= 0) return 0;
  type = rank_page().plain(type);
  if (type == named) return static_cast<std::uint64_t>(count) * named_size;
  const std::uint64_t size = size_of(type);
  if (type != made) {
    if (is_named(type)) {
      named = type;
      named_size = size;
    } else {
      made = type;
    }
  }
  return static_cast<std::uint64_t>(count) * size;
}

}  // namespace labkit::waits
