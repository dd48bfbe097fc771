#include "labkit/engine/match_index.hpp"


namespace labkit {
namespace {

constexpr int kWalk = 48;  // queue entries a wildcard looks at before it asks for a view

}  // namespace

std::size_t MatchIndex::place_of(const MatchKey& key) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t place = key.hash() & mask;
  while (table_[place].is_used && !(table_[place].key == key)) place = (place + 1) & mask;
  return place;
}

void MatchIndex::rehash() {
  std::size_t size = 256;
  while (size < 4 * live_) size *= 2;
  std::vector<Slot> old(size);
  old.swap(table_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (!slot.is_used || slot.head == kNone) continue;
    table_[place_of(slot.key)] = slot;
    ++used_;
  }
}

void MatchIndex::add(std::uint32_t index) {
  Request& request = slab_.at(index);
  const MatchKey key = key_of(request);
  std::size_t place = place_of(key);
  if (!table_[place].is_used) {
    if (2 * (used_ + 1) > table_.size()) {
      rehash();
      place = place_of(key);
    }
    table_[place].is_used = true;
    table_[place].key = key;
    ++used_;
  }
  Slot& slot = table_[place];
  request.chain = kNone;
  if (slot.head == kNone) {
    slot.head = index;
  } else {
    slab_.at(slot.tail).chain = index;
  }
  slot.tail = index;
  ++live_;
  ++live_by_kind_[kind_of(key)];
  for (std::size_t kind = 1; kind < 4; ++kind) {
    if (views_[kind].is_built) add_to_view(views_[kind], kind, index);
  }
}

void MatchIndex::remove(std::uint32_t index) {
  const Request& request = slab_.at(index);
  const MatchKey key = key_of(request);
  Slot& slot = table_[place_of(key)];
  std::uint32_t before = kNone;
  for (std::uint32_t i = slot.head; i != index; i = slab_.at(i).chain) before = i;
  if (before == kNone) {
    slot.head = request.chain;
  } else {
    slab_.at(before).chain = request.chain;
  }
  if (slot.tail == index) slot.tail = before;
  --live_;
  --live_by_kind_[kind_of(key)];
}

std::uint32_t MatchIndex::oldest(const MatchKey& key) const {
  const Slot& slot = table_[place_of(key)];
  return slot.is_used ? slot.head : kNone;
}

std::uint32_t MatchIndex::oldest_for_message(const MatchKey& message) const {
  std::uint32_t best = kNone;
  for (std::size_t kind = 0; kind < 4; ++kind) {
    if (live_by_kind_[kind] == 0) continue;
    const std::uint32_t index = oldest(seen_by(kind, message));
    if (index == kNone) continue;
    if (best == kNone || slab_.at(index).order < slab_.at(best).order) best = index;
  }
  return best;
}

void MatchIndex::add_to_view(View& view, std::size_t kind, std::uint32_t index) {
  const Request& request = slab_.at(index);
  view.fifos[seen_by(kind, key_of(request))].entries.push_back({index, request.order});
  if (++view.entries > 4 * live_ + 1024) view = View{};  // mostly stale: build it again when needed
}

void MatchIndex::build(std::size_t kind, std::uint32_t head) {
  View& view = views_[kind];
  view = View{};
  view.is_built = true;
  for (std::uint32_t i = head; i != kNone; i = slab_.at(i).next) {
    view.fifos[seen_by(kind, key_of(slab_.at(i)))].entries.push_back({i, slab_.at(i).order});
    ++view.entries;
  }
}

std::uint32_t MatchIndex::oldest_for_pattern(const MatchKey& pattern, std::uint32_t head) {
  const std::size_t kind = kind_of(pattern);
  if (kind == 0) return oldest(pattern);
  std::uint32_t at = head;
  for (int walked = 0; at != kNone && walked < kWalk; ++walked, at = slab_.at(at).next) {
    if (fits(pattern, key_of(slab_.at(at)))) return at;
  }
  if (at == kNone) return kNone;
  if (!views_[kind].is_built) build(kind, head);
  const auto found = views_[kind].fifos.find(pattern);
  if (found == views_[kind].fifos.end()) return kNone;
  Fifo& fifo = found->second;
  for (; fifo.next < fifo.entries.size(); ++fifo.next) {
    const Entry& entry = fifo.entries[fifo.next];
    const Request& request = slab_.at(entry.index);
    if (request.is_unmatched && request.order == entry.order) return entry.index;
  }
  views_[kind].entries -= fifo.entries.size();
  views_[kind].fifos.erase(found);
  return kNone;
}

}  // namespace labkit
