// The sums of calls as columns of NumPy.
#pragma once

#include <nanobind/nanobind.h>

#include "columns.hpp"
#include "labkit/trace/call_sums.hpp"

namespace labkit::bindings {

/// An array for each sum, the number of the path by row, and of each path (phases, phase, call, place).
inline nanobind::dict summed_columns(const CallSums& sums, std::size_t counters) {
  using Row = const PathSums&;
  const auto& rows = sums.rows();
  nanobind::dict columns;
  columns["rank"] = column(rows, [](Row row) { return static_cast<std::int64_t>(row.rank); });
  columns["path"] = column(rows, [](Row row) { return static_cast<std::int64_t>(row.path); });
  columns["visits"] = column(rows, [](Row row) { return row.visits; });
  columns["spent_s"] = column(rows, [](Row row) { return row.spent_s; });
  columns["messages"] = column(rows, [](Row row) { return row.messages; });
  columns["bytes"] = column(rows, [](Row row) { return row.bytes; });
  columns["empty_messages"] = column(rows, [](Row row) { return row.empty_messages; });
  columns["collective_bytes"] = column(rows, [](Row row) { return row.collective_bytes; });
  columns["empty_collectives"] = column(rows, [](Row row) { return row.empty_collectives; });
  nanobind::list counted;
  for (std::size_t event = 0; event < counters; ++event) {
    std::vector<std::uint64_t> own;
    own.reserve(rows.size());
    for (std::size_t at = event; at < sums.counts().size(); at += counters) own.push_back(sums.counts()[at]);
    counted.append(column(own, [](std::uint64_t value) { return static_cast<std::int64_t>(value); }));
  }
  columns["counted"] = counted;
  nanobind::list paths;
  for (const CallSums::Path& path : sums.paths()) {
    const CallSums::Node& node = sums.node(path.node);
    paths.append(nanobind::make_tuple(node.text.c_str(), node.name.c_str(), path.call, path.place));
  }
  columns["paths"] = paths;
  return columns;
}

}  // namespace labkit::bindings
