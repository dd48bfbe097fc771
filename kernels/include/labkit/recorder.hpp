// What happened: counters always; rows of messages, waits and computations when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "labkit/types.hpp"

namespace labkit {

/// One message, from post to end. Times in seconds.
struct MessageRecord {
  Rank source;
  Rank destination;
  std::int32_t tag;
  Context context;
  std::uint64_t bytes;   ///< payload
  Time send_posted_s;    ///< the sender's clock, overhead included
  Time recv_posted_s;
  Time start_s;          ///< the flow's start (begin of its latency phase)
  Time arrived_s;        ///< the flow's end
  Time end_s;            ///< the receive is complete: the flow has ended and the receive was posted
  std::uint32_t way;     ///< of several routes the one it took (Router::choose); 0 where there is but one
};

/// A rank had nothing to do until a message ended (or, for a probe, until it was sent).
struct WaitRecord {
  Rank rank;
  Time begin_s;
  Time end_s;
  std::int64_t message;  ///< its row, -1 for a probe
};

/// A rank computed.
struct ComputationRecord {
  Rank rank;
  Time begin_s;
  Time end_s;
};

class Recorder {
 public:
  void keep_messages(bool is_kept) { is_kept_ = is_kept; }
  [[nodiscard]] bool keeps_messages() const { return is_kept_; }
  /// A message's flow has started (self-messages count too).
  void count(std::uint64_t bytes) {
    ++messages_;
    bytes_ += bytes;
  }
  void keep(const MessageRecord& record) { rows_.push_back(record); }
  /// The message whose row was kept last ended a wait (no row: a probe).
  void keep_wait(Rank rank, Time begin_s, Time end_s, bool has_row) {
    if (is_kept_ && end_s > begin_s) {
      waits_.push_back({rank, begin_s, end_s, has_row ? static_cast<std::int64_t>(rows_.size()) - 1 : -1});
    }
  }
  /// Computations one right after the other are one.
  void keep_computation(Rank rank, Time begin_s, Time end_s) {
    if (!is_kept_ || end_s <= begin_s) return;
    if (!computations_.empty() && computations_.back().rank == rank && computations_.back().end_s == begin_s) {
      computations_.back().end_s = end_s;
    } else {
      computations_.push_back({rank, begin_s, end_s});
    }
  }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// In order of completion.
  [[nodiscard]] const std::vector<MessageRecord>& rows() const { return rows_; }
  /// In order of their ends.
  [[nodiscard]] const std::vector<WaitRecord>& waits() const { return waits_; }
  /// Of one rank: in order.
  [[nodiscard]] const std::vector<ComputationRecord>& computations() const { return computations_; }

 private:
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<MessageRecord> rows_;
  std::vector<WaitRecord> waits_;
  std::vector<ComputationRecord> computations_;
  bool is_kept_ = false;
};

}  // namespace labkit
