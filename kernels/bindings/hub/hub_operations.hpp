// What ranks have under way beside what they do: nonblocking collectives, and several messages that are one request.
//
// Each is carried on by an agent of the engine's (kernels/src/engine_operations.cpp), whose driver it is: it
// needs no greenlet and no switch. The rank has a request that is complete when the operation is over; what
// went wrong meanwhile is raised where the rank waits for it.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hub/hub_collective.hpp"
#include "labkit/engine/engine.hpp"

namespace labkit::bindings {

class Hub;

class Progress : public Driver {
 public:
  Progress(Hub& hub, std::string name) : hub_(hub), name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Operation& operation() const { return operation_; }
  /// World ranks that have not come to it, as a tuple.
  [[nodiscard]] virtual nanobind::tuple absent() = 0;
  /// What tells it from others of its name, for reports.
  [[nodiscard]] virtual std::string detail() const { return {}; }
  /// What a receive of it learnt; nullptr: it has none.
  [[nodiscard]] virtual const Status* status() const { return nullptr; }
  /// Raise what went wrong while it was under way: false with a Python error.
  [[nodiscard]] bool is_sound();
  /// What to call once it has been waited for, when all went well.
  void set_after(nanobind::object after) { after_ = std::move(after); }
  [[nodiscard]] nanobind::object take_after() { return std::exchange(after_, nanobind::object()); }
  /// The run has ended: let go of Python objects, which could lead back to the hub.
  virtual void forget() {
    failure_ = nullptr;
    after_.reset();
  }
  void resume(Rank agent) final;

 protected:
  /// The agent begins, or goes on. True: it is through.
  virtual bool start(Rank agent) = 0;
  virtual bool go_on() = 0;
  /// It is through, whatever came of it.
  virtual void ended() = 0;
  [[nodiscard]] Hub& hub() const { return hub_; }
  std::string fault_;  ///< what went wrong, as an error of MPI's; empty: nothing

 private:
  friend class OperationTable;
  void end();
  Hub& hub_;
  std::string name_;
  Operation operation_;
  std::exception_ptr failure_;
  nanobind::object after_;
};

/// What the program itself completes: a generalized request.
class GeneralProgress final : public Progress {
 public:
  using Progress::Progress;
  [[nodiscard]] nanobind::tuple absent() override { return {}; }

 protected:
  bool start(Rank agent) override;
  bool go_on() override { return false; }
  void ended() override {}
};

/// One rank's part of a collective call.
class CollectiveProgress final : public Progress {
 public:
  /// `memory` is what holds the buffers.
  CollectiveProgress(Hub& hub, std::string name, std::shared_ptr<SharedCall> shared, std::int32_t rank,
                     std::vector<BoundBuffer> buffers, nanobind::object memory)
      : Progress(hub, std::move(name)), shared_(std::move(shared)), rank_(rank), buffers_(std::move(buffers)),
        memory_(std::move(memory)) {}
  [[nodiscard]] nanobind::tuple absent() override;
  [[nodiscard]] std::string detail() const override;
  void forget() override;

 protected:
  bool start(Rank agent) override;
  bool go_on() override;
  void ended() override;

 private:
  std::shared_ptr<SharedCall> shared_;
  std::int32_t rank_;
  std::vector<BoundBuffer> buffers_;
  nanobind::object memory_;
};

class OperationTable {
 public:
  /// The running rank begins an operation. Throws what the beginning throws; the operation is then over.
  void begin(Hub& hub, const std::shared_ptr<Progress>& progress);
  /// What an agent carries on.
  [[nodiscard]] std::shared_ptr<Progress> of(Rank owner, Rank agent) const { return under_way_.at({owner, agent}); }
  void through(Rank owner, Rank agent) { under_way_.erase({owner, agent}); }
  /// The running rank completes an operation that waits for nothing else. False: it is over already.
  bool complete(Hub& hub, const std::shared_ptr<Progress>& progress);
  /// What a rank has under way.
  [[nodiscard]] std::vector<std::shared_ptr<Progress>> of(Rank owner) const;
  void forget();

 private:
  std::map<std::pair<Rank, Rank>, std::shared_ptr<Progress>> under_way_;  // by rank and agent
};

}  // namespace labkit::bindings
