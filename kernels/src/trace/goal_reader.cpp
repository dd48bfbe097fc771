// The text of GOAL: a statement a line, labels of one rank at a time.
#include <algorithm>
#include <charconv>
#include <utility>

#include "blank.hpp"
#include "labkit/trace/goal.hpp"

namespace labkit {
namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;
/// Ranks without a section of their own.
constexpr std::size_t kMostMissing = 4096;
constexpr std::size_t kMostLine = std::size_t{1} << 20;

std::string shown(std::string_view word) {
  std::string text = "'";
  for (const char c : word.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + "'";
}

}  // namespace

GoalReader::GoalReader(std::string file, std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {
  program_.file = std::move(file);
}

/// What it keeps of operations, of labels as long as their rank is open, and of what requires what.
void GoalReader::keep(std::uint64_t bytes) {
  used_bytes_ += bytes;
  if (used_bytes_ <= limit_bytes_) return;
  fault("the operations read so far take more than the limit of " + std::to_string(limit_bytes_ >> 20) +
        " MiB; raise limit_bytes, or cut the file");
}

void GoalReader::fault(const std::string& reason) const {
  throw TraceFault(program_.file + ", line " + std::to_string(line_) + ": " + reason);
}

void GoalReader::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    rest_.append(piece.substr(0, end));
    if (rest_.size() > kMostLine) {
      ++line_;
      fault("the line is longer than 1 MiB; is this GOAL?");
    }
    if (end == std::string_view::npos) return;
    line(rest_);
    rest_.clear();
    piece.remove_prefix(end + 1);
  }
}

/// Takes comments out and cuts the line into words; braces and the colon of a label are words.
void GoalReader::line(std::string_view text) {
  ++line_;
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view two = text.substr(i, 2);
    if (is_in_comment_) {
      if (two == "*/") {
        is_in_comment_ = false;
        ++i;
      }
    } else if (two == "/*") {
      is_in_comment_ = true;
      ++i;
    } else if (two == "//" || text[i] == '#') {
      break;
    } else if (text[i] == '{' || text[i] == '}' || text[i] == ':') {
      clean += {' ', text[i], ' '};
    } else {
      clean += is_blank(text[i]) ? ' ' : text[i];
    }
  }
  words_.clear();
  const std::string_view all = clean;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t begin = all.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    at = std::min(all.find(' ', begin), all.size());
    const std::string_view word = all.substr(begin, at - begin);
    const bool is_brace = word == "{" || word == "}";
    if (word == "}" && !words_.empty()) {  // what stands before it is a statement
      statement(words_);
      words_.clear();
    }
    words_.push_back(word);
    if (is_brace) {
      statement(words_);
      words_.clear();
    }
  }
  if (!words_.empty()) statement(words_);
}

std::int64_t GoalReader::whole(std::string_view word, const char* what, std::int64_t most) const {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0 || value > most) {
    fault(std::string(what) + " must be a whole number from 0 to " + std::to_string(most) + ", got " + shown(word));
  }
  return value;
}

void GoalReader::statement(const std::vector<std::string_view>& words) {
  if (program_.ranks.empty()) {
    if (words.size() != 2 || words[0] != "num_ranks") fault("GOAL begins with `num_ranks N`, got " + shown(words[0]));
    const std::int64_t ranks = whole(words[1], "num_ranks", kMostRanks);
    if (ranks < 1) fault("num_ranks must be at least 1");
    keep(static_cast<std::uint64_t>(ranks) * sizeof(GoalRank));
    program_.ranks.resize(static_cast<std::size_t>(ranks));
    has_rank_.resize(static_cast<std::size_t>(ranks));
    return;
  }
  if (rank_ < 0) {
    if (words.size() != 3 || words[0] != "rank" || words[2] != "{") fault("expected `rank N {`, got " + shown(words[0]));
    rank_ = static_cast<Rank>(whole(words[1], "a rank", static_cast<std::int64_t>(program_.ranks.size()) - 1));
    if (has_rank_[static_cast<std::size_t>(rank_)]) fault("rank " + std::to_string(rank_) + " occurs twice");
    has_rank_[static_cast<std::size_t>(rank_)] = true;
    return;
  }
  if (words.size() == 1 && words[0] == "}") return close_rank();
  if (words.size() == 3 && (words[1] == "requires" || words[1] == "irequires")) {
    keep(sizeof(Dependency) + sizeof(GoalEdge));
    dependencies_.push_back({find(words[0]), find(words[2]), words[1] == "irequires"});
    return;
  }
  const bool has_label = words.size() > 2 && words[1] == ":";
  operation(words, has_label ? 2 : 0);
  if (has_label) label(words[0], static_cast<std::uint32_t>(program_.ranks[static_cast<std::size_t>(rank_)].ops.size() - 1));
}

/// send SIZEb to RANK [tag T], recv SIZEb from RANK [tag T], calc NS; [cpu C] [nic N] are counted alone.
void GoalReader::operation(const std::vector<std::string_view>& words, std::size_t first) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const auto word = [&](std::size_t i) { return first + i < words.size() ? words[first + i] : std::string_view(); };
  GoalOp op;
  op.line = line_;
  std::size_t next = 0;
  bool is_elsewhere = false;
  const bool is_send = word(0) == "send";
  if (word(0) == "calc" && !word(1).empty()) {
    op.kind = GoalKind::calc;
    op.amount = static_cast<std::uint64_t>(whole(word(1), "calc", kMost));
    next = 2;
  } else if ((is_send && word(2) == "to") || (word(0) == "recv" && word(2) == "from")) {
    op.kind = is_send ? GoalKind::send : GoalKind::recv;
    std::string_view size = word(1);
    if (size.ends_with('b')) size.remove_suffix(1);
    op.amount = static_cast<std::uint64_t>(whole(size, "a size", kMost));
    const bool is_any = !is_send && (word(3) == "any" || word(3) == "-1");
    op.peer = is_any ? kAnySource
                     : static_cast<Rank>(whole(word(3), "a rank", static_cast<std::int64_t>(program_.ranks.size()) - 1));
    next = 4;
  } else {
    fault("an operation is `send SIZEb to RANK [tag T]`, `recv SIZEb from RANK [tag T]` or `calc NANOSECONDS`, or it is "
          "`LABEL requires LABEL` or `LABEL irequires LABEL`; got " + shown(words[0]));
  }
  const std::size_t options = next;
  for (; first + next < words.size(); next += 2) {
    const std::string_view name = word(next);
    for (std::size_t other = options; other < next; other += 2) {
      if (word(other) == name) fault(shown(name) + " stands twice behind an operation");
    }
    if (name == "tag" && op.kind == GoalKind::recv && (word(next + 1) == "-1" || word(next + 1) == "any")) {
      op.tag = kAnyTag;
    } else if (name == "tag" && op.kind != GoalKind::calc) {
      op.tag = static_cast<std::int32_t>(whole(word(next + 1), "a tag", INT32_MAX));
    } else if (name == "cpu" || name == "nic") {
      is_elsewhere = whole(word(next + 1), "cpu and nic", INT32_MAX) > 0 || is_elsewhere;
    } else {
      fault(shown(name) + " is not known here; behind an operation may stand tag T (of a message), cpu C and nic N");
    }
  }
  keep(sizeof op);
  if (is_elsewhere) ++program_.elsewhere;
  program_.ranks[static_cast<std::size_t>(rank_)].ops.push_back(op);
}

void GoalReader::label(std::string_view name, std::uint32_t op) {
  constexpr std::uint64_t kEntry = 64;  // of the table, the name apart
  label_bytes_ += kEntry + name.size();
  keep(kEntry + name.size());
  if (!labels_.try_emplace(std::string(name), op).second) fault("label " + shown(name) + " occurs twice in this rank");
}

std::uint32_t GoalReader::find(std::string_view name) const {
  const auto found = labels_.find(std::string(name));
  if (found == labels_.end()) fault("label " + shown(name) + " is not known above this line in this rank");
  return found->second;
}

/// The rank's edges, sorted by where they begin; every operation can be reached.
void GoalReader::close_rank() {
  GoalRank& rank = program_.ranks[static_cast<std::size_t>(rank_)];
  std::stable_sort(dependencies_.begin(), dependencies_.end(),
                   [](const Dependency& a, const Dependency& b) { return a.before < b.before; });
  rank.edges.reserve(dependencies_.size());
  std::size_t at = 0;
  for (std::uint32_t op = 0; op < rank.ops.size(); ++op) {
    rank.ops[op].first_edge = static_cast<std::uint32_t>(rank.edges.size());
    for (; at < dependencies_.size() && dependencies_[at].before == op; ++at) {
      rank.edges.push_back({dependencies_[at].after, dependencies_[at].is_start});
      ++rank.ops[dependencies_[at].after].waits_for;
    }
  }
  order(rank);
  rank.ops.shrink_to_fit();
  labels_.clear();
  used_bytes_ -= std::exchange(label_bytes_, 0) + dependencies_.size() * sizeof(Dependency);
  dependencies_.clear();
  rank_ = -1;
}

void GoalReader::order(GoalRank& rank) const {
  std::vector<std::uint32_t> missing;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t op = 0; op < rank.ops.size(); ++op) {
    missing.push_back(rank.ops[op].waits_for);
    if (missing.back() == 0) ready.push_back(op);
  }
  std::size_t reached = 0;
  while (!ready.empty()) {
    const std::uint32_t op = ready.back();
    ready.pop_back();
    ++reached;
    const std::size_t end = op + 1 < rank.ops.size() ? rank.ops[op + 1].first_edge : rank.edges.size();
    for (std::size_t e = rank.ops[op].first_edge; e < end; ++e) {
      if (--missing[rank.edges[e].to] == 0) ready.push_back(rank.edges[e].to);
    }
  }
  if (reached == rank.ops.size()) return;
  const auto stuck = std::find_if(missing.begin(), missing.end(), [](std::uint32_t n) { return n > 0; });
  fault("rank " + std::to_string(rank_) + ": " + std::to_string(rank.ops.size() - reached) +
        " operations require each other in a circle, among them that of line " +
        std::to_string(rank.ops[static_cast<std::size_t>(stuck - missing.begin())].line));
}

GoalProgram GoalReader::take() {
  if (!rest_.empty()) line(rest_);
  rest_.clear();
  if (program_.ranks.empty()) fault("the file is empty; GOAL begins with `num_ranks N`");
  if (rank_ >= 0) fault("rank " + std::to_string(rank_) + " is not closed with `}`");
  if (is_in_comment_) fault("a comment is not closed with `*/`");
  const auto there = static_cast<std::size_t>(std::count(has_rank_.begin(), has_rank_.end(), true));
  if (program_.ranks.size() > kMostMissing + there) {  // each takes memory and time, which the text does not show
    fault("num_ranks declares " + std::to_string(program_.ranks.size()) + " ranks, but only " + std::to_string(there) +
          " have a `rank N { }`; at most " + std::to_string(kMostMissing) +
          " may be left out: lower num_ranks, or write the others down as empty");
  }
  return std::move(program_);
}

}  // namespace labkit
