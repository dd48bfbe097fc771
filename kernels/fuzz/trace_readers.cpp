// Fuzzing of the readers of time-independent traces and GOAL (`make fuzz`).
//
// With clang it is a libFuzzer target; elsewhere main() below mutates the seeds at random, deterministically
// (argument: seconds). Either way under AddressSanitizer and UndefinedBehaviorSanitizer: a fault must be a
// TraceFault, and an input cut into pieces must read as the whole.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "labkit/goal.hpp"
#include "labkit/ti_reader.hpp"

namespace {

/// What a reader made of the text: its actions, written anew, or its complaint.
std::string read_trace(std::string_view text, std::size_t piece) {
  try {
    labkit::TiRankScan scan;
    for (std::size_t at = 0; at < text.size(); at += piece) scan.feed(text.substr(at, piece));
    labkit::TiLimits limits;
    limits.line_bytes = 1 << 16;
    labkit::TiReader reader(scan.ranks(), limits);
    reader.begin("t", -1);
    for (std::size_t at = 0; at < text.size(); at += piece) reader.feed(text.substr(at, piece));
    reader.end();
    const labkit::TiTrace trace = reader.take();
    std::string all;
    for (const labkit::TiRank& rank : trace.ranks) {
      labkit::TiCode::Cursor cursor(rank.code);
      labkit::TiRecord record;
      while (cursor.next(record)) all += labkit::text_of(record) + '\n';
    }
    return all;
  } catch (const labkit::TraceFault& fault) {
    return fault.what();
  }
}

std::string read_goal(std::string_view text, std::size_t piece) {
  try {
    labkit::GoalReader reader("g");
    for (std::size_t at = 0; at < text.size(); at += piece) reader.feed(text.substr(at, piece));
    const labkit::GoalProgram program = reader.take();
    std::size_t ops = 0;
    for (const labkit::GoalRank& rank : program.ranks) ops += rank.ops.size() + rank.edges.size();
    return std::to_string(ops);
  } catch (const labkit::TraceFault& fault) {
    return fault.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (read_trace(text, size + 1) != read_trace(text, 7)) std::abort();
  if (read_goal(text, size + 1) != read_goal(text, 7)) std::abort();
  return 0;
}

#ifdef LABKIT_FUZZ_MAIN
int main(int argc, char** argv) {
  const std::vector<std::string> seeds = {
      "#+ comm 3 0-1:1\n0 init\n0 compute 1e6\n0 isend 1 0 1024 6 mode=sync\n0 waitall 2 0 1 0\n0 sendRecv 10 1 10 1\n"
      "0 allreduce 10 5e3 0 comm=3 element=2\n0 alltoallv 4 2 2 4 2 2 6 6\n0 gatherv 3 3 3 0 6 6\n0 wait 0 1 0 nth=2\n"
      "1 recv -333 -444 -1\n1 reducescatter 4 4 10 0\n1 scatterv 1 1 1 0\n1 bcast 3 1 2\n1 test 0 1 0\n1 sleep .5\n"
      "#+ 0 phase begin local sort comm=3\n#+ 1 probe -1 4\n#+ 0 phase end local sort comm=3\n",
      "num_ranks 2\nrank 0 {\nl1: calc 100\nl2: send 10b to 1 tag 4 // x\nl2 requires l1\n}\nrank 1 { /* y */\n"
      "a: recv 10b from any tag any cpu 0\nb: calc 4\nb irequires a }\n"};
  const std::array<std::string_view, 16> words = {"phase", "#+ incomplete why\n", "-1", "99999999999999999999", "1e308", "nan", "comm=3", "\n", " ", "{", "}",
                                                  ":", "requires", "/*", "1048576", "0-9:0"};
  const double seconds = argc > 1 ? std::atof(argv[1]) : 20.0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::mt19937_64 random(1);
  std::uint64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    std::string text = seeds[random() % seeds.size()];
    for (std::uint64_t n = 1 + random() % 8; n > 0; --n) {
      const std::size_t at = random() % (text.size() + 1);
      switch (random() % 4) {
        case 0: text.erase(at, random() % 9); break;
        case 1: text.insert(at, words[random() % words.size()]); break;
        case 2: text.insert(at, text.substr(random() % (text.size() + 1), random() % 30)); break;
        default: if (at < text.size()) text[at] = static_cast<char>(random() % 256);
      }
    }
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%llu mutated inputs, no fault but TraceFault\n", static_cast<unsigned long long>(runs));
}
#endif
