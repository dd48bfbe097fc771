// Schedules for Python: programs fed by generators, reductions, and runs without Python ranks.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bound_buffers.hpp"
#include "bound_platform.hpp"
#include "labkit/engine/engine.hpp"
#include "labkit/schedule/collective.hpp"
#include "labkit/schedule/reduction.hpp"
#include "labkit/schedule/schedule.hpp"
#include "python_side.hpp"
#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Field field_of(nb::handle value) {
  if (PyLong_Check(value.ptr())) return Field(nb::cast<std::int64_t>(value));
  const auto array = nb::cast<Integers>(value);
  return Field(std::vector<std::int64_t>(array.data(), array.data() + array.shape(0)));
}

SectionField section_of(nb::handle value) {
  const auto parts = nb::cast<nb::tuple>(value);
  return {nb::cast<std::int32_t>(parts[0]), field_of(parts[1]), field_of(parts[2]), field_of(parts[3]),
          field_of(parts[4])};
}

void check_length(const Field& field, std::size_t count) {
  if (!field.is_constant() && field.size() != count) {
    throw ScheduleFault("a column of " + std::to_string(count) + " entries has a field of " +
                        std::to_string(field.size()));
  }
}

/// A Python Column, copied: the generator may reuse its arrays.
Column column_of(nb::handle value, std::int32_t size) {
  Column column;
  column.kind = static_cast<OpKind>(nb::cast<int>(value.attr("kind")));
  column.label = nb::cast<std::int32_t>(value.attr("label"));
  column.peer = field_of(value.attr("peer"));
  column.section = section_of(value.attr("section"));
  column.source = section_of(value.attr("source"));
  column.is_source_first = field_of(value.attr("is_source_first"));
  const auto ranks = nb::cast<Integers>(value.attr("ranks"));
  column.count = ranks.shape(0);
  column.is_everybody = column.count == static_cast<std::size_t>(size);
  for (std::size_t i = 0; column.is_everybody && i < column.count; ++i) {
    column.is_everybody = ranks.data()[i] == static_cast<std::int64_t>(i);
  }
  if (!column.is_everybody) column.ranks.assign(ranks.data(), ranks.data() + column.count);
  for (const Field* field : {&column.peer, &column.is_source_first, &column.section.first, &column.section.length,
                             &column.section.run, &column.section.stride, &column.source.first,
                             &column.source.length, &column.source.run, &column.source.stride}) {
    check_length(*field, column.count);
  }
  return column;
}

/// In an empty context (PEP 567): what a schedule's arrays take is not memory of the rank that happens to run.
template <typename Call>
nb::object outside_ranks(const nb::object& context, const Call& call) {
  if (PyContext_Enter(context.ptr()) != 0) throw nb::python_error();
  nb::object made = nb::steal(call());
  if (PyContext_Exit(context.ptr()) != 0) throw nb::python_error();
  if (!made.is_valid() && PyErr_Occurred() != nullptr) throw nb::python_error();
  return made;
}

PyObject* steps_of(const nb::object& schedule) {
  const nb::object steps = nb::steal(PyObject_CallMethod(schedule.ptr(), "steps", nullptr));
  return steps.is_valid() ? PyObject_GetIter(steps.ptr()) : nullptr;
}

/// Pulls steps from the Python generator schedule.steps(): one call a step, never one a message.
class GeneratedSteps final : public StepSource {
 public:
  GeneratedSteps(const nb::object& schedule, std::int32_t size)
      : steps_(outside_ranks(context_, [&] { return steps_of(schedule); })), size_(size) {}
  std::shared_ptr<const Step> next() override {
    const nb::object step = outside_ranks(context_, [&] { return PyIter_Next(steps_.ptr()); });
    if (!step.is_valid()) return nullptr;
    auto made = std::make_shared<Step>();
    for (const nb::handle column : nb::cast<nb::tuple>(step.attr("columns"))) {
      made->columns.push_back(column_of(column, size_));
    }
    return made;
  }

 private:
  nb::object context_ = nb::steal(PyContext_New());
  nb::object steps_;
  std::int32_t size_;
};

std::shared_ptr<Program> make_program(const nb::object& schedule, const std::string& name, const std::string& layout,
                                      const std::vector<std::string>& names, const std::vector<std::int32_t>& likes,
                                      const std::vector<bool>& are_temporary,
                                      const std::vector<std::vector<std::int64_t>>& block_counts,
                                      std::size_t max_kept_entries, std::int64_t parts,
                                      const std::vector<std::string>& holds, std::int32_t teller) {
  const auto size = nb::cast<std::int32_t>(schedule.attr("size"));
  std::vector<BufferSpec> buffers;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string what = i < holds.size() ? holds[i] : "blocks";
    buffers.push_back({names[i], likes[i], are_temporary[i], block_counts[i],
                       what == "counts" ? Holds::counts : what == "told" ? Holds::told : Holds::blocks});
  }
  const Layout kind = layout == "uniform" ? Layout::uniform : layout == "split" ? Layout::split : Layout::table;
  auto open = [schedule, size]() -> std::unique_ptr<StepSource> {
    return std::make_unique<GeneratedSteps>(schedule, size);
  };
  return std::make_shared<Program>(name, size, kind, std::move(buffers), std::move(open), max_kept_entries, parts,
                                   teller);
}

/// A user's operator, called as MPI does: function(in, inout) leaves in op inout in inout.
class PythonReduction final : public Reduction {
 public:
  explicit PythonReduction(nb::object function) : function_(std::move(function)) {}
  void apply(const std::byte* source, std::byte* target, std::size_t bytes, bool is_source_first) const override {
    if (is_source_first) {
      call(source, target, bytes);
      return;
    }
    const std::vector<std::byte> left(target, target + bytes);
    std::memmove(target, source, bytes);
    call(left.data(), target, bytes);
  }
  [[nodiscard]] bool is_of_rank() const override { return true; }

 private:
  void call(const std::byte* in, std::byte* inout, std::size_t bytes) const {
    const auto length = static_cast<Py_ssize_t>(bytes);
    const auto view = [&](const std::byte* data, int flags) {
      return nb::steal(PyMemoryView_FromMemory(const_cast<char*>(reinterpret_cast<const char*>(data)), length, flags));
    };
    const nb::object left = view(in, PyBUF_READ);
    const nb::object right = view(inout, PyBUF_WRITE);
    function_(left, right);
    // the memory is ours: whoever kept a view must not reach it later
    left.attr("release")();
    right.attr("release")();
  }
  nb::object function_;
};

void refuse_unfinished(const Collective& call) {
  std::string text;
  int stuck = 0;
  for (std::int32_t rank = 0; rank < call.program().size(); ++rank) {
    if (!call.fault(rank).empty()) throw ScheduleFault("rank " + std::to_string(rank) + ", " + call.fault(rank));
    if (call.has_ended(rank)) continue;
    if (++stuck <= 8) text += "\n  rank " + std::to_string(rank) + ", " + call.describe(rank);
  }
  if (stuck > 0) throw ScheduleFault("deadlock: " + std::to_string(stuck) + " ranks never end" + text);
  if (!call.is_over()) throw ScheduleFault(call.program().name() + ": messages were sent that nobody received");
}

/// One collective on an otherwise idle machine. Returns end times, messages, bytes, events.
nb::tuple simulate(const BoundPlatform& platform, const Model& model, const std::shared_ptr<Program>& program,
                   const nb::tuple& buffers, const std::vector<double>& start_s, bool has_data,
                   std::shared_ptr<const Reduction> reduction, double combine_s_per_byte, const nb::object& noise) {
  Engine engine(platform.platform, model, platform.rank_hosts);
  if (!noise.is_none()) {
    auto [seed, period_s, mean_s, slowdown] =
        nb::cast<std::tuple<std::uint64_t, double, double, std::vector<double>>>(noise);
    engine.set_noise(Noise(seed, period_s, mean_s, std::move(slowdown)));
  }
  CollectiveSetup setup;
  setup.has_data = has_data;
  setup.reduction = std::move(reduction);
  setup.combine_s_per_byte = combine_s_per_byte;
  Collective call(engine, program, std::move(setup));
  const bool is_same_for_all = nb::len(buffers) == 1;
  const auto shared = [&](std::size_t i) {
    return std::make_shared<const std::vector<BoundBuffer>>(
        bound_buffers<nb::ndarray<nb::c_contig, nb::device::cpu>>(buffers[i]));
  };
  std::shared_ptr<const std::vector<BoundBuffer>> common;
  if (is_same_for_all) common = shared(0);
  for (std::int32_t rank = 0; rank < program->size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    call.join(rank, is_same_for_all ? common : shared(i));
    engine.start(rank, start_s.empty() ? 0.0 : start_s.at(i));
  }
  engine.pause_every(std::chrono::milliseconds(50));
  for (Advance outcome = Advance::budget; outcome == Advance::budget || outcome == Advance::paused;) {
    outcome = engine.advance(std::uint64_t{1} << 20);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  refuse_unfinished(call);
  std::vector<double> end_s;
  for (std::int32_t rank = 0; rank < program->size(); ++rank) end_s.push_back(engine.clock(rank));
  return nb::make_tuple(std::move(end_s), engine.recorder().messages(), engine.recorder().bytes(), engine.events());
}

const Registration schedule_bindings(30, [](nb::module_& module) {
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const ScheduleFault& fault) {
          raise_schedule_fault(fault);
        }
      },
      nullptr);
  nb::class_<Reduction>(module, "Reduction", "Combines two operands element by element.")
      .def(
          "apply",
          [](const Reduction& self, nb::ndarray<nb::c_contig, nb::device::cpu> source,
             nb::ndarray<nb::c_contig, nb::device::cpu> target, bool is_source_first) {
            if (source.nbytes() != target.nbytes()) throw nb::value_error("operands of different lengths");
            self.apply(static_cast<const std::byte*>(source.data()), static_cast<std::byte*>(target.data()),
                       target.nbytes(), is_source_first);
          },
          nb::arg("source"), nb::arg("target"), nb::arg("is_source_first") = true);
  nb::class_<PythonReduction, Reduction>(module, "PythonReduction", "A user's operator: function(in, inout).")
      .def(nb::init<nb::object>(), nb::arg("function"));
  module.def("native_reduction", [](const std::string& operation, const std::string& type) {
    return std::const_pointer_cast<Reduction>(native_reduction(operation, type));
  }, nb::arg("operation"), nb::arg("type"), nb::sig("def native_reduction(operation: str, type: str) -> Reduction | None"),
     "The reduction for an operation on a type, None where MPI defines none.");
  nb::class_<Program>(module, "Program", "A schedule for the native interpreter.")
      .def_prop_ro("name", &Program::name)
      .def_prop_ro("size", &Program::size);
  module.def("make_program", &make_program, nb::arg("schedule"), nb::arg("name"), nb::arg("layout"),
             nb::arg("names"), nb::arg("likes"), nb::arg("are_temporary"), nb::arg("block_counts"),
             nb::arg("max_kept_entries") = std::size_t{1} << 18, nb::arg("parts") = 1,
             nb::arg("holds") = std::vector<std::string>{}, nb::arg("teller") = -1);
  module.def("simulate_schedule", &simulate, nb::arg("platform"), nb::arg("model"), nb::arg("program"),
             nb::arg("buffers"), nb::arg("start_s"), nb::arg("has_data"), nb::arg("reduction").none(),
             nb::arg("combine_s_per_byte"), nb::arg("noise").none() = nb::none());
});

}  // namespace
}  // namespace labkit::bindings
