#include "labkit/local/byte_layout.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace labkit {

ByteLayout::ByteLayout(std::vector<ByteRun> runs, std::int64_t extent) : runs_(std::move(runs)), extent_(extent) {
  std::erase_if(runs_, [](const ByteRun& run) { return run.bytes == 0; });
  if (runs_.empty()) return;
  std::int64_t begin = runs_.front().offset;
  std::int64_t end = begin;
  for (const ByteRun& run : runs_) {
    size_ += run.bytes;
    begin = std::min(begin, run.offset);
    end = std::max(end, run.offset + static_cast<std::int64_t>(run.bytes));
  }
  span_ = static_cast<std::uint64_t>(end - begin);
}

void ByteLayout::pack(const char* base, std::uint64_t count, char* out) const {
  for (std::uint64_t i = 0; i < count; ++i, base += extent_) {
    for (const ByteRun& run : runs_) {
      std::memcpy(out, base + run.offset, run.bytes);
      out += run.bytes;
    }
  }
}

void ByteLayout::unpack(char* base, const char* from, std::uint64_t bytes) const {
  if (size_ == 0) return;
  for (; bytes > 0; base += extent_) {
    for (const ByteRun& run : runs_) {
      const std::uint64_t part = std::min(run.bytes, bytes);
      std::memcpy(base + run.offset, from, part);
      from += part;
      bytes -= part;
      if (bytes == 0) return;
    }
  }
}

}  // namespace labkit
