// A growing table in parts: a row never moves, and parts are given back one by one when the table is read out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace labkit {

/// Parts are larger than what allocators keep for themselves (32 MiB): a freed one goes back to the system at
/// once, and of the last one only the pages that hold rows take memory.
template <class Row>
class Rows {
  static_assert(std::is_trivially_copyable_v<Row> && std::is_trivially_destructible_v<Row>);

 public:
  void push_back(const Row& row) {
    if (size_ == parts_.size() * kPart) parts_.push_back(std::make_unique_for_overwrite<Room>());
    row_at(size_++) = row;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Row& back() { return row_at(size_ - 1); }
  [[nodiscard]] const Row& operator[](std::size_t index) const { return parts_[index / kPart]->rows[index % kPart]; }

  /// Calls use(rows, count, index of the first) with every part in order, and frees it: the table is empty then.
  template <class Use>
  void drain(Use use) {
    const std::size_t size = std::exchange(size_, 0);
    std::size_t first = 0;
    for (std::unique_ptr<Room>& part : std::exchange(parts_, {})) {
      use(static_cast<const Row*>(part->rows), std::min(kPart, size - first), first);
      part.reset();
      first += kPart;
    }
  }

 private:
  static constexpr std::size_t kPart = (std::size_t{33} << 20) / sizeof(Row);
  struct Room {
    Row rows[kPart];
  };
  Row& row_at(std::size_t index) { return parts_[index / kPart]->rows[index % kPart]; }

  std::vector<std::unique_ptr<Room>> parts_;
  std::size_t size_ = 0;
};

}  // namespace labkit
