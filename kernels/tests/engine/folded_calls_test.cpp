// Loops found in calls stand for the calls as they came; iterative programs take constant memory.
#include "labkit/engine/folded_calls.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "random.hpp"

namespace labkit::folded_calls_test {
namespace {

std::vector<std::string> lines_of(const FoldedCalls& calls) {
  std::string text;
  calls.write(text, "0 ");
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The lines with every loop written out.
std::vector<std::string> expanded(const std::vector<std::string>& lines, std::size_t& at) {
  std::vector<std::string> out;
  for (; at < lines.size() && lines[at] != "0 end"; ++at) {
    if (!lines[at].starts_with("0 repeat ")) {
      out.push_back(lines[at]);
      continue;
    }
    const int times = std::stoi(lines[at].substr(9));
    const std::vector<std::string> body = expanded(lines, ++at);
    for (int i = 0; i < times; ++i) out.insert(out.end(), body.begin(), body.end());
  }
  return out;
}

}  // namespace

TEST_CASE("what is folded, written out, is what came: any sequence of few calls") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    test::Random random(seed);
    const std::size_t kinds = 1 + random.below(4);
    FoldedCalls calls;
    std::vector<std::string> came;
    std::vector<std::string> recent;
    for (int i = 0; i < 400; ++i) {
      if (random.below(6) == 0 && came.size() > 4) {  // something again, as loops do
        const std::size_t length = 1 + random.below(std::min<std::size_t>(came.size() - 1, 12));
        recent.assign(came.end() - static_cast<std::ptrdiff_t>(length), came.end());
      } else {
        recent.assign(1, "0 compute " + std::to_string(random.below(kinds)));
      }
      for (const std::string& line : recent) {
        came.push_back(line);
        if (line.starts_with("0 compute ") && line.back() == '0') {
          calls.add(false, std::stod(line.substr(10)));
        } else {
          calls.add(line);
        }
      }
    }
    const std::vector<std::string> lines = lines_of(calls);
    std::size_t at = 0;
    CAPTURE(seed);
    REQUIRE(expanded(lines, at) == came);
    CHECK(lines.size() <= came.size());
  }
}

TEST_CASE("nested loops of any count take as many lines as their bodies") {
  FoldedCalls calls;
  for (int step = 0; step < 250; ++step) {
    for (int plane = 0; plane < 62; ++plane) {
      calls.add("0 recv 1 0 800 6");
      calls.add(false, 1e6);
      calls.add("0 send 2 0 800 6");
    }
    calls.add("0 allreduce 5 5");
  }
  CHECK(lines_of(calls).size() == 2 + 2 + 3 + 1);
}

TEST_CASE("what never repeats is kept as it came") {
  FoldedCalls calls;
  for (int i = 0; i < 3000; ++i) calls.add(false, i);
  CHECK(lines_of(calls).size() == 3000);
}

}  // namespace labkit::folded_calls_test
