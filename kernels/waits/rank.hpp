// The rank's side of its page: what begins, what ends, who belongs to a communicator.

#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "page.hpp"

namespace labkit::waits {

/// Handles of MPI as they are passed: a pointer, or an int whose upper half is anything.
using Handle = std::uintptr_t;
using Ints = int*;
/// MPI_Count.
using Count = long long;
using Any = void*;

/// A communicator with what the page says of it; found again by its handle.
struct Comm {
  CommRow* row;
  const std::int32_t* members;  // by rank of the communicator, its rank in the world; null: not known
};

/// Whether a request is complete; it stays as it is.
bool is_complete(Handle request);

class RankPage {
 public:
  /// What differs from library to library; told by mpi4py.
  struct Constants {
    std::uint64_t world, null_comm, null_request;
    std::int32_t rank, size, handle_bytes, any_source, any_tag, proc_null, undefined, status_bytes, error_at, error_in_status,
        error_pending, combiner_named;
  };

  bool open(const char* path, const Constants& constants);

  /// Whether the calls of this thread are noted: nobody may note in another one's place.
  [[nodiscard]] bool is_noting() {
    if (page_ == nullptr) return false;
    if (!is_first_thread) page_->flags |= kThreads;
    return is_first_thread && depth_ == 0;
  }

  Comm comm(Handle handle) {
    handle = plain(handle);
    return handle == last_handle_ && last_.row != nullptr ? last_ : look_up(handle);
  }
  /// A blocking call: `begin` it, say what it waits for, `wait`, and `end`.
  void begin(int call) {
    ++depth_;
    page_->call = call;
    page_->waited = 0;
  }
  void wait() { step(1); }
  void end() {
    step(1);
    --depth_;
  }
  Entry* wait_for(std::int32_t kind, std::int32_t peer, std::int32_t tag, const Comm& comm, std::uint64_t bytes);
  void wait_for(Any requests, int count);
  void wait_for(const Entry& entry) { page_->waiting[page_->waited++] = entry; }
  /// Within a call: what it waits for from now on, in the place of what it has waited for.
  template <typename Say>
  void wait_anew(Say say) {
    page_->waited = 0;
    say();
    step(2);
  }
  void joined(int call, std::int32_t root, const Comm& comm, std::uint64_t bytes, Entry* entry);

  void posted(Any request, std::int32_t kind, std::int32_t peer, std::int32_t tag, Handle comm, bool is_active,
              bool is_persistent, std::uint64_t bytes);
  void posted_collective(Any request, int call, Handle comm);
  /// Whether a request that has just been made is not complete: one that is offers nothing and waits for nothing.
  [[nodiscard]] bool is_open(Any request) const { return !is_complete(handle_at(request, 0)); }
  /// A message has been sent and may be complete soon: MPI is asked when the rank comes to wait for something else.
  void sent(Handle handle) {
    if (unasked_ == kMostUnasked) ask();
    unasked_handles_[unasked_++] = handle;
  }
  /// Ask MPI of those that have been sent: one that is complete offers nothing any more.
  void settle_sent() {
    if (unasked_ > 0) ask();
  }
  void started(Handle handle);
  /// A request is complete; a persistent one stays, inactive, unless it has been freed. Whether it was active.
  bool over(Handle handle, bool is_freed = false);
  /// Whether it is known what ends a request.
  [[nodiscard]] bool is_known(Handle handle);
  /// Whether a request is one that is known and not complete, as far as is known.
  [[nodiscard]] bool is_under_way(Handle handle) { return under_way(handle) != nullptr; }
  /// Whether such a request is complete by now: it offers and waits for nothing any more, though nobody has asked.
  bool has_completed(Handle handle);
  int settle();
  /// A request of the table, by any number; 0 where there is none, or another thread may have ended it.
  [[nodiscard]] Handle request_at(std::uint32_t number) const {
    return (page_->flags & kThreads) != 0 ? 0 : page_->request[number % kMostRequests].handle;
  }
  /// The program begins now: it counts its collectives from here.
  void restart();

  /// A communicator has been made of another one by all of its ranks together.
  void made(Handle parent, Handle child);
  void freed(Handle handle);
  void raise_flag(Flag flag) {
    if (page_ != nullptr) page_->flags |= flag;
  }

  [[nodiscard]] Handle plain(Handle handle) const {
    return constants_.handle_bytes == 4 ? handle & 0xffffffffU : handle;
  }
  [[nodiscard]] Handle handle_at(const void* array, int index) const;
  [[nodiscard]] bool is_null_request(Handle handle) const { return plain(handle) == constants_.null_request; }
  [[nodiscard]] const Constants& constants() const { return constants_; }
  [[nodiscard]] Page* page() { return page_; }

 private:
  static constexpr int kMostUnasked = 16;

  /// The rank alone writes, so that the processor need not lock anything.
  void step(std::uint64_t by) {
    page_->epoch.store(page_->epoch.load(std::memory_order_relaxed) + by, std::memory_order_release);
  }
  Comm look_up(Handle handle);
  Comm enlist(Handle handle, std::uint64_t id);
  Entry* find(Handle handle);
  Entry* under_way(Handle handle);
  Entry* put(Handle handle);
  void erase(Entry* entry);
  void ask();

  Page* page_ = nullptr;
  Constants constants_{};
  int depth_ = 0;
  Handle last_handle_ = 0;
  Comm last_{nullptr, nullptr};
  int unasked_ = 0;
  Handle unasked_handles_[kMostUnasked] = {};

  // Of the one thread whose calls are noted.
  __attribute__((tls_model("initial-exec"))) static thread_local constinit bool is_first_thread;
};

/// The one of this process.
extern RankPage the_rank_page;
inline RankPage& rank_page() { return the_rank_page; }

/// The name of a blocking call; null behind the last.
const char* call_name(int number);

/// The library's own function behind one of these names.
void* original(const char* name);

}  // namespace labkit::waits
