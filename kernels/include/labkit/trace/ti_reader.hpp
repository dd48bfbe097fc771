// The reader of time-independent traces: text in pieces of any size, encoded actions out.
//
//     TiReader reader(ranks, limits);  // TiRankScan finds the number of ranks of a merged file
//     reader.begin("rank-0.txt", 0);  // only rank 0's lines may follow; -1: any rank's
//     reader.feed(bytes); ...         // as they come from the file, unpacked
//     reader.end();
//     TiTrace trace = reader.take();  // checked as a whole
//
// What SimGrid's own reader accepts is accepted. Three things are labkit's own, and SimGrid passes over
// them: words `name=value` behind the arguments (comm=, mode=, nth=, element=, order=, cut=), keys behind the number of a
// waitall, and comments that begin with `#+` (a communicator's members, a blocking probe).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "labkit/trace/ti_trace.hpp"

namespace labkit {

struct TiLimits {
  std::uint64_t code_bytes = std::uint64_t{8} << 30;  ///< what the encoded actions may take
  std::size_t line_bytes = std::size_t{1} << 28;
};
inline constexpr std::int64_t kMostTiRanks = std::int64_t{1} << 20;
inline constexpr std::size_t kMostLoops = 64;

/// Finds the highest rank of a file with the lines of all ranks: vector collectives cannot be read
/// without knowing how many there are. What is no line of a trace is left to the reader to refuse.
class TiRankScan {
 public:
  void feed(std::string_view piece);
  /// One more than the highest rank at the begin of a line; 0: no such line.
  [[nodiscard]] std::int64_t ranks();

 private:
  enum class State : std::uint8_t { blank, number, rest };
  void word();
  State state_ = State::blank;
  std::int64_t number_ = 0;
  std::int64_t highest_ = -1;
};

/// Options `name=value` of an action, and the bit of each.
inline constexpr std::array<std::string_view, 6> kOptions{"comm", "nth", "element", "order", "cut", "mode"};
inline constexpr std::uint32_t kComm = 1, kNth = 2, kElement = 4, kOrder = 8, kCut = 16, kMode = 32;

class TiReader {
 public:
  /// Throws TraceFault for a number of ranks that is not 1 to 2^20.
  explicit TiReader(std::int64_t ranks, TiLimits limits = {});
  void begin(std::string name, Rank only_rank);
  void feed(std::string_view piece);
  void end();
  [[nodiscard]] TiTrace take();
  [[nodiscard]] std::uint64_t lines() const { return all_lines_; }

 private:
  void line(std::string_view text);
  void comment(std::string_view text);
  void phase(std::string_view text);
  void action_line();
  void split(std::string_view text);
  void options();
  void refuse_options(std::uint32_t allowed) const;
  void send_mode(std::string_view mode);
  [[nodiscard]] Rank rank_word(std::string_view word) const;
  void turn_to(std::string_view word);
  void declare_group();
  void remember();

  // arguments of the line under way
  void need(std::size_t least, std::size_t most, const char* form);
  [[nodiscard]] std::size_t count() const { return words_.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < words_.size(); }
  [[nodiscard]] std::int64_t whole(std::size_t i, const char* what, std::int64_t least, std::int64_t most) const;
  [[nodiscard]] std::int64_t size(std::size_t i, const char* what) const;
  [[nodiscard]] double amount(std::size_t i, const char* what) const;
  [[nodiscard]] std::int64_t element(std::size_t i) const;
  [[nodiscard]] std::int64_t peer(std::size_t i, const char* what) const;
  [[nodiscard]] std::int64_t source(std::size_t i) const;
  [[nodiscard]] std::int64_t tag(std::size_t i, bool may_be_any) const;
  [[nodiscard]] std::int64_t root(std::size_t i) const;
  /// The size of the action's communicator, after checking that the rank is one of its members.
  [[nodiscard]] std::int64_t members() const;
  [[nodiscard]] std::int64_t bytes(std::int64_t elements, std::int64_t element_bytes) const;
  void loop(bool is_begin);
  void point_to_point(TiAction action);
  void pair_of_sizes(TiAction action);
  void cut_in_elements();
  void reduction(TiAction action);
  void key(std::size_t first);
  void wait_all();
  void vector_rooted(TiAction action);
  void vector_all(TiAction action);
  void table_of(std::size_t first, std::size_t p, std::int64_t element_bytes);
  [[noreturn]] void fault(const std::string& reason) const;
  /// A word as a report shows it: printable, and not too long.
  [[nodiscard]] static std::string shown(std::string_view word);

  std::int64_t ranks_;
  TiLimits limits_;
  TiTrace trace_;
  std::string rest_;                      ///< the begin of a line whose end has not come
  std::vector<std::string_view> words_;   ///< of the line under way: the arguments
  std::string_view verb_;
  TiRecord record_;
  std::uint64_t line_ = 0;
  std::uint64_t all_lines_ = 0;
  std::uint64_t since_look_ = 0;
  Rank only_rank_ = -1;
  Rank rank_ = -1;
  std::uint32_t options_ = 0;             ///< which options stand on this line, a bit each
  std::int64_t element_ = 0;              ///< what element= said on this line; 0: nothing
  std::vector<std::uint8_t> default_element_;  ///< per rank, what `init` said
  std::vector<std::uint8_t> is_over_;          ///< per rank: `finalize` has been read
  std::map<std::uint32_t, std::vector<Rank>> sorted_groups_;
  std::map<std::string, std::int64_t> phases_;  ///< name -> index in the trace's
};

}  // namespace labkit
