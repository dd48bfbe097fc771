// _kernels.RankLog: what one rank of a real run calls, written as the simulator writes its runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ctime>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "labkit/engine/call_log.hpp"
#include "labkit/trace/call_sums.hpp"
#include "columns.hpp"
#include "rank_log.hpp"
#include "registration.hpp"
#include "summed_columns.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

nb::dict call_columns(const RankLog& log) {
  using Row = const TimedCall&;
  const auto& rows = log.timed_calls();
  nb::dict columns;
  columns["begin_s"] = column(rows, [](Row row) { return row.begin_s; });
  columns["end_s"] = column(rows, [](Row row) { return row.end_s; });
  columns["name"] = column(rows, [](Row row) { return row.name; });
  columns["place"] = column(rows, [](Row row) { return row.place; });
  columns["bytes"] = column(rows, [](Row row) { return row.bytes; });
  columns["context"] = column(rows, [](Row row) { return row.context; });
  columns["sequence"] = column(rows, [](Row row) { return row.sequence; });
  columns["root"] = column(rows, [](Row row) { return row.root; });
  columns["position"] = column(rows, [](Row row) { return row.position; });
  columns["ends"] = column(rows, [](Row row) { return row.ends; });
  return columns;
}

nb::list count_rows(const RankLog& log) {
  nb::list rows;
  const std::size_t own = log.counters();
  const std::vector<std::uint64_t>& all = log.counts();
  for (std::size_t at = 0; own && at + own <= all.size(); at += own) {
    nb::list row;
    for (std::size_t event = 0; event < own; ++event) row.append(all[at + event]);
    rows.append(nb::tuple(row));
  }
  return rows;
}

nb::dict post_columns(const RankLog& log) {
  using Row = const TimedPost&;
  const auto& rows = log.timed_posts();
  nb::dict columns;
  columns["call"] = column(rows, [](Row row) { return row.call; });
  columns["done"] = column(rows, [](Row row) { return row.done; });
  columns["peer"] = column(rows, [](Row row) { return row.peer; });
  columns["tag"] = column(rows, [](Row row) { return row.tag; });
  columns["context"] = column(rows, [](Row row) { return row.context; });
  columns["bytes"] = column(rows, [](Row row) { return row.bytes; });
  columns["order"] = column(rows, [](Row row) { return row.order; });
  columns["is_send"] = column(rows, [](Row row) { return row.is_send; });
  columns["is_cancelled"] = column(rows, [](Row row) { return row.is_cancelled; });
  return columns;
}

nb::dict probe_columns(const RankLog& log) {
  using Row = const TimedProbe&;
  const auto& rows = log.timed_probes();
  nb::dict columns;
  columns["call"] = column(rows, [](Row row) { return row.call; });
  columns["peer"] = column(rows, [](Row row) { return row.peer; });
  columns["tag"] = column(rows, [](Row row) { return row.tag; });
  columns["context"] = column(rows, [](Row row) { return row.context; });
  columns["order"] = column(rows, [](Row row) { return row.order; });
  return columns;
}

const Registration registration(42, [](nb::module_& module) {
  nb::class_<RankLog>(module, "RankLog", "What one rank of a real run calls: lines, times, or both.")
      .def(nb::init<Rank, double, bool, bool, bool>(), "rank"_a, "flops_per_s"_a, "is_measuring"_a,
           "has_lines"_a = true, "has_times"_a = false)
      .def("pause", &RankLog::pause, "The thread's CPU time since resume() was computation.")
      .def("resume", &RankLog::resume, "The program goes on.")
      .def("enter", &RankLog::enter, "name"_a, "place"_a = -1, "A call begins.")
      .def("leave", &RankLog::leave, "A call is over.")
      .def("restart", &RankLog::restart, "Forget all times.")
      .def("compute", &RankLog::compute, "seconds"_a, "Computation that the program charges.")
      .def("post", &RankLog::post, "is_send"_a, "peer"_a, "tag"_a, "bytes"_a, "context"_a, "is_synchronous"_a,
           "is_buffered"_a, "is_blocking"_a, "A send or a receive; the number by which it is known.")
      .def("sent", &RankLog::sent, "peer"_a, "tag"_a, "bytes"_a, "context"_a, "is_synchronous"_a, "is_buffered"_a,
           "A send that was over with its call.")
      .def("received", &RankLog::received, "peer"_a, "tag"_a, "room"_a, "context"_a, "source"_a, "got_tag"_a, "bytes"_a,
           "A receive that was over with its call, and what it got.")
      .def("matched", &RankLog::matched, "post"_a, "source"_a, "tag"_a, "bytes"_a, "What a receive got.")
      .def("waited", &RankLog::waited, "posts"_a, "A wait is over: one for all of these.")
      .def("cancelled", &RankLog::cancelled, "post"_a)
      .def("tick", &RankLog::tick, "The next number in the order of posts.")
      .def("ordered", &RankLog::ordered, "post"_a, "order"_a, "A receive of a message that a probe has matched.")
      .def("polled", &RankLog::polled, "The present call found nothing.")
      .def("joined", &RankLog::joined, "context"_a, "sequence"_a, "bytes"_a, "root"_a = -1, "position"_a = -1,
           "The present call is a collective; its number.")
      .def("sized", &RankLog::sized, "bytes"_a, "How much the present call sends.")
      .def("ended", &RankLog::ended, "call"_a, "The present call ended what that one began.")
      .def("probed", &RankLog::probed, "source"_a, "tag"_a, "context"_a)
      .def("collective", &RankLog::collective, "text"_a, "A collective's action; empty: nothing moves.")
      .def("declare", &RankLog::declare, "text"_a, "A communicator's members.")
      .def("lines", [](RankLog& log) {
             const std::string lines = log.lines();
             return nb::bytes(lines.data(), lines.size());
           }, "The actions as lines of a trace.")
      .def("call_columns", &call_columns, "The calls with their times, an array a column.")
      .def("count", &RankLog::count, "events"_a,
           "Count these of perf's events (type, config) for this thread; 0: counted, 1: outside the system's kernel "
           "only, below 0: the error.")
      .def("counted_now", &RankLog::counted_now, "What is counted so far, a value for each event.")
      .def("counted_share", &RankLog::counted_share, "The share of the time in which the processor counted.")
      .def("count_rows", &count_rows, "The counters at the begin and at the end of each call, one after the other.")
      .def("sum_up", &RankLog::sum_up, "most"_a,
           "Sum the calls up from now on, and forget them whenever this number is reached; 0: keep them all.")
      .def("begin_sums", &RankLog::begin_sums, "The program begins: sum up anew.")
      .def("mark", &RankLog::mark, "phase"_a, "is_begin"_a, "is_in_call"_a = false, "A phase begins or ends.")
      .def("finish_sums", &RankLog::finish_sums, "The program is over.")
      .def("summed_columns", [](const RankLog& log) { return summed_columns(log.sums(), log.counters()); },
           "The sums by call path, an array a column; calls by the numbers of their names.")
      .def("post_columns", &post_columns, "The sends and receives, an array a column.")
      .def("probe_columns", &probe_columns, "The probes that found a message, an array a column.")
      .def_rw("is_busy", &RankLog::is_busy, "Whether the program is in a call: what that calls in turn is not noted.")
      .def_rw("is_quiet", &RankLog::is_quiet, "Whether posts are a collective's, for the lines only.")
      .def_prop_ro("is_of_several", &RankLog::is_of_several, "Whether several threads have called.")
      .def_prop_ro("has_lines", &RankLog::has_lines)
      .def_prop_ro("has_times", &RankLog::has_times)
      .def_prop_ro("present", &RankLog::present, "The number of the present call.")
      .def_prop_ro("calls", &RankLog::calls)
      .def_prop_ro("measured_s", &RankLog::measured_s, "CPU seconds that counted as computation.");
});

}  // namespace
}  // namespace labkit::bindings
