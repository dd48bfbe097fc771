// Several messages that are one request: nonblocking neighbor collectives, Isendrecv.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <utility>
#include <vector>

#include "hub/arrivals.hpp"
#include "hub/hub_operations.hpp"
#include "mpi/mpi_posts.hpp"
#include "python_side.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

struct Part {
  Posted posted;
  bool is_send = false;
};

/// All parts, or none: gives back what a failed preparation has taken.
class Parts {
 public:
  Parts(Hub* hub, CommObject* comm) : hub_(hub), comm_(comm) {}
  ~Parts() {
    for (Part& part : parts_) {
      if (part.posted.payload != nullptr) hub_->payloads().give(part.posted.payload);
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// rows: (buffer, peer, tag)
  void add(const nb::list& rows, bool is_send) {
    for (const nb::handle row : rows) {
      const auto given = nb::cast<nb::tuple>(row);  // keeps them alive
      PyObject* const buffer = PyTuple_GET_ITEM(given.ptr(), 0);
      PyObject* const peer = PyTuple_GET_ITEM(given.ptr(), 1);
      PyObject* const tag = PyTuple_GET_ITEM(given.ptr(), 2);
      Part part{{}, is_send};
      const bool is_good = is_send ? prepare_send(hub_, comm_, buffer, peer, tag, false, part.posted)
                                   : prepare_receive(hub_, comm_, buffer, peer, tag, false, true, part.posted);
      if (!is_good) throw nb::python_error();
      if (!part.posted.is_no_proc || !is_send) parts_.push_back(part);
    }
  }
  std::vector<Part> take() { return std::exchange(parts_, {}); }

 private:
  Hub* hub_;
  CommObject* comm_;
  std::vector<Part> parts_;
};

class MessagesProgress final : public Progress {
 public:
  MessagesProgress(Hub& hub, std::string name, nb::object comm, std::vector<Part> parts)
      : Progress(hub, std::move(name)), comm_(std::move(comm)), parts_(std::move(parts)) {}
  [[nodiscard]] nb::tuple absent() override { return nb::tuple(); }
  [[nodiscard]] const Status* status() const override { return status_ ? &*status_ : nullptr; }
  void forget() override {
    Progress::forget();
    comm_.reset();
  }

 protected:
  bool start(Rank agent) override {
    std::vector<RequestId> ids;
    for (Part& part : parts_) {
      if (part.posted.is_no_proc) continue;
      if (part.is_send) {
        post_send(&hub(), comm(), SendMode::standard, false, part.posted, agent);
      } else {
        post_receive(&hub(), comm(), part.posted, agent);
      }
      ids.push_back(part.posted.id);
    }
    return (ids.empty() || hub().engine().wait_all(agent, ids)) && settle();
  }
  bool go_on() override { return settle(); }
  void ended() override {}

 private:
  [[nodiscard]] CommObject* comm() const { return comm_of(comm_.ptr()); }

  /// All is there: look at it and give it back. Throws the first fault after that.
  bool settle() {
    std::optional<nb::python_error> fault;
    for (Part& part : parts_) {
      if (part.is_send) {
        hub().engine().release(part.posted.id);
        continue;
      }
      if (part.posted.is_no_proc) {
        if (!status_) status_ = Status{kProcNull, kAnyTag, 0, false, false};
        continue;
      }
      const Status learnt = hub().engine().status(part.posted.id);
      if (!status_) status_ = learnt;
      PyObject* done = finish_receive(&hub(), comm(), part.posted.id, std::exchange(part.posted.payload, nullptr),
                                      false, nullptr);
      if (done == nullptr && !fault) {
        fault.emplace();
      } else if (done == nullptr) {
        PyErr_Clear();
      }
      Py_XDECREF(done);
    }
    if (fault) throw nb::python_error(*fault);
    return true;
  }

  nb::object comm_;
  std::vector<Part> parts_;
  std::optional<Status> status_;
};

}  // namespace

nb::object start_messages(Hub& given, nb::object comm, std::string name, const nb::list& receives,
                          const nb::list& sends, bool sends_first) {
  Hub* hub = enter("messages");
  if (hub == nullptr || hub != &given) throw nb::python_error();
  Parts parts(hub, comm_of(comm.ptr()));
  if (sends_first) parts.add(sends, true);
  parts.add(receives, false);
  if (!sends_first) parts.add(sends, true);
  const auto progress = std::make_shared<MessagesProgress>(*hub, std::move(name), comm, parts.take());
  hub->operations().begin(*hub, progress);
  return nb::steal(make_operation_request(comm_of(comm.ptr()), hub, progress));
}

nb::object start_general(Hub& given, std::string name) {
  Hub* hub = enter(name.c_str());
  if (hub == nullptr || hub != &given) throw nb::python_error();
  const auto progress = std::make_shared<GeneralProgress>(*hub, std::move(name));
  hub->operations().begin(*hub, progress);
  return nb::steal(make_operation_request(nullptr, hub, progress));
}

nb::list operations_of(Hub& hub, Rank rank) {
  nb::list rows;
  for (const auto& progress : hub.operations().of(rank)) {
    const RequestId id = progress->operation().request;
    const bool is_waited = hub.engine().is_live(id) && hub.engine().request(id).is_waited;
    rows.append(nb::make_tuple(progress->name() + progress->detail(), progress->absent(), is_waited, progress->operation().agent));
  }
  return rows;
}

}  // namespace labkit::bindings
