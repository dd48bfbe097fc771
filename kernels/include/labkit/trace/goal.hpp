// GOAL: per rank a graph of sends, receives and calculations (the input of LogGOPSim and its kin), read
// from text and run on the engine.
//
//     num_ranks 2
//     rank 0 {
//     l1: calc 100
//     l2: send 8b to 1 tag 0
//     l2 requires l1
//     }
//
// An operation starts when all it `requires` are over and all it `irequires` have started. A send is posted
// as MPI_Isend and over when its sender may go on; a receive is over when its message is there; a
// calculation (nanoseconds) occupies the rank. Of what is ready, messages are posted first, in the order of
// the text, then one calculation runs.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "labkit/engine/engine.hpp"
#include "labkit/trace/lookout.hpp"
#include "labkit/trace/ti_trace.hpp"

namespace labkit {

enum class GoalKind : std::uint8_t { send, recv, calc };

struct GoalOp {
  std::uint64_t amount = 0;        ///< bytes, or nanoseconds
  Rank peer = 0;                   ///< recv: -1 for any
  std::int32_t tag = 0;            ///< recv: -1 for any
  std::uint32_t line = 0;
  std::uint32_t waits_for = 0;     ///< edges into it
  std::uint32_t first_edge = 0;    ///< its successors begin here
  GoalKind kind = GoalKind::calc;
};

struct GoalEdge {
  std::uint32_t to = 0;
  bool is_start = false;           ///< irequires: the start is enough
};

struct GoalRank {
  std::vector<GoalOp> ops;         ///< in the order of the text
  std::vector<GoalEdge> edges;     ///< by operation
};

struct GoalProgram {
  std::string file;
  std::vector<GoalRank> ranks;
  std::uint64_t elsewhere = 0;  ///< operations on a further cpu or nic, for which the rank's only one is taken
};

/// Reads the text in pieces of any size. Throws TraceFault with file, line, reason and what is allowed.
class GoalReader {
 public:
  explicit GoalReader(std::string file, std::uint64_t limit_bytes = ~std::uint64_t{0});
  void feed(std::string_view piece);
  [[nodiscard]] GoalProgram take();

 private:
  struct Dependency {
    std::uint32_t after, before;
    bool is_start;
  };
  void line(std::string_view text);
  void statement(const std::vector<std::string_view>& words);
  void operation(const std::vector<std::string_view>& words, std::size_t first);
  void label(std::string_view name, std::uint32_t op);
  [[nodiscard]] std::uint32_t find(std::string_view label) const;
  [[nodiscard]] std::int64_t whole(std::string_view word, const char* what, std::int64_t most) const;
  void close_rank();
  void keep(std::uint64_t bytes);
  void order(GoalRank& rank) const;
  [[noreturn]] void fault(const std::string& reason) const;

  GoalProgram program_;
  std::uint64_t limit_bytes_;
  std::uint64_t used_bytes_ = 0, label_bytes_ = 0;
  std::string rest_;
  std::vector<std::string_view> words_;
  std::unordered_map<std::string, std::uint32_t> labels_;
  std::vector<Dependency> dependencies_;
  std::vector<bool> has_rank_;
  std::uint32_t line_ = 0;
  Rank rank_ = -1;
  bool is_in_comment_ = false;
};

class GoalRun {
 public:
  GoalRun(Engine& engine, const GoalProgram& program);
  /// As Replay::run.
  bool run(const std::function<bool()>& look);
  /// The operation that a rank waits for: (line, text, peer), line 0 when it has finished.
  struct Where {
    std::uint32_t line = 0;
    std::string action;
    Rank peer = -1;
  };
  [[nodiscard]] Where where(Rank rank) const;

 private:
  enum class Pending : std::uint8_t { nothing, any, sync, calculation };
  using Ready = std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>;
  struct RankState {
    std::vector<std::uint32_t> missing;
    Ready messages, calculations;
    std::vector<RequestId> open;
    std::vector<std::uint32_t> open_ops;
    std::size_t left = 0;
    std::uint32_t calculation = 0;  // the one that is pending
    Pending pending = Pending::nothing;
  };
  void run_rank(Rank rank);
  bool step(Rank rank, RankState& state);
  bool settle(Rank rank, RankState& state);
  bool calculate(Rank rank, RankState& state);
  void post(Rank rank, RankState& state, std::uint32_t op);
  void reached(Rank rank, RankState& state, std::uint32_t op, bool is_start);
  void close(Rank rank, RankState& state, std::size_t index);

  Engine& engine_;
  const GoalProgram& program_;
  std::vector<RankState> ranks_;
  Lookout lookout_;
};

}  // namespace labkit
