// _kernels.GoalReader and _kernels.GoalRun: GOAL, read and run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>

#include "bound_platform.hpp"
#include "labkit/network/model.hpp"
#include "labkit/trace/goal.hpp"
#include "recorded_columns.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

class BoundGoal {
 public:
  BoundGoal(const BoundPlatform& platform, const Model& model, std::shared_ptr<const GoalProgram> program,
            bool keeps_messages, double tolerance)
      : program_(std::move(program)), engine_(platform.platform, model, platform.rank_hosts, {tolerance}),
        run_(engine_, *program_) {
    engine_.recorder().keep_messages(keeps_messages);
  }

  bool run(const nb::object& look) {
    return run_.run([&look] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return nb::cast<bool>(look());
    });
  }

  nb::tuple where(Rank rank) const {
    const GoalRun::Where where = run_.where(rank);
    std::vector<Rank> peers;
    if (where.line > 0 && where.peer >= 0) peers.push_back(where.peer);
    const std::string place = where.line > 0 ? program_->file + ", line " + std::to_string(where.line) : std::string();
    return nb::make_tuple(where.line == 0, place, where.action, peers);
  }

  std::vector<double> finish_s() {
    std::vector<double> times;
    for (Rank r = 0; r < engine_.rank_count(); ++r) times.push_back(engine_.clock(r));
    return times;
  }
  Engine& engine() { return engine_; }

 private:
  std::shared_ptr<const GoalProgram> program_;
  Engine engine_;
  GoalRun run_;
};

const Registration goal_bindings(55, [](nb::module_& module) {
  nb::class_<GoalProgram>(module, "GoalProgram", "GOAL in memory.")
      .def_prop_ro("ranks", [](const GoalProgram& program) { return program.ranks.size(); })
      .def_prop_ro("elsewhere", [](const GoalProgram& program) { return program.elsewhere; },
                   "Operations on a further cpu or nic.")
      .def_prop_ro("actions", [](const GoalProgram& program) {
        std::size_t sum = 0;
        for (const GoalRank& rank : program.ranks) sum += rank.ops.size();
        return sum;
      });
  nb::class_<GoalReader>(module, "GoalReader", "Reads the text of GOAL, piece by piece.")
      .def(nb::init<std::string, std::uint64_t>(), "name"_a, "limit_bytes"_a)
      .def("feed", [](GoalReader& reader, const nb::bytes& piece) { reader.feed({piece.c_str(), piece.size()}); }, "piece"_a)
      .def("take", [](GoalReader& reader) { return std::make_shared<GoalProgram>(reader.take()); });
  nb::class_<BoundGoal>(module, "GoalRun", "GOAL and the simulated machine that it runs on.")
      .def(nb::init<const BoundPlatform&, const Model&, std::shared_ptr<const GoalProgram>, bool, double>(), "platform"_a,
           "model"_a, "program"_a, "keeps_messages"_a = false, "tolerance"_a = 0.0)
      .def("run", &BoundGoal::run, "look"_a)
      .def("where", &BoundGoal::where, "rank"_a)
      .def("phases", [](BoundGoal&) { return nb::list(); }, "GOAL has none.")
      .def("set_noise", [](BoundGoal& goal, std::uint64_t seed, double period_s, double mean_s,
                           std::vector<double> slowdown) {
             goal.engine().set_noise(Noise(seed, period_s, mean_s, std::move(slowdown)));
           }, "seed"_a, "period_s"_a, "mean_s"_a, "slowdown"_a)
      .def("message_columns", [](BoundGoal& goal) { return message_columns(goal.engine()); })
      .def("unreceived_columns", [](BoundGoal& goal) { return unreceived_columns(goal.engine()); })
      .def("wait_columns", [](BoundGoal& goal) { return wait_columns(goal.engine()); })
      .def("computation_columns", [](BoundGoal& goal) { return computation_columns(goal.engine()); })
      .def_prop_ro("finish_s", &BoundGoal::finish_s)
      .def_prop_ro("idle_waits", [](BoundGoal&) { return 0; })
      .def_prop_ro("makespan", [](BoundGoal& goal) { return goal.engine().makespan(); })
      .def_prop_ro("messages", [](BoundGoal& goal) { return goal.engine().recorder().messages(); })
      .def_prop_ro("bytes", [](BoundGoal& goal) { return goal.engine().recorder().bytes(); })
      .def_prop_ro("events", [](BoundGoal& goal) { return goal.engine().events(); });
});

}  // namespace
}  // namespace labkit::bindings
