#include "hub/hub.hpp"

#include <greenlet.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "hub/frame_pool.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace {

thread_local Hub* active_hub = nullptr;
std::uint64_t last_serial = 0;

/// Makes a hub the active one; runs may nest (a rank may itself run a simulation).
class Activation {
 public:
  explicit Activation(Hub* hub) : previous_(std::exchange(active_hub, hub)) {}
  ~Activation() { active_hub = previous_; }
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

 private:
  Hub* previous_;
};

/// What a rank's greenlet runs: main, a Python callable, with the rank's number.
PyObject* start_rank(PyObject* main, PyObject* rank) {
  begin_in_small_chunk();
  // a bound method is taken apart: what calls it would stay on the stack that a suspended rank keeps
  if (!PyMethod_Check(main)) return PyObject_CallOneArg(main, rank);
  PyObject* args[] = {PyMethod_GET_SELF(main), rank};
  return PyObject_Vectorcall(PyMethod_GET_FUNCTION(main), args, 2, nullptr);
}

PyMethodDef small_start = {"start_rank", start_rank, METH_O, nullptr};

bool has_greenlet_api() {
  if (_PyGreenlet_API == nullptr) PyGreenlet_Import();
  return _PyGreenlet_API != nullptr;
}

}  // namespace

Hub* Hub::active() { return active_hub; }

Hub::Hub(std::shared_ptr<const Platform> platform, const Model& model, std::vector<HostId> rank_hosts,
         bool keeps_messages, SharingOptions options, std::size_t spare_ranks)
    : collectives_(rank_hosts.size(), spare_ranks),
      engine_(std::move(platform), model, std::move(rank_hosts), options, spare_ranks),
      ranks_(static_cast<std::size_t>(engine_.rank_count())),
      world_(engine_.rank_count() - static_cast<Rank>(spare_ranks)),
      serial_(++last_serial) {
  engine_.recorder().keep_messages(keeps_messages);
  engine_.pause_every(kTimePerLook);
}

void Hub::keep_calls() {
  std::vector<double> speeds;
  for (Rank rank = 0; rank < world_; ++rank) {
    speeds.push_back(engine_.platform().host(engine_.host_of(rank)).speed_flops);
  }
  calls_ = std::make_unique<CallLog>(std::move(speeds));
  engine_.set_call_log(calls_.get());
}

CallLog& Hub::calls() {
  if (calls_ == nullptr) throw std::logic_error("this run keeps no calls");
  return *calls_;
}

void Hub::close() {
  operations_.forget();
  collectives_.forget();
  quick_.forget();
  transfer_ends_.forget();
  Py_CLEAR(start_);
  Py_CLEAR(context_);
  Py_CLEAR(hub_greenlet_);
  Py_CLEAR(make_ending_);
  Py_CLEAR(on_any_);
  Py_CLEAR(on_limit_);
  Py_CLEAR(places_);
  Py_CLEAR(warn_);
}

Hub::~Hub() {
  for (RankState& state : ranks_) {  // one that swallows every error could never be ended: leave it
    if (state.state != State::abandoned) Py_CLEAR(state.greenlet);
  }
  close();
  trim_frame_pool();
}

void Hub::set_limit(double seconds, PyObject* on_limit) {
  using Clock = std::chrono::steady_clock;
  limit_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Py_XSETREF(on_limit_, Py_NewRef(on_limit));
}

void Hub::set_ending(PyObject* make_error) {
  Py_XSETREF(make_ending_, Py_NewRef(make_error));
  needs_care_ = true;
}

bool Hub::raise_ending() {
  if (current_ >= 0 && ++at(current_).endings > kMostEndings) return abandon();
  PyObject* error = PyObject_CallNoArgs(make_ending_);
  if (error == nullptr) return false;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return false;
}

// Signals, the time limit, and other threads: they get their turn while the engine works.
bool Hub::look_up() {
  if (PyErr_CheckSignals() < 0) return false;
  if (on_limit_ != nullptr && !is_ending() && std::chrono::steady_clock::now() > limit_) {
    PyObject* result = PyObject_CallNoArgs(on_limit_);
    if (result == nullptr) return false;
    Py_DECREF(result);
  }
  Py_BEGIN_ALLOW_THREADS
  Py_END_ALLOW_THREADS
  return true;
}

Advance Hub::advance() {
  Busy busy(*this);
  return engine_.advance(kEventsPerLook);
}

Rank Hub::pick() {
  try {
    for (;;) {
      const Rank rank = engine_.next_ready();
      if (rank >= 0) return rank;
      Advance outcome = advance();
      for (; outcome == Advance::paused; outcome = advance()) {
        if (!look_up()) return kFailed;
      }
      switch (outcome) {
        case Advance::ready: case Advance::paused: break;
        case Advance::budget:
          if (!look_up()) return kFailed;
          break;
        case Advance::idle: return kNobody;
      }
    }
  } catch (nanobind::python_error& error) {  // a reduction operator of the program
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return kFailed;
}

bool Hub::switch_to(PyObject* greenlet) {
  ++switches_;
  PyObject* result = PyGreenlet_Switch(reinterpret_cast<PyGreenlet*>(greenlet), nullptr, nullptr);
  if (result == nullptr) return false;
  Py_DECREF(result);
  return true;
}

bool Hub::block(const Call& call) {
  const Rank me = current_;
  at(me).call = call;
  const Rank next = pick();
  if (next == kFailed) {  // the engine still counts this rank as blocked: it must not call again
    if (!is_ending()) set_ending(python_side().make_ended);
    return false;
  }
  if (next != me) {
    PyObject* target = hub_greenlet_;
    if (next != kNobody && at(next).state == State::suspended) {
      target = at(next).greenlet;
      current_ = next;
    } else {
      handoff_ = next;
      has_handoff_ = true;
      has_yielded_ = true;
    }
    if (!switch_to(target)) return false;
  }
  skip_host();
  return is_ending() ? raise_ending() : true;
}

bool Hub::compute_together(double seconds) {
  // An operator that the engine calls may not block; what it charges is not shared.
  if (is_busy_) return engine_.sleep(current_, seconds), true;
  if (is_ending()) return raise_ending();
  return engine_.compute(current_, seconds) || block({"compute", kProcNull, kAnyTag, 0});
}

bool Hub::compute_flops(double flops) {
  return compute(flops / engine_.platform().host(engine_.host_of(current_)).speed_flops);
}

bool Hub::charge_host() {
  if (current_ < 0) return true;
  const double flops = host_clock_.take(static_cast<std::size_t>(current_));
  return !(flops > 0.0) || compute_flops(flops);
}

bool Hub::abandon() {
  at(current_).state = State::abandoned;
  has_yielded_ = true;
  return switch_to(hub_greenlet_);
}

// A rank starts with its own copy of the caller's context variables, as a new process would.
bool Hub::give_context(PyObject* greenlet) {
  static PyObject* const name = PyUnicode_InternFromString("gr_context");
  if (PyObject_Size(context_) == 0) return true;  // as good as none
  PyObject* copy = PyContext_Copy(context_);
  if (copy == nullptr) return false;
  const int status = PyObject_SetAttr(greenlet, name, copy);
  Py_DECREF(copy);
  return status == 0;
}

bool Hub::start_or_resume(Rank rank) {
  RankState& state = at(rank);
  current_ = rank;
  has_yielded_ = false;
  bool is_good = false;
  if (state.state == State::fresh) {
    state.greenlet =
        reinterpret_cast<PyObject*>(PyGreenlet_New(start_, reinterpret_cast<PyGreenlet*>(hub_greenlet_)));
    if (state.greenlet == nullptr || !give_context(state.greenlet)) return false;
    state.state = State::suspended;
    PyObject* args = Py_BuildValue("(i)", rank);
    if (args == nullptr) return false;
    ++switches_;
    PyObject* result = PyGreenlet_Switch(reinterpret_cast<PyGreenlet*>(state.greenlet), args, nullptr);
    Py_DECREF(args);
    is_good = result != nullptr;
    Py_XDECREF(result);
  } else {
    is_good = switch_to(state.greenlet);
  }
  settle();
  return is_good;
}

// Control is back at the hub: by a switch, or because the rank that ran last has ended.
void Hub::settle() {
  const Rank last = std::exchange(current_, kNobody);
  if (has_yielded_ || last < 0 || at(last).state != State::suspended) return;
  at(last).state = State::done;
  Py_CLEAR(at(last).greenlet);
  engine_.finish(last);
  --unfinished_;
}

Hub::Outcome Hub::run(PyObject* main) {
  if (!has_greenlet_api()) return Outcome::error;
  install_frame_pool();
  const bool is_many = static_cast<std::size_t>(world_) >= kManyRanks;
  Py_XSETREF(start_, is_many ? PyCFunction_New(&small_start, main) : Py_NewRef(main));
  Py_XSETREF(context_, PyContext_CopyCurrent());
  if (start_ == nullptr || context_ == nullptr) return Outcome::error;
  Py_XSETREF(hub_greenlet_, reinterpret_cast<PyObject*>(PyGreenlet_GetCurrent()));
  Activation activation(this);
  unfinished_ = world_;
  for (Rank rank = 0; rank < world_; ++rank) engine_.start(rank);
  while (unfinished_ > 0 && !is_stopped_) {
    const Rank next = std::exchange(has_handoff_, false) ? handoff_ : pick();
    if (next == kFailed) return Outcome::error;
    if (next == kNobody) return Outcome::deadlock;
    if (!start_or_resume(next)) return Outcome::error;
  }
  return is_stopped_ ? Outcome::stopped : Outcome::finished;
}

// A rank may let an error through while it unwinds: the time limit knocks again where nothing catches it.
// The other ranks must not start with that error set, and would lose it.
bool Hub::unwind() {
  Activation activation(this);
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    RankState& state = at(rank);
    if (state.state != State::suspended) continue;
    if (!start_or_resume(rank)) {
      if (type == nullptr) {
        PyErr_Fetch(&type, &value, &trace);
      } else {
        PyErr_Clear();
      }
    }
    if (state.state == State::suspended) state.state = State::abandoned;
  }
  if (type == nullptr) return true;
  PyErr_Restore(type, value, trace);
  return false;
}

void Hub::drop(RequestId id, Payload* payload) {
  if (!engine_.is_live(id)) return;
  const bool is_over = payload != nullptr && payload->is_delivered;
  engine_.release(id);
  if (is_over) payloads_.give(payload);  // else deliver() does, when the message comes
}

void Hub::freeze(bool is_frozen) {
  frozen_requests_ = is_frozen ? engine_.requests_by_rank() : std::vector<std::vector<RequestId>>{};
}

std::vector<RequestId> Hub::open_requests(Rank rank) const {
  return frozen_requests_.empty() ? engine_.requests_of(rank) : frozen_requests_[static_cast<std::size_t>(rank)];
}

// --- Client ---------------------------------------------------------------------------------------

void Hub::snapshot(Request& send) {
  auto* payload = static_cast<Payload*>(send.payload);
  if (payload->owner != nullptr || payload->bytes == 0) return;  // bytes objects never change
  if (phantom_memory().holds(payload->data)) {
    release_view(*payload);
    return;
  }
  char* copy = payload->small;
  if (payload->bytes > sizeof payload->small) {
    copy = payload->copy = static_cast<char*>(std::malloc(payload->bytes));
    if (copy == nullptr) throw std::bad_alloc();
  }
  std::memcpy(copy, payload->data, payload->bytes);
  payload->data = copy;
  release_view(*payload);
}

void Hub::deliver(Request& send, Request& receive) {
  auto* from = static_cast<Payload*>(send.payload);
  auto* to = static_cast<Payload*>(receive.payload);
  const std::uint64_t bytes = std::min(from->bytes, to->bytes);
  const bool is_phantom = bytes > 0 && phantom_memory().holds(from->data);
  if (is_phantom) {
    to->is_unfilled = to->is_object || !phantom_memory().holds(to->data);
  } else if (!to->is_object) {
    if (to->layout != nullptr) {
      to->layout->unpack(to->data, from->data, bytes);
    } else if (bytes > 0 && !phantom_memory().holds(to->data)) {
      std::memmove(to->data, from->data, bytes);
    }
  } else if (from->owner != nullptr && bytes == from->bytes) {
    to->received = Py_NewRef(from->owner);
  } else {
    to->received = PyBytes_FromStringAndSize(from->data, static_cast<Py_ssize_t>(bytes));
    if (to->received == nullptr) throw std::bad_alloc();
  }
  to->is_delivered = true;
  if (warn_ != nullptr) note_match(send, receive, *from, *to, bytes);
  if (!to->is_used) release_view(*to);
  payloads_.give(from);
  send.payload = nullptr;
  if (!receive.is_held) {  // its owner gave the handle up: nobody will fetch it
    payloads_.give(to);
    receive.payload = nullptr;
  }
}

void Hub::discard(Request& send) {
  payloads_.give(static_cast<Payload*>(send.payload));
  send.payload = nullptr;
}

}  // namespace labkit::bindings
