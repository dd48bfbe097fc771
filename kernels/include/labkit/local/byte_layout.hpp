// Where the bytes of a datatype lie: gathered into a row of bytes, and scattered from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace labkit {

/// Consecutive bytes of an element.
struct ByteRun {
  std::int64_t offset = 0;  ///< from the element's begin; may be negative
  std::uint64_t bytes = 0;
};

/// The runs of one element in the order in which they are packed; elements follow each other by `extent` bytes.
class ByteLayout {
 public:
  /// Drops empty runs.
  ByteLayout(std::vector<ByteRun> runs, std::int64_t extent);
  /// Bytes of data in one element.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::int64_t extent() const { return extent_; }
  /// Pieces of consecutive bytes in one element.
  [[nodiscard]] std::size_t runs() const { return runs_.size(); }
  /// From the first to behind the last byte of data of one element.
  [[nodiscard]] std::uint64_t span() const { return span_; }
  /// Gather `count` elements from `base` on into `out`, which has room for count * size() bytes.
  void pack(const char* base, std::uint64_t count, char* out) const;
  /// Scatter `bytes` bytes over as many elements as they fill; the last one may be filled in part.
  void unpack(char* base, const char* from, std::uint64_t bytes) const;

 private:
  std::vector<ByteRun> runs_;
  std::int64_t extent_;
  std::uint64_t size_ = 0;
  std::uint64_t span_ = 0;
};

}  // namespace labkit
