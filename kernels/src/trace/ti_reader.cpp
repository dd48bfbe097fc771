// Lines, words and files; ti_actions.cpp reads the arguments of each action.
#include "labkit/trace/ti_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "blank.hpp"

namespace labkit {
namespace {

template <class Number>
bool parse(std::string_view word, Number& value) {
  const char* begin = word.data() + (word.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

std::string TiReader::shown(std::string_view word) {
  constexpr std::size_t kMost = 40;
  std::string text = "'";
  for (const char c : word.substr(0, kMost)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (word.size() > kMost ? "...'" : "'");
}

void TiRankScan::word() {
  if (state_ == State::number) highest_ = std::max(highest_, number_);
}

void TiRankScan::feed(std::string_view piece) {
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (c == '\n') {
      word();
      state_ = State::blank;
      number_ = 0;
    } else if (state_ == State::rest) {
      const void* end = std::memchr(piece.data() + i, '\n', piece.size() - i);
      if (end == nullptr) return;
      i = static_cast<std::size_t>(static_cast<const char*>(end) - piece.data()) - 1;
    } else if (c >= '0' && c <= '9') {
      state_ = State::number;
      number_ = std::min(number_ * 10 + (c - '0'), kMostTiRanks);
    } else if (is_blank(c)) {
      if (state_ == State::blank) continue;
      word();
      state_ = State::rest;
    } else {
      state_ = State::rest;
    }
  }
}

std::int64_t TiRankScan::ranks() {
  word();
  return highest_ + 1;
}

void TiReader::fault(const std::string& reason) const {
  throw TraceFault(trace_.files.back() + ", line " + std::to_string(line_) + ": " + reason);
}

TiReader::TiReader(std::int64_t ranks, TiLimits limits) : ranks_(ranks), limits_(limits) {
  if (ranks < 1 || ranks > kMostTiRanks) {
    throw TraceFault("a trace has 1 to " + std::to_string(kMostTiRanks) + " ranks, got " + std::to_string(ranks) +
                     (ranks < 1 ? ": no line begins with a rank" : ""));
  }
  trace_.ranks.resize(static_cast<std::size_t>(ranks));
  default_element_.resize(static_cast<std::size_t>(ranks), 1);
  is_over_.resize(static_cast<std::size_t>(ranks), 0);
}

void TiReader::begin(std::string name, Rank only_rank) {
  trace_.files.push_back(std::move(name));
  only_rank_ = only_rank;
  line_ = 0;
  rest_.clear();
  if (only_rank >= 0) turn_to(std::to_string(only_rank));  // an empty file: a rank that does nothing
}

void TiReader::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    if (end == std::string_view::npos) {
      if (rest_.size() + piece.size() > limits_.line_bytes) {
        ++line_;
        fault("the line is longer than " + std::to_string(limits_.line_bytes) + " bytes; is this a trace?");
      }
      rest_.append(piece);
      return;
    }
    if (rest_.empty()) {
      line(piece.substr(0, end));
    } else {
      rest_.append(piece.substr(0, end));
      line(rest_);
      rest_.clear();
    }
    piece.remove_prefix(end + 1);
  }
}

void TiReader::end() {
  if (!rest_.empty()) line(rest_);
  rest_.clear();
}

TiTrace TiReader::take() {
  for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
    trace_.ranks[r].code.shrink();
    if (trace_.ranks[r].code.open_loops() > 0) {
      throw TraceFault("a loop of rank " + std::to_string(r) + " has no end: `" + std::to_string(r) + " end` closes what `repeat` opens");
    }
    if (trace_.ranks[r].file >= 0) continue;
    throw TraceFault("the trace has lines of ranks up to " + std::to_string(ranks_ - 1) + ", but none of rank " +
                     std::to_string(r));
  }
  return std::move(trace_);
}

void TiReader::split(std::string_view text) {
  words_.clear();
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && is_blank(*at)) ++at;
    if (at == end) return;
    const char* const begin = at;
    while (at != end && !is_blank(*at)) ++at;
    words_.emplace_back(begin, static_cast<std::size_t>(at - begin));
  }
}

void TiReader::line(std::string_view text) {
  ++line_;
  ++all_lines_;
  split(text);
  if (words_.empty()) return;
  if (words_[0][0] == '#') return comment(text);
  const std::string_view who = words_[0];
  if (words_.size() < 2) fault("a line is `rank action arguments`, got only " + shown(who));
  verb_ = words_[1];
  turn_to(who);
  words_.erase(words_.begin(), words_.begin() + 2);
  record_.comm = 0;
  record_.nth = 0;
  record_.is_ordered = record_.is_whole = false;
  record_.amount = 0.0;
  record_.args.clear();
  record_.line = line_;
  action_line();
}

/// `#+ comm ID members` and `#+ RANK probe source tag` carry what SimGrid's text cannot, `#+ RANK phase begin NAME` and
/// `end` its steps, `#+ incomplete reason` that the run ended before its time.
void TiReader::comment(std::string_view text) {
  if (!words_[0].starts_with("#+")) return;
  split(text.substr(text.find('+') + 1));
  if (words_.empty()) return;
  if (words_[0] == "incomplete") {
    const std::size_t word = text.find("incomplete") + 10;
    const std::size_t reason = text.find_first_not_of(" \t", word);
    std::string why;
    for (const char c : text.substr(reason == std::string_view::npos ? text.size() : reason, 200)) why += c >= ' ' && c <= '~' ? c : ' ';
    fault("the trace is incomplete (" + why + "): what came after is not in it; without this line the rest is replayed");
  }
  if (words_[0] == "comm") {
    words_.erase(words_.begin());
    return declare_group();
  }
  if (words_.size() >= 4 && words_[1] == "phase" && (words_[2] == "begin" || words_[2] == "end")) return phase(text);
  if (words_.size() < 2 || words_[1] != "probe") {
    fault("a comment that begins with #+ is `#+ comm ID members`, `#+ RANK probe source tag`, `#+ RANK phase begin NAME`, "
          "`#+ RANK phase end NAME` or `#+ incomplete reason`, got " + shown(words_.size() < 2 ? words_[0] : words_[1]) +
          "; a remark begins with # alone");
  }
  verb_ = words_[1];
  turn_to(words_[0]);
  words_.erase(words_.begin(), words_.begin() + 2);
  record_ = TiRecord{};
  record_.line = line_;
  options();
  refuse_options(kComm);
  need(2, 2, "probe source tag");
  record_.action = TiAction::probe;
  record_.args = {source(0), tag(1, true)};
  remember();
}

/// `#+ RANK phase begin NAME`, and `end`: a step of the program; the name is the rest of the line.
void TiReader::phase(std::string_view text) {
  const bool is_begin = words_[2] == "begin";
  turn_to(words_[0]);
  const std::string name(words_[3].data(), static_cast<std::size_t>(text.data() + text.size() - words_[3].data()));
  const auto [found, is_new] = phases_.try_emplace(name, static_cast<std::int64_t>(trace_.phases.size()));
  if (is_new) trace_.phases.push_back(name);
  record_ = TiRecord{};
  record_.line = line_;
  record_.action = is_begin ? TiAction::phase_begin : TiAction::phase_end;
  record_.args = {found->second};
  remember();
}

Rank TiReader::rank_word(std::string_view word) const {
  std::int64_t rank = 0;
  if (parse(word, rank) && rank >= 0 && rank < ranks_) return static_cast<Rank>(rank);
  fault("a rank is 0 to " + std::to_string(ranks_ - 1) + " here, got " + shown(word) +
        (only_rank_ >= 0 ? " (there are " + std::to_string(ranks_) + " files, one a rank)" : ""));
}

void TiReader::turn_to(std::string_view word) {
  rank_ = rank_word(word);
  if (only_rank_ >= 0 && rank_ != only_rank_) {
    fault("a line of rank " + std::to_string(rank_) + " in the file of rank " + std::to_string(only_rank_) +
          "; each file of a list is one rank's, in order");
  }
  trace_.ranks[static_cast<std::size_t>(rank_)].file = static_cast<std::int32_t>(trace_.files.size() - 1);
}

/// Members as single ranks, ranges `2-5` and strided ranges `0-30:2`, separated by commas or blanks.
void TiReader::declare_group() {
  if (words_.size() < 2) fault("a communicator is declared as `#+ comm ID members`");
  std::int64_t id = 0;
  if (!parse(words_[0], id) || id < 1 || id > INT32_MAX) {
    fault("a communicator's number is 1 to 2147483647, got " + shown(words_[0]));
  }
  std::vector<Rank> members;
  for (std::size_t i = 1; i < words_.size(); ++i) {
    std::string_view left = words_[i];
    while (!left.empty()) {
      const std::string_view part = left.substr(0, left.find(','));
      left.remove_prefix(std::min(left.size(), part.size() + 1));
      const std::size_t dash = part.find('-');
      const std::size_t colon = part.find(':');
      const Rank first = rank_word(part.substr(0, dash));
      Rank last = first;
      std::int64_t stride = 1;
      if (dash != std::string_view::npos) last = rank_word(part.substr(dash + 1, colon == std::string_view::npos ? colon : colon - dash - 1));
      if (colon != std::string_view::npos && (!parse(part.substr(colon + 1), stride) || stride < 1)) {
        fault("a range of members is first-last:stride, got " + shown(part));
      }
      for (std::int64_t member = first; member <= last; member += stride) {
        if (members.size() >= static_cast<std::size_t>(ranks_)) fault("a communicator with more members than ranks");
        members.push_back(static_cast<Rank>(member));
      }
    }
  }
  std::vector<Rank> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) fault("a communicator's member occurs twice");
  const auto [place, is_new] = trace_.groups.try_emplace(static_cast<std::uint32_t>(id), members);
  if (!is_new && place->second != members) {
    fault("communicator comm=" + std::to_string(id) + " was declared before with other members");
  }
  if (is_new) sorted_groups_.emplace(static_cast<std::uint32_t>(id), std::move(sorted));
}

/// Takes the words `name=value` off the end of the line.
void TiReader::options() {
  element_ = 0;
  options_ = 0;
  while (!words_.empty() && words_.back().find('=') != std::string_view::npos) {
    const std::string_view word = words_.back();
    words_.pop_back();
    const std::string_view name = word.substr(0, word.find('='));
    const std::string_view value = word.substr(name.size() + 1);
    std::int64_t number = -1;
    const bool is_number = parse(value, number) && number >= 0 && number <= INT32_MAX;
    const auto* const known = std::find(kOptions.begin(), kOptions.end(), name);
    if (known != kOptions.end()) {
      const std::uint32_t bit = 1U << static_cast<std::uint32_t>(known - kOptions.begin());
      if ((options_ & bit) != 0) fault(std::string(name) + "= stands twice on the line");
      options_ |= bit;
    }
    if (name == "comm" && is_number) {
      record_.comm = static_cast<std::uint32_t>(number);
    } else if (name == "nth" && is_number && number >= 1 && verb_ == "wait") {
      record_.nth = static_cast<std::uint32_t>(number - 1);
    } else if (name == "element" && is_number && number >= 1 && number < 65536) {
      element_ = number;
    } else if (word == "order=fixed") {
      record_.is_ordered = true;
    } else if (word == "cut=no") {
      record_.is_whole = true;
    } else if (name == "mode" && (verb_ == "send" || verb_ == "isend")) {
      send_mode(value);
    } else {
      fault(shown(word) + " is not known here; options are comm=NUMBER, mode=sync or mode=buffered (of a send), nth=NUMBER "
            "(of a wait), element=BYTES, order=fixed and cut=no");
    }
  }
}

/// Refuses an option that means nothing for the action.
void TiReader::refuse_options(std::uint32_t allowed) const {
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    if ((options_ & ~allowed & (1U << i)) == 0) continue;
    std::string text;
    for (std::size_t j = 0; j < kOptions.size(); ++j) {
      if ((allowed & (1U << j)) != 0) text += (text.empty() ? "" : ", ") + std::string(kOptions[j]) + "=";
    }
    fault(std::string(kOptions[i]) + "= has no meaning for " + shown(verb_) + "; its options are " + (text.empty() ? "none" : text));
  }
}

void TiReader::send_mode(std::string_view mode) {
  const bool is_blocking = verb_ == "send";
  if (mode == "sync") {
    verb_ = is_blocking ? "ssend" : "issend";
  } else if (mode == "buffered") {
    verb_ = is_blocking ? "bsend" : "ibsend";
  } else {
    fault("a send's mode is sync or buffered, got " + shown(mode));
  }
}

void TiReader::remember() {
  trace_.ranks[static_cast<std::size_t>(rank_)].code.append(record_);
  constexpr std::uint64_t kLook = 1 << 20;
  if (++since_look_ < kLook) return;
  since_look_ = 0;
  const std::uint64_t used = trace_.bytes();
  if (used <= limits_.code_bytes) return;
  fault("the actions read so far take " + std::to_string(used >> 20) + " MiB, more than the limit of " +
        std::to_string(limits_.code_bytes >> 20) + " MiB; raise limit_bytes, or cut the trace");
}

// --- arguments ------------------------------------------------------------------------------------

void TiReader::need(std::size_t least, std::size_t most, const char* form) {
  if (words_.size() >= least && words_.size() <= most) return;
  fault("an action is written `rank " + std::string(form) + "`, got " + std::to_string(words_.size()) +
        " argument" + (words_.size() == 1 ? "" : "s") + " behind " + shown(verb_));
}

std::int64_t TiReader::whole(std::size_t i, const char* what, std::int64_t least, std::int64_t most) const {
  const std::string_view word = words_[i];
  std::int64_t value = 0;
  if (!parse(word, value)) {
    double real = 0.0;  // sizes may be written as 1e+06
    if (!parse(word, real) || !(std::abs(real) <= 9007199254740992.0) || real != static_cast<double>(static_cast<std::int64_t>(real))) {
      fault(std::string(what) + " must be a whole number, got " + shown(word));
    }
    value = static_cast<std::int64_t>(real);
  }
  if (value < least || value > most) {
    fault(std::string(what) + " must be " + std::to_string(least) + " to " + std::to_string(most) + ", got " + shown(word));
  }
  return value;
}

std::int64_t TiReader::size(std::size_t i, const char* what) const { return whole(i, what, 0, std::int64_t{1} << 50); }

double TiReader::amount(std::size_t i, const char* what) const {
  double value = 0.0;
  if (!parse(words_[i], value) || !(value >= 0.0) || !std::isfinite(value)) {
    fault(std::string(what) + " must be a finite number, 0 or more, got " + shown(words_[i]));
  }
  return value;
}

std::int64_t TiReader::peer(std::size_t i, const char* what) const { return whole(i, what, 0, ranks_ - 1); }

std::int64_t TiReader::source(std::size_t i) const {
  constexpr std::int64_t kSimGridsAny = -333;
  const std::int64_t value = whole(i, "source", kSimGridsAny, ranks_ - 1);
  if (value < -1 && value != kSimGridsAny) {
    fault("source must be 0 to " + std::to_string(ranks_ - 1) + ", or any (-1, or SimGrid's -333), got " + shown(words_[i]));
  }
  return std::max<std::int64_t>(value, -1);
}

std::int64_t TiReader::tag(std::size_t i, bool may_be_any) const {
  constexpr std::int64_t kSimGridsAny = -444;
  const std::int64_t value = whole(i, "tag", may_be_any ? kSimGridsAny : 0, INT32_MAX);
  if (value < -1 && value != kSimGridsAny) fault("tag must be 0 or more, or any (-1, or SimGrid's -444), got " + shown(words_[i]));
  return std::max<std::int64_t>(value, -1);
}

std::int64_t TiReader::root(std::size_t i) const {
  const std::int64_t p = members();
  return has(i) ? whole(i, "root", 0, p - 1) : 0;
}

std::int64_t TiReader::members() const {
  if (record_.comm == 0) return ranks_;
  const auto found = sorted_groups_.find(record_.comm);
  if (found == sorted_groups_.end()) {
    fault("comm=" + std::to_string(record_.comm) + " is used before it is declared with `#+ comm " +
          std::to_string(record_.comm) + " members`");
  }
  const std::vector<Rank>& sorted = found->second;
  if (!std::binary_search(sorted.begin(), sorted.end(), rank_)) {
    fault("rank " + std::to_string(rank_) + " is not a member of comm=" + std::to_string(record_.comm));
  }
  return static_cast<std::int64_t>(sorted.size());
}

std::int64_t TiReader::bytes(std::int64_t elements, std::int64_t element_bytes) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (elements > kMost / element_bytes) fault("a message of more than 2^50 bytes");
  return elements * element_bytes;
}

}  // namespace labkit
