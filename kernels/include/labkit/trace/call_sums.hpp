// Each rank's time, visits and messages by call path, summed up while the program runs: no call is kept.
//
// A call path is a phase in its phases, a call there (a number of the caller's own) and its place. What a rank does
// between its calls is the path of its computation. Ranks are told apart by number; times come with each event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

/// What one rank did in one call path.
struct PathSums {
  Rank rank;
  std::int32_t path;
  std::int64_t visits = 0;
  double spent_s = 0.0;
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  std::int64_t empty_messages = 0;
  std::int64_t collective_bytes = 0;
  std::int64_t empty_collectives = 0;  ///< to which it gave no bytes
};

class CallSums {
 public:
  /// Values of the host's counters so far; empty where none are kept.
  using Counted = std::span<const std::uint64_t>;
  /// The call that stands for computation; it has no place.
  static constexpr std::int32_t kComputation = -1;

  struct Node {
    std::string text;  ///< with the phases around it
    std::string name;
  };
  struct Path {
    std::int32_t node;
    std::int32_t call;
    std::int32_t place;
    friend bool operator==(const Path&, const Path&) = default;
  };

  explicit CallSums(std::size_t counters = 0) : counters_(counters) {}

  /// A rank begins: nothing was computed before.
  void begin(Rank rank, double now_s, Counted counted = {});
  void enter(Rank rank, std::string_view phase, double now_s, Counted counted = {});
  /// It leaves the innermost open phase of that name.
  void leave(Rank rank, std::string_view phase, double now_s, Counted counted = {});
  /// It makes a call; what it was in before, by an error, is over. The number of the call path.
  std::int32_t call(Rank rank, std::int32_t name, std::int32_t place, double now_s, Counted counted = {});
  /// The call that it is in is over.
  void over(Rank rank, double now_s, Counted counted = {});
  /// The call path that it is in a call of, and since when; -1: in none.
  [[nodiscard]] std::pair<std::int32_t, double> inside(Rank rank) const;
  /// A call of that path was no call of its own: the one before went on.
  void again(Rank rank, std::int32_t path) { --of(rank, path).visits; }
  /// A call of that path is a collective, to which the rank gives so much.
  void joined(Rank rank, std::int32_t path, std::int64_t bytes, bool has_bytes);
  void sent(Rank rank, std::int32_t path, std::int64_t messages, std::int64_t bytes, std::int64_t empty);
  /// Its program is over.
  void finish(Rank rank, double now_s, Counted counted = {});

  /// In the order in which they came.
  [[nodiscard]] const std::vector<PathSums>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<Path>& paths() const { return paths_; }
  [[nodiscard]] const Node& node(std::int32_t number) const { return nodes_[static_cast<std::size_t>(number)]; }
  /// Of row i those from i * counters on.
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }

 private:
  struct Entered {
    std::int32_t name;
    std::int32_t node;
  };
  struct State {
    std::vector<Entered> phases;
    double since_s = 0.0;  ///< until when it is accounted for
    double call_s = 0.0;
    std::int32_t path = -1;  ///< of the call that it is in
    std::vector<std::uint64_t> counted;
  };
  struct Hash {
    std::size_t operator()(const Path& path) const {
      std::uint64_t sum = static_cast<std::uint32_t>(path.node);
      for (const std::int32_t part : {path.call, path.place}) {
        sum = (sum ^ static_cast<std::uint32_t>(part)) * 0x9E3779B97F4A7C15ULL + (sum >> 29U);
      }
      return static_cast<std::size_t>(sum);
    }
  };
  static std::uint64_t pair(std::int32_t high, std::int32_t low) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U) | static_cast<std::uint32_t>(low);
  }
  State& state(Rank rank);
  [[nodiscard]] static std::int32_t node_of(const State& state) {
    return state.phases.empty() ? 0 : state.phases.back().node;
  }
  std::int32_t name_of(std::string_view phase);
  std::int32_t below(std::int32_t node, std::int32_t name);
  std::int32_t path(std::int32_t node, std::int32_t call, std::int32_t place);
  PathSums& of(Rank rank, std::int32_t path);
  /// Until now the rank has computed, unless it is in a call.
  void compute(Rank rank, State& state, double now_s, Counted counted);
  void spend(Rank rank, State& state, std::int32_t path, double now_s, Counted counted);

  std::size_t counters_;
  std::vector<State> states_;  // by rank
  std::vector<Node> nodes_{{"", ""}};
  std::map<std::string, std::int32_t, std::less<>> names_;
  std::vector<std::string> texts_;  // by number of a name
  std::unordered_map<std::uint64_t, std::int32_t> below_;  // by node and name
  std::vector<Path> paths_;
  std::unordered_map<Path, std::int32_t, Hash> numbers_;
  std::vector<PathSums> rows_;
  std::unordered_map<std::uint64_t, std::uint32_t> at_;  // by rank and path
  std::vector<std::uint64_t> counts_;
};

}  // namespace labkit
