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

class RankPage {
 public:
  /// What differs from library to library; told by mpi4py.
  struct Constants {
    std::uint64_t world, null_comm, null_request;
    std::int32_t rank, size, handle_bytes, any_source, any_tag, proc_null, undefined, status_bytes, error_at, error_in_status,
        error_pending;
  };

  bool open(const char* path, const Constants& constants);
  void close() { page_ = nullptr; }

  /// Whether the calls of this thread are noted: nobody may note in another one's place.
  [[nodiscard]] bool is_noting();

  Comm comm(Handle handle);
  /// A blocking call: `begin` it, say what it waits for, `wait`, and `end`.
  void begin(int call);
  void wait() { page_->epoch.fetch_add(1, std::memory_order_release); }
  void end();
  Entry* wait_for(std::int32_t kind, std::int32_t peer, std::int32_t tag, const Comm& comm, std::uint64_t bytes);
  void wait_for(Any requests, int count);
  void wait_for(const Entry& entry) { page_->waiting[page_->waited++] = entry; }
  /// Within a call: what it waits for from now on, in the place of what it has waited for.
  template <typename Say>
  void wait_anew(Say say) {
    page_->waited = 0;
    say();
    page_->epoch.fetch_add(2, std::memory_order_release);
  }
  void joined(int call, std::int32_t root, const Comm& comm, std::uint64_t bytes, Entry* entry);

  void posted(Any request, std::int32_t kind, std::int32_t peer, std::int32_t tag, Handle comm, bool is_active,
              bool is_persistent, std::uint64_t bytes);
  void posted_collective(Any request, int call, Handle comm);
  void started(Handle handle);
  /// A request is complete; a persistent one stays, inactive, unless it has been freed. Whether it was active.
  bool over(Handle handle, bool is_freed = false);
  /// Whether it is known what ends a request.
  [[nodiscard]] bool is_known(Handle handle);
  /// Whether a request is one that is known and not complete, as far as is known.
  [[nodiscard]] bool is_under_way(Handle handle);
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
  Comm enlist(Handle handle, std::uint64_t id);
  Entry* find(Handle handle);
  Entry* put(Handle handle);

  Page* page_ = nullptr;
  Constants constants_{};
  int depth_ = 0;
  Handle last_handle_ = 0;
  Comm last_{nullptr, nullptr};
};

RankPage& rank_page();

/// The name of a blocking call; null behind the last.
const char* call_name(int number);

/// Whether a request is complete; it stays as it is.
bool is_complete(Handle request);

/// The library's own function behind one of these names.
void* original(const char* name);

}  // namespace labkit::waits
