// What each rank sends and receives, and how many rounds that takes: kept when asked for.
//
// A round is what one message takes where every rank sends one and receives one at a time and nothing else
// takes time: a send leaves in the round after the last one that its rank has sent in, or knows of. A rank
// knows of a message when it has waited for it, so a receive posted early binds nobody.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

/// Of one rank.
struct RankCounts {
  std::uint64_t sent = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received = 0;
  std::uint64_t received_bytes = 0;
  std::uint32_t last_out = 0;  ///< the last round in which it has sent
  std::uint32_t last_in = 0;   ///< the last round in which it has received
  /// Rounds that have passed for it.
  [[nodiscard]] std::uint32_t rounds() const { return std::max(last_out, last_in); }
};

/// What a rank has sent from one place of its program.
struct PlaceCounts {
  std::uint64_t sent = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t empty = 0;  ///< of them without payload
};

/// Actors are ranks, and behind them agents: each knows of other messages, but shares its rank's ports.
class Counts {
 public:
  explicit Counts(std::size_t ranks) : ranks_(ranks), knows_(ranks, 0) {}

  /// A message of `slot` leaves.
  void sent(Rank owner, Rank actor, std::uint32_t slot, std::uint64_t bytes) {
    RankCounts& mine = ranks_[static_cast<std::size_t>(owner)];
    ++mine.sent;
    mine.sent_bytes += bytes;
    mine.last_out = std::max(mine.last_out, knows(actor)) + 1;
    round_of(slot) = mine.last_out;
    if (has_places_) {
      PlaceCounts& here = by_place_[key(owner, place(is_agent(actor) ? actor : owner))];
      ++here.sent;
      here.sent_bytes += bytes;
      if (bytes == 0) ++here.empty;
    }
  }
  /// Keep besides from where messages are sent: places are numbers of the caller's own, -1 at first.
  void keep_places() { has_places_ = true; }
  /// From now on a rank is there.
  void move(Rank rank, std::int32_t to) { place(rank) = to; }
  [[nodiscard]] const std::unordered_map<std::uint64_t, PlaceCounts>& by_place() const { return by_place_; }
  [[nodiscard]] static Rank rank_of(std::uint64_t key) { return static_cast<Rank>(key >> 32U); }
  [[nodiscard]] static std::int32_t place_of(std::uint64_t key) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(key)); }
  /// The message of a send's slot is that of a receive's.
  void paired(std::uint32_t send, std::uint32_t receive) { round_of(receive) = round_of(send); }
  /// The actor has seen its receive complete; only the first time counts.
  void received(Rank owner, Rank actor, std::uint32_t slot, std::uint64_t bytes) {
    const std::uint32_t round = take(slot);
    if (round == 0) return;
    RankCounts& mine = ranks_[static_cast<std::size_t>(owner)];
    ++mine.received;
    mine.received_bytes += bytes;
    mine.last_in = std::max(mine.last_in + 1, round);
    learn(actor, mine.last_in);
  }
  /// An agent begins with what its rank knows, and what it learns its rank learns by waiting for it.
  void begun(Rank rank, Rank agent) {
    knows(agent) = knows(rank);
    if (has_places_) place(agent) = place(rank);
  }
  void ended(Rank agent, std::uint32_t slot) { round_of(slot) = knows(agent); }
  void joined(Rank rank, std::uint32_t slot) { learn(rank, take(slot)); }
  void followed(Rank rank, Rank agent) { learn(rank, knows(agent)); }
  /// A slot is used anew.
  void forget(std::uint32_t slot) { round_of(slot) = 0; }

  [[nodiscard]] const std::vector<RankCounts>& ranks() const { return ranks_; }

 private:
  [[nodiscard]] bool is_agent(Rank actor) const { return static_cast<std::size_t>(actor) >= ranks_.size(); }
  static std::uint64_t key(Rank rank, std::int32_t place) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32U) | static_cast<std::uint32_t>(place);
  }
  std::int32_t& place(Rank actor) {
    const auto index = static_cast<std::size_t>(actor);
    if (index >= places_.size()) places_.resize(index + 1, -1);
    return places_[index];
  }
  std::uint32_t& knows(Rank actor) {
    const auto index = static_cast<std::size_t>(actor);
    if (index >= knows_.size()) knows_.resize(index + 1, 0);
    return knows_[index];
  }
  void learn(Rank actor, std::uint32_t round) {
    std::uint32_t& mine = knows(actor);
    mine = std::max(mine, round);
  }
  std::uint32_t& round_of(std::uint32_t slot) {
    if (slot >= rounds_.size()) rounds_.resize(std::max<std::size_t>(slot + 1, 2 * rounds_.size()), 0);
    return rounds_[slot];
  }
  std::uint32_t take(std::uint32_t slot) {
    std::uint32_t& mine = round_of(slot);
    const std::uint32_t round = mine;
    mine = 0;
    return round;
  }

  std::vector<RankCounts> ranks_;
  std::vector<std::uint32_t> knows_;   // by actor: the last round it has waited for
  std::vector<std::uint32_t> rounds_;  // by slot
  bool has_places_ = false;
  std::vector<std::int32_t> places_;   // by actor
  std::unordered_map<std::uint64_t, PlaceCounts> by_place_;  // by rank and place; told in the order of both
};

}  // namespace labkit
