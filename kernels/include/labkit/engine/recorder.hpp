// What happened: counters always; rows of messages, waits and computations when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "labkit/engine/rows.hpp"
#include "labkit/engine/types.hpp"

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
  static constexpr std::int64_t kProbe = -1;
  static constexpr std::int64_t by_operation(std::int64_t row) { return -2 - row; }
  Rank rank;
  std::int32_t operation;  ///< row of the rank's operation whose agent waited, -1: the rank itself
  Time begin_s;
  Time end_s;
  std::int64_t message;  ///< its row, kProbe, or by_operation(row): an operation of the rank's was over
};

/// An operation went on beside its rank: a nonblocking collective.
struct OperationRecord {
  Rank rank;
  Time begin_s;
  Time end_s;  ///< kNever: it was not over when the run ended
  std::string name;
};

/// A message that was posted by the agent of an operation, on either side.
struct SidesRecord {
  std::int64_t message;           ///< its row
  std::int32_t send_operation;    ///< row, -1: posted by the rank itself
  std::int32_t recv_operation;
};

/// A rank computed (or slept, or looked whether a message had come).
struct ComputationRecord {
  Rank rank;
  Time begin_s;
  Time end_s;
  double alone_s;  ///< how long it takes on a core of its own
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
  /// Of the message that was kept last.
  [[nodiscard]] std::int64_t last_row() const { return static_cast<std::int64_t>(rows_.size()) - 1; }
  /// A request is posted by an operation (-1: by its rank); a message may outlive the operation that sent it.
  void posted_by(std::uint32_t request, std::int32_t operation) {
    if (request >= posters_.size()) posters_.resize(request + 1, -1);
    posters_[request] = operation;
  }
  void keep_sides(std::uint32_t send, std::uint32_t receive) {
    if (posters_[send] >= 0 || posters_[receive] >= 0) {
      sides_.push_back({last_row(), posters_[send], posters_[receive]});
    }
  }
  void keep_wait(const WaitRecord& record) {
    if (is_kept_ && record.end_s > record.begin_s) waits_.push_back(record);
  }
  /// An operation begins: its row, -1 where nothing is kept.
  std::int32_t begin_operation(Rank rank, Time begin_s, std::string name) {
    if (!is_kept_) return -1;
    operations_.push_back({rank, begin_s, kNever, std::move(name)});
    return static_cast<std::int32_t>(operations_.size()) - 1;
  }
  void end_operation(std::int32_t row, Time end_s) {
    if (row >= 0) operations_[static_cast<std::size_t>(row)].end_s = end_s;
  }
  /// Computations one right after the other are one.
  void keep_computation(Rank rank, Time begin_s, Time end_s, double alone_s) {
    if (!is_kept_ || end_s <= begin_s) return;
    if (!computations_.empty() && computations_.back().rank == rank && computations_.back().end_s == begin_s) {
      computations_.back().end_s = end_s;
      computations_.back().alone_s += alone_s;
    } else {
      computations_.push_back({rank, begin_s, end_s, alone_s});
    }
  }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// In order of completion.
  [[nodiscard]] const Rows<MessageRecord>& rows() const { return rows_; }
  [[nodiscard]] Rows<MessageRecord>& rows() { return rows_; }
  /// In order of their ends.
  [[nodiscard]] const Rows<WaitRecord>& waits() const { return waits_; }
  [[nodiscard]] Rows<WaitRecord>& waits() { return waits_; }
  /// Of one rank: in order.
  [[nodiscard]] const Rows<ComputationRecord>& computations() const { return computations_; }
  [[nodiscard]] Rows<ComputationRecord>& computations() { return computations_; }
  /// In order of their begins, as the engine saw them.
  [[nodiscard]] const std::vector<OperationRecord>& operations() const { return operations_; }
  [[nodiscard]] const std::vector<SidesRecord>& sides() const { return sides_; }

 private:
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  Rows<MessageRecord> rows_;
  Rows<WaitRecord> waits_;
  Rows<ComputationRecord> computations_;
  std::vector<OperationRecord> operations_;
  std::vector<SidesRecord> sides_;
  std::vector<std::int32_t> posters_;  ///< by request, while messages are kept
  bool is_kept_ = false;
};

}  // namespace labkit
