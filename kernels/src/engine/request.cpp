#include "labkit/engine/request.hpp"

#include <stdexcept>

namespace labkit {

void RequestSlab::grow() {
  const std::size_t first = slot_count();
  if (first + kChunk >= kNone) throw std::length_error("more than 2^32 live requests");
  chunks_.push_back(std::make_unique<Request[]>(kChunk));
  for (std::uint32_t i = kChunk; i-- > 0;) {
    chunks_.back()[i].next = free_;
    free_ = static_cast<std::uint32_t>(first) + i;
  }
}

}  // namespace labkit
