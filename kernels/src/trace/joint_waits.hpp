// Wait states of collectives: of the calls as a whole, and inside trees and neighborhoods.
#pragma once

#include <vector>

#include "call_index.hpp"
#include "labkit/trace/wait_states.hpp"
#include "placed_waits.hpp"

namespace labkit {

/// A state as it stands in the columns.
constexpr std::uint8_t number(WaitState state) { return static_cast<std::uint8_t>(state); }

/// Adds the waits of whole collectives, and their meetings.
void find_joint_waits(const CallColumns& calls, const BlockedColumns& blocked, WaitStates& found);

/// Waits for a message inside a collective, in which not everybody needs everybody: a simulated run knows them.
/// The message came late because its sender entered late, or because the sender waited for one who did.
class InnerWaits {
 public:
  InnerWaits(const CallIndex& index, const CallColumns& calls, const MessageColumns& messages,
             const BlockedColumns& blocked, std::int32_t ranks);
  /// Takes the rows in the order of their ends. Of trees and scans what others had to pass on blocked the rank, behind
  /// what was on time.
  void add(std::size_t row, std::int32_t call, std::vector<Wait>& waits, std::vector<Blocking>& blockings);
  /// A wait among neighbors of a real run, which tells for whom it was.
  void add_told(std::size_t row, std::int32_t call, std::vector<Wait>& waits) const;

 private:
  struct Row {
    Time end_s;
    Time came_s;              ///< the latest begin of a call on which the rank depends in this call from then on
    std::int32_t cause_call;  ///< that call
    std::int32_t call;
    std::int32_t before;      ///< the rank's row before this one; -1: none
  };

  /// Keeps a row for what the rank passes on: that depends on all that came to it in the call.
  void keep(Row found, std::int32_t rank);
  /// The source's call in a collective: the one that posted a message then, or that began it before; -1: none.
  [[nodiscard]] std::int32_t sending(std::int32_t source, Time posted_s, std::int32_t joint, bool is_begun) const;

  const CallIndex& index_;
  const CallColumns& calls_;
  const MessageColumns& messages_;
  const BlockedColumns& blocked_;
  std::vector<Row> rows_;
  std::vector<std::int32_t> last_;  ///< by rank
};

}  // namespace labkit
