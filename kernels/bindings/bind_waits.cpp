// _kernels.analyze_waits: who waited for whom, and where that comes from.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "columns.hpp"
#include "labkit/trace/delay_costs.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

template <class Value>
using Column = nb::ndarray<const Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The columns of a table, by name.
class Table {
 public:
  explicit Table(const nb::dict& columns) : columns_(columns) {}

  template <class Value>
  std::span<const Value> operator[](const char* name) const {
    if (!columns_.contains(name)) throw std::invalid_argument(std::string("the table lacks the column ") + name);
    const auto held = nb::cast<Column<Value>>(columns_[name], /*convert=*/false);
    return {held.data(), held.size()};
  }

 private:
  const nb::dict& columns_;  // holds the arrays while the call lasts
};

std::vector<Wait> given_waits(const nb::dict& columns) {
  const Table table(columns);
  const auto rank = table.operator[]<std::int32_t>("rank");
  const auto begin_s = table.operator[]<double>("begin_s"), until_s = table.operator[]<double>("until_s");
  const auto cause = table.operator[]<std::int32_t>("cause"), call = table.operator[]<std::int32_t>("call");
  const auto cause_call = table.operator[]<std::int32_t>("cause_call");
  const auto state = table.operator[]<std::uint8_t>("state");
  std::vector<Wait> waits(rank.size());
  for (const std::size_t size : {begin_s.size(), until_s.size(), cause.size(), call.size(), cause_call.size(), state.size()}) {
    if (size != rank.size()) throw std::invalid_argument("the columns of the given waits differ in length");
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    waits[i] = {begin_s[i], until_s[i], rank[i], cause[i], call[i], -1, cause_call[i], state[i]};
  }
  return waits;
}

nb::dict found_columns(const WaitStates& found, const DelayCosts& costs, const Timeline& line) {
  nb::dict waits;
  const auto& rows = found.waits;
  waits["rank"] = column(rows, [](const Wait& row) { return row.rank; });
  waits["state"] = column(rows, [](const Wait& row) { return row.state; });
  waits["path"] = column(line.wait_path, [](std::int32_t path) { return path; });
  waits["begin_s"] = column(rows, [](const Wait& row) { return row.begin_s; });
  waits["end_s"] = column(rows, [](const Wait& row) { return row.until_s; });
  waits["cause"] = column(rows, [](const Wait& row) { return row.cause; });
  waits["call"] = column(rows, [](const Wait& row) { return row.call; });
  waits["cause_call"] = column(rows, [](const Wait& row) { return row.cause_call; });
  waits["message"] = column(rows, [](const Wait& row) { return row.message; });
  waits["direct_s"] = column(costs.direct_s, [](double seconds) { return seconds; });
  waits["passed_s"] = column(costs.passed_s, [](double seconds) { return seconds; });
  return waits;
}

nb::dict cost_columns(const DelayCosts& costs) {
  nb::dict delays;
  delays["rank"] = column(costs.delays, [](const Delay& row) { return row.rank; });
  delays["path"] = column(costs.delays, [](const Delay& row) { return row.path; });
  delays["begin_s"] = column(costs.delays, [](const Delay& row) { return row.begin_s; });
  delays["end_s"] = column(costs.delays, [](const Delay& row) { return row.end_s; });
  delays["direct_s"] = column(costs.delays, [](const Delay& row) { return row.direct_s; });
  delays["indirect_s"] = column(costs.delays, [](const Delay& row) { return row.indirect_s; });
  return delays;
}

nb::dict total_columns(const DelayCosts& costs) {
  nb::dict totals;
  totals["rank"] = column(costs.totals, [](const PathTotals& row) { return row.rank; });
  totals["path"] = column(costs.totals, [](const PathTotals& row) { return row.path; });
  totals["seconds"] = column(costs.totals, [](const PathTotals& row) { return row.seconds; });
  totals["waiting_s"] = column(costs.totals, [](const PathTotals& row) { return row.waiting_s; });
  totals["critical_s"] = column(costs.totals, [](const PathTotals& row) { return row.critical_s; });
  return totals;
}

nb::dict tree_columns(const Timeline& line) {
  nb::dict tree;
  tree["above"] = column(line.nodes, [](const PhaseNode& node) { return node.above; });
  tree["name"] = column(line.nodes, [](const PhaseNode& node) { return node.name; });
  tree["node"] = column(line.paths, [](const CallPath& path) { return path.node; });
  tree["what"] = column(line.paths, [](const CallPath& path) { return path.what; });
  tree["visit_rank"] = column(line.visits, [](const Visits& row) { return row.rank; });
  tree["visit_path"] = column(line.visits, [](const Visits& row) { return row.path; });
  tree["visit_count"] = column(line.visits, [](const Visits& row) { return row.count; });
  return tree;
}

nb::dict analyze(std::int32_t ranks, const nb::dict& call_table, const nb::dict& message_table,
                 const nb::dict& blocked_table, const nb::dict& phase_table, const Column<double>& begins_s,
                 const Column<double>& ends_s, const nb::dict& given, const Column<std::int32_t>& begun_by) {
  const Table calls_of(call_table), messages_of(message_table), blocked_of(blocked_table), phases_of(phase_table);
  const CallColumns calls{calls_of.operator[]<std::int32_t>("rank"), calls_of.operator[]<double>("begin_s"),
                          calls_of.operator[]<double>("end_s"), calls_of.operator[]<std::int32_t>("joint"),
                          calls_of.operator[]<std::uint8_t>("pattern"), calls_of.operator[]<std::uint8_t>("is_begun"),
                          calls_of.operator[]<std::int32_t>("root"), calls_of.operator[]<std::int32_t>("position"),
                          calls_of.operator[]<std::int32_t>("phase")};
  const auto what = calls_of.operator[]<std::int32_t>("what");
  const MessageColumns messages{messages_of.operator[]<std::int32_t>("source"), messages_of.operator[]<std::int32_t>("destination"),
                                messages_of.operator[]<std::int32_t>("context"), messages_of.operator[]<double>("send_posted_s"),
                                messages_of.operator[]<double>("recv_posted_s"), messages_of.operator[]<std::int32_t>("sent_in")};
  const BlockedColumns blocked{blocked_of.operator[]<std::int32_t>("rank"), blocked_of.operator[]<double>("begin_s"),
                               blocked_of.operator[]<double>("end_s"), blocked_of.operator[]<std::int32_t>("message"),
                               blocked_of.operator[]<std::int32_t>("begun"), blocked_of.operator[]<double>("ready_s"),
                               blocked_of.operator[]<std::int32_t>("origin")};
  const SpanColumns phases{phases_of.operator[]<std::int32_t>("rank"), phases_of.operator[]<std::int32_t>("name"),
                           phases_of.operator[]<double>("begin_s"), phases_of.operator[]<double>("end_s"),
                           phases_of.operator[]<std::int32_t>("depth")};
  const std::span<const double> begins(begins_s.data(), begins_s.size()), ends(ends_s.data(), ends_s.size());
  const std::span<const std::int32_t> spawners(begun_by.data(), begun_by.size());
  if (ranks < 0 || ends.size() != static_cast<std::size_t>(ranks)) throw std::invalid_argument("each rank has one end");
  const std::vector<Wait> own = given_waits(given);
  WaitStates found;
  Timeline line;
  DelayCosts costs;
  {
    nb::gil_scoped_release released;
    found = find_wait_states(ranks, calls, messages, blocked, own);
    line = make_timeline(calls, what, phases, found, begins, ends);
    costs = find_delay_costs(found, line, begins, spawners);
  }
  nb::dict out;
  out["waits"] = found_columns(found, costs, line);
  out["delays"] = cost_columns(costs);
  out["totals"] = total_columns(costs);
  out["tree"] = tree_columns(line);
  nb::dict path;
  path["rank"] = column(costs.path, [](const CriticalStretch& row) { return row.rank; });
  path["begin_s"] = column(costs.path, [](const CriticalStretch& row) { return row.begin_s; });
  path["end_s"] = column(costs.path, [](const CriticalStretch& row) { return row.end_s; });
  out["path"] = path;
  out["call_path"] = column(line.call_path, [](std::int32_t own) { return own; });
  return out;
}

const Registration registration(20, [](nb::module_& module) {
  module.def("analyze_waits", &analyze, "ranks"_a, "calls"_a, "messages"_a, "blocked"_a, "phases"_a, "begins_s"_a,
             "ends_s"_a, "given"_a, "begun_by"_a, "Wait states, delay costs and the critical path; see labkit.trace.waiting.");
});

}  // namespace
}  // namespace labkit::bindings
