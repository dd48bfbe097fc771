// Any bytes as a program of messages on a small machine: it runs to its end or into a deadlock, is refused with
// std::invalid_argument, and gives the same clocks whichever solver shares the links.
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bytes.hpp"
#include "check.hpp"
#include "labkit/engine/message_program.hpp"
#include "labkit/topology/fat_tree.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/topology/torus.hpp"

namespace {

using namespace labkit;
using fuzz::Bytes;

constexpr double kTolerance = 1e-7;
constexpr std::array<std::int64_t, 10> kSizes = {0, 1, 100, 5000, 40000, 65535, 65536, 65537, 1000000, 30000000};
constexpr std::size_t kMostOps = 60;  // of a rank

struct Story {
  std::shared_ptr<const Platform> machine;
  Model model;
  std::vector<HostId> hosts;
  MessageProgram program;
  bool is_ordered = true;  ///< no choice depends on the last bit of a clock
};

std::shared_ptr<const Platform> machine(Bytes& in) {
  const std::uint8_t chosen = in.byte();
  const auto set = [chosen](ClusterSpec& spec) {
    spec.duplex = static_cast<Duplex>(chosen % 3);
    if ((chosen & 4) != 0) spec.limiter_bandwidth_bytes_per_s = 1.5e9;
    if ((chosen & 8) != 0) spec.loopback = LinkSpec{6e9, 1e-7};
    if ((chosen & 16) != 0) spec.link.latency_s = 0.0;
  };
  switch (in.below(3)) {
    case 0: {
      StarSpec spec;
      set(spec);
      spec.hosts = 4;
      if ((chosen & 32) != 0) spec.backbone = BackboneSpec{2e9, 1e-6, static_cast<Policy>(chosen / 64 % 2)};
      return make_star(spec);
    }
    case 1: {
      TorusSpec spec;
      set(spec);
      spec.sizes = {3, 2};
      return make_torus(spec);
    }
    default: {
      FatTreeSpec spec;
      set(spec);
      spec.down = {2, 2};
      spec.up = {1, 2};
      spec.cables = {1, 1};
      return make_fat_tree(spec);
    }
  }
}

Model model(Bytes& in) {
  Model made;
  const std::uint8_t chosen = in.byte();
  made.cross_traffic = (chosen & 1) != 0;
  if ((chosen & 2) != 0) made.tcp_gamma_bytes = 4194304;
  if ((chosen & 4) != 0) made.weight_s_bytes = 8775;
  if ((chosen & 8) != 0) made.recv_overhead = SizeCost({{0, 1e-6, 1e-9}});
  if ((chosen & 16) != 0) made.send_overhead = made.isend_overhead = SizeCost({{0, 2e-6, 0.0}, {5000, 3e-6, 0.0}});
  if ((chosen & 32) != 0) made.eager_below_bytes = 5000;
  if ((chosen & 64) != 0) made.penalties = {1.5, 0.8, 2.0};
  if ((chosen & 128) != 0) made.is_self_free = true;
  return made;
}

void message(Bytes& in, Story& story, std::vector<std::int64_t>& code, MessageOp op) {
  const auto ranks = static_cast<std::int64_t>(story.hosts.size());
  const bool receives = op == MessageOp::recv || op == MessageOp::irecv;
  if (op == MessageOp::isend || op == MessageOp::issend || op == MessageOp::irecv) {
    code.push_back(static_cast<std::int64_t>(in.below(8)));  // slot
  }
  const std::uint8_t who = in.byte();
  const bool is_any = receives && who % 16 == 15;
  story.is_ordered = story.is_ordered && !is_any;
  code.push_back(is_any ? -1 : who == 254 ? ranks : who % ranks);
  const std::uint8_t tag = in.byte();
  story.is_ordered = story.is_ordered && !(receives && tag == 255);
  code.push_back(receives && tag == 255 ? -1 : tag % 3);
  code.push_back(receives ? 30000000 : in.one_of(kSizes));
}

void operation(Bytes& in, Story& story, std::vector<std::int64_t>& code) {
  const auto op = static_cast<MessageOp>(in.below(13));
  if (op == MessageOp::test) return;  // asks until it is over, which may be never
  code.push_back(static_cast<std::int64_t>(op));
  switch (op) {
    case MessageOp::sleep:
      code.push_back(static_cast<std::int64_t>(in.byte()) * 977);
      return;
    case MessageOp::mark:
    case MessageOp::wtime:
      return;
    case MessageOp::wait_all:
    case MessageOp::wait_any: {
      story.is_ordered = story.is_ordered && op == MessageOp::wait_all;
      const std::size_t count = in.below(9);
      code.push_back(static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i) code.push_back(static_cast<std::int64_t>(in.below(8)));
      return;
    }
    case MessageOp::sendrecv:
      message(in, story, code, MessageOp::send);
      message(in, story, code, MessageOp::recv);
      return;
    default:
      message(in, story, code, op);
  }
}

Story story_of(Bytes& in) {
  Story story;
  story.machine = machine(in);
  story.model = model(in);
  const std::size_t ranks = 1 + in.below(6);
  for (std::size_t i = 0; i < ranks; ++i) {
    story.hosts.push_back(static_cast<HostId>(in.below(story.machine->host_count())));
  }
  std::vector<std::vector<std::int64_t>> own(ranks);
  for (std::size_t op = 0; op < kMostOps * ranks && !in.is_empty(); ++op) {
    operation(in, story, own[in.below(ranks)]);
  }
  for (const auto& code : own) {
    story.program.offsets.push_back(story.program.code.size());
    story.program.code.insert(story.program.code.end(), code.begin(), code.end());
  }
  story.program.offsets.push_back(story.program.code.size());
  return story;
}

std::vector<Time> clocks(const Story& story, Solver solver, Classes classes) {
  SharingOptions options;
  options.solver = solver;
  options.classes = classes;
  auto ran = run_message_program(story.machine, story.model, story.hosts, story.program, true, options);
  std::vector<Time> all = std::move(ran.finish_s);
  for (const auto& marks : ran.marks) all.insert(all.end(), marks.begin(), marks.end());
  for (const Time time : all) LABKIT_FUZZ_CHECK(time >= 0.0 && std::isfinite(time));
  for (const MessageRecord& record : ran.records) LABKIT_FUZZ_CHECK(record.end_s >= record.start_s);
  return all;
}

void check_alike(const std::vector<Time>& one, const std::vector<Time>& other) {
  LABKIT_FUZZ_CHECK(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    LABKIT_FUZZ_CHECK(one[i] == other[i] || std::abs(one[i] - other[i]) <= kTolerance * one[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  const Story story = story_of(in);
  try {
    const std::vector<Time> filled = clocks(story, Solver::filling, Classes::never);
    LABKIT_FUZZ_CHECK(filled == clocks(story, Solver::filling, Classes::never));
    const std::vector<Time> repaired = clocks(story, Solver::incremental, Classes::never);
    const std::vector<Time> grouped = clocks(story, Solver::automatic, Classes::always);
    if (!story.is_ordered) return 0;
    check_alike(filled, repaired);
    check_alike(filled, grouped);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
