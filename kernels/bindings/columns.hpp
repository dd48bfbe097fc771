// Rows of C++ as columns of NumPy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

#include "labkit/engine/rows.hpp"

namespace labkit::bindings {

/// An array that owns `data`, which `new[]` made.
template <class Value>
nanobind::object owning(Value* data, std::size_t size) {
  nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<Value*>(p); });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, Value, nanobind::ndim<1>>(data, {size}, owner));
}

/// An array with field(row) of every row.
template <class Row, class Field>
nanobind::object column(const std::vector<Row>& rows, Field field) {
  using Value = std::decay_t<std::invoke_result_t<Field, const Row&>>;
  auto* data = new Value[rows.size()];
  for (std::size_t i = 0; i < rows.size(); ++i) data[i] = field(rows[i]);
  return owning(data, rows.size());
}

/// Turns a table of rows into one array per column, part by part: at no time does memory hold both whole.
template <class Row>
class Columns {
 public:
  explicit Columns(Rows<Row>& rows) : rows_(rows) {}

  /// The column has field(row) of every row.
  template <class Field>
  void add(const char* name, Field field) {
    using Value = std::decay_t<std::invoke_result_t<Field, const Row&>>;
    auto* data = new Value[rows_.size()];
    columns_[name] = owning(data, rows_.size());
    fills_.push_back([data, field](const Row* rows, std::size_t count, std::size_t first) {
      for (std::size_t i = 0; i < count; ++i) data[first + i] = field(rows[i]);
    });
  }

  /// The columns by name; the table is empty afterwards.
  nanobind::dict take() {
    rows_.drain([this](const Row* rows, std::size_t count, std::size_t first) {
      for (const auto& fill : fills_) fill(rows, count, first);
    });
    return columns_;
  }

 private:
  Rows<Row>& rows_;
  nanobind::dict columns_;
  std::vector<std::function<void(const Row*, std::size_t, std::size_t)>> fills_;
};

}  // namespace labkit::bindings
