// _kernels.TraceReader and _kernels.Replay: time-independent traces, read and replayed.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>

#include "bound_platform.hpp"
#include "labkit/network/model.hpp"
#include "labkit/trace/replay.hpp"
#include "labkit/trace/ti_reader.hpp"
#include "recorded_columns.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

std::string_view bytes_of(const nb::bytes& piece) { return {piece.c_str(), piece.size()}; }

/// An engine with the trace that it replays, so that both live as long.
class BoundReplay {
 public:
  BoundReplay(const BoundPlatform& platform, const Model& model, std::shared_ptr<const TiTrace> trace, nb::object choose,
              bool keeps_messages, double tolerance)
      : trace_(std::move(trace)), choose_(std::move(choose)),
        engine_(platform.platform, model, platform.rank_hosts, {tolerance}),
        replay_(engine_, *trace_, [this](const CollectiveAsked& asked) {
          return nb::cast<std::shared_ptr<Program>>(
              choose_(asked.problem, asked.ranks, asked.root, asked.bytes, asked.is_commutative, asked.is_cuttable));
        }) {
    engine_.recorder().keep_messages(keeps_messages);
  }

  /// look(): False stops the replay, for a time limit. Signals are looked at as well.
  bool run(const nb::object& look) {
    return replay_.run([&look] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return nb::cast<bool>(look());
    });
  }

  /// From now on every message is noted, those of collectives too: the trace without collectives.
  void keep_messages_as_calls() {
    std::vector<double> speeds;
    for (Rank r = 0; r < engine_.rank_count(); ++r) speeds.push_back(engine_.platform().host(engine_.host_of(r)).speed_flops);
    calls_ = std::make_unique<CallLog>(std::move(speeds));
    engine_.set_call_log(calls_.get());
  }

  nb::bytes call_lines(Rank rank) {
    const std::string lines = calls_ == nullptr ? std::string() : calls_->lines(rank);
    return nb::bytes(lines.data(), lines.size());
  }

  nb::tuple where(Rank rank) const {
    const Replay::Where where = replay_.where(rank);
    return nb::make_tuple(where.is_finished, where.line > 0 ? trace_->place(rank, where.line) : std::string(), where.action,
                          where.peers);
  }

  /// (rank, name, begin, end, depth) of every entry into a phase.
  nb::list phases() const {
    nb::list rows;
    for (const Replay::Phase& phase : replay_.phases()) {
      rows.append(nb::make_tuple(phase.rank, phase_name(static_cast<std::size_t>(phase.name)), phase.begin_s, phase.end_s,
                                 phase.depth));
    }
    return rows;
  }

  void note_calls() { replay_.note_calls(); }

  /// The noted calls as columns, and the names of the actions and of the phases by number.
  nb::dict call_columns() const {
    const auto& rows = replay_.calls();
    using Row = const Replay::Call&;
    nb::dict columns;
    columns["rank"] = column(rows, [](Row row) { return row.rank; });
    columns["action"] = column(rows, [](Row row) { return static_cast<std::int32_t>(row.action); });
    columns["comm"] = column(rows, [](Row row) { return row.comm; });
    columns["root"] = column(rows, [](Row row) { return row.root; });
    columns["position"] = column(rows, [](Row row) { return row.position; });
    columns["phase"] = column(rows, [](Row row) { return row.phase; });
    columns["bytes"] = column(rows, [](Row row) { return static_cast<std::int64_t>(row.bytes); });
    columns["begin_s"] = column(rows, [](Row row) { return row.begin_s; });
    columns["end_s"] = column(rows, [](Row row) { return row.end_s; });
    nb::list names;
    for (std::size_t i = 0; i < kTiActions; ++i) names.append(std::string(name_of(static_cast<TiAction>(i))));
    columns["names"] = names;
    nb::list phases;
    for (std::size_t i = 0; i < trace_->phases.size(); ++i) phases.append(phase_name(i));
    columns["phases"] = phases;
    return columns;
  }

  std::vector<double> finish_s() {
    std::vector<double> times;
    for (Rank r = 0; r < engine_.rank_count(); ++r) times.push_back(engine_.clock(r));
    return times;
  }

  Engine& engine() { return engine_; }
  [[nodiscard]] std::uint64_t idle_waits() const { return replay_.idle_waits(); }

 private:
  [[nodiscard]] nb::object phase_name(std::size_t number) const {
    const std::string& name = trace_->phases[number];
    nb::object text = nb::steal(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace"));
    if (!text.is_valid()) throw nb::python_error();
    return text;
  }

  std::shared_ptr<const TiTrace> trace_;
  nb::object choose_;
  std::unique_ptr<CallLog> calls_;
  Engine engine_;
  Replay replay_;
};

void bind_reader(nb::module_& module) {
  nb::class_<TiTrace>(module, "ActionTrace", "A time-independent trace in memory.")
      .def_prop_ro("ranks", [](const TiTrace& trace) { return trace.ranks.size(); })
      .def_prop_ro("actions", &TiTrace::actions)
      .def_prop_ro("bytes", &TiTrace::bytes, "What its encoded actions take.")
      .def("group", [](const TiTrace& trace, std::uint32_t comm) { return trace.groups.at(comm); }, "comm"_a)
      .def("records",
           [](const TiTrace& trace, std::size_t rank) {
             nb::list rows;
             TiCode::Cursor cursor(trace.ranks.at(rank).code);
             TiRecord record;
             while (cursor.next(record)) {
               rows.append(nb::make_tuple(std::string(name_of(record.action)), record.args, record.amount, record.comm,
                                          record.line));
             }
             return rows;
           },
           "rank"_a, "(action, numbers, amount, communicator, line) of each action of a rank; sizes in bytes.");
  nb::class_<TiRankScan>(module, "RankScan", "Finds the number of ranks of a merged trace file.")
      .def(nb::init<>())
      .def("feed", [](TiRankScan& scan, const nb::bytes& piece) { scan.feed(bytes_of(piece)); }, "piece"_a)
      .def_prop_ro("ranks", [](TiRankScan& scan) { return scan.ranks(); });
  nb::class_<TiReader>(module, "TraceReader", "Reads the text of a time-independent trace, piece by piece.")
      .def("__init__",
           [](TiReader* self, std::int64_t ranks, std::uint64_t limit_bytes) {
             TiLimits limits;
             limits.code_bytes = limit_bytes;
             new (self) TiReader(ranks, limits);
           },
           "ranks"_a, "limit_bytes"_a)
      .def("begin", &TiReader::begin, "name"_a, "only_rank"_a = -1)
      .def("feed", [](TiReader& reader, const nb::bytes& piece) { reader.feed(bytes_of(piece)); }, "piece"_a)
      .def("end", &TiReader::end)
      .def_prop_ro("lines", &TiReader::lines)
      .def("take", [](TiReader& reader) { return std::make_shared<TiTrace>(reader.take()); });
}

const Registration replay_bindings(50, [](nb::module_& module) {
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const TraceFault& fault) {
          const nb::object type = nb::module_::import_("labkit.errors").attr("DataError");
          PyErr_SetString(type.ptr(), fault.what());
        }
      },
      nullptr);
  bind_reader(module);
  nb::class_<BoundReplay>(module, "Replay", "A trace and the simulated machine that it is replayed on.")
      .def(nb::init<const BoundPlatform&, const Model&, std::shared_ptr<const TiTrace>, nb::object, bool, double>(),
           "platform"_a, "model"_a, "trace"_a, "choose"_a, "keeps_messages"_a = false, "tolerance"_a = 0.0)
      .def("run", &BoundReplay::run, "look"_a, "Replay everything; False when ranks are left over or look() stopped it.")
      .def("where", &BoundReplay::where, "rank"_a, "(is finished, place, action, ranks it waits for) of a rank.")
      .def("keep_calls", &BoundReplay::keep_messages_as_calls, "Note every message, those of collectives too.")
      .def("call_lines", &BoundReplay::call_lines, "rank"_a, "What was noted of a rank, as lines of a trace.")
      .def("note_calls", &BoundReplay::note_calls, "Note the actions that stand for calls of MPI, with their times.")
      .def("call_columns", &BoundReplay::call_columns, "These calls as columns; the action is a place in `names`, the phase in `phases`.")
      .def("phases", &BoundReplay::phases, "(rank, name, begin, end, depth) of each phase, in the order of their ends.")
      .def("set_noise", [](BoundReplay& replay, std::uint64_t seed, double period_s, double mean_s,
                           std::vector<double> slowdown) {
             replay.engine().set_noise(Noise(seed, period_s, mean_s, std::move(slowdown)));
           }, "seed"_a, "period_s"_a, "mean_s"_a, "slowdown"_a)
      .def("message_columns", [](BoundReplay& replay) { return message_columns(replay.engine()); })
      .def("unreceived_columns", [](BoundReplay& replay) { return unreceived_columns(replay.engine()); })
      .def("wait_columns", [](BoundReplay& replay) { return wait_columns(replay.engine()); })
      .def("computation_columns", [](BoundReplay& replay) { return computation_columns(replay.engine()); })
      .def_prop_ro("finish_s", &BoundReplay::finish_s)
      .def_prop_ro("idle_waits", &BoundReplay::idle_waits)
      .def_prop_ro("makespan", [](BoundReplay& replay) { return replay.engine().makespan(); })
      .def_prop_ro("messages", [](BoundReplay& replay) { return replay.engine().recorder().messages(); })
      .def_prop_ro("bytes", [](BoundReplay& replay) { return replay.engine().recorder().bytes(); })
      .def_prop_ro("events", [](BoundReplay& replay) { return replay.engine().events(); });
});

}  // namespace
}  // namespace labkit::bindings
