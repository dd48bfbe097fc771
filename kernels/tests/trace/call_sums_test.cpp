// CallSums: phases that do not nest, calls that raise, counters, blocks of calls.
#include "labkit/trace/call_sums.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace labkit::call_sums_test {

constexpr std::int32_t kSend = 0;
constexpr std::int32_t kRecv = 1;

std::map<std::pair<std::string, std::int32_t>, double> spent(const CallSums& sums) {
  std::map<std::pair<std::string, std::int32_t>, double> found;
  for (const PathSums& row : sums.rows()) {
    const CallSums::Path& path = sums.paths()[static_cast<std::size_t>(row.path)];
    found[{sums.node(path.node).text, path.call}] += row.spent_s;
  }
  return found;
}

TEST_CASE("phases need not nest, and a call that raised is over when the next one begins") {
  CallSums sums;
  sums.enter(0, "a", 0.0);
  sums.enter(0, "b", 1.0);
  sums.leave(0, "a", 2.0);
  sums.call(0, kSend, 0, 3.0);
  sums.call(0, kRecv, 0, 5.0);  // the send raised
  sums.finish(0, 6.0);
  const std::map<std::pair<std::string, std::int32_t>, double> wanted = {
      {{"a", CallSums::kComputation}, 1.0}, {{"a > b", CallSums::kComputation}, 1.0},
      {{"b", CallSums::kComputation}, 1.0}, {{"b", kSend}, 2.0},
      {{"b", kRecv}, 1.0},                  {{"", CallSums::kComputation}, 0.0},
  };
  CHECK(spent(sums) == wanted);
}

TEST_CASE("time, visits, messages and counters are summed up by rank and path") {
  CallSums sums(2);
  using Two = std::array<std::uint64_t, 2>;
  sums.begin(1, 1.0, Two{10, 20});
  for (int turn = 0; turn < 3; ++turn) {
    const double now_s = 2.0 + turn;
    const auto counted = static_cast<std::uint64_t>(10 * turn);
    const std::int32_t path = sums.call(1, kSend, 7, now_s, Two{20 + counted, 20 + counted});
    sums.sent(1, path, 1, 8 * turn, turn == 0 ? 1 : 0);
    sums.over(1, now_s + 0.5, Two{25 + counted, 21 + counted});
  }
  sums.finish(1, 5.0, Two{60, 60});
  REQUIRE(sums.rows().size() == 2);
  const PathSums& computed = sums.rows()[0];
  const PathSums& sent = sums.rows()[1];
  CHECK(computed.spent_s == doctest::Approx(2.5));
  CHECK(computed.visits == 1);
  CHECK(sent.spent_s == doctest::Approx(1.5));
  CHECK(sent.visits == 3);
  CHECK(sent.messages == 3);
  CHECK(sent.bytes == 24);
  CHECK(sent.empty_messages == 1);
  CHECK(sums.counts()[2] == 15);
  CHECK(sums.counts()[3] == 3);
  CHECK(sums.counts()[0] + sums.counts()[2] == 50);
  CHECK(sums.counts()[1] + sums.counts()[3] == 40);
}

TEST_CASE("a rank that is in no call has none to end, and its phases are left once") {
  CallSums sums;
  sums.over(0, 1.0);
  sums.leave(0, "nowhere", 2.0);
  CHECK(sums.inside(5).first == -1);
  sums.finish(0, 3.0);
  CHECK(spent(sums)[{"", CallSums::kComputation}] == doctest::Approx(3.0));
}

}  // namespace labkit::call_sums_test
