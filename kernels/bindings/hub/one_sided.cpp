#include "hub/one_sided.hpp"

#include <nanobind/stl/vector.h>

#include <utility>

#include "hub/hub.hpp"
#include "mpi/mpi_objects.hpp"
#include "mpi/mpi_posts.hpp"
#include "python_side.hpp"

namespace nb = nanobind;

namespace labkit::bindings {

void* TransferEnds::keep(PyObject* callable) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(kept_.size()));
    kept_.push_back(nullptr);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  kept_[slot] = Py_NewRef(callable);
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(slot));
}

void TransferEnds::completed(Request& request) {
  const auto slot = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(request.payload));
  const nb::object callable = nb::steal(std::exchange(kept_[slot], nullptr));
  free_.push_back(slot);
  if (callable.is_valid()) callable();
}

void TransferEnds::forget() {
  for (PyObject*& callable : kept_) Py_CLEAR(callable);
}

namespace {

void require(bool is_good) {
  if (!is_good) throw nb::python_error();
}

void require_running(Hub& hub, const char* name) { require(enter(name) == &hub); }

/// The running rank pays for a transfer and the engine catches up with it.
void begin_transfer(Hub& hub, std::uint64_t bytes, const char* name) {
  require_running(hub, name);
  hub.engine().charge_transfer(hub.current(), bytes);
  require(catch_up_rank(hub, name));
}

std::uint64_t transfer(Hub& hub, Rank source, Rank dest, std::uint64_t bytes, Context context, std::int32_t tag,
                       nb::object on_end) {
  TransferPost post{hub.current(), source, dest, tag, context, bytes, nullptr, nullptr};
  if (!on_end.is_none()) {
    post.client = &hub.transfer_ends();
    post.payload = hub.transfer_ends().keep(on_end.ptr());
  }
  return number_of(hub.engine().transfer(post));
}

/// Block until all are over; none is given back.
void wait_for(Hub& hub, const std::vector<std::uint64_t>& numbers, const char* name) {
  require_running(hub, name);
  Engine& engine = hub.engine();
  const Rank me = hub.current();
  bool goes_on = true;
  {
    std::vector<RequestId> ids;
    for (const std::uint64_t number : numbers) {
      const RequestId id = id_of(number);
      if (!engine.is_live(id)) continue;
      if (!engine.is_complete(id)) engine.hand_over(id, me);
      ids.push_back(id);
    }
    goes_on = engine.wait_all(me, ids);
  }
  require(goes_on || hub.block({name, kProcNull, kAnyTag, 0}));
}

void release(Hub& hub, const std::vector<std::uint64_t>& numbers) {
  for (const std::uint64_t number : numbers) {
    if (hub.engine().is_live(id_of(number))) hub.engine().release(id_of(number));
  }
}

/// The handle as a request; its status will say that so many bytes have come.
nb::object handle_as_request(Hub& hub, nb::object comm, std::uint64_t number, std::uint64_t bytes) {
  Posted posted;
  posted.id = id_of(number);
  PyObject* made = make_request(comm_of(comm.ptr()), &hub, posted, RequestUse::send);
  if (made != nullptr) reinterpret_cast<RequestObject*>(made)->status.bytes = bytes;
  return nb::steal(made);
}

/// A request that was over from the beginning, with nothing in its status.
nb::object finished_request(Hub& hub, nb::object comm) {
  Posted posted;
  posted.is_no_proc = true;
  return nb::steal(make_request(comm_of(comm.ptr()), &hub, posted, RequestUse::send));
}

}  // namespace

bool catch_up_rank(Hub& hub, const char* name) {
  return hub.engine().sync(hub.current()) || hub.block({name, kProcNull, kAnyTag, 0});
}

void bind_one_sided(nb::class_<Hub>& hub) {
  hub.def("begin_transfer", &begin_transfer, nb::arg("bytes"), nb::arg("name"),
          "The running rank pays for a one-sided transfer and goes on at its own time.")
      .def("transfer", &transfer, nb::arg("source"), nb::arg("dest"), nb::arg("bytes"), nb::arg("context"),
           nb::arg("tag"), nb::arg("on_end").none(),
           "Begin to move bytes from a rank to another now; on_end() is called when they have arrived. A handle.")
      .def("catch_up",
           [](Hub& self, const char* name) {
             require_running(self, name);
             require(catch_up_rank(self, name));
           },
           nb::arg("name"), "Let everything happen that happens before the running rank's time.")
      .def("gate", [](Hub& self) { return number_of(self.engine().gate(self.current())); },
           "A handle that is over when open_gate is called.")
      .def("open_gate", [](Hub& self, std::uint64_t number, double at) { self.engine().open(id_of(number), at); },
           nb::arg("handle"), nb::arg("at") = 0.0, "Let it be over: now, or at a later time.")
      .def("wait_for", &wait_for, nb::arg("handles"), nb::arg("name"), "Block until all are over.")
      .def("release_handles", &release, nb::arg("handles"), "Give handles back.")
      .def("is_handle_over",
           [](Hub& self, std::uint64_t number) {
             return !self.engine().is_live(id_of(number)) || self.engine().is_complete(id_of(number));
           },
           nb::arg("handle"))
      .def("handle_request", &handle_as_request, nb::arg("comm"), nb::arg("handle"), nb::arg("bytes") = 0,
           nb::sig("def handle_request(self, comm: object, handle: int, bytes: int = 0) -> RequestBase"),
           "The handle as a Request, which owns it.")
      .def("finished_request", &finished_request, nb::arg("comm"),
           nb::sig("def finished_request(self, comm: object) -> RequestBase"), "A Request that is over.");
}

}  // namespace labkit::bindings
