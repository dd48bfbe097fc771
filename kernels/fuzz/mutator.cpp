// Where no libFuzzer is: a main() for a target that mutates the seeds at random, the same way every time.
//
//     target SECONDS [DICTIONARY] [SEED_FILE ...]
//
// With 0 seconds every seed is tried once as it is: the regression test. An input that ends the program is
// written to the file that LABKIT_FUZZ_FINDING names.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
/// There only in sanitized builds.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

constexpr std::size_t kLongest = 1 << 13;

std::vector<std::uint8_t> under_test;  // whoever is asked to report it knows nothing else

void report() {
  const char* path = std::getenv("LABKIT_FUZZ_FINDING");
  if (path == nullptr) return;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(under_test.data()),
                                              static_cast<std::streamsize>(under_test.size()));
  std::fprintf(stderr, "the input is in %s\n", path);
}

void on_abort(int) {
  report();
  std::_Exit(1);
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The words of a dictionary of libFuzzer's: one a line, in quotes; \xAB is a byte, \\ and \" are themselves.
std::vector<std::string> words_of(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find('"');
    const std::size_t last = line.rfind('"');
    if (line.empty() || line[0] == '#' || first == last) continue;
    std::string word;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (line[i] != '\\') {
        word += line[i];
      } else if (line[++i] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        word += line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

void run(const std::string& text) {
  // A copy of just its size, so that the sanitizer sees a read beyond its end.
  under_test = std::vector<std::uint8_t>(text.begin(), text.end());
  (void)LLVMFuzzerTestOneInput(under_test.data(), under_test.size());
}

void mutate(std::string& text, const std::vector<std::string>& words, std::mt19937_64& random) {
  const std::size_t at = random() % (text.size() + 1);
  switch (random() % 5) {
    case 0:
      text.erase(at, random() % 9);
      return;
    case 1:
      if (!words.empty()) text.insert(at, words[random() % words.size()]);
      return;
    case 2:
      text.insert(at, text.substr(random() % (text.size() + 1), random() % 30));
      return;
    case 3:
      text.insert(at, 1, static_cast<char>(random() % 256));
      return;
    default:
      if (at < text.size()) text[at] = static_cast<char>(random() % 256);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, on_abort);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(report);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 20.0;
  std::vector<std::string> words;
  std::vector<std::string> seeds = {""};
  for (int i = 2; i < argc; ++i) {
    const std::string path = argv[i];
    if (path.ends_with(".dict")) {
      words = words_of(path);
    } else {
      seeds.push_back(content(path));
    }
  }
  for (const std::string& seed : seeds) run(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::mt19937_64 random(1);
  std::uint64_t runs = seeds.size();
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    std::string text = seeds[random() % seeds.size()];
    for (std::uint64_t n = 1 + random() % 8; n > 0; --n) mutate(text, words, random);
    if (text.size() > kLongest) text.resize(kLongest);
    run(text);
    // What has grown out of a seed may stand in for it, so that inputs grow long without a seed.
    if (random() % 64 == 0 && text.size() < kLongest) seeds[random() % seeds.size()] = text;
  }
  std::printf("%llu inputs, nothing found\n", static_cast<unsigned long long>(runs));
}
