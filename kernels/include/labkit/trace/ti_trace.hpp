// Time-independent traces in memory: what every rank does, as a few bytes an action.
//
// The text is SimGrid's (one action a line, `rank action arguments`); ti_reader.hpp reads it. The text is
// never kept: an action is one byte for its kind, then its line and arguments as numbers of variable
// length, 5 to 12 bytes in all for most. Reports write the action's text anew from its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

/// A trace that cannot be read or replayed; the message names file, line, reason and what is allowed.
class TraceFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a rank does. The comments name `args`, in order; bytes are payloads, peers world ranks.
enum class TiAction : std::uint8_t {
  compute,       ///< amount: flops
  sleep,         ///< amount: seconds
  send,          ///< destination, tag, bytes
  ssend,         ///< destination, tag, bytes; synchronous
  isend,         ///< destination, tag, bytes
  issend,        ///< destination, tag, bytes; synchronous
  bsend,         ///< destination, tag, bytes; buffered
  ibsend,        ///< destination, tag, bytes; buffered
  recv,          ///< source or -1, tag or -1, bytes or -1
  irecv,         ///< source or -1, tag or -1, bytes or -1
  send_recv,     ///< bytes, destination, bytes, source; tag 0
  wait,          ///< source, destination, tag
  wait_all,      ///< number as written, then source, destination, tag of each (none: all that are open)
  test,          ///< source, destination, tag
  probe,         ///< source or -1, tag or -1
  barrier,       ///< nothing
  bcast,         ///< elements, bytes of one, root
  reduce,        ///< elements, bytes of one, root; amount: flops
  allreduce,     ///< elements, bytes of one; amount: flops
  scan,          ///< elements, bytes of one; amount: flops
  exscan,        ///< elements, bytes of one; amount: flops
  gather,        ///< bytes sent, bytes received (a block's), root
  scatter,       ///< bytes sent, bytes received (a block's), root
  allgather,     ///< bytes sent, bytes received (a block's)
  alltoall,      ///< bytes sent, bytes received (a block's)
  gatherv,       ///< root, bytes sent, bytes of each rank's block
  scatterv,      ///< root, bytes received, bytes of each rank's block
  allgatherv,    ///< bytes sent, bytes of each rank's block
  alltoallv,     ///< number of ranks, bytes to each rank, bytes from each rank
  reduce_scatter,  ///< bytes of each rank's block; amount: flops
  phase_begin,   ///< index of its name
  phase_end,     ///< index of its name
};
inline constexpr std::size_t kTiActions = 32;

/// The action's name in the text.
[[nodiscard]] std::string_view name_of(TiAction action);
[[nodiscard]] constexpr bool has_amount(TiAction action) {
  return action <= TiAction::sleep || (action >= TiAction::reduce && action <= TiAction::exscan) ||
         action == TiAction::reduce_scatter;
}

struct TiRecord {
  TiAction action = TiAction::compute;
  std::uint64_t line = 0;
  std::uint32_t comm = 0;          ///< 0: the world
  std::uint32_t nth = 0;           ///< wait: how many older open requests of the same key to pass over
  bool is_ordered = false;         ///< a reduction whose operator does not commute
  bool is_whole = false;           ///< a reduction whose messages must not be cut
  double amount = 0.0;
  std::vector<std::int64_t> args;
};

/// The action as text, sizes in bytes: for reports.
[[nodiscard]] std::string text_of(const TiRecord& record);

/// One rank's actions, encoded one after another; what a loop repeats is there once.
class TiCode {
 public:
  void append(const TiRecord& record);
  /// What comes until `end_loop` is done so many times. False where the actions would be too many to count.
  [[nodiscard]] bool begin_loop(std::uint64_t times);
  /// False: no loop is open, or nothing is in it.
  [[nodiscard]] bool end_loop();
  [[nodiscard]] std::size_t open_loops() const { return loops_.size(); }
  /// Those of loops as often as they are done.
  [[nodiscard]] std::uint64_t actions() const { return actions_; }
  [[nodiscard]] std::size_t bytes() const { return code_.capacity(); }
  void shrink() { code_.shrink_to_fit(); }

  /// Reads the actions in order; `record` is reused. Once: those of a loop a single time.
  class Cursor {
   public:
    explicit Cursor(const TiCode& code, bool is_once = false)
        : at_(code.code_.data()), end_(at_ + code.code_.size()), is_once_(is_once) {}
    [[nodiscard]] bool next(TiRecord& record);

   private:
    struct Loop {
      const std::uint8_t* body;
      std::uint64_t line;   ///< before its first action
      std::uint64_t left;   ///< how many times more
    };
    bool enter_or_leave(std::uint8_t head);
    std::uint64_t number();
    const std::uint8_t* at_;
    const std::uint8_t* end_;
    std::uint64_t line_ = 0;
    std::vector<Loop> loops_;
    bool is_once_;
  };

 private:
  struct Loop {
    std::uint64_t line;     ///< before its first action
    std::uint64_t times;
    std::uint64_t before;   ///< actions outside, up to its begin
  };
  void number(std::uint64_t value);
  std::vector<std::uint8_t> code_;
  std::vector<Loop> loops_;  ///< those open
  std::uint64_t line_ = 0;
  std::uint64_t actions_ = 0;
};

struct TiRank {
  TiCode code;
  std::int32_t file = -1;          ///< which file its lines are from; -1: the rank does not occur
};

struct TiTrace {
  std::vector<std::string> files;
  std::vector<TiRank> ranks;
  std::map<std::uint32_t, std::vector<Rank>> groups;  ///< communicators other than the world
  std::vector<std::string> phases;                    ///< names of the steps of the program
  [[nodiscard]] std::uint64_t actions() const;
  [[nodiscard]] std::uint64_t bytes() const;
  /// `file, line 12` of an action.
  [[nodiscard]] std::string place(Rank rank, std::uint64_t line) const;
};

}  // namespace labkit
