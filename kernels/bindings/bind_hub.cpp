// The hub and the compiled halves of labkit.MPI's classes, for labkit.sim and labkit.comm.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mpi/mpi_buffer.hpp"
#include "bound_platform.hpp"
#include "columns.hpp"
#include "hub/arrivals.hpp"
#include "hub/frame_pool.hpp"
#include "hub/hub.hpp"
#include "mpi/mpi_objects.hpp"
#include "python_side.hpp"
#include "recorded_columns.hpp"
#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

std::string run_hub(Hub& hub, nb::object main) {
  switch (hub.run(main.ptr())) {
    case Hub::Outcome::finished: return "finished";
    case Hub::Outcome::deadlock: return "deadlock";
    case Hub::Outcome::stopped: return "stopped";
    case Hub::Outcome::error: break;
  }
  throw nb::python_error();
}

const char* state_of(Hub& hub, Rank rank) {
  if (hub.is_done(rank)) return "finished";
  if (!hub.is_started(rank)) return "not started";
  if (hub.current() == rank) return "running";
  switch (hub.engine().blocked(rank)) {
    case Blocked::wait_all: return "all";
    case Blocked::wait_any: return "any";
    case Blocked::probe: return "probe";
    case Blocked::sync: return "sync";
    case Blocked::compute: return "compute";
    case Blocked::finished: return "finished";
    case Blocked::no: break;
  }
  return "ready";
}

nb::tuple call_of(Hub& hub, Rank rank) {
  const Call& call = hub.call(rank);
  return nb::make_tuple(call.name, call.peer, call.tag, call.bytes);
}

// The requests that a rank, or an agent of its, has open: (kind, peer, tag, context, bytes, is waited for).
nb::list requests_of(Hub& hub, Rank actor) {
  nb::list rows;
  for (const RequestId id : hub.open_requests(hub.engine().owner_of(actor))) {
    const Request& request = hub.engine().request(id);
    const bool is_over = request.state == RequestState::complete || request.state == RequestState::cancelled;
    if (is_over || (request.kind == RequestKind::send && request.is_detached)) continue;
    if (request.kind == RequestKind::operation || request.actor != actor) continue;  // see operations()
    rows.append(nb::make_tuple(request.kind == RequestKind::send ? "send" : "receive", request.peer, request.tag,
                               request.context, request.bytes, request.is_waited));
  }
  return rows;
}

nb::list buffered_sends(Hub& hub) {
  nb::list cycles;
  const BufferedSends* kept = hub.engine().buffered_sends();
  if (kept == nullptr) return cycles;
  for (const BufferedSends::Cycle& cycle : kept->cycles()) {
    nb::list sends;
    for (const BufferedSends::Send& send : cycle) {
      sends.append(nb::make_tuple(send.rank, send.dest, send.tag, send.context, send.bytes, send.place));
    }
    cycles.append(sends);
  }
  return cycles;
}

// What other calls than the running rank's have found: (kind, place, source, rival, ranks), ranks of the world.
nb::list findings(Hub& hub) {
  nb::list rows;
  const std::pair<const char*, const Findings*> kinds[] = {{"race", &hub.races().findings()},
                                                           {"clash", &hub.buffers_in_use().findings()}};
  for (const auto& [kind, all] : kinds) {
    for (const auto& [place, found] : all->all()) {
      rows.append(nb::make_tuple(kind, place, found.source, found.rival, found.ranks));
    }
  }
  return rows;
}

// Messages of the program that nobody has received, and receives that nothing has come to, when ranks have ended:
// how many, and the first of them as (kind, rank, peer, tag, bytes, context).
nb::tuple left_over(Hub& hub) {
  constexpr std::size_t kShown = 32;
  std::size_t count = 0;
  nb::list rows;
  for (const std::vector<RequestId>& open : hub.engine().requests_by_rank()) {
    for (const RequestId id : open) {
      const Request& request = hub.engine().request(id);
      // all ranks had ended before the engine came to it
      const bool is_late = request.state == RequestState::queued ||
                           (request.is_detached && request.partner == kNone && !request.has_arrived && request.start_s <= 0.0);
      if (!(request.is_unmatched || is_late) || (request.context & 1U) != 0) continue;
      if (++count > kShown) continue;
      rows.append(nb::make_tuple(request.kind == RequestKind::send ? "send" : "receive", request.owner, request.peer,
                                 request.tag, request.bytes, request.context));
    }
  }
  return nb::make_tuple(count, rows);
}

void set_phantom(const nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>& memory) {
  phantom_memory() = {static_cast<const char*>(memory.data()), memory.nbytes()};
}

void require(bool is_good) {
  if (!is_good) throw nb::python_error();
}

/// The rank of this hub that runs. Between its ranks, or while one of another run goes on, there is none.
Rank running(const Hub& hub) {
  if (hub.current() < 0) throw std::logic_error("no rank of this run is running");
  return hub.current();
}

/// The running rank, with what its code has taken charged to it.
Rank caught_up(Hub& hub) {
  const Rank rank = running(hub);
  require(hub.catch_up_host());
  return rank;
}

void register_python_side(nb::dict names) {
  PythonSide& side = python_side();
  const std::pair<const char*, PyObject**> slots[] = {
      {"request_type", &side.request_type}, {"status_type", &side.status_type},
      {"message_type", &side.message_type}, {"make_error", &side.make_error},
      {"message_no_proc", &side.message_no_proc}, {"make_outside", &side.make_outside}, {"make_ended", &side.make_ended},
      {"owner_of_thread", &side.owner_of_thread},
      {"parse_buffer", &side.parse_buffer}, {"find_format", &side.find_format}, {"in_place", &side.in_place},
      {"unpacked", &side.unpacked}, {"datatypes", &side.datatypes},
      {"foreign_memory", &side.foreign_memory},
      {"dumps", &side.dumps},               {"loads", &side.loads},
      {"protocol", &side.protocol}};
  for (const auto& [name, slot] : slots) {
    if (!names.contains(name)) continue;
    PyObject* value = nb::object(names[name]).release().ptr();
    Py_XSETREF(*slot, value);
  }
}

nb::object active_hub() {
  Hub* hub = Hub::active();
  if (hub == nullptr || hub->current() < 0) return nb::none();
  return nb::find(hub);
}

nb::tuple counts_of(Hub& hub, Rank rank) {
  const Counts* counts = hub.engine().counts();
  if (counts == nullptr) throw std::logic_error("nobody asked for counts");
  const RankCounts& mine = counts->ranks().at(static_cast<std::size_t>(rank));
  return nb::make_tuple(mine.sent, mine.sent_bytes, mine.received, mine.received_bytes, mine.rounds());
}

void bind_types(nb::module_& module) {
  module.def("set_phantom", &set_phantom, nb::arg("memory"),
             "Memory that stands for phantom buffers: nothing is copied from there or to there.");
  module.attr("CommBase") = nb::borrow(reinterpret_cast<PyObject*>(comm_type()));
  module.attr("StatusBase") = nb::borrow(reinterpret_cast<PyObject*>(status_type()));
  module.attr("RequestBase") = nb::borrow(reinterpret_cast<PyObject*>(request_type()));
  module.attr("Buffer") = nb::borrow(reinterpret_cast<PyObject*>(buffer_type()));
  module.attr("Exporter") = nb::borrow(reinterpret_cast<PyObject*>(exporter_type()));
  module.attr("QuickMethod") = nb::borrow(reinterpret_cast<PyObject*>(quick_method_type()));
  module.attr("MessageBase") = nb::borrow(reinterpret_cast<PyObject*>(message_type()));
  module.def("register_python_side", &register_python_side, nb::arg("names"),
             "Tell the compiled methods which of labkit.comm's names to use.");
  module.def("frame_pool_use",
             [] {
               const FramePoolUse use = frame_pool_use();
               return nb::make_tuple(use.chunks, use.slabs);
             },
             "Chunks of frame memory that greenlets hold now, and slabs that are mapped for them.");
  module.def("active_hub", &active_hub, "The hub whose rank is running on this thread, or None.");
  module.def("current_rank", [] { return Hub::active() == nullptr ? -1 : Hub::active()->current(); },
             "World rank that is running on this thread, -1 outside any run.");
}

void bind_hub_class(nb::module_& module) {
  nb::class_<Hub> hub(module, "Hub", "One simulated run: ranks as greenlets over the engine.");
  bind_one_sided(hub);
  hub.def("__init__",
           [](Hub* self, const BoundPlatform& platform, const Model& model, bool trace,
              double tolerance, std::size_t spare_ranks) {
             new (self) Hub(platform.platform, model, platform.rank_hosts, trace, {tolerance}, spare_ranks);
           },
           nb::arg("platform"), nb::arg("model"), nb::arg("trace") = false, nb::arg("tolerance") = 0.0,
           nb::arg("spare_ranks") = 0)
      .def("run", &run_hub, nb::arg("main"), "Run main(rank) on every rank: finished, deadlock or stopped.")
      .def("close", &Hub::close, "Let go of the callables it was given.")
      .def("stop", &Hub::stop, "Leave run() as soon as control is back at the hub.")
      .def("refuse_calls", &Hub::refuse_calls, nb::arg("rank"), nb::arg("why"), "Refuse a rank's calls; empty: no more.")
      .def("stagger", [](Hub& hub, std::uint64_t seed, double most_s, nb::object on_any) {
             hub.stagger(seed, most_s, on_any.ptr());
           }, nb::arg("seed"), nb::arg("most_s"), nb::arg("on_any"),
           "From now on ranks are late for their calls by chance; on_any(source, tag) hears what came from anybody.")
      .def("watch", [](Hub& hub, nb::object places, nb::object warn) { hub.watch(places.ptr(), warn.ptr()); },
           nb::arg("places"), nb::arg("warn"),
           "From now on look for what fails on a real machine: warn(kind, peer, text, number) hears of it.")
      .def("warn", [](Hub& hub, const std::string& kind, const std::string& text) { hub.warn(kind.c_str(), -1, text.c_str(), 0); },
           nb::arg("kind"), nb::arg("text"), "Say that something of the running rank's call fails on a real machine.")
      .def_prop_ro("is_watching", &Hub::is_watching, "Whether it is looked for that.")
      .def("set_irecv_room", &Hub::set_irecv_room, nb::arg("rank"), nb::arg("bytes"),
           "How many bytes an irecv without a buffer takes.")
      .def("buffered_sends", &buffered_sends,
           "Sends that would wait for each other if none were buffered: by cycle (rank, dest, tag, context, bytes, place).")
      .def("findings", &findings,
           "Races and clashes of receives: by line (kind, place, source, rival, ranks).")
      .def("left_over", &left_over, "How many messages nobody has received, and the first: (kind, rank, peer, tag, bytes, context).")
      .def("set_ending", [](Hub& hub, nb::object make) { hub.set_ending(make.ptr()); }, nb::arg("make_error"),
           "From now on every call of a rank raises make_error().")
      .def("unwind", [](Hub& hub) { require(hub.unwind()); },
           "Resume every suspended rank, so that it raises and unwinds.")
      .def("abandon", [](Hub& hub) { require(hub.abandon()); },
           "Put the running rank aside for good.")
      .def("set_limit", [](Hub& hub, double seconds, nb::object call) { hub.set_limit(seconds, call.ptr()); },
           nb::arg("seconds"), nb::arg("on_limit"))
      .def_prop_ro("is_ending", &Hub::is_ending)
      .def_prop_ro("rank", &Hub::current)
      .def_prop_ro("ranks", &Hub::ranks, "Ranks until now, spawned ones included.")
      .def_prop_ro("room", [](Hub& hub) { return hub.engine().rank_count() - hub.ranks(); },
                   "How many ranks can still be spawned.")
      .def("spawn", &Hub::spawn, nb::arg("hosts"),
           "Begin ranks on these hosts, at the running rank's clock: a world of its own. The number of the first.")
      .def("world", [](Hub& hub, Rank rank) {
             if (rank < 0 || rank >= hub.ranks()) throw nb::index_error("no such rank");
             if (rank < hub.first_world()) return nb::make_tuple(0, hub.first_world());
             return nb::make_tuple(hub.job_of(rank).first, hub.job_of(rank).size());
           }, nb::arg("rank"), nb::sig("def world(self, rank: int) -> tuple[int, int]"),
           "The first rank and the size of the world that a rank is in.")
      .def_prop_ro("messages", [](Hub& hub) { return hub.engine().recorder().messages(); })
      .def_prop_ro("bytes", [](Hub& hub) { return hub.engine().recorder().bytes(); })
      .def("keep_counts", [](Hub& hub) { hub.engine().keep_counts(); },
           "Count what each rank sends and receives, from now on.")
      .def("rank_counts", [](Hub& hub, Rank rank) { return counts_of(hub, rank); }, nb::arg("rank"),
           nb::sig("def rank_counts(self, rank: int) -> tuple[int, int, int, int, int]"),
           "What a rank has sent (messages, bytes) and received, and how many rounds have passed for it.")
      .def_prop_ro("events", [](Hub& hub) { return hub.engine().events(); })
      .def_prop_ro("is_tracing", [](Hub& hub) { return hub.engine().recorder().keeps_messages(); })
      .def_prop_ro("hosts", [](Hub& hub) { return hub.engine().platform().host_count(); })
      .def_prop_ro("switches", &Hub::switches)
      .def_prop_ro("makespan", [](Hub& hub) { return hub.engine().makespan(); })
      .def("tolerance_use", [](Hub& hub) {
             const Engine::ToleranceUse use = hub.engine().tolerance_use();
             nb::dict out;
             out["repairs"] = use.repairs;
             out["instants"] = use.instants;
             out["loose_instants"] = use.loose_instants;
             out["certified_instants"] = use.certified_instants;
             out["perturbation"] = use.perturbation;
             out["without_bottleneck"] = use.without_bottleneck;
             return out;
           }, "How often the tolerance was in force, and what the certificates found.")
      .def("clock", [](Hub& hub, Rank rank) { return hub.engine().clock(rank); }, nb::arg("rank"))
      .def("now", [](Hub& hub) { return hub.engine().clock(caught_up(hub)); }, "The running rank's clock, free of cost.")
      .def("wtime", [](Hub& hub) { return hub.engine().wtime(caught_up(hub)); }, "The running rank's clock, as MPI_Wtime.")
      .def("compute", [](Hub& hub, double seconds) {
             caught_up(hub);
             require(hub.compute(seconds));
           }, "Charge the running rank seconds of a core; it waits for them where its host has more ranks than cores.")
      .def("compute_flops", [](Hub& hub, double flops) {
             caught_up(hub);
             require(hub.compute_flops(flops));
           })
      .def("sleep", [](Hub& hub, double seconds) { hub.engine().sleep(caught_up(hub), seconds); },
           "Let the running rank's clock go on; no core is needed.")
      .def("measure_host", [](Hub& hub, double flops_per_cpu_s) {
             hub.host_clock().measure(static_cast<std::size_t>(hub.engine().rank_count()), flops_per_cpu_s);
           }, nb::arg("flops_per_cpu_s"),
           "From now on each second of this thread's CPU time in a rank's code counts for so many operations.")
      .def("now_ahead", [](Hub& hub) {
             HostClock& clock = hub.host_clock();
             const double flops = clock.is_on() ? clock.take_ahead(static_cast<std::size_t>(running(hub))) : 0.0;
             require(!(flops > 0.0) || hub.compute_flops(flops));
             return hub.engine().clock(running(hub));
           }, "The running rank's clock, just before a call that charges what was spent.")
      .def("now_after", [](Hub& hub) {
             hub.skip_host();
             return hub.engine().clock(running(hub));
           }, "The running rank's clock, just after a call: what noting it took is nobody's.")
      .def("replay_host", [](Hub& hub, const nb::list& ranks, double flops_per_cpu_s) {
             HostClock::Stretches stretches;
             for (const nb::handle rank : ranks) {
               const auto own = nb::cast<nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro>>(rank);
               stretches.emplace_back(own.data(), own.data() + own.shape(0));
             }
             if (stretches.size() != static_cast<std::size_t>(hub.ranks())) throw nb::value_error("one array a rank");
             stretches.resize(static_cast<std::size_t>(hub.engine().rank_count()));
             hub.host_clock().replay(std::move(stretches), flops_per_cpu_s);
           }, nb::arg("ranks"), nb::arg("flops_per_cpu_s"),
           nb::sig("def replay_host(self, ranks: Sequence[object], flops_per_cpu_s: float) -> None"),
           "Charge the ranks these nanoseconds, an int64 array a rank, instead of what their code takes.")
      .def("host_stretches", [](Hub& hub) {
             nb::list ranks;
             for (const auto& own : hub.host_clock().stretches()) {
               if (nb::len(ranks) == static_cast<std::size_t>(hub.ranks())) break;  // the rest are spare
               ranks.append(nb::bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(std::int64_t)));
             }
             return ranks;
           }, nb::sig("def host_stretches(self) -> Sequence[object]"),
           "What each rank has spent between its calls: nanoseconds, as int64.")
      .def_prop_ro("is_host_used_up", [](Hub& hub) { return hub.host_clock().is_used_up(); },
           "Whether the ranks have been charged all that was to be replayed, and no more.")
      .def("catch_up_host", [](Hub& hub) { caught_up(hub); }, "Charge the running rank what it has spent since its last call.")
      .def("skip_host", &Hub::skip_host, "What has been spent until now is nobody's.")
      .def("set_noise", [](Hub& hub, std::uint64_t seed, double period_s, double mean_s,
                           std::vector<double> slowdown) {
             if (slowdown.size() == static_cast<std::size_t>(hub.ranks())) {
               slowdown.resize(static_cast<std::size_t>(hub.engine().rank_count()), 1.0);
             }
             hub.engine().set_noise(Noise(seed, period_s, mean_s, std::move(slowdown)));
           }, nb::arg("seed"), nb::arg("period_s"), nb::arg("mean_s"), nb::arg("slowdown"),
           "Noise of the processors: detours, and a slowdown for every rank (or an empty list).")
      .def("host", [](Hub& hub, Rank rank) { return hub.engine().host_of(rank); }, nb::arg("rank"))
      .def("arrive", &arrive, nb::arg("comm"), "The running rank comes to its next collective call.")
      .def("call_of", &call_of_rank, nb::arg("rank"), nb::sig("def call_of(self, rank: int) -> SharedCall | None"),
           "The collective call a rank is in, or None.")
      .def("leave", &leave, "The running rank is out of its collective call.")
      .def("collective", &run_collective, nb::arg("comm"), nb::arg("call"), nb::arg("buffers"),
           nb::arg("reduction").none(), nb::arg("name"), nb::arg("has_data") = true, nb::arg("may_repeat") = false,
           "Carry out the running rank's part of a collective call.")
      .def("start_collective", &start_collective, nb::arg("comm"), nb::arg("call"), nb::arg("buffers"),
           nb::arg("reduction").none(), nb::arg("name"), nb::arg("has_data") = true, nb::arg("may_repeat") = false,
           nb::sig("def start_collective(self, comm: object, call: SharedCall, buffers: tuple, reduction: Reduction | None, "
                   "name: str, has_data: bool = True, may_repeat: bool = False) -> RequestBase"),
           "Begin the running rank's part of a collective call: a request.")
      .def("start_general", &start_general, nb::arg("name"), "A request that the program completes itself.")
      .def("start_messages", &start_messages, nb::arg("comm"), nb::arg("name"), nb::arg("receives"), nb::arg("sends"),
           nb::arg("sends_first") = false,
           nb::sig("def start_messages(self, comm: object, name: str, receives: list[object], sends: list[object], "
                   "sends_first: bool = False) -> RequestBase"), "Begin several messages, (buffer, peer, tag) each, as one request.")
      .def("operations", &operations_of, nb::arg("rank"),
           "What a rank has under way: (name, ranks that have not come, is waited for, its agent) each.")
      .def("keep_calls", &Hub::keep_calls, "Note every call, for a time-independent trace.")
      .def("begin_collective", [](Hub& hub, const std::string& text) { hub.calls().begin_collective(running(hub), text); },
           nb::arg("text"), "The running rank calls a collective: its action in the trace.")
      .def("end_collective", [](Hub& hub) { hub.calls().end_collective(running(hub)); })
      .def("declare_group", [](Hub& hub, const std::string& text) { hub.calls().declare(running(hub), text); },
           nb::arg("text"), "A line of the trace that declares a communicator.")
      .def("call_lines",
           [](Hub& hub, Rank rank) {
             const std::string lines = hub.calls().lines(rank);
             return nb::bytes(lines.data(), lines.size());
           },
           nb::arg("rank"), "The noted calls of a rank, as lines of a trace.")
      .def("new_context", &Hub::new_context)
      .def("state", &state_of, nb::arg("rank"))
      .def("call", &call_of, nb::arg("rank"))
      .def("requests", &requests_of, nb::arg("rank"))
      .def("freeze", &Hub::freeze, nb::arg("is_frozen"),
           "Promise that nothing moves until freeze(False), so that a report may look up all requests at once.")
      .def("greenlet",
           [](Hub& hub, Rank rank) {
             return hub.greenlet(rank) == nullptr ? nb::none() : nb::borrow(hub.greenlet(rank));
           },
           nb::arg("rank"))
      .def("message_columns", [](Hub& hub) { return message_columns(hub.engine()); }, "One array per column of the recorded messages.")
      .def("unreceived_columns", [](Hub& hub) { return unreceived_columns(hub.engine()); }, "One array per column of the messages that nobody has received.")
      .def("wait_columns", [](Hub& hub) { return wait_columns(hub.engine()); }, "One array per column of the recorded waits.")
      .def("operation_columns", [](Hub& hub) { return operation_columns(hub.engine()); }, "One array per column of the recorded operations; empty without any.")
      .def("side_columns", [](Hub& hub) { return side_columns(hub.engine()); }, "Messages whose sides were posted for an operation.")
      .def("computation_columns", [](Hub& hub) { return computation_columns(hub.engine()); }, "One array per column of the recorded computations.");
}

const Registration hub(40, [](nb::module_& module) {
  bind_types(module);
  bind_hub_class(module);
});

}  // namespace
}  // namespace labkit::bindings
