// The engine's inside: what the parts of engine*.cpp share.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "labkit/engine/buffered_sends.hpp"
#include "labkit/engine/cores.hpp"
#include "labkit/engine/counts.hpp"
#include "labkit/engine/engine.hpp"
#include "labkit/engine/event_queue.hpp"
#include "labkit/engine/matching.hpp"
#include "labkit/network/network.hpp"

namespace labkit {

/// A first-in first-out list of ranks without allocation per entry.
class RankQueue {
 public:
  void push(Rank rank) { ranks_.push_back(rank); }
  [[nodiscard]] bool is_empty() const { return next_ == ranks_.size(); }
  /// The one that is popped after so many others; -1: nobody.
  [[nodiscard]] Rank ahead(std::size_t others) const {
    return next_ + others < ranks_.size() ? ranks_[next_ + others] : -1;
  }
  Rank pop() {
    const Rank rank = ranks_[next_++];
    if (next_ == ranks_.size()) {
      ranks_.clear();
      next_ = 0;
    }
    return rank;
  }

 private:
  std::vector<Rank> ranks_;
  std::size_t next_ = 0;
};

struct Engine::Parts {
  enum Kind : std::uint32_t {
    post_send, post_receive, latency_over, flow_end, catch_up, begin, operation_over, begin_work, end_work, link_change
  };

  struct RankState {
    Time clock = 0.0;
    Driver* driver = nullptr;
    std::uint32_t missing = 0;       // requests a wait_all still waits for
    std::uint32_t queued_posts = 0;  // posts of a clock ahead that have not acted yet
    HostId host = 0;
    Blocked blocked = Blocked::no;
    bool is_ready = false;
    bool is_syncing = false;         // a wait_any or wait_probe that first catches up
    bool shares_cores = false;
  };
  /// What a rank that shares cores computes, or is about to.
  struct Computation {
    Time begin_s = 0.0;
    double work_s = 0.0;
  };
  /// What only waits for any and probes need.
  struct Detail {
    std::vector<RequestId> any;
    std::size_t any_index = 0;
    Rank source = kAnySource;
    std::int32_t tag = kAnyTag;
    Context context = 0;
  };

  /// What does something for a rank beside it; agent i is `ranks[rank_count + i]`.
  struct Agent {
    Rank owner = -1;
    std::uint32_t request = kNone;  // slot of the owner's, while it is under way
    std::int32_t record = -1;       // row of the recorder
  };

  Parts(std::shared_ptr<const Platform> platform_, Model model_, std::vector<HostId> hosts,
        SharingOptions options, std::size_t spare_ranks);

  std::shared_ptr<const Platform> platform;
  Model model;
  EventQueue queue;
  Network network;
  RequestSlab slab;
  Matching matching;
  Recorder recorder;
  CallLog* calls = nullptr;
  std::unique_ptr<Counts> counts;  // null: nobody asked
  std::unique_ptr<BufferedSends> buffered;  // null: nobody asked
  Noise noise;
  Rank rank_count = 0;            // of the program and spare ones; behind them come agents
  std::vector<RankState> ranks;
  std::vector<Agent> agents;
  std::deque<Rank> free_agents;
  Cores cores;
  std::vector<Computation> computations;  // by rank, where some share cores
  std::vector<Rank> computed;             // scratch of end_computations
  std::unordered_map<Rank, Detail> details;
  RankQueue ready;         // ranks the caller resumes
  RankQueue driven;        // ranks a driver resumes
  std::uint64_t events = 0;
  std::chrono::steady_clock::duration pause_every = std::chrono::steady_clock::duration::max();
  std::uint64_t paused_before = 0;  // the number of events at which a paused advance() returns; 0: it was not paused

  RankState& rank(Rank r) { return ranks[static_cast<std::size_t>(r)]; }
  [[nodiscard]] const RankState& rank(Rank r) const { return ranks[static_cast<std::size_t>(r)]; }
  /// The rank's processor works, noise included.
  void work(Rank r, double seconds) {
    RankState& state = rank(r);
    state.clock = noise.is_used() ? noise.after(owner_of(r), state.clock, seconds) : state.clock + seconds;
  }
  [[nodiscard]] bool is_agent(Rank r) const { return r >= rank_count; }
  Agent& agent(Rank r) { return agents[static_cast<std::size_t>(r - rank_count)]; }
  [[nodiscard]] const Agent& agent(Rank r) const { return agents[static_cast<std::size_t>(r - rank_count)]; }
  [[nodiscard]] Rank owner_of(Rank r) const { return is_agent(r) ? agent(r).owner : r; }
  /// The same, recorded.
  void work_alone(Rank r, double seconds) {
    const Time begins = rank(r).clock;
    work(r, seconds);
    if (!recorder.keeps_messages() || is_agent(r)) return;
    recorder.keep_computation(r, begins, rank(r).clock, rank(r).clock - begins);
  }
  /// How long work lasts on a rank's host that it begins now, where the host's speed changes with time.
  [[nodiscard]] double at_speed(Rank r, double seconds) const;
  void begin_computation(Rank r, double work_s);
  void end_computations(const Event& event);
  Request& live(RequestId id);
  [[nodiscard]] bool is_ahead(const RankState& state) const {
    return state.clock > queue.now() || state.queued_posts > 0;
  }
  static bool is_over(const Request& request) {
    return request.state == RequestState::complete || request.state == RequestState::cancelled;
  }

  // posts
  RequestId post(std::uint32_t index);
  void keep_poster(std::uint32_t index) {
    if (!recorder.keeps_messages()) return;
    const Rank actor = slab.at(index).actor;
    recorder.posted_by(index, is_agent(actor) ? agent(actor).record : -1);
  }
  void act_send(std::uint32_t index);
  void act_receive(std::uint32_t index);
  void match(std::uint32_t send, std::uint32_t receive);
  void start_flow(std::uint32_t cookie, std::uint32_t send, std::uint32_t receive);
  void flow_over(std::uint32_t cookie);
  void finish_pair(std::uint32_t send, std::uint32_t receive);
  void complete(std::uint32_t index);
  void tell_owner(std::uint32_t index);
  void operation_is_over(std::uint32_t index, Time at);
  void retire(std::uint32_t index);
  void snapshot(Request& send);

  // waits
  void make_ready(Rank r);
  void keep_wait(Rank r, const Request& ended);
  void charge(RankState& state, std::uint32_t index, Request& request);
  [[gnu::noinline]] void charge_counted(std::uint32_t index, Request& request);
  [[gnu::noinline]] void charge_search(std::uint32_t index, const Request& request) {
    if (request.kind != RequestKind::receive) return;
    const std::uint32_t searched = matching.take_searched(index);
    if (searched > 0) work(request.actor, searched * model.match_s);
  }
  void charge_overhead(std::uint32_t index, Request& request) {
    if (model.match_s > 0) [[unlikely]] charge_search(index, request);
    if (request.kind != RequestKind::receive || !request.is_detached || request.is_charged) return;
    request.is_charged = true;
    work(request.actor, model.recv_overhead.at(request.received_bytes));
  }
  [[nodiscard]] bool hears_sends() const { return buffered != nullptr && !buffered->is_idle(); }
  /// An actor waits for a send of the program; an actor has seen a request complete.
  void note_wait(Rank r, std::uint32_t index, const Request& request);
  void note_seen(Rank r, std::uint32_t index, const Request& request);
  bool try_any(Rank r);
  void any_completed(Rank r, std::uint32_t index);
  void caught_up(Rank r);
  void wake_probe(Rank r, const Request& send);

  void handle(const Event& event);
  void fetch(const Event& event) const;
  void fetch_more(const Event& event) const;
  Rank next_driven();
};

}  // namespace labkit
