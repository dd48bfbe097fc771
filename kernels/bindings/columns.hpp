// Rows of C++ as columns of NumPy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <type_traits>
#include <vector>

namespace labkit::bindings {

/// An array of its own with field(row) of every row.
template <class Row, class Field>
nanobind::object column(const std::vector<Row>& rows, Field field) {
  using Value = std::decay_t<std::invoke_result_t<Field, const Row&>>;
  auto* data = new Value[rows.size()];
  for (std::size_t i = 0; i < rows.size(); ++i) data[i] = field(rows[i]);
  nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<Value*>(p); });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, Value, nanobind::ndim<1>>(data, {rows.size()}, owner));
}

}  // namespace labkit::bindings
