// What an engine recorded, as one array per column. Messages, waits and computations are handed over: the engine
// has them no more.
#pragma once

#include <nanobind/nanobind.h>

#include "columns.hpp"
#include "labkit/engine/engine.hpp"

namespace labkit::bindings {

inline nanobind::dict message_columns(Engine& engine) {
  Columns columns(engine.recorder().rows());
  using Row = const MessageRecord&;
  columns.add("source", [](Row row) { return row.source; });
  columns.add("destination", [](Row row) { return row.destination; });
  columns.add("tag", [](Row row) { return row.tag; });
  columns.add("context", [](Row row) { return row.context; });
  columns.add("bytes", [](Row row) { return row.bytes; });
  columns.add("send_posted_s", [](Row row) { return row.send_posted_s; });
  columns.add("recv_posted_s", [](Row row) { return row.recv_posted_s; });
  columns.add("start_s", [](Row row) { return row.start_s; });
  columns.add("arrived_s", [](Row row) { return row.arrived_s; });
  columns.add("end_s", [](Row row) { return row.end_s; });
  if (engine.platform().router().chooses()) columns.add("way", [](Row row) { return row.way; });
  return columns.take();
}

/// Messages that were posted, and that no receive had when the ranks ended, collectives' too. `is_counted`: the
/// recorder's count has it, since it was on its way.
inline nanobind::dict unreceived_columns(Engine& engine) {
  std::vector<const Request*> rows;
  for (const std::vector<RequestId>& own : engine.requests_by_rank()) {
    for (const RequestId id : own) {
      const Request& request = engine.request(id);
      if (request.kind != RequestKind::send || request.is_done || request.state == RequestState::cancelled) continue;
      rows.push_back(&request);
    }
  }
  using Row = const Request*;
  nanobind::dict columns;
  columns["source"] = column(rows, [](Row row) { return row->owner; });
  columns["destination"] = column(rows, [](Row row) { return row->peer; });
  columns["tag"] = column(rows, [](Row row) { return row->tag; });
  columns["context"] = column(rows, [](Row row) { return row->context; });
  columns["bytes"] = column(rows, [](Row row) { return row->bytes; });
  columns["send_posted_s"] = column(rows, [](Row row) { return row->posted_s; });
  columns["is_counted"] = column(rows, [](Row row) {
    const bool is_under_way = row->is_eager && (row->is_unmatched || row->start_s > 0.0);
    return static_cast<std::uint8_t>(row->partner != kNone || is_under_way);
  });
  return columns;
}

inline nanobind::dict wait_columns(Engine& engine) {
  Columns columns(engine.recorder().waits());
  using Row = const WaitRecord&;
  columns.add("rank", [](Row row) { return row.rank; });
  columns.add("begin_s", [](Row row) { return row.begin_s; });
  columns.add("end_s", [](Row row) { return row.end_s; });
  columns.add("message", [](Row row) { return row.message; });
  if (!engine.recorder().operations().empty()) columns.add("operation", [](Row row) { return row.operation; });
  return columns.take();
}

/// Nonblocking collectives, and the messages that they posted: empty where there were none.
inline nanobind::dict operation_columns(Engine& engine) {
  nanobind::dict columns;
  const auto& rows = engine.recorder().operations();
  if (rows.empty()) return columns;
  nanobind::list names;
  for (const OperationRecord& row : rows) names.append(nanobind::str(row.name.c_str()));
  columns["rank"] = column(rows, [](const OperationRecord& row) { return row.rank; });
  columns["begin_s"] = column(rows, [](const OperationRecord& row) { return row.begin_s; });
  columns["end_s"] = column(rows, [](const OperationRecord& row) { return row.end_s; });
  columns["name"] = names;
  return columns;
}

inline nanobind::dict side_columns(Engine& engine) {
  nanobind::dict columns;
  const auto& rows = engine.recorder().sides();
  columns["message"] = column(rows, [](const SidesRecord& row) { return row.message; });
  columns["send_operation"] = column(rows, [](const SidesRecord& row) { return row.send_operation; });
  columns["recv_operation"] = column(rows, [](const SidesRecord& row) { return row.recv_operation; });
  return columns;
}

inline nanobind::dict computation_columns(Engine& engine) {
  Columns columns(engine.recorder().computations());
  using Row = const ComputationRecord&;
  columns.add("rank", [](Row row) { return row.rank; });
  columns.add("begin_s", [](Row row) { return row.begin_s; });
  columns.add("end_s", [](Row row) { return row.end_s; });
  if (engine.shares_cores()) columns.add("alone_s", [](Row row) { return row.alone_s; });
  return columns.take();
}

}  // namespace labkit::bindings
