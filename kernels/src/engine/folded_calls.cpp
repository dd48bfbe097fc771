// Finding loops in a rank's calls, and writing them.
#include "labkit/engine/folded_calls.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

namespace labkit {
namespace {

/// A loop's body has at most so many entries, loops counting as one.
constexpr std::size_t kWindow = 1024;
constexpr std::uint64_t kMostTimes = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kTwice = std::uint64_t{2} << 32;

}  // namespace

void FoldedCalls::add(bool is_sleep, double amount) {
  push({std::bit_cast<std::uint64_t>(amount), is_sleep ? Kind::sleep : Kind::compute});
}

void FoldedCalls::add(std::string_view line) {
  const auto [found, is_new] = places_.try_emplace(std::string(line), static_cast<std::uint32_t>(lines_.size()));
  if (is_new) lines_.emplace_back(line);
  push({found->second, Kind::line});
}

void FoldedCalls::push(Entry entry) {
  entries_.push_back(entry);
  while (fold()) {
  }
}

/// Folds the shortest repetition that ends here. True: the last entry is another one now.
bool FoldedCalls::fold() {
  const std::size_t n = entries_.size();
  const Entry* const end = entries_.data() + n;
  const Entry last = end[-1];
  for (std::size_t length = 1; length <= kWindow && length < n; ++length) {
    const Entry& before = end[-1 - static_cast<std::ptrdiff_t>(length)];
    const Entry* const tail = end - length;
    if (before.kind == Kind::loop) {
      const Entries& body = bodies_[static_cast<std::uint32_t>(before.value)];
      if (body.size() == length && body.back() == last && before.value >> 32 < kMostTimes &&
          std::equal(body.begin(), body.end(), tail)) {
        entries_[n - 1 - length].value += std::uint64_t{1} << 32;
        entries_.resize(n - length);
        return true;
      }
    }
    if (before != last || 2 * length > n || !std::equal(tail, end, tail - length)) continue;
    const Entry loop{kTwice | body_of(tail, length), Kind::loop};
    entries_.resize(n - 2 * length);
    entries_.push_back(loop);
    return true;
  }
  return false;
}

std::uint32_t FoldedCalls::body_of(const Entry* begin, std::size_t length) {
  std::uint64_t hash = length;
  for (std::size_t i = 0; i < length; ++i) {
    hash = (hash ^ begin[i].value ^ (static_cast<std::uint64_t>(begin[i].kind) << 61)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  const auto [first, past] = known_.equal_range(hash);
  for (auto found = first; found != past; ++found) {
    const Entries& body = bodies_[found->second];
    if (body.size() == length && std::equal(body.begin(), body.end(), begin)) return found->second;
  }
  const auto place = static_cast<std::uint32_t>(bodies_.size());
  bodies_.emplace_back(begin, begin + length);
  known_.emplace(hash, place);
  return place;
}

std::uint64_t FoldedCalls::lines_in(const Entries& entries) const {
  std::uint64_t lines = 0;
  for (const Entry& entry : entries) {
    if (entry.kind != Kind::loop) {
      ++lines;
      continue;
    }
    const std::uint64_t inner = lines_in(bodies_[static_cast<std::uint32_t>(entry.value)]);
    lines += std::min(inner + 2, inner * (entry.value >> 32));
  }
  return lines;
}

/// A loop that would take as many lines as what it stands for is written out.
void FoldedCalls::write(std::string& text, std::string_view prefix, const Entries& entries) const {
  std::array<char, 32> digits{};
  for (const Entry& entry : entries) {
    if (entry.kind == Kind::line) {
      text += lines_[entry.value];
      text += '\n';
      continue;
    }
    if (entry.kind == Kind::loop) {
      const Entries& body = bodies_[static_cast<std::uint32_t>(entry.value)];
      const std::uint64_t times = entry.value >> 32;
      const std::uint64_t inner = lines_in(body);
      const bool is_unrolled = inner * times <= inner + 2;
      if (!is_unrolled) text.append(prefix).append("repeat ").append(std::to_string(times)).append("\n");
      for (std::uint64_t i = 0; i < (is_unrolled ? times : 1); ++i) write(text, prefix, body);
      if (!is_unrolled) text.append(prefix).append("end\n");
      continue;
    }
    const char* const end =
        std::to_chars(digits.data(), digits.data() + digits.size(), std::bit_cast<double>(entry.value)).ptr;
    text.append(prefix).append(entry.kind == Kind::sleep ? "sleep " : "compute ");
    text.append(digits.data(), static_cast<std::size_t>(end - digits.data())).append("\n");
  }
}

}  // namespace labkit
