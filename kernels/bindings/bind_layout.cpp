// _kernels.Layout: datatypes whose bytes have gaps, by address as MPI has it.
#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "key_buffer.hpp"
#include "labkit/local/byte_layout.hpp"
#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

void make_layout(ByteLayout* self, nb::handle offsets_array, nb::handle lengths_array, std::int64_t extent) {
  const KeyBuffer offsets(offsets_array, "offsets");
  const KeyBuffer lengths(lengths_array, "lengths");
  const auto begins = offsets.integers("offsets");
  const auto sizes = lengths.integers("lengths");
  if (begins.size() != sizes.size()) throw nb::value_error("as many offsets as lengths are needed");
  std::vector<ByteRun> runs;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (sizes[i] < 0) throw nb::value_error("a run has 0 bytes or more");
    runs.push_back({begins[i], static_cast<std::uint64_t>(sizes[i])});
  }
  new (self) ByteLayout(std::move(runs), extent);
}

char* at(std::uint64_t address) {
  return reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr): MPI's addresses are numbers
}

nb::bytes pack(const ByteLayout& layout, std::uint64_t address, std::uint64_t count) {
  const std::uint64_t bytes = count * layout.size();
  PyObject* packed = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (packed == nullptr) throw nb::python_error();
  layout.pack(at(address), count, PyBytes_AS_STRING(packed));
  return nb::steal<nb::bytes>(packed);
}

void unpack(const ByteLayout& layout, std::uint64_t address, nb::handle data) {
  Py_buffer view;
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_C_CONTIGUOUS) < 0) throw nb::python_error();
  layout.unpack(at(address), static_cast<const char*>(view.buf), static_cast<std::uint64_t>(view.len));
  PyBuffer_Release(&view);
}

const Registration layouts(95, [](nb::module_& module) {
  nb::class_<ByteLayout>(module, "Layout", "Where the bytes of a datatype's element lie.")
      .def("__init__", &make_layout, nb::arg("offsets"), nb::arg("lengths"), nb::arg("extent"))
      .def_prop_ro("size", &ByteLayout::size, "Bytes of data in one element.")
      .def_prop_ro("runs", &ByteLayout::runs, "Pieces of consecutive bytes in one element.")
      .def_prop_ro("span", &ByteLayout::span, "Bytes from the first to behind the last byte of data of one element.")
      .def_prop_ro("extent", &ByteLayout::extent, "Bytes from one element to the next.")
      .def("pack", &pack, nb::arg("address"), nb::arg("count"), "The bytes of elements in memory, without gaps.")
      .def("unpack", &unpack, nb::arg("address"), nb::arg("data"),
           "Put bytes without gaps where they belong, over as many elements as they fill.");
});

}  // namespace
}  // namespace labkit::bindings
