#include "hub/hub_operations.hpp"

#include <algorithm>

#include "hub/hub.hpp"
#include "python_side.hpp"

namespace nb = nanobind;

namespace labkit::bindings {

void OperationTable::begin(Hub& hub, const std::shared_ptr<Progress>& progress) {
  Engine& engine = hub.engine();
  const Rank rank = hub.current();
  progress->operation_ = engine.begin_operation(rank, progress->name_);
  const Rank agent = progress->operation_.agent;
  bool is_through = true;
  try {
    const Hub::Busy busy(hub);
    is_through = progress->start(agent);
  } catch (...) {
    progress->failure_ = std::current_exception();
  }
  // The call itself posts what can be posted at once, as real libraries do, and pays for it.
  engine.follow(rank, agent);
  if (!is_through) {
    under_way_[{rank, agent}] = progress;
    engine.set_driver(agent, progress.get());
    return;
  }
  progress->end();
  if (progress->failure_ == nullptr) return;
  engine.release(progress->operation_.request);
  std::rethrow_exception(std::exchange(progress->failure_, nullptr));
}

void OperationTable::forget() {
  for (const auto& [key, progress] : under_way_) progress->forget();
}

std::vector<std::shared_ptr<Progress>> OperationTable::of(Rank owner) const {
  std::vector<std::shared_ptr<Progress>> found;
  for (auto at = under_way_.lower_bound({owner, -1}); at != under_way_.end() && at->first.first == owner; ++at) {
    found.push_back(at->second);
  }
  return found;
}

void Progress::resume(Rank agent) {
  const Rank owner = hub_.engine().owner_of(agent);
  const std::shared_ptr<Progress> self = hub_.operations().of(owner, agent);  // the table lets go of it below
  bool is_through = true;
  try {
    is_through = go_on();
  } catch (...) {  // it belongs to the rank, not to whoever drives the engine
    failure_ = std::current_exception();
  }
  if (!is_through) return;
  hub_.operations().through(owner, agent);
  end();
}

void Progress::end() {
  ended();
  hub_.engine().end_operation(operation_.agent, failure_ == nullptr);
}

bool Progress::is_sound() {
  if (failure_ != nullptr) {
    try {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    } catch (nb::python_error& error) {
      error.restore();
    } catch (const ScheduleFault& error) {
      raise_schedule_fault(error);
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return false;
  }
  if (fault_.empty()) return true;
  raise_mpi(kErrTruncate, "%s: %s", name_.c_str(), fault_.c_str());
  return false;
}

bool GeneralProgress::start(Rank agent) {
  (void)agent;
  return false;
}

bool OperationTable::complete(Hub& hub, const std::shared_ptr<Progress>& progress) {
  Engine& engine = hub.engine();
  const Rank agent = progress->operation_.agent;
  const Rank owner = engine.owner_of(agent);
  const auto found = under_way_.find({owner, agent});
  if (found == under_way_.end() || found->second != progress) return false;
  engine.sleep(agent, std::max(0.0, engine.clock(hub.current()) - engine.clock(agent)));
  through(owner, agent);
  progress->end();
  return true;
}

// --- collectives ----------------------------------------------------------------------------------

bool CollectiveProgress::start(Rank agent) {
  return hub().collectives().begun(hub(), *shared_).enter_beside(rank_, std::move(buffers_), agent);
}

bool CollectiveProgress::go_on() { return shared_->collective->go_on(rank_); }

void CollectiveProgress::ended() {
  if (shared_->collective != nullptr) fault_ = shared_->collective->fault(rank_);
  hub().collectives().through(*shared_);
  memory_.reset();
}

nb::tuple CollectiveProgress::absent() { return shared_->absent(); }

std::string CollectiveProgress::detail() const {
  if (!shared_->terms.facts.is_valid()) return {};
  const auto facts = nb::borrow<nb::dict>(shared_->terms.facts);
  if (!facts.contains("root")) return {};
  return " with root " + std::to_string(nb::cast<std::int64_t>(facts["root"]));
}

void CollectiveProgress::forget() {
  Progress::forget();
  shared_->forget();
  memory_.reset();
}

}  // namespace labkit::bindings
