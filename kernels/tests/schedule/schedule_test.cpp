// Schedules without Python: programs built by hand, sizes, data, waits, faults.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "labkit/schedule/collective.hpp"
#include "labkit/topology/star.hpp"

namespace labkit::schedule_test {


namespace {

class FixedSteps final : public StepSource {
 public:
  explicit FixedSteps(const std::vector<Step>& steps) : steps_(steps) {}
  std::shared_ptr<const Step> next() override {
    return at_ < steps_.size() ? std::make_shared<Step>(steps_[at_++]) : nullptr;
  }

 private:
  std::vector<Step> steps_;
  std::size_t at_ = 0;
};

std::shared_ptr<Program> program_of(std::int32_t size, Layout layout, std::vector<BufferSpec> buffers,
                                    const std::vector<Step>& steps, int* opened = nullptr,
                                    std::size_t kept = 1000, std::int64_t parts = 1) {
  auto open = [steps, opened]() -> std::unique_ptr<StepSource> {
    if (opened != nullptr) ++*opened;
    return std::make_unique<FixedSteps>(steps);
  };
  return std::make_shared<Program>("test", size, layout, std::move(buffers), open, kept, parts);
}

SectionField section(std::int32_t buffer, std::int64_t first, std::int64_t length, std::int64_t run = 0,
                     std::int64_t stride = 1) {
  return {buffer, Field(first), Field(length), Field(run), Field(stride)};
}

Column column(OpKind kind, std::vector<std::int32_t> ranks, std::int64_t peer, SectionField what = {},
              SectionField source = {}, std::int32_t label = 0) {
  Column made;
  made.kind = kind;
  made.label = label;
  made.count = ranks.size();
  made.ranks = std::move(ranks);
  made.peer = Field(peer);
  made.section = std::move(what);
  made.source = std::move(source);
  return made;
}

Engine engine_for(std::int32_t hosts) {
  StarSpec star;
  star.hosts = hosts;
  std::vector<HostId> ranks(static_cast<std::size_t>(hosts));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {make_star(star), Model{}, ranks};
}

std::shared_ptr<const std::vector<BoundBuffer>> one_buffer(std::vector<std::int32_t>& data, std::int64_t count) {
  BoundBuffer buffer;
  buffer.data = reinterpret_cast<std::byte*>(data.data());
  buffer.element_bytes = 4;
  buffer.count = count;
  return std::make_shared<const std::vector<BoundBuffer>>(1, buffer);
}

/// Rank 0 sends blocks of an 8-block buffer to rank 1, which receives them elsewhere.
std::vector<std::int32_t> moved(Layout layout, std::int64_t count, std::size_t elements, SectionField from,
                                SectionField to, std::int64_t parts = 1) {
  auto program = program_of(2, layout, {{"data", 0, false, {8}}},
                            {{{column(OpKind::send, {0}, 1, std::move(from)), column(OpKind::recv, {1}, 0, std::move(to))}}},
                            nullptr, std::size_t{1000}, parts);
  Engine engine = engine_for(2);
  CollectiveSetup setup;
  setup.has_data = true;
  Collective call(engine, program, setup);
  std::vector<std::int32_t> source(elements), target(elements, -1);
  std::iota(source.begin(), source.end(), 0);
  call.join(0, one_buffer(source, count));
  call.join(1, one_buffer(target, count));
  engine.start(0);
  engine.start(1);
  CHECK(engine.advance(1000) == Advance::idle);
  CHECK(call.is_over());
  CHECK(call.fault(1).empty());
  return target;
}

}  // namespace

TEST_CASE("sections wrap around, stride, and run backwards") {
  using V = std::vector<std::int32_t>;
  CHECK(moved(Layout::uniform, 1, 8, section(0, 6, 4), section(0, 0, 4)) == V{6, 7, 0, 1, -1, -1, -1, -1});
  CHECK(moved(Layout::uniform, 1, 8, section(0, 2, 6, 2, 4), section(0, 0, 4)) == V{2, 3, 6, 7, -1, -1, -1, -1});
  CHECK(moved(Layout::uniform, 1, 8, section(0, 0, 8), section(0, 7, 50, 1, 7)) == V{7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(moved(Layout::uniform, 1, 8, section(0, -1, 1), section(0, 9, 1)) == V{-1, 7, -1, -1, -1, -1, -1, -1});
  CHECK(moved(Layout::uniform, 1, 8, section(0, 0, -1), section(0, 0, 8)) == V{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("split: the first blocks hold one element more") {
  // 11 elements in 8 blocks: blocks 0..2 have two. Blocks 2 and 3 are elements 4, 5 and 6.
  const auto target = moved(Layout::split, 11, 11, section(0, 2, 2), section(0, 2, 2));
  CHECK(target == std::vector<std::int32_t>{-1, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1});
  // 3 elements in 8 blocks: most are empty, and an empty message is a message.
  CHECK(moved(Layout::split, 3, 3, section(0, 4, 1), section(0, 5, 1)) == std::vector<std::int32_t>{-1, -1, -1});
}

TEST_CASE("uniform blocks are cut into parts, the first ones an element longer") {
  // 2 blocks of 5 elements, each in 4 parts of 2, 1, 1 and 1: parts 3, 4 and 5 are elements 4, 5, 6 and 7.
  const auto target = moved(Layout::uniform, 5, 10, section(0, 3, 3), section(0, 3, 3), 4);
  CHECK(target == std::vector<std::int32_t>{-1, -1, -1, -1, 4, 5, 6, 7, -1, -1});
  // the last part and, wrapped around, the first one
  CHECK(moved(Layout::uniform, 5, 10, section(0, 7, 2), section(0, 7, 2), 4) ==
        std::vector<std::int32_t>{0, 1, -1, -1, -1, -1, -1, -1, -1, 9});
  CHECK_THROWS_AS(program_of(2, Layout::split, {}, {}, nullptr, 10, 2), std::invalid_argument);
}

TEST_CASE("a message longer than its place is the receiver's fault, and cut") {
  auto program = program_of(2, Layout::table, {{"data", 0, false, {1}}},
                            {{{column(OpKind::send, {0}, 1, section(0, 0, 1)), column(OpKind::recv, {1}, 0, section(0, 0, 1))}}});
  Engine engine = engine_for(2);
  CollectiveSetup setup;
  setup.has_data = true;
  Collective call(engine, program, setup);
  std::vector<std::int32_t> source{1, 2, 3}, target{-1, -1, -1};
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    BoundBuffer buffer = (*one_buffer(rank == 0 ? source : target, 0))[0];
    buffer.counts = {rank == 0 ? 3 : 2};
    buffer.displacements = {0};
    call.join(rank, std::make_shared<const std::vector<BoundBuffer>>(1, buffer));
    engine.start(rank);
  }
  CHECK(engine.advance(1000) == Advance::idle);
  CHECK(call.fault(0).empty());
  CHECK(call.fault(1).find("12 bytes") != std::string::npos);
  CHECK(target == std::vector<std::int32_t>{1, 2, -1});
}

TEST_CASE("a wait for one label leaves the others open") {
  // Rank 0 waits for label 1 only, then copies what came with it, and sends it on before label 0 arrives.
  const std::vector<Step> steps{{{
      column(OpKind::irecv, {0}, 1, section(0, 0, 1), {}, 0),
      column(OpKind::irecv, {0}, 2, section(0, 1, 1), {}, 1),
      column(OpKind::wait, {0}, -1, {}, {}, 1),
      column(OpKind::send, {0}, 1, section(0, 1, 1)),
      column(OpKind::wait, {0}, -1, {}, {}, -1),
      column(OpKind::send, {2}, 0, section(0, 1, 1)),
      column(OpKind::recv, {1}, 0, section(0, 1, 1)),
      column(OpKind::send, {1}, 0, section(0, 0, 1)),
  }}};
  auto program = program_of(3, Layout::uniform, {{"data", 0, false, {2}}}, steps);
  Engine engine = engine_for(3);
  CollectiveSetup setup;
  setup.has_data = true;
  Collective call(engine, program, setup);
  std::vector<std::vector<std::int32_t>> data{{0, 0}, {10, 11}, {20, 21}};
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    call.join(rank, one_buffer(data[static_cast<std::size_t>(rank)], 1));
    engine.start(rank);
  }
  CHECK(engine.advance(1000) == Advance::idle);
  CHECK(call.is_over());
  CHECK(data[0] == std::vector<std::int32_t>{10, 21});
  CHECK(data[1] == std::vector<std::int32_t>{10, 21});
}

TEST_CASE("what cannot be carried out is refused with rank and reason") {
  const auto run = [](const Column& bad, std::int32_t size = 1) {
    auto program = program_of(size, Layout::uniform, {{"data", 0, false, {1}}}, {{{bad}}});
    Engine engine = engine_for(size);
    Collective call(engine, program, {});
    (void)call.enter(0, {BoundBuffer{}});
  };
  CHECK_THROWS_WITH_AS(run(column(OpKind::send, {0}, 7)), doctest::Contains("rank 0 names rank 7"), ScheduleFault);
  CHECK_THROWS_WITH_AS(run(column(OpKind::send, {9}, 0)), doctest::Contains("rank 9"), ScheduleFault);
  CHECK_THROWS_WITH_AS(run(column(OpKind::isend, {0}, 0, section(5, 0, 1))), doctest::Contains("buffer number 5"),
                       ScheduleFault);
  CHECK_THROWS_WITH_AS(run(column(OpKind::isend, {0}, 0)), doctest::Contains("has not waited for"), ScheduleFault);
  Engine engine = engine_for(1);
  auto program = program_of(1, Layout::uniform, {{"data", 0, false, {1}}}, {});
  Collective call(engine, program, {});
  CHECK_THROWS_AS((void)call.enter(0, {}), std::invalid_argument);
  CHECK(call.enter(0, {BoundBuffer{}}));
  CHECK_THROWS_AS((void)call.enter(0, {BoundBuffer{}}), std::invalid_argument);
}

TEST_CASE("a program's steps are generated once if they are few") {
  const std::vector<Step> steps{{{column(OpKind::wait, {0}, -1)}}, {{column(OpKind::wait, {0}, -1)}}};
  for (const std::size_t kept : {std::size_t{2}, std::size_t{1}}) {
    int opened = 0;
    auto program = program_of(1, Layout::uniform, {}, steps, &opened, kept);
    for (int i = 0; i < 3; ++i) {
      StepCursor cursor(program);
      CHECK(cursor.next() != nullptr);
      CHECK(cursor.next() != nullptr);
      CHECK(cursor.next() == nullptr);
      CHECK(cursor.next() == nullptr);
    }
    CHECK(opened == (kept == 2 ? 1 : 3));
  }
}

TEST_CASE("a generator that fails does not leave half a program to the runs after it") {
  // Like a Python generator: once it has raised, it says that there are no more steps.
  class Failing final : public StepSource {
   public:
    explicit Failing(bool fails) : fails_(fails) {}
    std::shared_ptr<const Step> next() override {
      ++calls_;
      if (fails_ && calls_ == 2) throw std::runtime_error("interrupted");
      return calls_ <= (fails_ ? 1 : 3) ? std::make_shared<Step>() : nullptr;
    }

   private:
    bool fails_;
    int calls_ = 0;
  };
  bool fails = true;
  auto open = [&fails]() -> std::unique_ptr<StepSource> { return std::make_unique<Failing>(fails); };
  const auto program =
      std::make_shared<Program>("test", 2, Layout::uniform, std::vector<BufferSpec>{}, open, std::size_t{1000});
  StepCursor interrupted(program);
  CHECK(interrupted.next() != nullptr);
  CHECK_THROWS_AS((void)interrupted.next(), std::runtime_error);
  CHECK_THROWS_AS((void)interrupted.next(), ScheduleFault);
  fails = false;
  StepCursor whole(program);
  int steps = 0;
  while (whole.next()) ++steps;
  CHECK(steps == 3);
}

TEST_CASE("ranks of a sub-communicator, entering late, end when their messages say so") {
  const std::vector<Step> steps{{{column(OpKind::send, {0}, 1, section(0, 0, 1)), column(OpKind::recv, {1}, 0, section(0, 0, 1))}}};
  auto program = program_of(2, Layout::uniform, {{"data", 0, false, {1}}}, steps);
  Engine engine = engine_for(4);
  CollectiveSetup setup;
  setup.world_ranks = {3, 1};
  setup.has_data = true;
  Collective call(engine, program, setup);
  std::vector<std::int32_t> source{42}, target{-1};
  engine.start(1);
  engine.start(3);
  REQUIRE(engine.advance(10) == Advance::ready);
  REQUIRE(engine.next_ready() == 1);
  CHECK_FALSE(call.enter(1, *one_buffer(target, 1)));
  REQUIRE(engine.next_ready() == 3);
  (void)engine.compute(3, 0.5);
  CHECK(call.enter(0, *one_buffer(source, 1)));  // detached: it goes on at once
  source[0] = 7;                                 // and may reuse its buffer
  CHECK(engine.advance(1000) == Advance::ready);
  CHECK(engine.next_ready() == 1);
  CHECK(target[0] == 42);
  CHECK(engine.clock(1) > 0.5);
  CHECK(call.is_over());
}

}  // namespace labkit::schedule_test
