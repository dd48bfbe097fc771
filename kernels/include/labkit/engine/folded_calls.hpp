// What a rank called, in order, with its loops found on the way: `A B A B A B` is kept as 3 x (A B), nested.
//
// After each entry the end is compared with what stands before it: the body of a loop whose count grows, or a
// twin, with which it becomes a loop of two. A loop is an entry like others, so that loops of loops are found
// the same way. Iterative programs take constant memory, others 16 bytes a computation or a repeated line.
// Method: M. Noeth et al., ScalaTrace, JPDC 69 (2009), doi:10.1016/j.jpdc.2008.09.001.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace labkit {

class FoldedCalls {
 public:
  /// `compute` or `sleep`.
  void add(bool is_sleep, double amount);
  /// A line as it stands in the trace, without its end.
  void add(std::string_view line);
  /// Appends the lines; `prefix` stands before amounts and loops.
  void write(std::string& text, std::string_view prefix) const { write(text, prefix, entries_); }

 private:
  enum class Kind : std::uint32_t { compute, sleep, line, loop };
  struct Entry {
    std::uint64_t value;  ///< bits of an amount, a line's place, or a loop's count << 32 and its body's place
    Kind kind;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  using Entries = std::vector<Entry>;

  void push(Entry entry);
  bool fold();
  std::uint32_t body_of(const Entry* begin, std::size_t length);
  [[nodiscard]] std::uint64_t lines_in(const Entries& entries) const;
  void write(std::string& text, std::string_view prefix, const Entries& entries) const;

  Entries entries_;
  std::vector<std::string> lines_;
  std::unordered_map<std::string, std::uint32_t> places_;  ///< of lines
  std::vector<Entries> bodies_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> known_;  ///< bodies by their hash
};

}  // namespace labkit
