// What happened: counters always, one row per message when asked for.
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
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// In order of completion.
  [[nodiscard]] const std::vector<MessageRecord>& rows() const { return rows_; }

 private:
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<MessageRecord> rows_;
  bool is_kept_ = false;
};

}  // namespace labkit
