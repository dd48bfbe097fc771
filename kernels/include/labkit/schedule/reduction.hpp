// MPI's predefined operations on NumPy's numeric types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace labkit {

/// Combines two operands of equal length into the target.
class Reduction {
 public:
  Reduction() = default;
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;
  virtual ~Reduction() = default;
  /// target := source op target if is_source_first, else target op source; element by element.
  virtual void apply(const std::byte* source, std::byte* target, std::size_t bytes, bool is_source_first) const = 0;
  /// The same, of the operands of a rank of the communicator.
  virtual void apply_at(std::int32_t /*rank*/, const std::byte* source, std::byte* target, std::size_t bytes,
                        bool is_source_first) const {
    apply(source, target, bytes, is_source_first);
  }
  /// Whether it is the program's own: each rank, as a process of its own, gives its own.
  [[nodiscard]] virtual bool is_of_rank() const { return false; }
};

/// One collective call's operators of the program's own: each rank's operands are combined by its own operator.
class RankReductions final : public Reduction {
 public:
  explicit RankReductions(std::size_t ranks) : of_rank_(ranks) {}
  void give(std::int32_t rank, std::shared_ptr<const Reduction> own) {
    of_rank_[static_cast<std::size_t>(rank)] = std::move(own);
  }
  void apply(const std::byte* source, std::byte* target, std::size_t bytes, bool is_source_first) const override {
    apply_at(0, source, target, bytes, is_source_first);
  }
  void apply_at(std::int32_t rank, const std::byte* source, std::byte* target, std::size_t bytes,
                bool is_source_first) const override {
    of_rank_.at(static_cast<std::size_t>(rank))->apply(source, target, bytes, is_source_first);
  }

 private:
  std::vector<std::shared_ptr<const Reduction>> of_rank_;  // a rank combines only once it has come
};

/// The reduction for an operation (sum, prod, min, max, land, lor, lxor, band, bor, bxor, minloc,
/// maxloc, replace, no_op) on a type: NumPy's kind and size ("b1", "i1".."i8", "u1".."u8", "f2",
/// "f4", "f8", "f16", "c8", "c16", "c32"), or a value and an int for minloc and maxloc ("f4+i4",
/// "f8+i4", "f16+i4", "i2+i4", "i4+i4", "i8+i4"). nullptr when MPI does not define the pair.
///
/// Integers wrap around; min and max keep the target when the two compare equal or unordered;
/// half precision is computed in single.
std::shared_ptr<const Reduction> native_reduction(std::string_view operation, std::string_view type);

}  // namespace labkit
