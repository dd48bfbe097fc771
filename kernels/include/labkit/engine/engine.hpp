// The engine: ranks with clocks, requests, messages over a simulated network.
//
// How time works. The engine has one clock, now(); every rank has its own, clock(r) >= now().
// Computing, overheads and Wtime only push the rank's own clock ahead: no event, no switch. A post
// carries the rank's clock; when that lies ahead of now() it takes effect when the engine gets
// there. A rank stops only in a wait (or a sync) that cannot be decided yet, and where it computes on a
// host that has more ranks than cores: when that is over depends on who else computes there meanwhile.
//
// What shares the cores (SimGrid's rule): compute() does, and looking for a message with MPI_Iprobe; sleeping,
// reading the clock, MPI_Test and what sends and receives cost a rank (os, ois, or) do not.
//
// How a caller drives it:
//
//     Engine engine(platform, model, rank_hosts);
//     for (rank r) engine.start(r);
//     while (engine.advance(budget) == Advance::ready)
//       while ((r = engine.next_ready()) >= 0)
//         run rank r until it blocks (a wait returned false) or ends (engine.finish(r));
//     // Advance::idle: nothing left. Ranks that are still blocked() are deadlocked.
//
// A rank with a Driver is resumed inside advance() and never reaches next_ready(): the native
// schedule interpreter is one. It hands the rank back with set_driver(r, nullptr) and wake(r).
//
// Order. Events run by (time, sequence of their posting); ready ranks run first in, first out. The
// same calls give the same times to the last bit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "labkit/engine/buffered_sends.hpp"
#include "labkit/engine/call_log.hpp"
#include "labkit/engine/counts.hpp"
#include "labkit/engine/noise.hpp"
#include "labkit/engine/recorder.hpp"
#include "labkit/engine/request.hpp"
#include "labkit/engine/types.hpp"
#include "labkit/network/model.hpp"
#include "labkit/network/sharing.hpp"
#include "labkit/topology/platform.hpp"

namespace labkit {

/// Moves the bytes; the engine never looks at a payload. Both sides of a message must belong to
/// the same client (messages of one context do). Callbacks must not call the engine's posting or
/// waiting functions; references to requests stay valid for the callback only.
class Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client() = default;
  /// The send's owner goes on before the message was matched: copy the bytes, and let
  /// send.payload denote the copy.
  virtual void snapshot(Request& send) = 0;
  /// The two have matched: copy min(send.bytes, receive.bytes) bytes. The last use of the send's
  /// payload; a snapshot (send.has_snapshot) is to be freed here.
  virtual void deliver(Request& send, Request& receive) = 0;
  /// A snapshot that nobody will receive (cancelled, or the engine ends): free it.
  virtual void discard(Request& send) = 0;
  /// The request is complete for its owner (only for posts with wants_completed).
  virtual void completed(Request& request) { (void)request; }
};

/// Runs a rank natively. resume(r) is called from advance() when r's wait is over.
class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;
  virtual void resume(Rank rank) = 0;
  /// The rank is resumed soon, or next: fetch what it needs into the cache.
  virtual void fetch(Rank rank, bool is_next) const { (void)rank, (void)is_next; }
};

struct SendPost {
  Rank rank = 0;
  Rank dest = 0;
  std::int32_t tag = 0;  ///< >= 0
  Context context = 0;
  std::uint64_t bytes = 0;
  void* payload = nullptr;
  Client* client = nullptr;  ///< nullptr: nothing to move
  SendMode mode = SendMode::standard;
  bool is_blocking = false;  ///< MPI_Send's overhead (os) instead of MPI_Isend's (ois)
  bool wants_completed = false;
  std::int32_t place = -1;   ///< of the program's own sends, while buffered sends are kept: a number of the caller's
};

struct ReceivePost {
  Rank rank = 0;
  Rank source = kAnySource;
  std::int32_t tag = kAnyTag;
  Context context = 0;
  std::uint64_t capacity_bytes = 0;
  void* payload = nullptr;
  Client* client = nullptr;
  bool wants_completed = false;
};

/// An unexpected message, as a probe sees it.
struct Envelope {
  RequestId send;
  Rank source = -1;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;
};

enum class Advance : std::uint8_t {
  ready,   ///< next_ready() has ranks
  idle,    ///< no events, nobody ready: all finished, or a deadlock
  budget,  ///< the number of events asked for has run; call again
  paused,  ///< as pause_every() asked; call again before anything else is done
};

/// Something that goes on for a rank while the rank does something else: a nonblocking collective.
struct Operation {
  Rank agent = -1;    ///< stands for the rank in posts, waits, clock, set_driver
  RequestId request;  ///< the rank's, complete when the operation is over: wait for it and release it
};

/// What one rank moves between two of them, as remote memory access does: both sides are known, nothing is matched.
struct TransferPost {
  Rank rank = 0;    ///< who asks for it, and waits for it unless it is handed over
  Rank source = 0;  ///< may be dest: a message to oneself
  Rank dest = 0;
  std::int32_t tag = 0;
  Context context = 0;
  std::uint64_t bytes = 0;
  void* payload = nullptr;
  Client* client = nullptr;  ///< its `completed` is called when the last byte has arrived; nullptr: nobody
};

enum class Blocked : std::uint8_t { no, wait_all, wait_any, sync, probe, compute, finished };

class Engine {
 public:
  /// One rank per entry of rank_hosts (several ranks may share a host). Behind them come spare ranks, which
  /// are nobody until somebody places and starts them. Throws std::invalid_argument for an impossible model
  /// or host.
  Engine(std::shared_ptr<const Platform> platform, Model model, std::vector<HostId> rank_hosts,
         SharingOptions options = {}, std::size_t spare_ranks = 0);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- what it is -------------------------------------------------------------------------------
  /// Spare ones included.
  [[nodiscard]] Rank rank_count() const;
  [[nodiscard]] const Model& model() const;
  [[nodiscard]] const Platform& platform() const;
  [[nodiscard]] HostId host_of(Rank rank) const;
  [[nodiscard]] Recorder& recorder();
  /// Keep what each rank sends and receives, from now on.
  void keep_counts();
  /// Null where nobody asked.
  [[nodiscard]] const Counts* counts() const;
  [[nodiscard]] Counts* counts();
  /// From now on note which sends rely on buffering.
  void keep_buffered_sends();
  /// Null where nobody asked.
  [[nodiscard]] const BufferedSends* buffered_sends() const;
  /// The rank's program does what depends on whether a message is there, or on which.
  void note_look(Rank rank);
  /// From now on calls are noted there; it outlives the engine or is taken back (nullptr).
  void set_call_log(CallLog* log);
  [[nodiscard]] CallLog* call_log();
  /// Noise of the processors, before the ranks start; a vector of slowdowns has one entry per rank.
  void set_noise(Noise noise);

  // --- clocks -----------------------------------------------------------------------------------
  [[nodiscard]] Time now() const;
  [[nodiscard]] Time clock(Rank rank) const;
  /// The rank computes: seconds >= 0 on a core of its own. True: its clock has been pushed ahead, go on now.
  /// False: it shares its host's cores and is blocked until it has computed, however long that takes
  /// (switch away; ready when it is over).
  [[nodiscard]] bool compute(Rank rank, double seconds);
  /// Whether the rank's host has more ranks than cores; if not, compute() never blocks.
  [[nodiscard]] bool shares_cores(Rank rank) const;
  /// Whether any rank does.
  [[nodiscard]] bool shares_cores() const;
  /// Push the rank's clock ahead by seconds >= 0 in which it needs no core.
  void sleep(Rank rank, double seconds);
  /// The rank's call takes so long; nothing works for it meanwhile.
  void delay(Rank rank, double seconds);
  /// What MPI_Iprobe costs: as compute, but the log of calls has the time and not the work.
  [[nodiscard]] bool poll(Rank rank, double seconds);
  /// MPI_Wtime: charge its cost, then read the clock.
  Time wtime(Rank rank);
  /// True when the engine has caught up with the rank's clock (all it could see has happened).
  /// Otherwise the rank is blocked until then: switch away, and go on when it is ready.
  [[nodiscard]] bool sync(Rank rank);

  // --- posts ------------------------------------------------------------------------------------
  /// Charges the overhead and posts. The handle must be released. A detached or eager send is
  /// complete when this returns.
  [[nodiscard]] RequestId send(const SendPost& post);
  [[nodiscard]] RequestId receive(const ReceivePost& post);
  /// Receive exactly this message (found by a matched probe): claim() takes it out of matching.
  [[nodiscard]] RequestId receive_claimed(const ReceivePost& post, RequestId claimed_send);
  [[nodiscard]] Request& request(RequestId id);
  [[nodiscard]] const Request& request(RequestId id) const;
  [[nodiscard]] bool is_live(RequestId id) const;
  /// Complete (or cancelled) as far as the owner's clock can know: call sync first when it matters.
  [[nodiscard]] bool is_complete(RequestId id) const;
  [[nodiscard]] Status status(RequestId id) const;
  /// The owner is done with the handle. An incomplete request goes on by itself (MPI_Request_free).
  void release(RequestId id);
  /// Take back a request that is not matched yet (MPI_Cancel). True when it was.
  bool cancel(RequestId id);

  // --- operations: an agent does something for a rank (engine_operations.cpp) --------------------
  /// An agent begins at the rank's clock. Its messages are the rank's: host, matching, records. Its clock
  /// and its waits are its own: what it does takes none of the rank's time. Not in a run that keeps calls.
  [[nodiscard]] Operation begin_operation(Rank rank, std::string name);
  /// The rank itself did what its agent has done until now: its clock is pushed to the agent's.
  void follow(Rank rank, Rank agent);
  /// The agent is through: the request is complete at the agent's clock. is_clean: it has no open requests.
  void end_operation(Rank agent, bool is_clean = true);
  /// The rank whose agent this is; a rank itself.
  [[nodiscard]] Rank owner_of(Rank actor) const;

  // --- one-sided transfers, and what ranks wait for besides messages (one_sided.cpp) --------------
  /// The rank pays for a transfer what it pays for MPI_Isend. Then let it catch up (sync), then begin it.
  void charge_transfer(Rank rank, std::uint64_t bytes);
  /// The flow starts now; the rank has caught up. A handle like that of a receive whose sender went on: the
  /// rank that waits for it pays `or`.
  [[nodiscard]] RequestId transfer(const TransferPost& post);
  /// Another rank waits for a transfer from now on; nobody does at present.
  void hand_over(RequestId id, Rank rank);
  /// A handle of the rank's that is complete once it is opened.
  [[nodiscard]] RequestId gate(Rank rank);
  /// Open a gate: at once, or at a time, then after what is under way at that instant.
  void open(RequestId id, Time at = 0.0);

  // --- waits: true = go on now, false = the rank is blocked (switch away; ready when it is over) --
  /// All of them (null handles are ignored). Pushes the clock to the last completion and charges
  /// the receives' overheads in order of completion. The ids are not kept.
  [[nodiscard]] bool wait_all(Rank rank, std::span<const RequestId> ids);
  [[nodiscard]] bool wait(Rank rank, RequestId id) { return wait_all(rank, {&id, 1}); }
  /// One of them: the first in the list that is complete at the rank's clock, else the first to
  /// complete. When it is over, any_index(rank) tells which; its overhead is charged. At least one
  /// handle must not be null.
  [[nodiscard]] bool wait_any(Rank rank, std::span<const RequestId> ids);
  [[nodiscard]] std::size_t any_index(Rank rank) const;
  /// Charge a receive's overhead once the owner has seen it complete (after a successful test;
  /// waits do it themselves).
  void charge(Rank rank, RequestId id);

  // --- probes: call sync first ------------------------------------------------------------------
  /// The first unexpected message that a receive posted now would get.
  [[nodiscard]] bool probe(Rank rank, Rank source, std::int32_t tag, Context context, Envelope& out) const;
  /// Block until probe would succeed.
  [[nodiscard]] bool wait_probe(Rank rank, Rank source, std::int32_t tag, Context context);
  /// Take a probed message out of matching (MPI_Mprobe); receive it with receive_claimed.
  void claim(RequestId send);

  // --- running ----------------------------------------------------------------------------------
  /// Put a spare rank on a host, before it starts: it has a core of its own there.
  void place(Rank rank, HostId host);
  /// The rank may run (once, at the beginning); its clock starts at `at`.
  void start(Rank rank, Time at = 0.0);
  /// The rank has ended; its clock stays.
  void finish(Rank rank);
  /// Put a rank that is blocked in nothing of the engine's (a finished native program's owner) on
  /// the ready list.
  void wake(Rank rank);
  /// Who resumes the rank from now on; nullptr: the caller of advance().
  void set_driver(Rank rank, Driver* driver);
  /// Run events until a rank without driver is ready, nothing is left, or max_events have run.
  Advance advance(std::uint64_t max_events);
  /// Let advance() return `paused` when it has worked for so long: few events may take much of the host's time. What
  /// the engine computes stays the same.
  void pause_every(std::chrono::steady_clock::duration host_time);
  /// The next ready rank, -1 when there is none.
  [[nodiscard]] Rank next_ready();

  // --- reports ----------------------------------------------------------------------------------
  [[nodiscard]] Blocked blocked(Rank rank) const;
  /// The live requests of every rank, oldest slot first (for reports).
  [[nodiscard]] std::vector<std::vector<RequestId>> requests_by_rank() const;
  /// The live requests of one rank (as slow as those of all).
  [[nodiscard]] std::vector<RequestId> requests_of(Rank rank) const;
  [[nodiscard]] std::uint64_t events() const;
  /// What the options' tolerance came to.
  struct ToleranceUse {
    std::uint64_t repairs;             ///< loads that were repaired (0: filling did everything)
    std::uint64_t instants;            ///< at which the links were shared anew
    std::uint64_t loose_instants;      ///< of these: the tolerance was in force
    std::uint64_t certified_instants;  ///< of these: looked at by a certificate
    double perturbation;               ///< the largest move of a capacity that one of them needed
    std::uint64_t without_bottleneck;  ///< flows that had none: 0 unless something is wrong
  };
  [[nodiscard]] ToleranceUse tolerance_use() const;
  /// The latest clock of all ranks.
  [[nodiscard]] Time makespan() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace labkit
