// The arguments of each action, as SimGrid's replay takes them.
#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "labkit/trace/ti_reader.hpp"

namespace labkit {
namespace {

enum class Form : std::uint8_t {
  amount, message, send_recv, key, wait_all, barrier, bcast, reduce, reduce_all, pair_rooted, pair, gatherv,
  scatterv, allgatherv, alltoallv, reduce_scatter, repeat, end, init, nothing
};

struct Verb {
  std::string_view name;
  Form form;
  TiAction action;
};

constexpr std::array kVerbs = {
    Verb{"compute", Form::amount, TiAction::compute},
    Verb{"sleep", Form::amount, TiAction::sleep},
    Verb{"send", Form::message, TiAction::send},
    Verb{"isend", Form::message, TiAction::isend},
    Verb{"recv", Form::message, TiAction::recv},
    Verb{"irecv", Form::message, TiAction::irecv},
    Verb{"bsend", Form::message, TiAction::bsend},
    Verb{"ibsend", Form::message, TiAction::ibsend},
    Verb{"ssend", Form::message, TiAction::ssend},
    Verb{"issend", Form::message, TiAction::issend},
    Verb{"Ssend", Form::message, TiAction::ssend},
    Verb{"ISsend", Form::message, TiAction::issend},
    Verb{"sendRecv", Form::send_recv, TiAction::send_recv},
    Verb{"wait", Form::key, TiAction::wait},
    Verb{"test", Form::key, TiAction::test},
    Verb{"waitall", Form::wait_all, TiAction::wait_all},
    Verb{"barrier", Form::barrier, TiAction::barrier},
    Verb{"bcast", Form::bcast, TiAction::bcast},
    Verb{"reduce", Form::reduce, TiAction::reduce},
    Verb{"allreduce", Form::reduce_all, TiAction::allreduce},
    Verb{"scan", Form::reduce_all, TiAction::scan},
    Verb{"exscan", Form::reduce_all, TiAction::exscan},
    Verb{"gather", Form::pair_rooted, TiAction::gather},
    Verb{"scatter", Form::pair_rooted, TiAction::scatter},
    Verb{"allgather", Form::pair, TiAction::allgather},
    Verb{"alltoall", Form::pair, TiAction::alltoall},
    Verb{"gatherv", Form::gatherv, TiAction::gatherv},
    Verb{"scatterv", Form::scatterv, TiAction::scatterv},
    Verb{"allgatherv", Form::allgatherv, TiAction::allgatherv},
    Verb{"alltoallv", Form::alltoallv, TiAction::alltoallv},
    Verb{"reducescatter", Form::reduce_scatter, TiAction::reduce_scatter},
    Verb{"repeat", Form::repeat, TiAction::barrier},
    Verb{"end", Form::end, TiAction::barrier},
    Verb{"init", Form::init, TiAction::barrier},
    Verb{"finalize", Form::nothing, TiAction::barrier},
    Verb{"comm_size", Form::nothing, TiAction::barrier},
    Verb{"comm_split", Form::nothing, TiAction::barrier},
    Verb{"comm_dup", Form::nothing, TiAction::barrier},
    Verb{"location", Form::nothing, TiAction::barrier}};

const Verb* find(std::string_view name) {
  static const std::unordered_map<std::string_view, const Verb*> table = [] {
    std::unordered_map<std::string_view, const Verb*> made;
    for (const Verb& verb : kVerbs) made.emplace(verb.name, &verb);
    return made;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

/// Bytes of SimGrid's predefined datatypes, by number (as its tracing writes them).
constexpr std::array<std::uint8_t, 50> kElements = {
    8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8,
    8, 16, 32, 8, 8, 8, 16, 16, 8, 8, 8, 16, 16, 4, 4, 8, 16, 8, 16, 16, 4, 2, 4, 8, 16};

std::string list_of_verbs() {
  std::string text;
  for (const Verb& verb : kVerbs) {
    if (verb.name[0] < 'a') continue;
    text += (text.empty() ? "" : " ") + std::string(verb.name);
  }
  return text;
}

/// The options that mean something for an action.
std::uint32_t options_of(Form form, std::size_t arguments) {
  switch (form) {
    case Form::amount: case Form::repeat: case Form::end: case Form::init: case Form::nothing: return 0;
    case Form::message: return kComm | kElement | kMode;
    case Form::send_recv: return kComm | kElement;
    case Form::key: return kComm | kNth;
    case Form::wait_all: return arguments > 1 ? kComm : 0;  // without keys: whatever is open
    case Form::barrier: return kComm;
    case Form::reduce: case Form::reduce_all: case Form::reduce_scatter: return kComm | kElement | kOrder | kCut;
    default: return kComm | kElement;
  }
}

}  // namespace

std::int64_t TiReader::element(std::size_t i) const {
  if (element_ > 0) return 1;
  if (!has(i)) return default_element_[static_cast<std::size_t>(rank_)];
  std::int64_t number = -1;
  const std::string_view word = words_[i];
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error == std::errc() && end == word.data() + word.size();
  if (is_whole && number >= 0 && number < static_cast<std::int64_t>(kElements.size())) {
    return kElements[static_cast<std::size_t>(number)];
  }
  if (is_whole && number == 57) return 1;   // MPI_PACKED
  if (is_whole && number == 59) return 8;   // MPI_COUNT
  fault("a datatype is a number from 0 to 49 (0 double, 1 int, 2 char, 3 short, 4 long, 5 float, 6 byte), got " + shown(word));
}

void TiReader::action_line() {
  options();
  const Verb* verb = find(verb_);
  if (verb == nullptr) {
    fault("action " + shown(verb_) + " is not known; the format has " + list_of_verbs());
  }
  if (is_over_[static_cast<std::size_t>(rank_)] != 0 && verb->form != Form::amount && verb->form != Form::nothing && verb->form != Form::end) {
    fault(shown(verb_) + " after the finalize of rank " + std::to_string(rank_) +
          ": a rank makes no call of MPI after it; does the file hold two traces?");
  }
  record_.action = verb->action;
  refuse_options(options_of(verb->form, words_.size()));
  switch (verb->form) {
    case Form::nothing:
      if (verb_ == "location") return;  // a place in a source
      if (verb_ == "finalize") is_over_[static_cast<std::size_t>(rank_)] = 1;
      if (verb_ == "comm_size") return need(0, 1, "comm_size [size]");
      return need(0, 0, verb->name.data());
    case Form::repeat: case Form::end: return loop(verb->form == Form::repeat);
    case Form::init:
      need(0, 1, "init [datatype]");
      default_element_[static_cast<std::size_t>(rank_)] = has(0) ? 8 : 1;
      return;
    case Form::amount:
      need(1, 1, verb->action == TiAction::sleep ? "sleep seconds" : "compute flops");
      record_.amount = amount(0, verb->action == TiAction::sleep ? "seconds" : "flops");
      break;
    case Form::message: point_to_point(verb->action); break;
    case Form::send_recv:
      need(4, 6, "sendRecv count destination count source [datatype datatype]");
      record_.args = {bytes(size(0, "count"), element(4)), peer(1, "destination"),
                      bytes(size(2, "count"), element(5)), source(3)};
      break;
    case Form::key:
      need(3, 3, verb->action == TiAction::wait ? "wait source destination tag" : "test source destination tag");
      key(0);
      break;
    case Form::wait_all: wait_all(); break;
    case Form::barrier:
      need(0, 0, "barrier");
      (void)members();
      break;
    case Form::bcast:
      need(1, 3, "bcast count [root [datatype]]");
      record_.args = {size(0, "count"), element(2), root(1)};
      cut_in_elements();
      break;
    case Form::reduce: case Form::reduce_all: reduction(verb->action); break;
    case Form::pair_rooted: case Form::pair: pair_of_sizes(verb->action); break;
    case Form::gatherv: case Form::scatterv: vector_rooted(verb->action); break;
    case Form::allgatherv: case Form::alltoallv: case Form::reduce_scatter: vector_all(verb->action); break;
  }
  remember();
}

/// `repeat times` ... `end`: what stands between is done so many times; loops may hold loops.
void TiReader::loop(bool is_begin) {
  TiCode& code = trace_.ranks[static_cast<std::size_t>(rank_)].code;
  if (!is_begin) {
    need(0, 0, "end");
    if (code.open_loops() == 0) fault("rank " + std::to_string(rank_) + " has no loop to end: `repeat` opens one");
    if (!code.end_loop()) fault("the loop repeats nothing, or more than 2^43 actions");
    return;
  }
  need(1, 1, "repeat times");
  if (code.open_loops() >= kMostLoops) fault("loops are in one another " + std::to_string(kMostLoops) + " deep at most");
  if (!code.begin_loop(static_cast<std::uint64_t>(whole(0, "the number of times", 1, std::int64_t{1} << 43)))) {
    fault("loops that repeat more than 2^43 actions");
  }
}

void TiReader::point_to_point(TiAction action) {
  const bool is_receive = action == TiAction::recv || action == TiAction::irecv;
  need(3, 4, is_receive ? "recv source tag count [datatype]" : "send destination tag count [datatype]");
  const std::int64_t other = is_receive ? source(0) : peer(0, "destination");
  const std::int64_t label = tag(1, is_receive);
  const std::int64_t elements = whole(2, "count", is_receive ? -1 : 0, std::int64_t{1} << 50);
  record_.args = {other, label, elements < 0 ? -1 : bytes(elements, element(3))};
}

void TiReader::key(std::size_t first) {
  record_.args.push_back(source(first));
  record_.args.push_back(peer(first + 1, "destination"));
  record_.args.push_back(tag(first + 2, true));
}

void TiReader::wait_all() {
  if (words_.size() % 3 != 1 && !words_.empty()) {
    fault("waitall is written `rank waitall count`, for some of the open requests followed by source, destination "
          "and tag of each; got " + std::to_string(words_.size()) + " arguments");
  }
  record_.args.push_back(words_.empty() ? 0 : size(0, "count"));
  for (std::size_t i = 1; i < words_.size(); i += 3) key(i);
}

void TiReader::reduction(TiAction action) {
  const bool is_rooted = action == TiAction::reduce;
  need(2, is_rooted ? 4 : 3, is_rooted ? "reduce count flops [root [datatype]]" : "allreduce count flops [datatype]");
  record_.amount = amount(1, "flops");
  record_.args = {size(0, "count"), element(is_rooted ? 3 : 2)};
  cut_in_elements();
  if (is_rooted) record_.args.push_back(root(2));
  (void)members();
}

/// element=N: the count is of bytes, and the message may be cut at multiples of N only.
void TiReader::cut_in_elements() {
  if (element_ == 0) return;
  if (record_.args[0] % element_ != 0) {
    fault("a message of " + std::to_string(record_.args[0]) + " bytes is no multiple of element=" + std::to_string(element_));
  }
  record_.args[0] /= element_;
  record_.args[1] = element_;
}

void TiReader::pair_of_sizes(TiAction action) {
  const bool is_rooted = action == TiAction::gather || action == TiAction::scatter;
  const std::size_t types = is_rooted ? 3 : 2;
  need(2, types + 2, is_rooted ? "gather count count [root [datatype datatype]]" : "alltoall count count [datatype datatype]");
  record_.args = {bytes(size(0, "count sent"), element(types)), bytes(size(1, "count received"), element(types + 1))};
  if (is_rooted) record_.args.push_back(root(2));
  (void)members();
  if (!is_rooted && record_.args[0] != record_.args[1]) {
    fault("it sends blocks of " + std::to_string(record_.args[0]) + " bytes and receives blocks of " +
          std::to_string(record_.args[1]) + "; both must be the same");
  }
}

void TiReader::vector_rooted(TiAction action) {
  const bool is_gather = action == TiAction::gatherv;
  const auto p = static_cast<std::size_t>(members());
  need(p + 1, p + 4, is_gather ? "gatherv count-sent, a count received of each rank, [root [datatype datatype]]"
                               : "scatterv a count sent to each rank, count-received, [root [datatype datatype]]");
  const std::size_t table = is_gather ? 1 : 0;
  const std::int64_t sent = element(p + 2);
  const std::int64_t received = element(p + 3);
  record_.args.push_back(root(p + 1));
  record_.args.push_back(bytes(size(is_gather ? 0 : p, "count"), is_gather ? sent : received));
  table_of(table, p, is_gather ? received : sent);
}

void TiReader::table_of(std::size_t first, std::size_t p, std::int64_t element_bytes) {
  for (std::size_t i = 0; i < p; ++i) record_.args.push_back(bytes(size(first + i, "count"), element_bytes));
}

void TiReader::vector_all(TiAction action) {
  const auto p = static_cast<std::size_t>(members());
  if (action == TiAction::reduce_scatter) {
    need(p + 1, p + 2, "reducescatter a count of each rank, flops [datatype]");
    record_.amount = amount(p, "flops");
    table_of(0, p, element(p + 1));
  } else if (action == TiAction::allgatherv) {
    need(p + 1, p + 3, "allgatherv count-sent, a count received of each rank, [datatype datatype]");
    record_.args.push_back(bytes(size(0, "count"), element(p + 1)));
    table_of(1, p, element(has(p + 2) ? p + 2 : p + 1));
  } else {
    need(2 * p + 2, 2 * p + 4,
         "alltoallv buffer-size, a count sent to each rank, buffer-size, a count received of each rank, [datatype datatype]");
    record_.args.push_back(static_cast<std::int64_t>(p));
    table_of(1, p, element(2 * p + 2));
    table_of(p + 2, p, element(has(2 * p + 3) ? 2 * p + 3 : 2 * p + 2));
  }
}

}  // namespace labkit
