// Collective: sections, sizes and bytes.
#include <algorithm>
#include <cstring>

#include "labkit/schedule/collective.hpp"

namespace labkit {

namespace {

/// Begin of a part, in elements: `count` of them in n parts, the first (count mod n) one longer; part n is the end.
std::int64_t begin_of_part(std::int64_t count, std::int64_t part, std::int64_t parts) {
  return part * (count / parts) + std::min(part, count % parts);
}

/// Begin of a block, in elements from the buffer's start; all but table may ask for block n, the end.
std::int64_t offset_of(Cut cut, const BoundBuffer& like, std::int64_t block, std::int64_t blocks) {
  switch (cut.layout) {
    case Layout::uniform: return block / cut.parts * like.count + begin_of_part(like.count, block % cut.parts, cut.parts);
    case Layout::split: return begin_of_part(like.count, block, blocks);
    case Layout::table: return like.displacements[static_cast<std::size_t>(block)];
  }
  return 0;
}

std::int64_t count_of(Cut cut, const BoundBuffer& like, std::int64_t block, std::int64_t blocks) {
  if (cut.layout == Layout::table) return like.counts[static_cast<std::size_t>(block)];
  return offset_of(cut, like, block + 1, blocks) - offset_of(cut, like, block, blocks);
}

std::int64_t modulo(std::int64_t value, std::int64_t n) {
  if (value >= 0 && value < n) return value;
  const std::int64_t rest = value % n;
  return rest < 0 ? rest + n : rest;
}

/// How many blocks a section has.
std::int64_t block_count(const Section& section, std::int64_t blocks) {
  const std::int64_t length = section.length < 0 ? blocks : section.length;
  if (section.run <= 0) return length;
  const std::int64_t run = std::min(section.run, section.stride);
  return length / section.stride * run + std::min(length % section.stride, run);
}

/// Call f(block, length) for each maximal range of consecutive blocks, in order.
template <class F>
void for_each_range(const Section& section, std::int64_t blocks, F&& f) {
  const std::int64_t length = section.length < 0 ? blocks : section.length;
  const bool is_contiguous = section.run <= 0;
  const std::int64_t stride = is_contiguous ? length : std::max<std::int64_t>(section.stride, 1);
  const std::int64_t step = modulo(stride, blocks);
  std::int64_t begin = modulo(section.first, blocks);
  for (std::int64_t start = 0; start < length; start += stride) {
    std::int64_t run = is_contiguous ? length : std::min(section.run, length - start);
    std::int64_t block = begin;
    while (run > 0) {
      const std::int64_t here = std::min(run, blocks - block);
      f(block, here);
      run -= here;
      block = 0;
    }
    begin += step;  // the modulo without its division: Bruck's alltoall has as many runs as ranks
    if (begin >= blocks) begin -= blocks;
  }
}

}  // namespace

bool Collective::holds_counts(const Section& section) const {
  if (section.buffer < 0 || !program_->tells()) return false;
  const auto buffer = static_cast<std::size_t>(section.buffer);
  return buffer < program_->buffers().size() && program_->buffers()[buffer].holds == Holds::counts;
}

std::byte* Collective::temporary(std::int32_t rank, std::size_t buffer, const BoundBuffer& like, std::int64_t blocks) {
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  const std::size_t number = buffer - program_->caller_buffers();
  if (s.temporaries.empty()) s.temporaries.resize(program_->buffers().size() - program_->caller_buffers(), nullptr);
  if (s.temporaries[number] == nullptr) {
    std::int64_t elements = 0;
    if (program_->layout() == Layout::table) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        const Cut cut = program_->cut();
        elements = std::max(elements, offset_of(cut, like, b, blocks) + count_of(cut, like, b, blocks));
      }
    } else {
      elements = offset_of(program_->cut(), like, blocks, blocks);
    }
    const auto bytes = static_cast<std::size_t>(elements) * static_cast<std::size_t>(like.element_bytes);
    s.temporaries[number] = setup_.memory->take(bytes);
  }
  return s.temporaries[number];
}

/// The rank comes with the sizes that it knows: note those that others will be told.
void Collective::tell(std::int32_t rank) {
  const BoundBuffer& first = bound(rank, 0);
  if (told_bytes_.empty()) told_bytes_.assign(ranks_.size(), -1), told_.resize(ranks_.size());
  const auto scale = static_cast<std::int64_t>(first.element_bytes);
  if (program_->teller() < 0) {
    if (!first.counts.empty()) told_bytes_[static_cast<std::size_t>(rank)] = first.counts.front() * scale;
  } else if (program_->teller() == rank) {
    for (std::size_t i = 0; i < std::min(first.counts.size(), ranks_.size()); ++i) {
      told_bytes_[i] = first.counts[i] * scale;
    }
  }
}

const BoundBuffer& Collective::told(std::int32_t rank, const BufferSpec& spec) {
  std::unique_ptr<BoundBuffer>& known = told_[static_cast<std::size_t>(rank)];
  if (known == nullptr) {
    auto made = std::make_unique<BoundBuffer>();
    std::int64_t bytes = 0;
    for (std::int64_t i = 0; i < spec.blocks(static_cast<std::size_t>(rank)); ++i) {
      const std::int64_t owner = (rank + i) % program_->size();
      std::int64_t count = told_bytes_[static_cast<std::size_t>(owner)];
      if (count < 0 && i == 0) count = own_bytes(rank, spec);
      if (count < 0) {
        throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " does not know the size of rank " +
                            std::to_string(owner) + "'s block in " + spec.name);
      }
      made->displacements.push_back(bytes);
      made->counts.push_back(count);
      bytes += count;
    }
    known = std::move(made);
  }
  return *known;
}

/// The bytes of a rank's own block, as its caller knows them; -1: it does not.
std::int64_t Collective::own_bytes(std::int32_t rank, const BufferSpec& spec) const {
  const BoundBuffer& own = bound(rank, spec.like);
  return own.counts.size() == 1 ? own.counts.front() * own.element_bytes : -1;
}

const BoundBuffer& Collective::sizes_of(std::int32_t rank, const BufferSpec& spec) {
  return spec.holds == Holds::told ? told(rank, spec) : bound(rank, spec.like);
}

Collective::View Collective::view(std::int32_t rank, const Section& section) {
  const auto buffer = static_cast<std::size_t>(section.buffer);
  if (buffer >= program_->buffers().size()) {
    throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " names buffer number " +
                        std::to_string(section.buffer));
  }
  const BufferSpec& spec = program_->buffers()[buffer];
  const BoundBuffer& like = sizes_of(rank, spec);
  const std::int64_t blocks = spec.blocks(static_cast<std::size_t>(rank));
  if (blocks <= 0) {
    throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " has no buffer " + spec.name);
  }
  if (program_->layout() == Layout::table &&
      (like.counts.size() < static_cast<std::size_t>(blocks) || like.displacements.size() < static_cast<std::size_t>(blocks))) {
    throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " does not know the block sizes of " +
                        spec.name);
  }
  std::byte* data = nullptr;
  if (setup_.has_data) data = spec.is_temporary ? temporary(rank, buffer, like, blocks) : like.data;
  return {data, blocks, &like};
}

/// A block, or some one after another, as messages mostly are: found once, when the message is posted.
Collective::Place Collective::locate(std::int32_t rank, const Section& section) {
  if (section.buffer < 0 || section.length == 0) return {0, nullptr};
  if (holds_counts(section)) return {bytes_of(rank, section), nullptr};
  const View v = view(rank, section);
  const Cut cut = program_->cut();
  const std::int64_t length = section.length < 0 ? v.blocks : section.length;
  const std::int64_t first = modulo(section.first, v.blocks);
  const bool is_scattered = section.run > 0 || first + length > v.blocks || (cut.layout == Layout::table && length > 1);
  if (is_scattered) return {bytes_of(rank, section), nullptr};
  const auto scale = static_cast<std::int64_t>(v.like->element_bytes);
  const std::int64_t begin = offset_of(cut, *v.like, first, v.blocks);
  const std::int64_t elements = cut.layout == Layout::table
                                    ? count_of(cut, *v.like, first, v.blocks)
                                    : offset_of(cut, *v.like, first + length, v.blocks) - begin;
  return {static_cast<std::uint64_t>(elements * scale), v.data == nullptr ? nullptr : v.data + begin * scale};
}

std::uint64_t Collective::bytes_of(std::int32_t rank, const Section& section) {
  if (section.buffer < 0 || section.length == 0) return 0;
  const auto buffer = static_cast<std::size_t>(section.buffer);
  const Cut cut = program_->cut();
  if (buffer >= program_->buffers().size()) (void)view(rank, section);  // throws
  const BufferSpec& spec = program_->buffers()[buffer];
  const std::int64_t blocks = spec.blocks(static_cast<std::size_t>(rank));
  if (blocks > 0 && spec.holds == Holds::counts) {
    constexpr std::int64_t kCountBytes = 8;
    return static_cast<std::uint64_t>(block_count(section, blocks) * kCountBytes);
  }
  const BoundBuffer& like = sizes_of(rank, spec);
  if (blocks <= 0 || cut.layout == Layout::table) (void)view(rank, section);  // checks
  const auto scale = static_cast<std::uint64_t>(like.element_bytes);
  if ((cut.layout == Layout::uniform && cut.parts == 1) || blocks == 1) {
    return static_cast<std::uint64_t>(block_count(section, blocks) * count_of(cut, like, 0, blocks)) * scale;
  }
  std::int64_t elements = 0;
  for_each_range(section, blocks, [&](std::int64_t block, std::int64_t length) {
    if (cut.layout != Layout::table) {
      elements += offset_of(cut, like, block + length, blocks) - offset_of(cut, like, block, blocks);
    } else {
      for (std::int64_t b = block; b < block + length; ++b) elements += count_of(cut, like, b, blocks);
    }
  });
  return static_cast<std::uint64_t>(elements) * scale;
}

/// The elements of a block of a table; where the root gathers blocks that come together, what their owners sent,
/// which may be less than the root has room for.
std::int64_t Collective::length_of(std::int32_t rank, const Section& section, const BoundBuffer& like,
                                   std::int64_t block, std::int64_t blocks) {
  const std::int64_t room = count_of(program_->cut(), like, block, blocks);
  const bool is_caller = static_cast<std::size_t>(section.buffer) < program_->caller_buffers();
  if (!program_->tells() || program_->teller() >= 0 || !is_caller || blocks != program_->size()) return room;
  const std::int64_t told = told_bytes_[static_cast<std::size_t>(block)];
  if (told > room * like.element_bytes) {
    note_fault(rank, "rank " + std::to_string(block) + " sends " + std::to_string(told) + " bytes, rank " +
                         std::to_string(rank) + " expects " + std::to_string(room * like.element_bytes) + " of it");
    return room;
  }
  return told < 0 ? room : told / like.element_bytes;
}

void Collective::pieces_of(std::int32_t rank, const Section& section, std::vector<Piece>& out) {
  out.clear();
  if (section.buffer < 0 || section.length == 0) return;
  const View v = view(rank, section);
  const Cut cut = program_->cut();
  const auto scale = static_cast<std::int64_t>(v.like->element_bytes);
  const auto add = [&](std::int64_t offset, std::int64_t elements) {
    if (elements > 0) out.push_back({v.data + offset * scale, static_cast<std::size_t>(elements * scale)});
  };
  for_each_range(section, v.blocks, [&](std::int64_t block, std::int64_t length) {
    if (cut.layout == Layout::table) {
      for (std::int64_t b = block; b < block + length; ++b) {
        add(offset_of(cut, *v.like, b, v.blocks), length_of(rank, section, *v.like, b, v.blocks));
      }
      return;
    }
    const std::int64_t begin = offset_of(cut, *v.like, block, v.blocks);
    add(begin, offset_of(cut, *v.like, block + length, v.blocks) - begin);
  });
}

namespace {

/// Walk two lists of pieces in step: f(source, target, bytes) for each stretch both have whole.
template <class Pieces, class F>
void for_each_stretch(const Pieces& from, const Pieces& to, F&& f) {
  std::size_t i = 0, j = 0, done_i = 0, done_j = 0;
  while (i < from.size() && j < to.size()) {
    const std::size_t bytes = std::min(from[i].bytes - done_i, to[j].bytes - done_j);
    f(from[i].data + done_i, to[j].data + done_j, bytes);
    done_i += bytes;
    done_j += bytes;
    if (done_i == from[i].bytes) ++i, done_i = 0;
    if (done_j == to[j].bytes) ++j, done_j = 0;
  }
}

/// A key or two at a time, where blocks are scattered: a call of memmove costs more than the copy.
void move_bytes(const std::byte* source, std::byte* target, std::size_t bytes) {
  if (bytes == 8 || bytes == 16) {
    std::uint64_t words[2];
    std::memcpy(words, source, 8);
    std::memcpy(words + 1, source + bytes - 8, 8);  // both read before either is written
    std::memcpy(target, words, 8);
    std::memcpy(target + bytes - 8, words + 1, 8);
  } else if (source != target) {
    std::memmove(target, source, bytes);
  }
}

}  // namespace

void Collective::copy(std::int32_t rank, const Section& source, const Section& target) {
  if (!setup_.has_data) return;  // copies are free
  const std::uint64_t bytes = bytes_of(rank, source), room = bytes_of(rank, target);
  if (bytes > room || (bytes < room && !program_->tells())) {  // a caller may have more room than it is sent
    throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " copies " + std::to_string(bytes) +
                        " bytes into " + std::to_string(room));
  }
  pieces_of(rank, source, from_);
  pieces_of(rank, target, to_);
  for_each_stretch(from_, to_, move_bytes);
}

/// False: blocked until it is charged. The bytes are combined before: until the rank goes on, they are its own.
bool Collective::combine(std::int32_t rank, const Section& source, const Section& target, bool is_source_first) {
  if (!setup_.has_data && setup_.combine_s_per_byte <= 0.0) return true;
  const std::uint64_t bytes = bytes_of(rank, target);
  if (bytes != bytes_of(rank, source)) {
    throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " combines " +
                        std::to_string(bytes_of(rank, source)) + " bytes with " + std::to_string(bytes));
  }
  if (setup_.has_data && bytes > 0) {
    if (!setup_.reduction) throw ScheduleFault(program_->name() + " combines; the call has no operator");
    pieces_of(rank, source, from_);
    pieces_of(rank, target, to_);
    for_each_stretch(from_, to_, [&](const std::byte* s, std::byte* t, std::size_t n) {
      setup_.reduction->apply_at(rank, s, t, n, is_source_first);
    });
  }
  if (setup_.combine_s_per_byte <= 0.0) return true;
  return engine_.compute(actor(rank), static_cast<double>(bytes) * setup_.combine_s_per_byte);
}

Collective::Transfer* Collective::new_transfer(std::int32_t rank, const Section& section, std::byte* data) {
  if (free_transfers_ == nullptr) {
    constexpr std::size_t kChunk = 256;
    transfer_chunks_.push_back(std::make_unique<Transfer[]>(kChunk));
    for (std::size_t i = 0; i < kChunk; ++i) {
      Transfer& transfer = transfer_chunks_.back()[i];
      transfer.next_free = free_transfers_;
      free_transfers_ = &transfer;
    }
  }
  Transfer* transfer = free_transfers_;
  free_transfers_ = transfer->next_free;
  transfer->section = section;
  transfer->data = data;
  transfer->owned = nullptr;
  transfer->rank = rank;
  ++transfers_in_use_;
  return transfer;
}

void Collective::free_transfer(Transfer* transfer) {
  setup_.memory->give_back(transfer->owned);
  transfer->next_free = free_transfers_;
  free_transfers_ = transfer;
  --transfers_in_use_;
}

void Collective::pieces_of(const Transfer& transfer, std::uint64_t bytes, std::vector<Piece>& out) {
  if (transfer.data != nullptr) {
    out.assign(1, {transfer.data, static_cast<std::size_t>(bytes)});
  } else {
    pieces_of(transfer.rank, transfer.section, out);
  }
}

void Collective::snapshot(Request& send) {
  auto* transfer = static_cast<Transfer*>(send.payload);
  if (transfer == nullptr) return;
  pieces_of(*transfer, send.bytes, from_);
  const bool is_small = send.bytes <= Transfer::kSmall;
  if (!is_small) transfer->owned = setup_.memory->take(send.bytes);
  std::byte* to = is_small ? transfer->small : transfer->owned;  // the section is not needed any more
  transfer->data = to;
  for (const Piece& piece : from_) {
    move_bytes(piece.data, to, piece.bytes);
    to += piece.bytes;
  }
}

void Collective::deliver(Request& send, Request& receive) {
  auto* from = static_cast<Transfer*>(send.payload);
  auto* to = static_cast<Transfer*>(receive.payload);
  if (from != nullptr && to != nullptr) {
    if (from->data != nullptr && to->data != nullptr) {
      move_bytes(from->data, to->data, static_cast<std::size_t>(std::min(send.bytes, receive.bytes)));
    } else {
      pieces_of(*from, send.bytes, from_);
      pieces_of(*to, receive.bytes, to_);
      for_each_stretch(from_, to_, move_bytes);  // stops at the shorter side
    }
  }
  if (from != nullptr) free_transfer(from);
  if (to != nullptr) free_transfer(to);
  send.payload = nullptr;
  receive.payload = nullptr;
}

void Collective::discard(Request& send) {
  if (send.payload != nullptr) free_transfer(static_cast<Transfer*>(send.payload));
  send.payload = nullptr;
}

}  // namespace labkit
