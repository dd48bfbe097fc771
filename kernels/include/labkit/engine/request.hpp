// Requests: one send or one receive each, kept in a slab so that their addresses never depend on
// a rank's stack (a suspended rank's stack may have been copied away).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "labkit/engine/types.hpp"

namespace labkit {

/// A handle that outlives its slot safely: a stale one is recognized by its generation.
struct RequestId {
  std::uint32_t index = kNone;
  std::uint32_t generation = 0;
  [[nodiscard]] bool is_null() const { return index == kNone; }
  friend bool operator==(const RequestId&, const RequestId&) = default;
};

enum class RequestKind : std::uint8_t {
  send,
  receive,
  operation,  ///< complete when an operation of its owner's is over (Engine::begin_operation)
};

enum class RequestState : std::uint8_t {
  free,      ///< the slot is not in use
  queued,    ///< posted by a rank whose clock is ahead; acts when the engine gets there
  posted,    ///< waits for its partner
  matched,   ///< found its partner; the flow is under way
  complete,  ///< its owner may go on
  cancelled,
};

/// `standard` decides by size. A detached or eager send completes at once for its owner; a
/// synchronous or rendezvous send completes when its flow has ended. `copy` is the send of an
/// MPI_Sendrecv with oneself: no overhead, no transfer.
enum class SendMode : std::uint8_t { standard, synchronous, buffered, copy };

class Client;

/// Two cache lines, no more: a million of them may be alive.
struct alignas(64) Request {
  Time completion_s = kNever;
  std::uint64_t bytes = 0;     ///< a send's payload; a receive's capacity
  std::uint64_t received_bytes = 0;  ///< receive: what the matched send carries (may exceed the capacity)
  void* payload = nullptr;     ///< the client's; opaque to the engine
  Client* client = nullptr;
  Time posted_s = 0.0;         ///< the owner's clock when it was posted, overhead included
  Time arrived_s = 0.0;        ///< send: when its flow has ended
  Time start_s = 0.0;          ///< when the flow started
  std::uint64_t order = 0;     ///< of entering its matching queue
  Rank owner = -1;
  Rank actor = -1;             ///< whose clock it has: the owner, or an agent of the owner's
  Rank peer = -1;              ///< as posted: destination, or source (may be kAnySource)
  std::int32_t tag = 0;        ///< as posted (a receive's may be kAnyTag)
  Context context = 0;
  Rank source = -1;            ///< status of a matched receive
  std::int32_t source_tag = 0;  ///< status of a matched receive
  std::uint32_t partner = kNone;  ///< slot of the matched request while both live
  std::uint32_t next = kNone;     ///< intrusive list links of the matching queues
  std::uint32_t previous = kNone;
  std::uint32_t chain = kNone;    ///< next of the same (source, tag, context) in a long queue's index
  std::uint32_t generation = 0;
  std::uint32_t way = 0;          ///< send: of several routes the one its flow takes (Router::choose)
  RequestKind kind = RequestKind::send;
  RequestState state = RequestState::free;
  bool is_detached : 1 = false;    ///< send: the owner went on. receive: its sender did
  bool is_copy : 1 = false;        ///< send: mode copy
  bool is_eager : 1 = false;       ///< send: the flow starts without waiting for the receive
  bool has_arrived : 1 = false;    ///< eager send: the flow has ended
  bool is_held : 1 = false;        ///< the owner still has the handle
  bool is_waited : 1 = false;      ///< the owner waits for it now
  bool is_charged : 1 = false;     ///< receive: its overhead `or` has been paid
  bool is_truncated : 1 = false;   ///< receive: the message was longer than the capacity
  bool wants_completed : 1 = false;  ///< call Client::completed
  bool has_snapshot : 1 = false;   ///< Client::snapshot was called and the payload is the engine's to hand on
  bool is_unmatched : 1 = false;   ///< stands in a matching queue
  bool may_rely : 1 = false;       ///< send: the program's, standard or synchronous (BufferedSends)
  bool is_done : 1 = false;        ///< the engine has no more use for it: freed once the handle is released
};

static_assert(sizeof(Request) == 128);

/// What a receive learnt about its message.
struct Status {
  Rank source = -1;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  ///< of the message sent, even when truncated
  bool is_truncated = false;
  bool is_cancelled = false;
};

/// Slots live in chunks that never move, so a reference stays good until its slot is freed.
/// The most recently freed slot is reused first: it is still in the cache.
class RequestSlab {
 public:
  /// A slot with default values but its generation; state is still `free`.
  [[nodiscard]] std::uint32_t allocate() {
    if (free_ == kNone) grow();
    const std::uint32_t index = free_;
    Request& slot = at(index);
    free_ = slot.next;
    const std::uint32_t generation = slot.generation;
    slot = Request{};
    slot.generation = generation;
    ++live_;
    return index;
  }
  void free(std::uint32_t index) {
    Request& slot = at(index);
    slot.state = RequestState::free;
    ++slot.generation;
    slot.next = free_;
    free_ = index;
    --live_;
  }
  [[nodiscard]] Request& at(std::uint32_t index) {
    return chunks_[index / kChunk][index % kChunk];
  }
  [[nodiscard]] const Request& at(std::uint32_t index) const {
    return chunks_[index / kChunk][index % kChunk];
  }
  void fetch(std::uint32_t index) const {
    if (index >= slot_count()) return;
    const auto* first = reinterpret_cast<const std::byte*>(&at(index));
    fetch_line(first);
    fetch_line(first + sizeof(Request) / 2);
  }
  [[nodiscard]] bool is_live(RequestId id) const {
    return id.index < slot_count() && at(id.index).generation == id.generation &&
           at(id.index).state != RequestState::free;
  }
  [[nodiscard]] RequestId id_of(std::uint32_t index) const { return {index, at(index).generation}; }
  [[nodiscard]] std::size_t live_count() const { return live_; }
  [[nodiscard]] std::size_t slot_count() const { return chunks_.size() * kChunk; }

 private:
  static constexpr std::uint32_t kChunk = 512;
  void grow();
  std::vector<std::unique_ptr<Request[]>> chunks_;
  std::uint32_t free_ = kNone;
  std::size_t live_ = 0;
};

}  // namespace labkit
