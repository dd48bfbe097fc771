// MPI's predefined operations: one loop for each operation and type.
#include "labkit/schedule/reduction.hpp"

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "half.hpp"

namespace labkit {

namespace {

template <class T>
inline constexpr bool kIsComplex = false;
template <class R>
inline constexpr bool kIsComplex<std::complex<R>> = true;
template <class T>
inline constexpr bool kIsPlainInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
inline constexpr bool kIsReal = kIsPlainInteger<T> || std::is_floating_point_v<T>;

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));  // buffers may be unaligned (packed records)
  return value;
}

/// F::of(left, right) for each element.
template <class T, class F>
class Elementwise final : public Reduction {
 public:
  void apply(const std::byte* source, std::byte* target, std::size_t bytes, bool is_source_first) const override {
    const std::size_t n = bytes / sizeof(T);
    if (is_source_first) {
      for (std::size_t i = 0; i < n; ++i) one(source + i * sizeof(T), target + i * sizeof(T), target + i * sizeof(T));
    } else {
      for (std::size_t i = 0; i < n; ++i) one(target + i * sizeof(T), source + i * sizeof(T), target + i * sizeof(T));
    }
  }

 private:
  static void one(const std::byte* left, const std::byte* right, std::byte* out) {
    const T value = F::template of<T>(load<T>(left), load<T>(right));
    std::memcpy(out, &value, sizeof(T));
  }
};

// Integers wrap around: signed overflow has no meaning in C++, so they are computed unsigned, and
// short ones as unsigned int (two unsigned shorts would be multiplied as signed ints).
template <class T, class F>
T wrapped(T left, T right, F f) {
  if constexpr (kIsPlainInteger<T>) {
    using U = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
    return static_cast<T>(f(static_cast<U>(left), static_cast<U>(right)));
  } else {
    return f(left, right);
  }
}

struct Sum {
  template <class T> static T of(T a, T b) { return wrapped(a, b, [](auto x, auto y) { return x + y; }); }
};
struct Product {
  template <class T> static T of(T a, T b) { return wrapped(a, b, [](auto x, auto y) { return x * y; }); }
};
struct Minimum {
  template <class T> static T of(T a, T b) { return b < a ? b : a; }
};
struct Maximum {
  template <class T> static T of(T a, T b) { return a < b ? b : a; }
};
struct LogicalAnd {
  template <class T> static T of(T a, T b) { return static_cast<T>(a != T(0) && b != T(0)); }
};
struct LogicalOr {
  template <class T> static T of(T a, T b) { return static_cast<T>(a != T(0) || b != T(0)); }
};
struct LogicalXor {
  template <class T> static T of(T a, T b) { return static_cast<T>((a != T(0)) != (b != T(0))); }
};
struct BitAnd {
  template <class T> static T of(T a, T b) { return static_cast<T>(a & b); }
};
struct BitOr {
  template <class T> static T of(T a, T b) { return static_cast<T>(a | b); }
};
struct BitXor {
  template <class T> static T of(T a, T b) { return static_cast<T>(a ^ b); }
};

/// MPI's pair types: a value and an int, laid out as a C struct.
template <class V>
struct Pair {
  V value;
  std::int32_t index;
};
struct MinimumLocation {
  template <class P> static P of(P a, P b) {
    if (a.value == b.value) return a.index <= b.index ? a : b;
    return b.value < a.value ? b : a;
  }
};
struct MaximumLocation {
  template <class P> static P of(P a, P b) {
    if (a.value == b.value) return a.index <= b.index ? a : b;
    return a.value < b.value ? b : a;
  }
};

/// MPI_REPLACE takes the origin's (left) operand, MPI_NO_OP leaves the target.
class Replace final : public Reduction {
 public:
  void apply(const std::byte* source, std::byte* target, std::size_t bytes, bool is_source_first) const override {
    if (is_source_first) std::memmove(target, source, bytes);
  }
};
class NoOperation final : public Reduction {
 public:
  void apply(const std::byte* source, std::byte* target, std::size_t bytes, bool is_source_first) const override {
    if (!is_source_first) std::memmove(target, source, bytes);
  }
};

using Found = std::shared_ptr<const Reduction>;

template <class T, class F>
Found made() {
  return std::make_shared<Elementwise<T, F>>();
}

template <class T>
Found arithmetic(std::string_view operation) {
  if constexpr (!std::is_same_v<T, bool>) {
    if (operation == "sum") return made<T, Sum>();
    if (operation == "prod") return made<T, Product>();
  }
  if constexpr (!kIsComplex<T>) {
    if (operation == "min") return made<T, Minimum>();
    if (operation == "max") return made<T, Maximum>();
    if (operation == "land") return made<T, LogicalAnd>();
    if (operation == "lor") return made<T, LogicalOr>();
    if (operation == "lxor") return made<T, LogicalXor>();
  }
  if constexpr (std::is_integral_v<T>) {
    if (operation == "band") return made<T, BitAnd>();
    if (operation == "bor") return made<T, BitOr>();
    if (operation == "bxor") return made<T, BitXor>();
  }
  return nullptr;
}

template <class V>
Found location(std::string_view operation) {
  if (operation == "minloc") return made<Pair<V>, MinimumLocation>();
  if (operation == "maxloc") return made<Pair<V>, MaximumLocation>();
  return nullptr;
}

}  // namespace

std::shared_ptr<const Reduction> native_reduction(std::string_view operation, std::string_view type) {
  if (operation == "replace") return std::make_shared<Replace>();
  if (operation == "no_op") return std::make_shared<NoOperation>();
  if (type == "b1") return arithmetic<bool>(operation);
  if (type == "i1") return arithmetic<std::int8_t>(operation);
  if (type == "i2") return arithmetic<std::int16_t>(operation);
  if (type == "i4") return arithmetic<std::int32_t>(operation);
  if (type == "i8") return arithmetic<std::int64_t>(operation);
  if (type == "u1") return arithmetic<std::uint8_t>(operation);
  if (type == "u2") return arithmetic<std::uint16_t>(operation);
  if (type == "u4") return arithmetic<std::uint32_t>(operation);
  if (type == "u8") return arithmetic<std::uint64_t>(operation);
  if (type == "f2") return arithmetic<Half>(operation);
  if (type == "f4") return arithmetic<float>(operation);
  if (type == "f8") return arithmetic<double>(operation);
  if (type == "f16") return arithmetic<long double>(operation);
  if (type == "c8") return arithmetic<std::complex<float>>(operation);
  if (type == "c16") return arithmetic<std::complex<double>>(operation);
  if (type == "c32") return arithmetic<std::complex<long double>>(operation);
  if (type == "f4+i4") return location<float>(operation);
  if (type == "f8+i4") return location<double>(operation);
  if (type == "f16+i4") return location<long double>(operation);
  if (type == "i2+i4") return location<std::int16_t>(operation);
  if (type == "i4+i4") return location<std::int32_t>(operation);
  if (type == "i8+i4") return location<std::int64_t>(operation);
  return nullptr;
}

}  // namespace labkit
