// _kernels.run_message_program: whole programs of messages on the engine, without Python ranks.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bound_platform.hpp"
#include "labkit/engine/message_program.hpp"
#include "labkit/network/model.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::list rows_of(const std::vector<MessageRecord>& records) {
  nb::list rows;
  for (const MessageRecord& r : records)
    rows.append(nb::make_tuple(r.source, r.destination, r.tag, r.bytes, r.send_posted_s, r.recv_posted_s, r.start_s,
                               r.end_s));
  return rows;
}

nb::dict run(const BoundPlatform& bound, const Model& model, const Integers& code, const Integers& offsets,
             bool keeps_messages, double tolerance, bool fills_only) {
  MessageProgram program;
  program.code.assign(code.data(), code.data() + code.size());
  program.offsets.assign(offsets.data(), offsets.data() + offsets.size());
  MessageProgramResult result;
  {
    nb::gil_scoped_release released;
    result = run_message_program(bound.platform, model, bound.rank_hosts, program, keeps_messages,
                                 {tolerance, fills_only ? Solver::filling : Solver::automatic});
  }
  nb::dict out;
  out["finish_s"] = result.finish_s;
  out["marks"] = result.marks;
  out["unfinished"] = result.unfinished;
  out["messages"] = result.messages;
  out["bytes"] = result.bytes;
  out["events"] = result.events;
  out["repairs"] = result.tolerance_use.repairs;
  out["perturbation"] = result.tolerance_use.perturbation;
  out["certified_instants"] = result.tolerance_use.certified_instants;
  out["records"] = rows_of(result.records);
  return out;
}

const Registration registration(20, [](nb::module_& module) {
  module.def("run_message_program", &run, "platform"_a, "model"_a, "code"_a, "offsets"_a,
             "keeps_messages"_a = false, "tolerance"_a = 0.0, "fills_only"_a = false,
             "Run one program per rank (int64 codes, offsets of size p + 1); see tests.support.message_program.");
});

}  // namespace
}  // namespace labkit::bindings
