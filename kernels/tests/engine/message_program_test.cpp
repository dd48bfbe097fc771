// Message programs: times by hand, the protocols' blocking, ends that coincide, refusals.
#include "labkit/engine/message_program.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "scenario.hpp"

namespace labkit::message_program_test {

using namespace labkit::test;

namespace {

using Code = std::vector<std::int64_t>;

constexpr std::int64_t op(MessageOp code) { return static_cast<std::int64_t>(code); }

MessageProgramResult run(const StarSpec& spec, const Model& model, std::initializer_list<Code> ranks) {
  MessageProgram program;
  for (const Code& code : ranks) {
    program.offsets.push_back(program.code.size());
    program.code.insert(program.code.end(), code.begin(), code.end());
  }
  program.offsets.push_back(program.code.size());
  return run_message_program(make_star(spec), model, one_rank_per_host(static_cast<Rank>(ranks.size())), program,
                             true);
}

Code linear_alltoall(Rank rank, Rank p, std::int64_t sleep_ns, std::int64_t bytes) {
  Code code = {op(MessageOp::sleep), sleep_ns};
  Code wait = {op(MessageOp::wait_all), 2 * (p - 1)};
  std::int64_t slot = 0;
  for (Rank i = 1; i < p; ++i) {
    code.insert(code.end(), {op(MessageOp::irecv), slot, (rank - i + p) % p, 0, bytes});
    wait.push_back(slot++);
  }
  for (Rank i = 1; i < p; ++i) {
    code.insert(code.end(), {op(MessageOp::isend), slot, (rank + i) % p, 0, bytes});
    wait.push_back(slot++);
  }
  code.insert(code.end(), wait.begin(), wait.end());
  return code;
}

}  // namespace

TEST_CASE("a detached message arrives after latency and size over bandwidth") {
  // 984 bytes and the envelope of 16 over 1 GB/s, after 1 us up and 1 us down; the sender goes on at once.
  const auto got = run(plain_star(2), Model{},
                       {{op(MessageOp::send), 1, 0, 984, op(MessageOp::mark)},
                        {op(MessageOp::recv), 0, 0, 984, op(MessageOp::mark)}});
  CHECK(got.unfinished.empty());
  CHECK(got.marks[0][0] == 0.0);
  CHECK(got.marks[1][0] == doctest::Approx(3e-6).epsilon(1e-12));
  CHECK(got.messages == 1);
  CHECK(got.bytes == 984);
  REQUIRE(got.records.size() == 1);
  CHECK(got.records[0].end_s == got.marks[1][0]);
}

TEST_CASE("a transfer whose end rounds to the instant of another's is not lost") {
  // Six equal transfers on three hosts: two of them end where the end of two others raises their rates,
  // one rounding before their own event.
  Model model;
  model.name = "cm02";
  model.tcp_gamma_bytes = 4194304;
  model.cross_traffic = true;
  StarSpec spec = plain_star(3, 1.25e9);
  const auto got = run(spec, model,
                       {linear_alltoall(0, 3, 31191, 100000), linear_alltoall(1, 3, 77679, 100000),
                        linear_alltoall(2, 3, 71334, 100000)});
  CHECK(got.unfinished.empty());
  CHECK(got.messages == 6);
}

TEST_CASE("a send and a receive with oneself take the way up and down, a sendrecv nothing") {
  const auto got = run(plain_star(1), Model{},
                       {{op(MessageOp::sendrecv), 0, 0, 984, 0, 0, 984, op(MessageOp::mark),
                         op(MessageOp::isend), 0, 0, 0, 984, op(MessageOp::recv), 0, 0, 984,
                         op(MessageOp::wait_all), 1, 0, op(MessageOp::mark)}});
  CHECK(got.marks[0][0] == 0.0);
  CHECK(got.marks[0][1] == doctest::Approx(3e-6).epsilon(1e-12));
}

TEST_CASE("a wait for any takes what is over and leaves the rest") {
  const auto got = run(plain_star(3), Model{},
                       {{op(MessageOp::irecv), 0, 1, 0, 984, op(MessageOp::irecv), 1, 2, 0, 984,
                         op(MessageOp::wait_any), 2, 0, 1, op(MessageOp::mark), op(MessageOp::wait_any), 2, 0, 1,
                         op(MessageOp::mark), op(MessageOp::wait_any), 2, 0, 1, op(MessageOp::mark)},
                        {op(MessageOp::sleep), 50000, op(MessageOp::send), 0, 0, 984},
                        {op(MessageOp::sleep), 10000, op(MessageOp::send), 0, 0, 984}});
  CHECK(got.unfinished.empty());
  CHECK(got.marks[0][0] == doctest::Approx(13e-6).epsilon(1e-12));
  CHECK(got.marks[0][1] == doctest::Approx(53e-6).epsilon(1e-12));
  CHECK(got.marks[0][2] == got.marks[0][1]);  // nothing left to wait for
}

TEST_CASE("two receives facing each other never finish") {
  const auto got = run(plain_star(2), Model{}, {{op(MessageOp::recv), 1, 0, 8}, {op(MessageOp::recv), 0, 0, 8}});
  CHECK(got.unfinished == std::vector<Rank>{0, 1});
}

TEST_CASE("programs that make no sense are refused") {
  const StarSpec spec = plain_star(2);
  CHECK_THROWS_AS(run(spec, Model{}, {{99}, {}}), std::invalid_argument);
  CHECK_THROWS_AS(run(spec, Model{}, {{op(MessageOp::send), 1, 0}, {}}), std::invalid_argument);
  CHECK_THROWS_AS(run(spec, Model{}, {{op(MessageOp::send), 2, 0, 8}, {}}), std::invalid_argument);
  CHECK_THROWS_AS(run(spec, Model{}, {{op(MessageOp::recv), 1, 0, -8}, {}}), std::invalid_argument);
  CHECK_THROWS_AS(run(spec, Model{}, {{op(MessageOp::irecv), -1, 1, 0, 8}, {}}), std::invalid_argument);
}

}  // namespace labkit::message_program_test
