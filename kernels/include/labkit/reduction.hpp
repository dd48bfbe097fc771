// MPI's predefined operations on NumPy's numeric types.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

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
