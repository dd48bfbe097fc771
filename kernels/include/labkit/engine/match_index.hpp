// Finding a partner in a long matching queue without walking it.
//
// A hash from (source, tag, context), as posted, to the oldest request of that key; requests of
// one key form a chain. Whatever a wildcard takes is the oldest of its own key, too, so removals
// happen at the head of a chain (cancelling excepted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "labkit/engine/request.hpp"
#include "labkit/engine/types.hpp"

namespace labkit {

struct MatchKey {
  Rank source;
  std::int32_t tag;
  Context context;
  friend bool operator==(const MatchKey&, const MatchKey&) = default;
  [[nodiscard]] std::size_t hash() const {
    std::uint64_t bits = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(source)) << 32) |
                         static_cast<std::uint32_t>(tag);
    bits = (bits ^ context * 0xd6e8feb86659fd93ULL) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(bits ^ (bits >> 29));
  }
};

inline MatchKey key_of(const Request& request) {
  const Rank source = request.kind == RequestKind::send ? request.owner : request.peer;
  return {source, request.tag, request.context};
}

/// Does a receive posted as `pattern` take a message with this key?
inline bool fits(const MatchKey& pattern, const MatchKey& message) {
  return pattern.context == message.context &&
         (pattern.source == kAnySource || pattern.source == message.source) &&
         (pattern.tag == kAnyTag || pattern.tag == message.tag);
}

class MatchIndex {
 public:
  explicit MatchIndex(RequestSlab& slab) : slab_(slab), table_(256) {}

  void add(std::uint32_t index);
  void remove(std::uint32_t index);
  /// The oldest request posted with exactly this key, kNone if there is none.
  [[nodiscard]] std::uint32_t oldest(const MatchKey& key) const;
  /// Queue of receives: the oldest one that takes this message.
  [[nodiscard]] std::uint32_t oldest_for_message(const MatchKey& message) const;
  /// Queue of messages: the oldest one that this pattern takes; `head` is the queue's first.
  std::uint32_t oldest_for_pattern(const MatchKey& pattern, std::uint32_t head);

 private:
  struct Slot {
    MatchKey key{0, 0, 0};
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    bool is_used = false;
  };
  // Messages by what a wildcard pattern can see of them; built when a pattern of its kind has
  // walked far in vain. Entries that are no longer queued are skipped when they come up.
  struct Entry {
    std::uint32_t index;
    std::uint64_t order;
  };
  struct Fifo {
    std::vector<Entry> entries;
    std::size_t next = 0;
  };
  struct KeyHash {
    std::size_t operator()(const MatchKey& key) const { return key.hash(); }
  };
  struct View {
    bool is_built = false;
    std::size_t entries = 0;
    std::unordered_map<MatchKey, Fifo, KeyHash> fifos;
  };

  static std::size_t kind_of(const MatchKey& pattern) {
    return (pattern.source == kAnySource ? 1u : 0u) + (pattern.tag == kAnyTag ? 2u : 0u);
  }
  static MatchKey seen_by(std::size_t kind, MatchKey message) {
    if ((kind & 1u) != 0) message.source = kAnySource;
    if ((kind & 2u) != 0) message.tag = kAnyTag;
    return message;
  }
  std::size_t place_of(const MatchKey& key) const;
  void rehash();
  void build(std::size_t kind, std::uint32_t head);
  void add_to_view(View& view, std::size_t kind, std::uint32_t index);

  RequestSlab& slab_;
  std::vector<Slot> table_;  // open addressing, linear probing; emptied keys stay until a rehash
  std::size_t used_ = 0;
  std::size_t live_ = 0;
  std::size_t live_by_kind_[4] = {0, 0, 0, 0};
  View views_[4];  // [0] is not used: the table is the exact view
};

}  // namespace labkit
