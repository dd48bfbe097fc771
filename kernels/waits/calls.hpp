// The calls that are noted, by number, and how a blocking one is noted.
//
// Calls that count elements have a second form since MPI 4, with MPI_Count and a name that ends in _c. mpi4py calls
// it wherever it finds the name: it may be seen here (LABKIT_LARGE_COUNTS) only if the MPI library has it.

#pragma once

#include "rank.hpp"

namespace labkit::waits {

enum Call : int {
  call_none, call_send, call_ssend, call_rsend, call_recv, call_probe, call_mprobe, call_sendrecv, call_sendrecv_replace,
  call_wait, call_waitall, call_waitany, call_waitsome, call_barrier, call_bcast, call_gather, call_gatherv,
  call_scatter, call_scatterv, call_allgather, call_allgatherv, call_alltoall, call_alltoallv, call_alltoallw,
  call_reduce, call_allreduce, call_reduce_scatter, call_reduce_scatter_block, call_scan, call_exscan, call_dup,
  call_split, call_split_type, call_create, call_create_cart, call_create_graph, call_create_dist_graph, call_sub,
  call_first_nonblocking,  // as many as there are blocking ones from call_barrier to call_exscan, in their order
  call_count = call_first_nonblocking + call_exscan - call_barrier + 1
};

/// The form that returns at once: it does not match the blocking one.
constexpr Call nonblocking(Call call) { return static_cast<Call>(call_first_nonblocking + call - call_barrier); }

/// A blocking call of the program, from its making to its end; nothing where it is not noted.
class Blocking {
 public:
  explicit Blocking(int call) : page_(rank_page()), is_noted_(page_.is_noting()) {
    if (is_noted_) page_.begin(call);
  }
  ~Blocking() {
    if (is_noted_) page_.end();
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

  [[nodiscard]] bool is_noted() const { return is_noted_; }
  void wait() {
    if (!is_noted_) return;
    page_.settle_sent();
    page_.wait();
  }
  /// As `wait`, in a call that asks of all requests itself.
  void wait_for_requests() {
    if (is_noted_) page_.wait();
  }
  void message(Kind kind, int peer, int tag, Handle comm, std::uint64_t bytes) {
    if (is_noted_) page_.wait_for(kind, peer, tag, page_.comm(comm), bytes);
  }
  void join(int call, int root, Handle comm, std::uint64_t bytes) {
    if (!is_noted_) return;
    const Comm in = page_.comm(comm);
    page_.joined(call, root, in, bytes, page_.wait_for(kOther, page_.constants().any_source, 0, in, bytes));
  }

 private:
  RankPage& page_;
  const bool is_noted_;
};

/// Every library sends so little at once, whoever receives it and when: the other half of an exchange tells its state.
inline constexpr std::uint64_t kTinyBytes = 64;

/// How much a buffer holds; 0 where MPI does not say.
std::uint64_t bytes_of(Count count, Handle type);

}  // namespace labkit::waits

/// Names of MPI must be seen from outside: mpi4py's own are bound to them.
#define LABKIT_MPI extern "C" __attribute__((visibility("default"))) int
#define LABKIT_TEXT(name) #name
/// The library's own function of this name.
#define LABKIT_REAL(name, ...) \
  static const auto real = reinterpret_cast<int (*)(__VA_ARGS__)>(original("P" LABKIT_TEXT(name)))
