#include "hub/arrivals.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <utility>

#include "bound_buffers.hpp"
#include "mpi/mpi_posts.hpp"
#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

CollectiveKey next_key(const CommObject* comm, Hub& hub) {
  const Rank owner = comm->kind == CommKind::self ? hub.current() : -1;
  const Context context = context_of(comm, &hub);
  return {context, hub.collectives().number(context, hub.current()), owner};
}

std::shared_ptr<SharedCall> arrive_at(const CommObject* comm, Hub& hub, const CollectiveKey& key) {
  ++hub.collectives().number(key.context, hub.current());
  Arrival who{hub.current(), comm_rank(comm, &hub), comm_size(comm, &hub), nullptr};
  if (comm->kind == CommKind::group) who.members = *comm->members;
  if (comm->kind == CommKind::world && hub.is_spawned()) who.members = hub.job().members;
  return hub.collectives().arrive(key, who);
}

/// The general way has read a call of a form that may come again: keep what it made of it.
void remember(Hub& hub, SharedCall& call, const char* name, const std::vector<BoundBuffer>& buffers) {
  if (!hub.quick().has_question(hub.current(), name)) return;
  if (call.agreement == nullptr) call.agreement = hub.quick().known(call.terms);
  if (call.agreement == nullptr) {
    auto agreement = std::make_shared<Agreement>(call.terms);
    agreement->facts = nb::steal(PyDict_Copy(call.terms.facts.ptr()));
    call.agreement = std::move(agreement);
  }
  hub.quick().answer(hub.current(), name, call.agreement, buffers);
}

}  // namespace

std::shared_ptr<SharedCall> arrive(Hub&, nb::handle handle) {
  const auto* comm = reinterpret_cast<const CommObject*>(handle.ptr());
  Hub* hub = enter("collective");
  if (hub == nullptr || !check_comm(comm, hub)) throw nb::python_error();
  return arrive_at(comm, *hub, next_key(comm, *hub));
}

std::shared_ptr<SharedCall> join(const CommObject* comm, Hub* hub, const std::shared_ptr<const Agreement>& agreement) {
  const CollectiveKey key = next_key(comm, *hub);
  const SharedCall* open = hub->collectives().find(key);
  if (open != nullptr && open->agreement != agreement) return nullptr;
  const bool is_first = open == nullptr;
  std::shared_ptr<SharedCall> call = arrive_at(comm, *hub, key);
  if (is_first) {
    call->terms = *agreement;
    call->terms.facts = nb::steal(PyDict_Copy(agreement->facts.ptr()));  // a rank of the general way may add some
    call->agreement = agreement;
  }
  return call;
}

const SharedCall* open_call(const CommObject* comm, Hub* hub) { return hub->collectives().find(next_key(comm, *hub)); }

std::shared_ptr<SharedCall> call_of_rank(Hub& hub, Rank rank) { return hub.collectives().of(rank); }

void leave(Hub& hub) { hub.collectives().leave(hub.current()); }

void run_collective(Hub& hub, nb::handle handle, const std::shared_ptr<SharedCall>& call, const nb::tuple& buffers,
                    std::shared_ptr<const Reduction> reduction, const char* name, bool has_data, bool may_repeat) {
  const auto* comm = reinterpret_cast<const CommObject*>(handle.ptr());
  const std::int32_t rank = comm_rank(comm, &hub);
  call->give(rank, std::move(reduction));
  if (call->collective == nullptr) call->terms.has_data = has_data;
  auto bound = bound_buffers<nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>>(buffers);
  if (may_repeat) remember(hub, *call, name, bound);
  if (!hub.run_collective(call, rank, std::move(bound), name)) throw nb::python_error();
}

nb::object begin_collective(Hub& hub, CommObject* comm, std::shared_ptr<SharedCall> call, std::int32_t rank,
                            std::vector<BoundBuffer> buffers, nb::object memory, const char* name) {
  hub.collectives().leave(hub.current());  // the rank goes on: it is in no call
  const auto progress = std::make_shared<CollectiveProgress>(hub, name, std::move(call), rank, std::move(buffers),
                                                             std::move(memory));
  hub.operations().begin(hub, progress);
  return nb::steal(make_operation_request(comm, &hub, progress));
}

nb::object start_collective(Hub& hub, nb::handle handle, const std::shared_ptr<SharedCall>& call,
                            const nb::tuple& buffers, std::shared_ptr<const Reduction> reduction, const char* name,
                            bool has_data, bool may_repeat) {
  auto* comm = reinterpret_cast<CommObject*>(handle.ptr());
  const std::int32_t rank = comm_rank(comm, &hub);
  call->give(rank, std::move(reduction));
  if (call->collective == nullptr) call->terms.has_data = has_data;
  auto bound = bound_buffers<nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>>(buffers);
  if (may_repeat) remember(hub, *call, name, bound);
  return begin_collective(hub, comm, call, rank, std::move(bound), buffers, name);
}

namespace {

nb::object or_none(const nb::object& value) { return value.is_valid() ? value : nb::none(); }

const Registration shared_calls(35, [](nb::module_& module) {
  nb::class_<SharedCall>(module, "SharedCall", "What the ranks share about one collective call.")
      .def_prop_ro("number", [](const SharedCall& call) { return call.key.number; },
                   "Of the call on its communicator.")
      .def_ro("first", &SharedCall::first, "World rank of the one that came first.")
      .def_prop_rw("name", [](const SharedCall& call) { return or_none(call.terms.name); },
                   [](SharedCall& call, nb::object name) { call.terms.name = std::move(name); }, "The collective as the program spells it.")
      .def_prop_rw("facts", [](const SharedCall& call) { return or_none(call.terms.facts); },
                   [](SharedCall& call, nb::object facts) { call.terms.facts = std::move(facts); },
                   "What all ranks must give alike.")
      .def_prop_rw("program", [](const SharedCall& call) { return call.terms.program; },
                   [](SharedCall& call, std::shared_ptr<Program> program) { call.terms.program = std::move(program); },
                   "The schedule, chosen by the first rank.")
      .def_prop_rw("element_bytes", [](const SharedCall& call) { return call.terms.element_bytes; },
                   [](SharedCall& call, std::int32_t bytes) { call.terms.element_bytes = bytes; },
                   "The first rank's element: where a message may be cut.")
      .def_prop_ro("made", [](SharedCall& call) {
                     if (!call.made.is_valid()) call.made = nb::dict();
                     return call.made;
                   }, "Communicators that come of it, by color.")
      .def("absent", &SharedCall::absent, "World ranks that have not come, as a tuple.");
});

}  // namespace
}  // namespace labkit::bindings
