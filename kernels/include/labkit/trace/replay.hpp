// Replaying a time-independent trace on the engine: every rank goes through its actions, native to the last.
//
// Point-to-point actions cost what the same MPI calls cost; collectives run the schedule that `choose` names
// for them, on the sizes the trace gives (no data moves); flops cost flops / the host's speed.
//
// Requests are found again by source, destination and tag, as SimGrid does: a wait takes the oldest open
// request of that key. A wait for a key that has none (a test may have taken it) is passed over and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "labkit/engine/engine.hpp"
#include "labkit/schedule/collective.hpp"
#include "labkit/trace/lookout.hpp"
#include "labkit/trace/ti_trace.hpp"

namespace labkit {

/// A collective call as its schedule's choice may depend on it.
struct CollectiveAsked {
  std::string problem;      ///< as labkit.schedule calls it
  std::int32_t ranks = 0;
  std::int32_t root = 0;
  std::uint64_t bytes = 0;  ///< the message of a bcast or reduction, one block of the others
  bool is_commutative = true;
  bool is_cuttable = true;
  friend auto operator<=>(const CollectiveAsked&, const CollectiveAsked&) = default;
};

class Replay {
 public:
  using Choose = std::function<std::shared_ptr<Program>(const CollectiveAsked&)>;
  /// The trace and the engine outlive the replay; the engine has as many ranks as the trace.
  Replay(Engine& engine, const TiTrace& trace, Choose choose);

  /// Runs everything. `look` is called `every` so often; when it returns false the replay stops there.
  /// True: every rank came to its end. Throws TraceFault for an action that cannot be carried out.
  bool run(const std::function<bool()>& look, Lookout::Clock::duration every = Lookout::kEvery);

  struct Where {
    bool is_finished = false;
    std::uint64_t line = 0;   ///< 0: before its first action
    std::string action;       ///< its text
    std::vector<Rank> peers;  ///< whom it waits for; empty: anybody, or nobody
  };
  /// Where a rank is (after run has returned false).
  [[nodiscard]] Where where(Rank rank) const;
  /// One entry of a rank into a phase that it has left. Times in seconds.
  struct Phase {
    Rank rank;
    std::int64_t name;  ///< index in the trace's phases
    Time begin_s;
    Time end_s;
    std::int64_t depth;  ///< phases of the rank around it
  };
  /// In the order of their ends.
  [[nodiscard]] const std::vector<Phase>& phases() const { return phases_; }
  /// An action that stands for a call of MPI, as long as it took. Times in seconds.
  struct Call {
    Rank rank;
    TiAction action;
    std::int32_t comm = -1;      ///< of a collective; else -1
    std::int32_t root = -1;      ///< rank of the world
    std::int32_t position = -1;  ///< the rank's own in the communicator
    std::int64_t phase = -1;     ///< the innermost, an index in the trace's phases; -1: none
    std::uint64_t bytes = 0;
    Time begin_s = 0.0;
    Time end_s = 0.0;
  };
  /// From now on they are noted.
  void note_calls() { is_noting_ = true; }
  /// In the order of their begins.
  [[nodiscard]] const std::vector<Call>& calls() const { return noted_; }
  /// Waits for which no request was open.
  [[nodiscard]] std::uint64_t idle_waits() const { return idle_waits_; }

 private:
  struct Key {
    Rank source;
    Rank dest;
    std::int32_t tag;
    std::uint32_t comm;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Open {
    Key key;
    RequestId id;  ///< null: taken
  };
  enum class Pending : std::uint8_t { nothing, requests, test, probe, collective };
  struct OpenCall;
  struct RankState {
    explicit RankState(const TiCode& code) : cursor(code) {}
    TiCode::Cursor cursor;
    std::vector<Open> open;          ///< requests in the order of their posts; the first `head` are taken
    std::vector<RequestId> waited;   ///< those of the action under way
    std::unordered_map<std::uint32_t, std::uint32_t> calls;  ///< collectives begun, by communicator but the world
    std::vector<std::pair<std::int64_t, Time>> entered;  ///< open phases: name, begin
    OpenCall* call = nullptr;
    std::int64_t noted = -1;         ///< the call under way, where calls are noted
    double flops = 0.0;              ///< to compute when the collective is over
    std::size_t head = 0;
    std::size_t taken = 0;           ///< taken ones behind the head
    std::size_t tested = 0;
    std::uint64_t line = 0;
    std::uint32_t world_calls = 0;
    Pending pending = Pending::nothing;
    bool has_ended = false;
  };
  struct OpenCall {  ///< one collective, from the first rank that comes to the last that leaves
    std::shared_ptr<Collective> collective;
    TiRecord first;
    Rank first_rank = -1;
    std::int64_t left = 0;
    std::pair<std::uint32_t, std::uint32_t> key;
    std::vector<bool> has_come;
  };

  void run_rank(Rank rank);
  bool step(Rank rank, RankState& state);
  bool settle(Rank rank, RankState& state);
  [[nodiscard]] RequestId post_send(Rank rank, SendMode mode, bool is_blocking, std::int64_t dest, std::int64_t tag,
                                    std::int64_t bytes);
  [[nodiscard]] RequestId post_receive(Rank rank, std::int64_t source, std::int64_t tag, std::int64_t bytes);
  bool wait_own(Rank rank, RankState& state);
  bool wait_keys(Rank rank, RankState& state);
  bool wait_everything(Rank rank, RankState& state);
  bool test(Rank rank, RankState& state);
  bool probe(Rank rank, RankState& state);
  bool end(Rank rank, RankState& state);
  bool compute(Rank rank, double flops);
  void leave_phase(Rank rank, RankState& state);
  void enter_call(Rank rank, RankState& state);
  void note_collective(Rank rank, Call& call) const;
  [[nodiscard]] std::uint64_t given(std::uint64_t block) const;
  void leave_call(Rank rank, RankState& state);
  void add(RankState& state, const Key& key, RequestId id);
  /// Index in state.open of the open request of the key with nth older ones, or state.open's size.
  [[nodiscard]] std::size_t find(const RankState& state, const Key& key, std::uint32_t nth) const;
  void take(RankState& state, std::size_t index);
  void release(Rank rank, RankState& state);

  // collectives
  bool collective(Rank rank, RankState& state);
  OpenCall& open_call(Rank rank, RankState& state);
  void agree(Rank rank, const OpenCall& call) const;
  [[nodiscard]] CollectiveAsked asked(std::int32_t ranks) const;
  [[nodiscard]] std::vector<BoundBuffer> buffers(std::int32_t local) const;
  [[nodiscard]] std::int32_t local_rank(Rank rank, std::uint32_t comm) const;
  bool finish_collective(Rank rank, RankState& state);
  [[noreturn]] void fault(Rank rank, const std::string& reason) const;

  Engine& engine_;
  const TiTrace& trace_;
  Choose choose_;
  std::vector<RankState> ranks_;
  TiRecord record_;  ///< the action being begun
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<OpenCall>> calls_;
  std::map<CollectiveAsked, std::shared_ptr<Program>> programs_;
  std::map<std::uint32_t, std::unordered_map<Rank, std::int32_t>> local_ranks_;
  std::vector<Phase> phases_;
  std::vector<Call> noted_;
  Lookout lookout_;
  std::uint64_t idle_waits_ = 0;
  bool is_noting_ = false;
};

}  // namespace labkit
