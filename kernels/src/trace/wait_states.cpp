// Wait states of messages; those of collectives are in joint_waits.cpp.
#include "labkit/trace/wait_states.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "call_index.hpp"
#include "joint_waits.hpp"
#include "placed_waits.hpp"

namespace labkit {
namespace {

/// The messages to each rank in each communicator, in the order of their receives, and which of those not yet received was sent first.
class Inboxes {
 public:
  Inboxes(std::int32_t ranks, const MessageColumns& messages) : messages_(messages), first_(static_cast<std::size_t>(ranks) + 1) {
    const std::size_t count = messages.source.size();
    for (const std::size_t size : {messages.destination.size(), messages.context.size(), messages.send_posted_s.size(),
                                   messages.recv_posted_s.size()}) {
      if (size != count) throw std::invalid_argument("the columns of the messages differ in length");
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (messages.destination[i] < 0 || messages.destination[i] >= ranks || messages.source[i] < 0 ||
          messages.source[i] >= ranks) {
        throw std::invalid_argument("a message is from or to a rank that there is not");
      }
      ++first_[static_cast<std::size_t>(messages.destination[i]) + 1];
    }
    for (std::size_t r = 0; r + 1 < first_.size(); ++r) first_[r + 1] += first_[r];
    order_.resize(count);
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t i = 0; i < count; ++i) {
      order_[next[static_cast<std::size_t>(messages.destination[i])]++] = static_cast<std::int32_t>(i);
    }
    earliest_.resize(count);
    for (std::size_t r = 0; r + 1 < first_.size(); ++r) {
      const auto low = order_.begin() + static_cast<std::ptrdiff_t>(first_[r]);
      const auto high = order_.begin() + static_cast<std::ptrdiff_t>(first_[r + 1]);
      std::stable_sort(low, high, [&](std::int32_t a, std::int32_t b) {
        return context(a) != context(b) ? context(a) < context(b) : received(a) < received(b);
      });
      for (std::size_t i = first_[r + 1]; i-- > first_[r];) {
        const bool is_last = i + 1 == first_[r + 1] || context(order_[i + 1]) != context(order_[i]);
        earliest_[i] = is_last || sent(order_[i]) <= sent(earliest_[i + 1]) ? order_[i] : earliest_[i + 1];
      }
    }
  }

  /// Of the messages of a communicator whose receives a rank posted from a time on, the one that was sent first;
  /// -1: none.
  [[nodiscard]] std::int32_t earliest_after(std::int32_t rank, std::int32_t of_context, double when_s) const {
    const auto index = static_cast<std::size_t>(rank);
    const auto low = order_.begin() + static_cast<std::ptrdiff_t>(first_[index]);
    const auto high = order_.begin() + static_cast<std::ptrdiff_t>(first_[index + 1]);
    const auto found = std::lower_bound(low, high, when_s, [&](std::int32_t row, double when) {
      return context(row) != of_context ? context(row) < of_context : received(row) < when;
    });
    return found == high || context(*found) != of_context ? -1 : earliest_[static_cast<std::size_t>(found - order_.begin())];
  }

  /// The message that ended a probe: sent to the rank at that instant, and received from then on; -1: not known.
  [[nodiscard]] std::int32_t sent_at(std::int32_t rank, double when_s) {
    if (by_sent_.empty()) {  // few runs have probes
      by_sent_ = order_;
      for (std::size_t r = 0; r + 1 < first_.size(); ++r) {
        std::stable_sort(by_sent_.begin() + static_cast<std::ptrdiff_t>(first_[r]),
                         by_sent_.begin() + static_cast<std::ptrdiff_t>(first_[r + 1]),
                         [&](std::int32_t a, std::int32_t b) { return sent(a) < sent(b); });
      }
    }
    const auto index = static_cast<std::size_t>(rank);
    const auto high = by_sent_.begin() + static_cast<std::ptrdiff_t>(first_[index + 1]);
    auto at = std::lower_bound(by_sent_.begin() + static_cast<std::ptrdiff_t>(first_[index]), high, when_s,
                               [&](std::int32_t row, double when) { return sent(row) < when; });
    while (at != high && sent(*at) == when_s && received(*at) < when_s) ++at;
    return at != high && sent(*at) == when_s ? *at : -1;
  }

 private:
  [[nodiscard]] double sent(std::int32_t row) const { return messages_.send_posted_s[static_cast<std::size_t>(row)]; }
  [[nodiscard]] std::int32_t context(std::int32_t row) const { return messages_.context[static_cast<std::size_t>(row)]; }
  [[nodiscard]] double received(std::int32_t row) const { return messages_.recv_posted_s[static_cast<std::size_t>(row)]; }

  const MessageColumns& messages_;
  std::vector<std::size_t> first_;
  std::vector<std::int32_t> order_;     ///< by destination, communicator and post of the receive
  std::vector<std::int32_t> by_sent_;   ///< by destination, then by post of the send; empty until it is asked
  std::vector<std::int32_t> earliest_;  ///< from this place on to the last of these
};

void check(std::int32_t ranks, const BlockedColumns& blocked, const MessageColumns& sent, std::size_t calls) {
  const std::size_t messages = sent.source.size();
  if (!sent.sent_in.empty() && sent.sent_in.size() != messages) {
    throw std::invalid_argument("the columns of the messages differ in length");
  }
  for (const std::int32_t call : sent.sent_in) {
    if (call < -1 || call >= static_cast<std::int64_t>(calls)) throw std::invalid_argument("a message was sent in a call that there is not");
  }
  const std::size_t count = blocked.rank.size();
  for (const std::size_t size : {blocked.begin_s.size(), blocked.end_s.size(), blocked.message.size(), blocked.begun.size()}) {
    if (size != count) throw std::invalid_argument("the columns of the waits differ in length");
  }
  if ((!blocked.ready_s.empty() && blocked.ready_s.size() != count) || blocked.ready_s.size() != blocked.origin.size()) {
    throw std::invalid_argument("the columns of the waits differ in length");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_known = blocked.rank[i] >= 0 && blocked.rank[i] < ranks &&
                          blocked.message[i] < static_cast<std::int64_t>(messages) &&
                          blocked.begun[i] < static_cast<std::int64_t>(calls) &&
                          (blocked.origin.empty() || (blocked.origin[i] >= 0 && blocked.origin[i] < ranks));
    if (!is_known) throw std::invalid_argument("a wait is of a rank, for a message or in a call that there is not");
  }
}

class Finder {
 public:
  Finder(std::int32_t ranks, const CallColumns& calls, const MessageColumns& messages, const BlockedColumns& blocked,
         std::vector<Wait>& waits)
      : ranks_(ranks), calls_(calls), messages_(messages), blocked_(blocked), index_(ranks, calls), inboxes_(ranks, messages),
        inner_(index_, calls, messages, blocked, ranks), waits_(waits) {
    check(ranks, blocked, messages, calls.rank.size());
  }

  /// Puts known waits and those of messages on the time lines.
  void find() {
    std::vector<std::size_t> order(blocked_.rank.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return blocked_.end_s[a] < blocked_.end_s[b]; });
    for (const std::size_t row : order) {
      const std::int32_t call = index_.at(blocked_.rank[row], blocked_.begin_s[row]);
      const bool is_told = !blocked_.origin.empty() && blocked_.message[row] < 0;
      if (is_told && is_of(Pattern::neighbors, blocked_.begun[row] >= 0 ? blocked_.begun[row] : call)) {
        inner_.add_told(row, call, waits_);
        continue;
      }
      if (blocked_.begun[row] >= 0) {  // a collective's: found with it, unless it is one of neighbors
        if (call >= 0 && is_of(Pattern::neighbors, blocked_.begun[row])) inner_.add(row, call, waits_, blockings_);
        continue;
      }
      const bool is_joint = call >= 0 && calls_.pattern[static_cast<std::size_t>(call)] != 0;
      if (is_joint) {
        inner_.add(row, call, waits_, blockings_);
      } else if (blocked_.message[row] < 0) {
        probe(row, call);
      } else {
        message(row, call);
      }
    }
    PlacedWaits placed(ranks_, calls_, blocked_, order, waits_);
    for (const Blocking& one : blockings_) placed.add(one);
    waits_ = placed.taken();
  }

 private:
  [[nodiscard]] bool is_of(Pattern pattern, std::int32_t call) const {
    return call >= 0 && calls_.pattern[static_cast<std::size_t>(call)] == static_cast<std::uint8_t>(pattern);
  }

  void message(std::size_t row, std::int32_t call) {
    Wait wait = started(row, call);
    const auto message = static_cast<std::size_t>(wait.message);
    const std::int32_t source = messages_.source[message], destination = messages_.destination[message];
    if (source == destination) return;
    const bool is_receiver = wait.rank == destination;
    wait.cause = is_receiver ? source : destination;
    wait.until_s = blocked_.end_s[row];
    const std::int32_t sent = sent_in(message), received = index_.at(destination, messages_.recv_posted_s[message]);
    wait.cause_call = is_receiver ? sent : received;
    const Time posted_s = is_receiver ? messages_.send_posted_s[message] : messages_.recv_posted_s[message];
    const Time came_s = wait.cause_call < 0 ? posted_s : calls_.begin_s[static_cast<std::size_t>(wait.cause_call)];
    const std::int32_t own = is_receiver ? received : sent;
    const std::int32_t own_call = own > call ? call : own;  // of a probe whose message is known: it is received later
    const std::int32_t first = own_call < 0 ? call : own_call;
    if (came_s <= (first < 0 ? wait.begin_s : calls_.begin_s[static_cast<std::size_t>(first)])) return;
    wait.state = number(is_receiver ? order_of(message, wait.until_s) : WaitState::late_receiver);
    blockings_.push_back({wait, std::min(came_s, wait.until_s), own_call});
  }

  /// The call that sent a message; -1: none.
  [[nodiscard]] std::int32_t sent_in(std::size_t message) const {
    if (!messages_.sent_in.empty()) return messages_.sent_in[message];
    return index_.at(messages_.source[message], messages_.send_posted_s[message]);
  }

  [[nodiscard]] WaitState order_of(std::size_t message, Time end_s) const {
    const std::int32_t other = inboxes_.earliest_after(messages_.destination[message], messages_.context[message], end_s);
    if (other < 0) return WaitState::late_sender;
    const auto row = static_cast<std::size_t>(other);
    if (messages_.send_posted_s[row] >= messages_.send_posted_s[message]) return WaitState::late_sender;
    return messages_.source[row] == messages_.source[message] ? WaitState::wrong_order_same_source
                                                              : WaitState::wrong_order_other_source;
  }

  void probe(std::size_t row, std::int32_t call) {
    Wait wait = started(row, call);
    wait.until_s = blocked_.end_s[row];
    wait.state = number(WaitState::late_sender);
    wait.message = inboxes_.sent_at(wait.rank, wait.until_s);
    if (wait.message >= 0) {
      wait.cause = messages_.source[static_cast<std::size_t>(wait.message)];
      wait.cause_call = index_.at(wait.cause, wait.until_s);
      if (wait.cause_call >= 0) wait.until_s = std::min(wait.until_s, calls_.begin_s[static_cast<std::size_t>(wait.cause_call)]);
      if (wait.cause == wait.rank) return;
      wait.state = number(order_of(static_cast<std::size_t>(wait.message), blocked_.end_s[row]));
    }
    if (wait.until_s > wait.begin_s) waits_.push_back(wait);
  }

  [[nodiscard]] Wait started(std::size_t row, std::int32_t call) const {
    Wait wait;
    wait.begin_s = blocked_.begin_s[row];
    wait.rank = blocked_.rank[row];
    wait.call = call;
    wait.message = blocked_.message[row];
    return wait;
  }

  std::int32_t ranks_;
  const CallColumns& calls_;
  const MessageColumns& messages_;
  const BlockedColumns& blocked_;
  CallIndex index_;
  Inboxes inboxes_;
  InnerWaits inner_;
  std::vector<Wait>& waits_;         ///< whose times are known, until they all are
  std::vector<Blocking> blockings_;  ///< by end
};

}  // namespace

WaitStates find_wait_states(std::int32_t ranks, const CallColumns& calls, const MessageColumns& messages,
                            const BlockedColumns& blocked, std::span<const Wait> given) {
  WaitStates found;
  found.waits.assign(given.begin(), given.end());
  for (const Wait& wait : given) {
    if (wait.rank < 0 || wait.rank >= ranks || wait.cause < -1 || wait.cause >= ranks) {
      throw std::invalid_argument("a given wait is of or for a rank that there is not");
    }
  }
  {
    Finder finder(ranks, calls, messages, blocked, found.waits);
    find_joint_waits(calls, blocked, found);  // these first: what is inside them has less to say
    finder.find();
  }
  return found;
}

}  // namespace labkit
