// Encoding, decoding and the text of actions.
#include "labkit/trace/ti_trace.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace labkit {
namespace {

constexpr std::array<std::string_view, kTiActions> kNames = {
    "compute", "sleep",   "send",      "ssend",  "isend",  "issend",  "bsend", "ibsend", "recv",      "irecv",    "sendRecv", "wait",
    "waitall", "test",    "probe",     "barrier", "bcast", "reduce",  "allreduce", "scan",     "exscan",   "gather",
    "scatter", "allgather", "alltoall", "gatherv", "scatterv", "allgatherv", "alltoallv", "reducescatter",
    "phase begin", "phase end"};

// The first byte: the action, and what of the rare follows.
static_assert(kTiActions <= 0x20);
constexpr std::uint8_t kRare = 0x20;     // comm follows, then flags (ordered 1, whole 2) with nth above them
constexpr std::uint8_t kFraction = 0x40; // the amount is eight raw bytes, not a whole number
constexpr std::uint8_t kBegin = 0x80;    // of a loop: how many times follows
constexpr std::uint8_t kEnd = 0x81;
constexpr double kWhole = 9007199254740992.0;  // 2^53
constexpr std::uint64_t kMostActions = std::uint64_t{1} << 43;  // of a rank: 2^20 ranks do not overflow

/// Numbers of arguments that need no count.
constexpr int fixed_args(TiAction action) {
  switch (action) {
    case TiAction::compute: case TiAction::sleep: case TiAction::barrier: return 0;
    case TiAction::send: case TiAction::ssend: case TiAction::isend: case TiAction::issend:
    case TiAction::bsend: case TiAction::ibsend:
    case TiAction::recv: case TiAction::irecv: case TiAction::wait: case TiAction::test: return 3;
    case TiAction::send_recv: return 4;
    case TiAction::probe: return 2;
    case TiAction::phase_begin: case TiAction::phase_end: return 1;
    case TiAction::bcast: case TiAction::reduce: return 3;
    case TiAction::allreduce: case TiAction::scan: case TiAction::exscan: return 2;
    case TiAction::gather: case TiAction::scatter: return 3;
    case TiAction::allgather: case TiAction::alltoall: return 2;
    default: return -1;
  }
}

std::uint64_t folded(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t unfolded(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

}  // namespace

std::string_view name_of(TiAction action) { return kNames[static_cast<std::size_t>(action)]; }

void TiCode::number(std::uint64_t value) {
  while (value >= 0x80) {
    code_.push_back(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  code_.push_back(static_cast<std::uint8_t>(value));
}

void TiCode::append(const TiRecord& record) {
  const bool is_rare = record.comm != 0 || record.is_ordered || record.is_whole || record.nth != 0;
  const bool is_fraction = has_amount(record.action) &&
                           !(record.amount >= 0.0 && record.amount < kWhole &&
                             record.amount == static_cast<double>(static_cast<std::uint64_t>(record.amount)));
  code_.push_back(static_cast<std::uint8_t>(static_cast<std::uint8_t>(record.action) | (is_rare ? kRare : 0) |
                                            (is_fraction ? kFraction : 0)));
  number(record.line - line_);
  line_ = record.line;
  if (is_rare) {
    number(record.comm);
    number((record.is_ordered ? 1u : 0u) | (record.is_whole ? 2u : 0u) | (std::uint64_t{record.nth} << 2));
  }
  if (is_fraction) {
    const auto bits = std::bit_cast<std::array<std::uint8_t, 8>>(record.amount);
    code_.insert(code_.end(), bits.begin(), bits.end());
  } else if (has_amount(record.action)) {
    number(static_cast<std::uint64_t>(record.amount));
  }
  if (fixed_args(record.action) < 0) number(record.args.size());
  for (const std::int64_t arg : record.args) number(folded(arg));
  ++actions_;
}

bool TiCode::begin_loop(std::uint64_t times) {
  std::uint64_t all = times;
  for (const Loop& loop : loops_) {
    if (loop.times != 0 && all > kMostActions / loop.times) return false;
    all *= loop.times;
  }
  if (all > kMostActions) return false;
  code_.push_back(kBegin);
  number(times);
  loops_.push_back({line_, times, std::exchange(actions_, 0)});
  return true;
}

bool TiCode::end_loop() {
  if (loops_.empty() || actions_ == 0) return false;
  const Loop loop = loops_.back();
  if (actions_ > kMostActions / loop.times) return false;
  code_.push_back(kEnd);
  actions_ = loop.before + actions_ * loop.times;
  loops_.pop_back();
  return true;
}

/// The begin of a loop, or the end of its body: back, or out of it.
bool TiCode::Cursor::enter_or_leave(std::uint8_t head) {
  if (head == kBegin) {
    const std::uint64_t times = number();
    loops_.push_back({at_, line_, is_once_ ? 0 : times - 1});
    return true;
  }
  if (head != kEnd) return false;
  Loop& loop = loops_.back();
  if (loop.left == 0) {
    loops_.pop_back();
    return true;
  }
  --loop.left;
  at_ = loop.body;
  line_ = loop.line;
  return true;
}

std::uint64_t TiCode::Cursor::number() {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint8_t byte = *at_++;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

bool TiCode::Cursor::next(TiRecord& record) {
  std::uint8_t head = 0;
  do {
    if (at_ == end_) return false;
    head = *at_++;
  } while (enter_or_leave(head));
  record.action = static_cast<TiAction>(head & 0x1f);
  record.line = line_ += number();
  record.comm = 0;
  record.nth = 0;
  record.is_ordered = record.is_whole = false;
  record.amount = 0.0;
  if ((head & kRare) != 0) {
    record.comm = static_cast<std::uint32_t>(number());
    const std::uint64_t flags = number();
    record.is_ordered = (flags & 1) != 0;
    record.is_whole = (flags & 2) != 0;
    record.nth = static_cast<std::uint32_t>(flags >> 2);
  }
  if ((head & kFraction) != 0) {
    std::memcpy(&record.amount, at_, 8);
    at_ += 8;
  } else if (has_amount(record.action)) {
    record.amount = static_cast<double>(number());
  }
  const int fixed = fixed_args(record.action);
  record.args.resize(fixed >= 0 ? static_cast<std::size_t>(fixed) : number());
  for (std::int64_t& arg : record.args) arg = unfolded(number());
  return true;
}

std::string text_of(const TiRecord& record) {
  std::string text(name_of(record.action));
  std::size_t shown = 0;
  for (const std::int64_t arg : record.args) {
    if (++shown > 8) {
      text += " ...";
      break;
    }
    text += ' ' + std::to_string(arg);
  }
  if (record.comm != 0) text += " comm=" + std::to_string(record.comm);
  return text;
}

std::uint64_t TiTrace::actions() const {
  std::uint64_t sum = 0;
  for (const TiRank& rank : ranks) sum += rank.code.actions();
  return sum;
}

std::uint64_t TiTrace::bytes() const {
  std::uint64_t sum = ranks.size() * sizeof(TiRank);
  for (const TiRank& rank : ranks) sum += rank.code.bytes();
  return sum;
}

std::string TiTrace::place(Rank rank, std::uint64_t line) const {
  const std::int32_t file = ranks[static_cast<std::size_t>(rank)].file;
  const std::string name = file < 0 ? std::string("no file") : files[static_cast<std::size_t>(file)];
  return name + ", line " + std::to_string(line);
}

}  // namespace labkit
