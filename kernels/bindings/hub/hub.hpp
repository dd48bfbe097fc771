// The hub: ranks as greenlets over the engine.
//
// One Hub is one simulated run. Every rank is a greenlet, started by the greenlet that called run()
// (the hub greenlet: greenlets started from each other nest and run out of recursion). A rank that
// blocks looks itself for the next ready rank and switches there directly; it goes back to the hub
// only to have a new rank started, or because nothing can go on.
//
// Nothing here points into a suspended rank's stack: greenlet copies that stack away. What outlives
// a switch is in the engine's request slab, in the payload pool, or in ranks_.
#pragma once

#include <Python.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "hub/buffers_in_use.hpp"
#include "hub/host_clock.hpp"
#include "hub/hub_collective.hpp"
#include "hub/hub_operations.hpp"
#include "hub/one_sided.hpp"
#include "hub/quick_calls.hpp"
#include "hub/races.hpp"
#include "labkit/engine/engine.hpp"
#include "mpi/payload.hpp"

namespace labkit::bindings {

/// What a blocked rank is doing, for reports.
struct Call {
  const char* name = "";  ///< as the program spells it
  std::int32_t peer = -1;  ///< world rank, kAnySource or kProcNull
  std::int32_t tag = -1;
  std::uint64_t bytes = 0;
};

/// What a call does with memory: `received_later`: after it has returned.
enum class MemoryUse : std::uint8_t { read, written, received_later };

class Hub final : public Client {
 public:
  Hub(std::shared_ptr<const Platform> platform, const Model& model, std::vector<HostId> rank_hosts,
      bool keeps_messages, SharingOptions options = {}, std::size_t spare_ranks = 0);
  ~Hub() override;

  /// The hub whose ranks run on this thread; nullptr outside any run.
  static Hub* active();

  // --- the run, called from the hub greenlet ----------------------------------------------------
  enum class Outcome : std::uint8_t { error, finished, deadlock, stopped };
  /// Run main(rank) on every rank. error: a Python error is set (an interrupt, the time limit).
  Outcome run(PyObject* main);
  /// From now on every call of a rank raises make_error().
  void set_ending(PyObject* make_error);
  [[nodiscard]] bool is_ending() const { return make_ending_ != nullptr; }
  /// Whether calls may be refused: the run is ending, or a rank is before Init or after Finalize.
  [[nodiscard]] bool needs_care() const { return needs_care_; }
  /// Refuse the rank's calls from now on, with this reason; an empty one: refuse them no more.
  void refuse_calls(Rank rank, const std::string& why);
  /// Why the running rank's calls are refused; nullptr: they are not.
  [[nodiscard]] const std::string* refusal() const;

  /// From now on ranks are late for their calls, by chance (seed) and by up to so many seconds: other orders in
  /// which messages may come. on_any(source, tag) is told what receives from anybody have got.
  void stagger(std::uint64_t seed, double most_s, PyObject* on_any);
  /// The running rank is about to make a call.
  void be_late();
  /// The running rank has got a message from anybody.
  void saw_any(Rank source, std::int32_t tag);
  /// From now on look for what fails on a real machine. `places` is a CallPlaces: where sends are made; warn(kind, ...)
  /// hears of the rest while the rank that does it runs.
  void watch(PyObject* places, PyObject* warn);
  [[nodiscard]] bool is_watching() const { return warn_ != nullptr; }
  [[nodiscard]] Races& races() { return races_; }
  [[nodiscard]] BuffersInUse& buffers_in_use() { return buffers_in_use_; }
  /// The running rank's call uses memory: say so if that belongs to a request of its own that is not waited for.
  void use_memory(const char* name, const Payload& payload, MemoryUse use);
  void use_memory(const char* name, const BoundBuffer& buffer);
  /// The number of the line of the program that sends now; -1: nobody watches, or the message is a collective's.
  [[nodiscard]] std::int32_t place_of_send(Context context) const;
  /// Say that something of the running rank's call fails on a real machine.
  void warn(const char* kind, Rank peer, const char* text, std::uint64_t number);
  /// What an irecv without a buffer takes, by rank.
  void set_irecv_room(Rank rank, std::uint64_t bytes) { irecv_room_[rank] = bytes; }
  [[nodiscard]] std::uint64_t irecv_room() const;
  /// Resume every suspended rank, so that it raises and unwinds. False: a Python error is set.
  bool unwind();
  /// Leave run() as soon as control is back at the hub.
  void stop() { is_stopped_ = true; }
  /// The run is over: let go of the Python objects it was given (they may lead back to the hub).
  void close();
  /// Host-time limit: on_limit() is called (and must raise) once the limit has passed.
  void set_limit(double seconds, PyObject* on_limit);

  // --- worlds: the ranks that the run began with, and each job that was spawned (worlds.cpp) ------
  /// Begin ranks that were spare, on these hosts and at the running rank's clock: a world of its own. The number
  /// of the first; the others follow.
  Rank spawn(const std::vector<HostId>& hosts);
  /// Ranks until now, spawned ones included.
  [[nodiscard]] Rank ranks() const { return jobs_.empty() ? world_ : jobs_.back().first + jobs_.back().size(); }
  [[nodiscard]] Rank first_world() const { return world_; }
  /// Whether the running rank is in a world that was spawned.
  [[nodiscard]] bool is_spawned() const { return current_ >= world_; }
  /// The running rank's world: its size, the number of its first rank.
  [[nodiscard]] std::int32_t world_size() const { return is_spawned() ? job().size() : world_; }
  [[nodiscard]] Rank world_first() const { return is_spawned() ? job().first : 0; }
  struct Job {
    Rank first = 0;
    Context context = 0;
    std::shared_ptr<const Members> members;
    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members->world_ranks.size()); }
  };
  /// The job of the running rank, a spawned one, or of another.
  [[nodiscard]] const Job& job() const { return job_of(current_); }
  [[nodiscard]] const Job& job_of(Rank rank) const;

  // --- for the running rank ---------------------------------------------------------------------
  [[nodiscard]] Rank current() const { return current_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] PayloadPool& payloads() { return payloads_; }
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  /// The engine said that the running rank must wait: run others until it is over. False: an error.
  bool block(const Call& call);
  /// Raise the error of an ending run. Always false.
  bool raise_ending();
  /// Put the running rank aside for good and go to the hub: for a rank that swallows every error.
  bool abandon();
  /// The running rank computes, for so many seconds on a core of its own; where it shares its host's cores,
  /// others run until it is over. False: an error.
  bool compute(double seconds) {
    if (!engine_.shares_cores(current_)) return engine_.compute(current_, seconds);
    return compute_together(seconds);
  }
  bool compute_flops(double flops);
  // Host time (labkit.sim.measured): what this thread spends in a rank between its calls is charged to it.
  [[nodiscard]] HostClock& host_clock() { return host_clock_; }
  /// Charge the running rank what it has spent since its last call. False: an error.
  bool catch_up_host() { return host_clock_.is_on() ? charge_host() : true; }
  /// What has been spent until now is nobody's.
  void skip_host() {
    if (host_clock_.is_on()) host_clock_.skip();
  }
  /// Forget a request whose handle is gone; it goes on by itself.
  void drop(RequestId id, Payload* payload);
  /// What a Test or Iprobe costs: never nothing, so that a polling loop lets time pass.
  static double poll_cost(double seconds) { return seconds > 0.0 ? seconds : 1e-9; }
  /// Carry out the running rank's part of a collective call. False: an error.
  bool run_collective(const std::shared_ptr<SharedCall>& call, std::int32_t rank, std::vector<BoundBuffer> buffers,
                      const char* name);
  [[nodiscard]] CollectiveTable& collectives() { return collectives_; }
  [[nodiscard]] OperationTable& operations() { return operations_; }
  [[nodiscard]] QuickTable& quick() { return quick_; }
  [[nodiscard]] TransferEnds& transfer_ends() { return transfer_ends_; }
  /// Whether the engine is at work: what it calls back (a reduction operator) may not communicate.
  [[nodiscard]] bool is_busy() const { return is_busy_; }
  /// Marks the engine as working.
  class Busy {
   public:
    explicit Busy(Hub& hub) : hub_(hub) { hub_.is_busy_ = true; }
    ~Busy() { hub_.is_busy_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Hub& hub_;
  };
  /// A context number that no communicator has.
  Context new_context() { return next_context_ += 2; }

  // --- a time-independent trace of the run (kernels/include/labkit/call_log.hpp) -----------------
  void keep_calls();
  [[nodiscard]] bool keeps_calls() const { return calls_ != nullptr; }
  [[nodiscard]] CallLog& calls();

  // --- reports ----------------------------------------------------------------------------------
  [[nodiscard]] bool is_done(Rank rank) const { return at(rank).state == State::done; }
  [[nodiscard]] bool is_started(Rank rank) const { return at(rank).state != State::fresh; }
  [[nodiscard]] const Call& call(Rank rank) const { return at(rank).call; }
  /// Borrowed; nullptr when the rank is not suspended.
  [[nodiscard]] PyObject* greenlet(Rank rank) const { return at(rank).greenlet; }
  [[nodiscard]] std::uint64_t switches() const { return switches_; }
  /// While frozen nothing moves, and the requests of all ranks are looked up once.
  void freeze(bool is_frozen);
  [[nodiscard]] std::vector<RequestId> open_requests(Rank rank) const;

  // --- Client -----------------------------------------------------------------------------------
  void snapshot(Request& send) override;
  void deliver(Request& send, Request& receive) override;
  void discard(Request& send) override;

 private:
  enum class State : std::uint8_t { fresh, suspended, done, abandoned };
  struct RankState {
    PyObject* greenlet = nullptr;
    Call call;
    State state = State::fresh;
    int endings = 0;  // errors of the ending run that it was given
  };
  static constexpr Rank kNobody = -1;  // nothing can go on
  static constexpr Rank kFailed = -2;  // a Python error is set
  static constexpr int kMostEndings = 1000;  // then it is a loop that swallows them all
  static constexpr std::uint64_t kEventsPerLook = 4096;
  static constexpr std::chrono::milliseconds kTimePerLook{50};
  static constexpr std::uint64_t kMostWarnings = 1000;  // of a run: finding the line of each takes time
  static constexpr std::size_t kManyRanks = 1024;  // from here on each one's memory counts

  RankState& at(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const RankState& at(Rank rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  bool compute_together(double seconds);
  void note_match(const Request& send, const Request& receive, const Payload& from, Payload& to, std::uint64_t bytes);
  void find_rival(const Request& receive, RequestId id, std::uint64_t sum);
  bool charge_host();
  Rank pick();
  Advance advance();
  bool look_up();
  bool start_or_resume(Rank rank);
  bool give_context(PyObject* greenlet);
  /// Whether a rank's part of a collective has gone well; else a Python error is set, or thrown.
  [[gnu::noinline]] static bool is_sound(Collective& call, std::int32_t rank, const char* name);
  bool switch_to(PyObject* greenlet);
  void settle();

  PayloadPool payloads_;         // these two outlive the engine, which may still hold snapshots of theirs
  CollectiveTable collectives_;
  OperationTable operations_;
  QuickTable quick_;
  TransferEnds transfer_ends_;
  std::unique_ptr<CallLog> calls_;
  Engine engine_;
  std::vector<RankState> ranks_;  // spare ones included
  Rank world_;                    // ranks that the run begins with
  std::vector<Job> jobs_;         // by their first ranks
  std::vector<std::vector<RequestId>> frozen_requests_;         // by rank; empty: not frozen
  PyObject* start_ = nullptr;    // what a rank's greenlet calls
  PyObject* context_ = nullptr;  // the context variables of whoever called run()
  PyObject* hub_greenlet_ = nullptr;
  PyObject* make_ending_ = nullptr;
  bool needs_care_ = false;
  std::unordered_map<Rank, std::string> refused_;
  std::uint64_t late_seed_ = 0;
  double most_late_s_ = 0.0;
  bool is_always_late_ = false;
  std::vector<std::uint64_t> calls_made_;  // by rank, while they are late
  PyObject* on_any_ = nullptr;
  PyObject* on_limit_ = nullptr;
  PyObject* places_ = nullptr;
  PyObject* warn_ = nullptr;
  std::uint64_t warned_ = 0;
  Races races_;
  BuffersInUse buffers_in_use_;
  std::unordered_map<Rank, std::uint64_t> irecv_room_;  // where it is not mpi4py's own
  std::chrono::steady_clock::time_point limit_ = std::chrono::steady_clock::time_point::max();
  HostClock host_clock_;
  std::uint64_t serial_ = 0;
  std::uint64_t switches_ = 0;
  Context next_context_ = 2;
  Rank current_ = kNobody;
  Rank handoff_ = kNobody;
  Rank unfinished_ = 0;
  bool has_handoff_ = false;
  bool has_yielded_ = false;  // control came to the hub by a switch, not by a rank's end
  bool is_stopped_ = false;
  bool is_busy_ = false;
};

}  // namespace labkit::bindings
