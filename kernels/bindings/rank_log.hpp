// What one rank of a real run calls, written as the simulator writes its runs.
#pragma once

#include <ctime>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "labkit/engine/call_log.hpp"
#include "labkit/trace/call_sums.hpp"
#include "host_counters.hpp"

namespace labkit::bindings {

/// A call of the program, in seconds of the monotonic clock.
struct TimedCall {
  double begin_s;
  double end_s;
  std::int32_t name;
  std::int32_t place;            ///< where it was called from
  std::uint64_t bytes = 0;
  std::int32_t context = -1;     ///< of a collective
  std::int32_t sequence = -1;    ///< of a collective: which one of its communicator
  std::int32_t root = -1;        ///< of a collective: in the world
  std::int32_t position = -1;    ///< of a collective: the caller's rank in the communicator
  std::int32_t ends = -1;        ///< the call that began what this one waited for: a nonblocking collective
  bool is_poll = false;          ///< it found nothing
};

/// A send or a receive; its times are those of its calls.
struct TimedPost {
  std::int32_t call;
  std::int32_t done = -1;  ///< the call after which it was over
  std::int32_t peer;
  std::int32_t tag;
  std::int32_t context;
  std::uint64_t bytes;
  std::uint32_t order;     ///< in which its rank posted, and probed for good
  bool is_send;
  bool is_cancelled = false;
};

/// A phase begins or ends.
struct Mark {
  double when_s;
  std::string phase;
  bool is_begin;
};

/// A probe that found a message: the next receive of its kind takes that.
struct TimedProbe {
  std::int32_t call;
  std::int32_t peer;
  std::int32_t tag;
  std::int32_t context;
  std::uint32_t order;  ///< see TimedPost
};

/// The log of one rank: lines of a time-independent trace, times of calls, or both.
/// Computation is the CPU time of the calling thread between resume() and pause().
class RankLog {
 public:
  /// Whether posts are no messages of the program's: lines have a collective of objects as messages.
  bool is_quiet = false;
  /// Whether the program is in a call: what that calls in turn is not noted.
  bool is_busy = false;

  RankLog(Rank rank, double flops_per_s, bool is_measuring, bool has_lines, bool has_times)
      : rank_(rank),
        log_(std::vector<double>(static_cast<std::size_t>(rank < 0 ? 0 : rank) + 1, flops_per_s)),
        is_measuring_(is_measuring && has_lines),
        has_lines_(has_lines),
        has_times_(has_times) {
    if (rank < 0) throw std::invalid_argument("a rank is 0 or more");
    resume();
  }

  void pause() {
    if (!is_measuring_) return;
    const double seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - left_s_;
    measured_s_ += seconds;
    log_.computed(rank_, seconds);
  }
  void resume() {
    if (is_measuring_) left_s_ = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  }
  void enter(std::int32_t name, std::int32_t place) {
    pause();
    if (std::this_thread::get_id() != thread_) is_of_several_ = true;
    if (!has_times_) return;
    if (counters_) {
      if (counts_.size() < 2 * counters_->size() * calls_.size()) counters_->read_to(counts_);  // an error ended the last
      counters_->read_to(counts_);
    }
    calls_.push_back({.begin_s = seconds_of(CLOCK_MONOTONIC), .end_s = 0.0, .name = name, .place = place});
  }
  void leave() {
    if (has_times_) finish_call();
    if (sums_ && calls_.size() >= most_) settle_full();
    resume();
  }
  /// Forgets all times: another repetition begins.
  void restart() {
    calls_.clear();
    counts_.clear();
    timed_posts_.clear();
    probes_.clear();
    first_post_ = posts_;
  }
  /// Sum the calls up from now on, and forget them whenever this number is reached; 0: keep them all.
  void sum_up(std::size_t most) {
    if (!has_times_) throw std::logic_error("calls are summed up by their times, which this log does not note");
    most_ = most != 0 ? most : std::numeric_limits<std::size_t>::max();
    is_forgetting_ = most != 0;
    begin_sums();
  }
  /// The program begins.
  void begin_sums() {
    const std::vector<std::uint64_t> now = counted_now();
    sums_ = std::make_unique<CallSums>(now.size());
    sums_->begin(0, seconds_of(CLOCK_MONOTONIC), now);
    marks_.clear();
    mark_counts_.clear();
  }
  /// A phase begins or ends, maybe within a call.
  void mark(std::string phase, bool is_begin, bool is_in_call) {
    if (counters_) counters_->read_to(mark_counts_);
    marks_.push_back({seconds_of(CLOCK_MONOTONIC), std::move(phase), is_begin});
    if (marks_.size() >= most_ && !is_in_call) settle();
  }
  /// The program is over.
  void finish_sums() {
    const double now_s = seconds_of(CLOCK_MONOTONIC);
    const std::vector<std::uint64_t> now = counted_now();
    settle();
    sums_->finish(0, now_s, now);
  }
  [[nodiscard]] const CallSums& sums() const {
    if (!sums_) throw std::logic_error("nobody asked for sums");
    return *sums_;
  }
  /// Counts these events from now on; what became of each: see CounterState.
  std::vector<std::int32_t> count(const std::vector<HostCounters::Event>& events) {
    counters_ = std::make_unique<HostCounters>(events);
    counts_.clear();
    return counters_->states();
  }
  [[nodiscard]] std::vector<std::uint64_t> counted_now() const {
    std::vector<std::uint64_t> values;
    if (counters_) counters_->read_to(values);
    return values;
  }
  [[nodiscard]] double counted_share() const { return counters_ ? counters_->share() : 1.0; }
  void compute(double seconds) { log_.computed(rank_, seconds); }

  /// The number by which the other calls know this post.
  std::uint32_t post(bool is_send, Rank peer, std::int32_t tag, std::uint64_t bytes, Context context, bool is_synchronous,
                     bool is_buffered, bool is_blocking) {
    Request request;
    request.kind = is_send ? RequestKind::send : RequestKind::receive;
    request.owner = rank_;
    request.peer = peer;
    request.tag = tag;
    request.bytes = bytes;
    request.context = context;
    const SendMode mode = is_synchronous ? SendMode::synchronous : is_buffered ? SendMode::buffered : SendMode::standard;
    if (has_lines_) log_.posted(request, posts_, mode, is_blocking);
    if (has_times_) {
      timed_posts_.push_back({.call = here(), .peer = peer, .tag = tag, .context = static_cast<std::int32_t>(context),
                              .bytes = bytes, .order = order_++, .is_send = is_send, .is_cancelled = is_quiet});
    }
    return posts_++;
  }
  void matched(std::uint32_t post, Rank source, std::int32_t tag, std::uint64_t bytes) {
    Request request;
    request.owner = rank_;
    request.source = source;
    request.source_tag = tag;
    request.received_bytes = bytes;
    if (has_lines_) log_.matched(request, post);
    if (TimedPost* timed = timed_post(post)) {
      timed->peer = source;
      timed->tag = tag;
      timed->bytes = bytes;
    }
  }
  /// A send or a receive that was over with its call; of a receive what it got is known. For short messages at a
  /// high rate: one call of these instead of three.
  void sent(Rank peer, std::int32_t tag, std::uint64_t bytes, Context context, bool is_synchronous, bool is_buffered) {
    over(post(true, peer, tag, bytes, context, is_synchronous, is_buffered, true));
  }
  void received(Rank peer, std::int32_t tag, std::uint64_t room, Context context, Rank source, std::int32_t got_tag,
                std::uint64_t bytes) {
    const std::uint32_t number = post(false, peer, tag, room, context, false, false, false);
    matched(number, source, got_tag, bytes);
    over(number);
  }
  /// A number for the order of posts: a receive of a matched message has that of its probe.
  std::uint32_t tick() { return order_++; }
  void ordered(std::uint32_t post, std::uint32_t order) {
    if (TimedPost* timed = timed_post(post)) timed->order = order;
  }
  void waited(const std::vector<std::uint32_t>& posts) {
    ids_.clear();
    for (const std::uint32_t post : posts) {
      ids_.push_back({post, 0});
      if (TimedPost* timed = timed_post(post)) timed->done = here();
    }
    if (has_lines_) log_.waited(rank_, ids_);
  }
  void cancelled(std::uint32_t post) {
    if (has_lines_) log_.cancelled(rank_, post);
    if (TimedPost* timed = timed_post(post)) timed->is_cancelled = true;
  }
  void probed(Rank source, std::int32_t tag, Context context) {
    if (has_lines_) log_.probed(rank_, source, tag, context);
    if (has_times_) probes_.push_back({here(), source, tag, static_cast<std::int32_t>(context), order_++});
  }
  void polled() {
    if (!calls_.empty()) calls_.back().is_poll = true;
  }
  /// The present call is a collective; the number by which a later one knows that it ended it.
  std::int32_t joined(std::int32_t context, std::int32_t sequence, std::uint64_t bytes, std::int32_t root,
                      std::int32_t position) {
    if (calls_.empty()) return -1;
    TimedCall& call = calls_.back();
    call.context = context;
    call.sequence = sequence;
    call.bytes = bytes;
    call.root = root;
    call.position = position;
    return here();
  }
  void sized(std::uint64_t bytes) {
    if (!calls_.empty()) calls_.back().bytes = bytes;
  }
  void ended(std::int32_t call) {
    if (!calls_.empty()) calls_.back().ends = call;
  }
  void collective(std::string text) {
    if (!has_lines_) return;
    log_.begin_collective(rank_, std::move(text));
    log_.end_collective(rank_);
  }
  void declare(std::string text) {
    if (has_lines_) log_.declare(rank_, std::move(text));
  }

  [[nodiscard]] std::string lines() { return log_.lines(rank_); }
  [[nodiscard]] std::uint64_t calls() const { return log_.calls(); }
  [[nodiscard]] double measured_s() const { return measured_s_; }
  /// The number of the call that the rank is in, or was in last; -1 before the first.
  [[nodiscard]] std::int32_t present() const { return here(); }
  /// Whether calls came from other threads than the one that made the log.
  [[nodiscard]] bool is_of_several() const { return is_of_several_; }
  [[nodiscard]] bool has_lines() const { return has_lines_; }
  [[nodiscard]] bool has_times() const { return has_times_; }
  [[nodiscard]] const std::vector<TimedCall>& timed_calls() const { return calls_; }
  [[nodiscard]] const std::vector<TimedPost>& timed_posts() const { return timed_posts_; }
  [[nodiscard]] const std::vector<TimedProbe>& timed_probes() const { return probes_; }
  /// Of each call: the counters at its begin, then at its end.
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
  [[nodiscard]] std::size_t counters() const { return counters_ ? counters_->size() : 0; }

 private:
  /// Polls that follow each other closely are one call: else a rank that spins would fill its memory.
  static constexpr double kSpin_s = 20e-6;
  static constexpr std::size_t kMostPolls = 8;

  static double seconds_of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  void finish_call() {
    if (calls_.empty()) return;
    TimedCall& call = calls_.back();
    if (call.end_s != 0.0) return;
    call.end_s = seconds_of(CLOCK_MONOTONIC);
    if (counters_) counters_->read_to(counts_);
    if (!call.is_poll || calls_.size() < 2) return;
    TimedCall& before = calls_[calls_.size() - 2];
    if (!before.is_poll || before.name != call.name || call.begin_s - before.end_s > kSpin_s) return;
    before.end_s = call.end_s;
    calls_.pop_back();
    if (counters_) {  // what was counted at the end of the later one is now the end of the one before
      const auto own = static_cast<std::ptrdiff_t>(counters_->size());
      counts_.erase(counts_.end() - 3 * own, counts_.end() - own);
    }
  }
  /// Polls may go on with the next call; of two kinds by turns, which never end, some are cut in two.
  void settle_full() {
    if (!calls_.back().is_poll || calls_.size() >= kMostPolls * most_) settle();
  }
  /// Sum up what the log has, and forget it, unless all is kept.
  void settle() {
    const std::size_t own = counters();
    if (counts_.size() < 2 * own * calls_.size()) counters_->read_to(counts_);  // an error ended the last
    const auto counted = [own](const std::vector<std::uint64_t>& all, std::size_t at) {
      return CallSums::Counted(all.data() + at * own, own);
    };
    std::size_t mark = 0;
    const auto pass_marks = [&](double until_s) {
      for (; mark < marks_.size() && marks_[mark].when_s <= until_s; ++mark) {
        const Mark& one = marks_[mark];
        const CallSums::Counted now = counted(mark_counts_, mark);
        if (one.is_begin) {
          sums_->enter(0, one.phase, one.when_s, now);
        } else {
          sums_->leave(0, one.phase, one.when_s, now);
        }
      }
    };
    std::size_t post = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const TimedCall& call = calls_[i];
      pass_marks(call.begin_s);
      const std::int32_t path = sums_->call(0, call.name, call.place, call.begin_s, counted(counts_, 2 * i));
      if (call.sequence >= 0) sums_->joined(0, path, static_cast<std::int64_t>(call.bytes), true);
      for (; post < timed_posts_.size() && timed_posts_[post].call <= static_cast<std::int32_t>(i); ++post) {
        const TimedPost& one = timed_posts_[post];
        if (!one.is_send || one.is_cancelled) continue;
        sums_->sent(0, path, 1, static_cast<std::int64_t>(one.bytes), one.bytes == 0 ? 1 : 0);
      }
      sums_->over(0, call.end_s, counted(counts_, 2 * i + 1));
    }
    pass_marks(std::numeric_limits<double>::infinity());
    marks_.clear();
    mark_counts_.clear();
    if (is_forgetting_) restart();
  }
  [[nodiscard]] std::int32_t here() const { return static_cast<std::int32_t>(calls_.size()) - 1; }
  void over(std::uint32_t post) {
    ids_.assign(1, {post, 0});
    if (TimedPost* timed = timed_post(post)) timed->done = here();
    if (has_lines_) log_.waited(rank_, ids_);
  }
  TimedPost* timed_post(std::uint32_t post) {
    const std::uint32_t index = post - first_post_;
    return has_times_ && index < timed_posts_.size() ? &timed_posts_[index] : nullptr;
  }

  Rank rank_;
  CallLog log_;
  bool is_measuring_;
  bool has_lines_;
  bool has_times_;
  bool is_of_several_ = false;
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<TimedCall> calls_;
  std::vector<TimedPost> timed_posts_;
  std::vector<TimedProbe> probes_;
  std::unique_ptr<HostCounters> counters_;
  std::vector<std::uint64_t> counts_;
  std::unique_ptr<CallSums> sums_;  // where they are wanted
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
  bool is_forgetting_ = false;
  std::vector<Mark> marks_;
  std::vector<std::uint64_t> mark_counts_;
  std::uint32_t first_post_ = 0;
  std::uint32_t order_ = 0;
  double left_s_ = 0.0;
  double measured_s_ = 0.0;
  std::uint32_t posts_ = 0;
  std::vector<RequestId> ids_;
};

}  // namespace labkit::bindings
