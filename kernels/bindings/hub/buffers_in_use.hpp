// Memory of nonblocking sends and receives that have not been waited for: it is MPI's until then.
//
// Nothing may write what a send reads, and nothing may read or write what a receive writes. Two receives into the same
// memory are reported only where different bytes come: programs that measure bandwidth let a window of messages come
// into one buffer that they never read.
#pragma once

#include <cstdint>
#include <vector>

#include "hub/findings.hpp"
#include "mpi/payload.hpp"

namespace labkit::bindings {

class BuffersInUse {
 public:
  /// The number of a use, from 1; what its request keeps.
  using Handle = std::uint32_t;
  [[nodiscard]] bool is_used(Rank rank) const {
    return static_cast<std::size_t>(rank) < by_rank_.size() && !by_rank_[static_cast<std::size_t>(rank)].all.empty();
  }
  enum class Clash : std::uint8_t { none, with_send, with_receive };

  /// A rank is about to use memory: is it that of a request?
  Clash look(Rank rank, const char* data, std::uint64_t bytes, bool is_written);
  /// A request uses memory from now on; `receive` is its payload, nullptr: a send.
  [[nodiscard]] Handle begin(Rank rank, const char* data, std::uint64_t bytes, Payload* receive);
  /// The handle becomes 0; 0: nothing happens.
  void end(Handle& handle);
  /// A receive whose memory another one has, too (Payload::clash), gets its message.
  void delivered(const Payload& to, std::uint64_t sum);
  /// Whether such a receive is the first one whose line is not known; then it is posted by the call at this line.
  [[nodiscard]] bool needs_line(const Payload& receive) const { return receive.clash != 0 && groups_[receive.clash - 1].line < 0; }
  void set_line(const Payload& receive, Rank rank, std::int32_t line);
  [[nodiscard]] const Findings& findings() const { return findings_; }

 private:
  struct Use {
    const char* begin;
    const char* end;
    Payload* receive;
    Handle handle;
  };
  struct Uses {
    std::vector<Use> all;
    std::uint32_t receives = 0;
    const char* low = nullptr;  ///< of all since there was none
    const char* high = nullptr;
  };
  struct Place {
    Rank rank = 0;
    std::uint32_t index = 0;
  };
  /// Receives that have memory in common.
  struct Group {
    std::uint64_t sum = 0;
    bool has_sum = false;
    Rank rank = -1;
    std::int32_t line = -1;
  };
  static constexpr std::uint64_t kMostSteps = 20'000'000;  // of all searches: then nothing is looked for any more
  static constexpr std::size_t kMostGroups = 64;  // a program that does so in each step shows soon whether it matters

  void join(Payload& mine, Payload& other, const char* data, std::uint64_t bytes);

  std::vector<Uses> by_rank_;
  std::vector<Place> places_;  // by handle - 1
  std::vector<Handle> free_;
  std::vector<Group> groups_;
  std::uint64_t steps_ = 0;
  Findings findings_;
};

}  // namespace labkit::bindings
