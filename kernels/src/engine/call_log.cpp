// Noting calls, and writing them as actions.
#include "labkit/engine/call_log.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace labkit {

CallLog::CallLog(std::vector<double> speed_flops) : ranks_(speed_flops.size()), speed_flops_(std::move(speed_flops)) {
  for (const double speed : speed_flops_) {
    if (!(speed > 0.0)) throw std::invalid_argument("a host's speed must be more than 0 flop/s");
  }
}

namespace {

/// Calls are folded so many at a time.
constexpr std::size_t kBatch = 64;

}  // namespace

CallLog::Call* CallLog::post_of(RankLog& log, std::uint32_t slot) {
  const std::uint32_t index = slot < call_of_slot_.size() ? call_of_slot_[slot] : kNone;
  const std::uint32_t place = index - log.folded;  // of a folded one beyond all
  return index == kNone || place >= log.calls.size() ? nullptr : &log.calls[place];
}

/// Folds what no later report changes; called before another call is added.
void CallLog::settle(RankLog& log, Rank rank) {
  if (log.unsettled == 0 && log.calls.size() >= kBatch) fold(log, rank);
}

void CallLog::posted(const Request& request, std::uint32_t slot, SendMode mode, bool is_blocking) {
  if (slot >= call_of_slot_.size()) call_of_slot_.resize(slot + slot / 2 + 64, kNone);
  call_of_slot_[slot] = kNone;
  RankLog& log = at(request.owner);
  if (log.is_silent || std::exchange(log.is_copying, false)) return;
  log.is_copying = mode == SendMode::copy;  // a Sendrecv with oneself costs nothing: its receive comes next
  if (log.is_copying) return;
  settle(log, request.owner);
  call_of_slot_[slot] = log.folded + static_cast<std::uint32_t>(log.calls.size());
  Call& call = log.calls.emplace_back();
  const bool is_send = request.kind == RequestKind::send;
  call.kind = !is_send ? Kind::recv : is_blocking ? Kind::send : Kind::isend;
  call.bytes = request.bytes;
  call.peer = request.peer;
  call.tag = request.tag;
  call.context = request.context & 0xffffffU;
  call.mode = static_cast<std::uint32_t>(mode) & 0x3fU;
  call.is_matched = is_send;
  call.is_waited = is_send && is_blocking;
  log.unsettled += !call.is_matched + !call.is_waited;
}

void CallLog::matched(const Request& receive, std::uint32_t slot) {
  RankLog& log = at(receive.owner);
  Call* const post = post_of(log, slot);
  if (post == nullptr) return;
  Call& call = *post;
  log.unsettled -= !call.is_matched;
  call.is_matched = 1;
  call.peer = receive.source;
  call.tag = receive.source_tag;
  call.bytes = std::min(call.bytes, std::max(receive.received_bytes, std::uint64_t{0}));
}

void CallLog::waited(Rank rank, std::span<const RequestId> ids) {
  RankLog& log = at(rank);
  if (log.is_silent) return;
  Call call;
  call.kind = Kind::wait;
  call.first = log.waits.size();
  for (const RequestId id : ids) {
    Call* const post = id.is_null() ? nullptr : post_of(log, id.index);
    if (post == nullptr) continue;
    log.waits.push_back(static_cast<std::uint32_t>(post - log.calls.data()));
    log.unsettled -= !post->is_waited;
    post->is_waited = 1;
    ++call.peer;
  }
  if (call.peer > 0) log.calls.push_back(call);
}

void CallLog::passed(Rank rank, double seconds, Kind kind) {
  RankLog& log = at(rank);
  if (log.is_silent || seconds <= 0.0) return;
  if (!log.calls.empty() && log.calls.back().kind == kind) {
    log.calls.back().seconds += seconds;
    return;
  }
  Call& call = log.calls.emplace_back();
  call.kind = kind;
  call.seconds = seconds;
}

void CallLog::probed(Rank rank, Rank source, std::int32_t tag, Context context) {
  RankLog& log = at(rank);
  if (log.is_silent) return;
  Call& call = log.calls.emplace_back();
  call.kind = Kind::probe;
  call.peer = source;
  call.tag = tag;
  call.context = context & 0xffffffU;
}

void CallLog::cancelled(Rank owner, std::uint32_t slot) {
  RankLog& log = at(owner);
  Call* const post = post_of(log, slot);
  if (post == nullptr) return;
  log.unsettled -= !post->is_matched + !post->is_waited;
  post->is_matched = post->is_waited = 1;
  post->kind = Kind::nothing;
}

void CallLog::begin_collective(Rank rank, std::string text) {
  RankLog& log = at(rank);
  log.is_silent = true;
  if (text.empty()) return;  // of a rank with itself: nothing moves
  settle(log, rank);
  Call& call = log.calls.emplace_back();
  call.kind = Kind::text;
  call.first = log.texts.size();
  log.texts.push_back(std::move(text));
}

void CallLog::declare(Rank rank, std::string text) {
  RankLog& log = at(rank);
  Call& call = log.calls.emplace_back();
  call.kind = Kind::comment;
  call.first = log.texts.size();
  log.texts.push_back(std::move(text));
}

std::uint64_t CallLog::calls() const {
  std::uint64_t sum = 0;
  for (const RankLog& log : ranks_) sum += log.folded + log.calls.size();
  return sum;
}

// --- lines ----------------------------------------------------------------------------------------

class CallLog::Writer {
 public:
  Writer(const RankLog& log, Rank rank, double speed_flops, FoldedCalls& lines)
      : log_(log), prefix_(std::to_string(rank) + ' '), rank_(rank), speed_flops_(speed_flops), lines_(lines) {}

  void all() {
    for (std::size_t i = 0; i < log_.calls.size(); ++i) i += write(i);
  }

 private:
  /// Writes a call; how many of the calls after it were written with it.
  std::size_t write(std::size_t i) {
    const Call& call = log_.calls[i];
    switch (call.kind) {
      case Kind::compute:
        lines_.add(false, call.seconds * speed_flops_);
        return 0;
      case Kind::sleep:
        lines_.add(true, call.seconds);
        return 0;
      case Kind::send:
        post(call, "send");
        return waits_for(i) ? 1 : 0;
      case Kind::isend:
        post(call, "isend");
        open_.push_back(static_cast<std::uint32_t>(i));
        return 0;
      case Kind::recv: {
        const bool is_blocking = waits_for(i);
        post(call, is_blocking ? "recv" : "irecv");
        if (!is_blocking) open_.push_back(static_cast<std::uint32_t>(i));
        return is_blocking ? 1 : 0;
      }
      case Kind::wait:
        wait(call);
        return 0;
      case Kind::text:
        lines_.add(prefix_ + log_.texts[call.first]);
        return 0;
      case Kind::comment:
        lines_.add("#+ " + log_.texts[call.first]);
        return 0;
      case Kind::probe:
        text_ = "#+ " + prefix_ + "probe " + std::to_string(call.peer) + ' ' + std::to_string(call.tag);
        comm(call);
        lines_.add(text_);
        return 0;
      case Kind::nothing:
        return 0;
    }
    return 0;
  }

  /// Whether the next call is a wait for this one alone: then both are one blocking call.
  [[nodiscard]] bool waits_for(std::size_t i) const {
    if (i + 1 >= log_.calls.size()) return false;
    const Call& next = log_.calls[i + 1];
    return next.kind == Kind::wait && next.peer == 1 && log_.waits[next.first] == i;
  }

  void comm(const Call& call) {
    if (call.context != 0) text_ += " comm=" + std::to_string(call.context);
  }

  void post(const Call& call, const char* name) {
    constexpr std::uint64_t kNoBound = std::uint64_t{1} << 50;  // an object's receive takes whatever comes
    text_ = prefix_ + name + ' ' + std::to_string(call.peer) + ' ' + std::to_string(call.tag) + ' ' +
             (call.bytes > kNoBound ? std::string("-1") : std::to_string(call.bytes)) + " 6";
    if (call.mode == static_cast<std::uint32_t>(SendMode::synchronous)) text_ += " mode=sync";
    if (call.mode == static_cast<std::uint32_t>(SendMode::buffered)) text_ += " mode=buffered";
    comm(call);
    lines_.add(text_);
  }

  std::string key(std::uint32_t index) const {
    const Call& call = log_.calls[index];
    const bool is_send = call.kind != Kind::recv;
    return ' ' + std::to_string(is_send ? rank_ : call.peer) + ' ' + std::to_string(is_send ? call.peer : rank_) + ' ' +
           std::to_string(call.tag);
  }

  /// One wait, or a waitall: with keys unless it takes everything that is open. Where keys would not say
  /// which requests are meant, they are waited for one after another.
  void wait(const Call& call) {
    const auto begin = log_.waits.begin() + static_cast<std::ptrdiff_t>(call.first);
    std::vector<std::uint32_t> posts(begin, begin + call.peer);
    std::erase_if(posts, [this](std::uint32_t post) {  // a request that a test or an earlier wait took
      const auto found = std::find(open_.begin(), open_.end(), post);
      return found == open_.end();
    });
    if (posts.empty()) return;
    const bool is_all = posts.size() == open_.size();
    const bool is_clear = is_all || std::all_of(posts.begin(), posts.end(), [&](std::uint32_t post) {
      return log_.calls[post].context == log_.calls[posts[0]].context && older(post) == 0;
    });
    if (posts.size() == 1 || !is_clear) {
      for (const std::uint32_t post : posts) {
        text_ = prefix_ + "wait" + key(post);
        if (const std::size_t before = older(post); before > 0) text_ += " nth=" + std::to_string(before + 1);
        comm(log_.calls[post]);
        lines_.add(text_);
        open_.erase(std::find(open_.begin(), open_.end(), post));
      }
      return;
    }
    text_ = prefix_ + "waitall " + std::to_string(posts.size());
    if (!is_all) {
      for (const std::uint32_t post : posts) text_ += key(post);
      comm(log_.calls[posts[0]]);
    }
    lines_.add(text_);
    for (const std::uint32_t post : posts) open_.erase(std::find(open_.begin(), open_.end(), post));
  }

  /// How many requests of the same key and communicator were posted before it and are open.
  [[nodiscard]] std::size_t older(std::uint32_t post) const {
    const Call& call = log_.calls[post];
    std::size_t count = 0;
    for (const std::uint32_t other : open_) {
      if (other == post) break;
      const Call& before = log_.calls[other];
      const bool is_same_side = (before.kind == Kind::recv) == (call.kind == Kind::recv) || call.peer == rank_;
      if (is_same_side && before.peer == call.peer && before.tag == call.tag && before.context == call.context) ++count;
    }
    return count;
  }

  const RankLog& log_;
  std::string prefix_;
  Rank rank_;
  double speed_flops_;
  FoldedCalls& lines_;
  std::string text_;                 ///< the line under way
  std::vector<std::uint32_t> open_;  ///< posts not yet waited for, in order
};

void CallLog::fold(RankLog& log, Rank rank) {
  Writer(log, rank, speed_flops_[static_cast<std::size_t>(rank)], log.lines).all();
  log.folded += static_cast<std::uint32_t>(log.calls.size());
  log.calls.clear();
  log.waits.clear();
  log.texts.clear();
}

std::string CallLog::lines(Rank rank) {
  RankLog& log = ranks_.at(static_cast<std::size_t>(rank));
  fold(log, rank);
  const std::string prefix = std::to_string(rank) + ' ';
  std::string text = prefix + "init\n";
  log.lines.write(text, prefix);
  return text + prefix + "finalize\n";
}

}  // namespace labkit
