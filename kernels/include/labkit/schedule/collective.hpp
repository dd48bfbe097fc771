// One collective call under way: the interpreter of a schedule on top of the engine.
//
// Every rank enters when it gets there and goes through its own operations; a rank that must wait is
// resumed by the engine itself (it is the ranks' Driver), without any Python. How a caller uses it:
//
//     auto call = std::make_shared<Collective>(engine, program, setup);   // once, by whoever is first
//     if (!call->enter(rank, buffers))      // false: not through yet
//       ... switch away; the engine makes the rank ready (next_ready) when its program has ended
//     call->rethrow(rank)                   // an operator or a generator that raised for this rank
//     call->fault(rank)                     // empty, or what went wrong for this rank
//     if (call->is_over()) drop it          // all ranks are through and no message is under way
//
// Costs are those of the same calls made by a program: os for send, ois for isend, or for receives.
// Copies and combinations are free unless setup says what a combined byte costs. Where the machine has a network
// for an operation of all ranks, its messages cost nothing and load no link, and each rank's program ends as much
// later as the model says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "labkit/engine/byte_pool.hpp"
#include "labkit/engine/engine.hpp"
#include "labkit/schedule/reduction.hpp"
#include "labkit/schedule/schedule.hpp"

namespace labkit {

/// A rank's buffer, in the order of the program's caller buffers. `data` stays valid until the
/// rank's program has ended; nullptr: sizes only (for all ranks, or for none).
struct BoundBuffer {
  std::byte* data = nullptr;
  std::int32_t element_bytes = 1;
  std::int64_t count = 0;                      ///< uniform: per block; split: in all; elements
  std::vector<std::int64_t> counts;            ///< table
  std::vector<std::int64_t> displacements;     ///< table
};

struct CollectiveSetup {
  std::vector<Rank> world_ranks;  ///< rank of the communicator -> world rank; empty: the same
  Context context = 0;            ///< of the communicator's collective calls
  std::int32_t tag = 0;           ///< the call's number: calls may overlap
  bool has_data = false;          ///< move bytes, or only simulate
  std::shared_ptr<const Reduction> reduction;  ///< for programs that combine
  double combine_s_per_byte = 0.0;
  std::shared_ptr<BytePool> memory;            ///< shared by calls that follow each other; else its own
};

class Collective final : public Client, public Driver {
 public:
  /// Throws std::invalid_argument when setup and program disagree.
  Collective(Engine& engine, std::shared_ptr<Program> program, CollectiveSetup setup);
  ~Collective() override;

  /// The rank (of the communicator) joins with its buffers. True: its program has ended already.
  /// Throws ScheduleFault for an operation that cannot be carried out.
  [[nodiscard, gnu::noinline]] bool enter(std::int32_t rank, std::vector<BoundBuffer> buffers);
  /// The rank joins through an agent of its own (Engine::begin_operation), whose driver the caller is. True: its
  /// program has ended already; else go_on carries it on whenever the agent is resumed, until it says so.
  [[nodiscard]] bool enter_beside(std::int32_t rank, std::vector<BoundBuffer> buffers, Rank agent);
  [[nodiscard]] bool go_on(std::int32_t rank);
  /// The rank joins when the engine starts it (see Engine::start); for runs without Python ranks.
  /// Ranks may share their description (sizes only).
  void join(std::int32_t rank, std::shared_ptr<const std::vector<BoundBuffer>> buffers);
  [[nodiscard]] bool has_entered(std::int32_t rank) const { return state(rank).has_entered; }
  [[nodiscard]] bool has_ended(std::int32_t rank) const { return state(rank).has_ended; }
  /// What went wrong for this rank (a message longer than its place), or nothing.
  [[nodiscard]] const std::string& fault(std::int32_t rank) const;
  /// Raise again what a callback threw while this rank was resumed by the engine.
  void rethrow(std::int32_t rank) {
    const std::exception_ptr failure = std::exchange(ranks_[static_cast<std::size_t>(rank)].failure, nullptr);
    if (failure) std::rethrow_exception(failure);
  }
  /// The run has ended: let go of what callbacks hold (they may refer to anything in Python).
  void forget_callbacks() {
    setup_.reduction.reset();
    for (RankState& rank : ranks_) rank.failure = nullptr;
  }
  /// All ranks are through and nothing refers to the call any more.
  [[nodiscard]] bool is_over() const { return ended_ == program_->size() && transfers_in_use_ == 0; }
  [[nodiscard]] const Program& program() const { return *program_; }
  /// What a rank is waiting for, as text.
  [[nodiscard]] std::string describe(std::int32_t rank) const;

  // Driver and Client
  void resume(Rank world_rank) override;
  void fetch(Rank world_rank, bool is_next) const override;
  void snapshot(Request& send) override;
  void deliver(Request& send, Request& receive) override;
  void discard(Request& send) override;

 private:
  struct Reference {  ///< one operation of a rank: an entry of a live column
    std::uint32_t column;
    std::uint32_t entry;
  };
  struct Open {
    RequestId request;
    std::int32_t label;
  };
  struct RankState {
    std::vector<Reference> queue;
    std::size_t head = 0;
    std::vector<Open> open;
    std::shared_ptr<const std::vector<BoundBuffer>> buffers;
    std::vector<std::byte*> temporaries;
    std::exception_ptr failure;
    std::int32_t waited_label = 0;
    Rank agent = -1;             ///< who posts and waits for it: -1 the rank itself
    bool is_waiting = false;
    bool has_entered = false;
    bool has_ended = false;
    bool ends_silently = false;  ///< nobody to wake: a rank without Python
  };
  struct LiveColumn {
    const Column* column;
    std::shared_ptr<const Step> step;
    std::size_t remaining;
  };
  struct Transfer {  ///< a message's end: where its bytes are, or a copy of them; a cache line
    static constexpr std::size_t kSmall = sizeof(Section);
    union {
      Section section;         ///< where data is nullptr
      std::byte small[kSmall]; ///< a short copy
    };
    std::byte* data;           ///< all bytes, where they are in one piece
    union {
      std::byte* owned;        ///< a long copy, or nullptr
      Transfer* next_free;
    };
    std::int32_t rank;
    Transfer() : section(), data(nullptr), owned(nullptr), rank(0) {}
  };
  struct Place {  ///< what a section denotes; data is nullptr where it is in several pieces, or sizes only
    std::uint64_t bytes;
    std::byte* data;
  };
  struct Piece {
    std::byte* data;
    std::size_t bytes;
  };

  [[nodiscard]] const RankState& state(std::int32_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Rank world(std::int32_t rank) const {
    return setup_.world_ranks.empty() ? rank : setup_.world_ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::int32_t local(Rank world_rank) const;
  /// Who posts and waits for a rank: itself, or its agent.
  [[nodiscard]] Rank actor(std::int32_t rank) const {
    const Rank agent = state(rank).agent;
    return agent < 0 ? world(rank) : agent;
  }
  void bind(std::int32_t rank, std::shared_ptr<const std::vector<BoundBuffer>> buffers);
  [[nodiscard]] const BoundBuffer& bound(std::int32_t rank, std::int32_t buffer) const {
    return (*state(rank).buffers)[static_cast<std::size_t>(buffer)];
  }
  bool run(std::int32_t rank);
  [[nodiscard]] double message_bytes(std::int32_t rank) const;
  bool pull();
  void add_column(const Column& column, const std::shared_ptr<const Step>& step);
  void consumed(std::uint32_t column);
  bool execute(std::int32_t rank, const Column& column, std::size_t entry);
  [[nodiscard]] RequestId post(std::int32_t rank, const Column& column, std::size_t entry);
  bool wait(std::int32_t rank, std::int32_t label);
  void note_fault(std::int32_t rank, const std::string& what);
  void settle(std::int32_t rank);
  void end(std::int32_t rank);

  // sections and bytes
  struct View {
    std::byte* data;
    std::int64_t blocks;
    const BoundBuffer* like;
  };
  /// The caller's buffer whose block sizes a buffer has; where sizes are told, what the rank was told.
  [[nodiscard]] const BoundBuffer& sizes_of(std::int32_t rank, const BufferSpec& spec);
  [[nodiscard]] const BoundBuffer& told(std::int32_t rank, const BufferSpec& spec);
  void tell(std::int32_t rank);
  [[nodiscard]] std::int64_t own_bytes(std::int32_t rank, const BufferSpec& spec) const;
  [[nodiscard]] bool holds_counts(const Section& section) const;
  [[nodiscard]] View view(std::int32_t rank, const Section& section);
  [[nodiscard]] std::byte* temporary(std::int32_t rank, std::size_t buffer, const BoundBuffer& like, std::int64_t blocks);
  [[nodiscard]] Place locate(std::int32_t rank, const Section& section);
  [[nodiscard]] std::uint64_t bytes_of(std::int32_t rank, const Section& section);
  [[nodiscard]] std::int64_t length_of(std::int32_t rank, const Section& section, const BoundBuffer& like,
                                       std::int64_t block, std::int64_t blocks);
  void pieces_of(std::int32_t rank, const Section& section, std::vector<Piece>& out);
  void copy(std::int32_t rank, const Section& source, const Section& target);
  bool combine(std::int32_t rank, const Section& source, const Section& target, bool is_source_first);
  [[nodiscard]] Transfer* new_transfer(std::int32_t rank, const Section& section, std::byte* data);
  void pieces_of(const Transfer& transfer, std::uint64_t bytes, std::vector<Piece>& out);
  void free_transfer(Transfer* transfer);

  Engine& engine_;
  const CollectiveCost* network_ = nullptr;  ///< of the model; the messages go over the links
  double stages_ = 0.0;
  std::shared_ptr<Program> program_;
  CollectiveSetup setup_;
  StepCursor cursor_;
  std::vector<RankState> ranks_;
  std::vector<std::int32_t> local_rank_;  ///< world rank -> rank; empty when the same
  std::vector<LiveColumn> columns_;
  std::uint32_t first_column_ = 0;        ///< number of columns_[0]
  std::size_t dead_columns_ = 0;          ///< leading columns nobody needs any more
  std::int32_t ended_ = 0;
  std::vector<RequestId> wait_ids_;
  std::vector<Piece> from_, to_;
  // Counts are sent as messages without content: what they say is here as soon as their owner has entered, and a
  // schedule that was checked looks at it only after the message has come.
  std::vector<std::int64_t> told_bytes_;             ///< by rank the bytes of its block, -1: not yet; empty: nobody tells
  std::vector<std::unique_ptr<BoundBuffer>> told_;   ///< by rank what it was told, once it has looked
  std::vector<std::string> faults_;       ///< empty until the first fault
  std::vector<std::unique_ptr<Transfer[]>> transfer_chunks_;
  Transfer* free_transfers_ = nullptr;
  std::size_t transfers_in_use_ = 0;
};

}  // namespace labkit
