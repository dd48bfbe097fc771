// _kernels.analyze_transfers: which link held which transfer of a recorded run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bound_platform.hpp"
#include "columns.hpp"
#include "labkit/trace/transfer_analysis.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

template <class Value>
using Column = nb::ndarray<const Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<Transfer> transfers_of(const BoundPlatform& bound, const Column<std::int32_t>& source,
                                   const Column<std::int32_t>& destination, const Column<std::uint64_t>& bytes,
                                   const Column<double>& start_s, const Column<double>& arrived_s,
                                   const Column<std::uint32_t>& way) {
  const std::size_t count = source.size();
  if (destination.size() != count || bytes.size() != count || start_s.size() != count || arrived_s.size() != count ||
      way.size() != count) {
    throw std::invalid_argument("the columns of the transfers differ in length");
  }
  std::vector<Transfer> transfers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const HostId from = bound.rank_hosts.at(static_cast<std::size_t>(source.data()[i]));
    const HostId to = bound.rank_hosts.at(static_cast<std::size_t>(destination.data()[i]));
    transfers[i] = {from, to, bytes.data()[i], start_s.data()[i], arrived_s.data()[i], way.data()[i]};
  }
  return transfers;
}

nb::dict analyze(const BoundPlatform& bound, const Model& model, const Column<std::int32_t>& source,
                 const Column<std::int32_t>& destination, const Column<std::uint64_t>& bytes,
                 const Column<double>& start_s, const Column<double>& arrived_s, const Column<std::uint32_t>& way,
                 double end_s, std::uint32_t bins, std::uint64_t work) {
  const std::vector<Transfer> transfers = transfers_of(bound, source, destination, bytes, start_s, arrived_s, way);
  TransferAnalysis found;
  {
    nb::gil_scoped_release released;
    found = analyze_transfers(*bound.platform, model, transfers, {end_s, bins, work});
  }
  nb::dict out;
  out["latency_s"] = column(found.latency_s, [](double seconds) { return seconds; });
  out["transfer"] = column(found.held, [](const Held& row) { return std::int64_t{row.transfer}; });
  out["link"] = column(found.held, [](const Held& row) { return std::int64_t{row.link}; });
  out["seconds"] = column(found.held, [](const Held& row) { return row.seconds; });
  out["link_bytes"] = column(found.links, [](const LinkTotals& use) { return use.bytes; });
  out["link_full_s"] = column(found.links, [](const LinkTotals& use) { return use.full_s; });
  out["link_held_s"] = column(found.links, [](const LinkTotals& use) { return use.held_s; });
  out["utilisation"] = column(found.utilisation, [](double share) { return share; });
  out["instants"] = found.instants;
  out["solved"] = found.solved;
  out["moved_error"] = found.moved_error;
  return out;
}

const Registration registration(20, [](nb::module_& module) {
  module.def("analyze_transfers", &analyze, "platform"_a, "model"_a, "source"_a, "destination"_a, "bytes"_a,
             "start_s"_a, "arrived_s"_a, "way"_a, "end_s"_a, "bins"_a, "work"_a,
             "What held each transfer, and the links' use; see labkit.trace.explanation.");
});

}  // namespace
}  // namespace labkit::bindings
