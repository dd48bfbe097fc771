// Collectives, and communicators that are made, noted and passed on to the library.

#include "calls.hpp"

using namespace labkit::waits;

namespace {

int size_of(Handle comm) {
  const Comm in = rank_page().comm(comm);
  return in.row == nullptr ? 0 : in.row->members;
}

}  // namespace

// A collective, blocking and not; the last parameter of both is the communicator.
#define LABKIT_COLLECTIVE(NAME, CALL, ROOT, BYTES, PARAMETERS, ARGUMENTS, ...) \
  LABKIT_MPI MPI_##NAME PARAMETERS {                                           \
    LABKIT_REAL(MPI_##NAME, __VA_ARGS__);                                      \
    Blocking now(CALL);                                                        \
    if (now.is_noted()) now.join(CALL, ROOT, comm, BYTES);                     \
    now.wait();                                                                \
    return real ARGUMENTS;                                                     \
  }
#define LABKIT_NONBLOCKING(NAME, CALL, PARAMETERS, ARGUMENTS, ...)                            \
  LABKIT_MPI MPI_##NAME PARAMETERS {                                                          \
    LABKIT_REAL(MPI_##NAME, __VA_ARGS__);                                                     \
    const int code = real ARGUMENTS;                                                          \
    if (code == 0 && rank_page().is_noting()) rank_page().posted_collective(request, nonblocking(CALL), comm); \
    return code;                                                                              \
  }

// The parameters that collectives have in common, with and without a root, as C passes them; counts are of an int or
// of MPI_Count.
#define P_BARRIER(Count) Handle comm
#define P_BCAST(Count) Any a, Count n, Handle t, int root, Handle comm
#define P_ROOTED(Count) Any a, Count n, Handle t, Any b, Count m, Handle u, int root, Handle comm
#define P_GATHERV(Count) Any a, Count n, Handle t, Any b, Any ms, Any d, Handle u, int root, Handle comm
#define P_SCATTERV(Count) Any a, Any ns, Any d, Handle t, Any b, Count m, Handle u, int root, Handle comm
#define P_ALL(Count) Any a, Count n, Handle t, Any b, Count m, Handle u, Handle comm
#define P_ALLGATHERV(Count) Any a, Count n, Handle t, Any b, Any ms, Any d, Handle u, Handle comm
#define P_ALLTOALLV(Count) Any a, Any ns, Any d, Handle t, Any b, Any ms, Any e, Handle u, Handle comm
#define P_ALLTOALLW(Count) Any a, Any ns, Any d, Any t, Any b, Any ms, Any e, Any u, Handle comm
#define P_REDUCE(Count) Any a, Any b, Count n, Handle t, Handle op, int root, Handle comm
#define P_ALLREDUCE(Count) Any a, Any b, Count n, Handle t, Handle op, Handle comm
#define P_SCATTERED(Count) Any a, Any b, Any ns, Handle t, Handle op, Handle comm
#define A_BARRIER comm
#define A_BCAST a, n, t, root, comm
#define A_ROOTED a, n, t, b, m, u, root, comm
#define A_GATHERV a, n, t, b, ms, d, u, root, comm
#define A_SCATTERV a, ns, d, t, b, m, u, root, comm
#define A_ALL a, n, t, b, m, u, comm
#define A_ALLGATHERV a, n, t, b, ms, d, u, comm
#define A_ALLTOALLV a, ns, d, t, b, ms, e, u, comm
#define A_REDUCE a, b, n, t, op, root, comm
#define A_ALLREDUCE a, b, n, t, op, comm
#define A_SCATTERED a, b, ns, t, op, comm
#define A_ALLTOALLW A_ALLTOALLV
#define LABKIT_PAIR(FORM, COUNT, NAME, LOWER, CALL, ROOT, BYTES, KIND)                                              \
  LABKIT_COLLECTIVE(NAME##FORM, CALL, ROOT, BYTES, (P_##KIND(COUNT)), (A_##KIND), P_##KIND(COUNT))                  \
  LABKIT_NONBLOCKING(LOWER##FORM, CALL, (P_##KIND(COUNT), Any request), (A_##KIND, request), P_##KIND(COUNT), Any)
#ifdef LABKIT_LARGE_COUNTS
#define LABKIT_COUNTED(...) LABKIT_PAIR(, int, __VA_ARGS__) LABKIT_PAIR(_c, Count, __VA_ARGS__)
#else
#define LABKIT_COUNTED(...) LABKIT_PAIR(, int, __VA_ARGS__)
#endif

LABKIT_PAIR(, int, Barrier, Ibarrier, call_barrier, -1, 0, BARRIER)
LABKIT_COUNTED(Bcast, Ibcast, call_bcast, root, bytes_of(n, t), BCAST)
LABKIT_COUNTED(Gather, Igather, call_gather, root, bytes_of(n, t) * size_of(comm), ROOTED)
LABKIT_COUNTED(Gatherv, Igatherv, call_gatherv, root, bytes_of(n, t) * size_of(comm), GATHERV)
LABKIT_COUNTED(Scatter, Iscatter, call_scatter, root, bytes_of(m, u) * size_of(comm), ROOTED)
LABKIT_COUNTED(Scatterv, Iscatterv, call_scatterv, root, bytes_of(m, u) * size_of(comm), SCATTERV)
LABKIT_COUNTED(Allgather, Iallgather, call_allgather, -1, 0, ALL)
LABKIT_COUNTED(Allgatherv, Iallgatherv, call_allgatherv, -1, 0, ALLGATHERV)
LABKIT_COUNTED(Alltoall, Ialltoall, call_alltoall, -1, 0, ALL)
LABKIT_COUNTED(Alltoallv, Ialltoallv, call_alltoallv, -1, 0, ALLTOALLV)
LABKIT_COUNTED(Alltoallw, Ialltoallw, call_alltoallw, -1, 0, ALLTOALLW)
LABKIT_COUNTED(Reduce, Ireduce, call_reduce, root, bytes_of(n, t), REDUCE)
LABKIT_COUNTED(Allreduce, Iallreduce, call_allreduce, -1, 0, ALLREDUCE)
LABKIT_COUNTED(Reduce_scatter, Ireduce_scatter, call_reduce_scatter, -1, 0, SCATTERED)
LABKIT_COUNTED(Reduce_scatter_block, Ireduce_scatter_block, call_reduce_scatter_block, -1, 0, ALLREDUCE)
LABKIT_COUNTED(Scan, Iscan, call_scan, -1, bytes_of(n, t), ALLREDUCE)
LABKIT_COUNTED(Exscan, Iexscan, call_exscan, -1, bytes_of(n, t), ALLREDUCE)

// -- communicators ------------------------------------------------------------------------------------------------

// Made by all ranks of another one together: as many as the program makes, each bears its number.
#define LABKIT_MAKER(NAME, CALL, PARAMETERS, ARGUMENTS, ...)                           \
  LABKIT_MPI MPI_##NAME PARAMETERS {                                                   \
    LABKIT_REAL(MPI_##NAME, __VA_ARGS__);                                              \
    Blocking now(CALL);                                                                \
    if (now.is_noted()) now.join(CALL, -1, comm, 0);                                   \
    now.wait();                                                                        \
    const int code = real ARGUMENTS;                                                   \
    if (code == 0 && now.is_noted()) rank_page().made(comm, rank_page().handle_at(made, 0)); \
    return code;                                                                       \
  }

LABKIT_MAKER(Comm_dup, call_dup, (Handle comm, Any made), (comm, made), Handle, Any)
LABKIT_MAKER(Comm_dup_with_info, call_dup, (Handle comm, Handle info, Any made), (comm, info, made), Handle, Handle, Any)
LABKIT_MAKER(Comm_split, call_split, (Handle comm, int color, int key, Any made), (comm, color, key, made), Handle, int,
             int, Any)
LABKIT_MAKER(Comm_split_type, call_split_type, (Handle comm, int kind, int key, Handle info, Any made),
             (comm, kind, key, info, made), Handle, int, int, Handle, Any)
LABKIT_MAKER(Comm_create, call_create, (Handle comm, Handle group, Any made), (comm, group, made), Handle, Handle, Any)
LABKIT_MAKER(Cart_create, call_create_cart, (Handle comm, int n, Any dims, Any periods, int reorder, Any made),
             (comm, n, dims, periods, reorder, made), Handle, int, Any, Any, int, Any)
LABKIT_MAKER(Cart_sub, call_sub, (Handle comm, Any remain, Any made), (comm, remain, made), Handle, Any, Any)
LABKIT_MAKER(Graph_create, call_create_graph, (Handle comm, int n, Any index, Any edges, int reorder, Any made),
             (comm, n, index, edges, reorder, made), Handle, int, Any, Any, int, Any)
LABKIT_MAKER(Dist_graph_create, call_create_dist_graph,
             (Handle comm, int n, Any sources, Any degrees, Any targets, Any weights, Handle info, int reorder, Any made),
             (comm, n, sources, degrees, targets, weights, info, reorder, made), Handle, int, Any, Any, Any, Any, Handle,
             int, Any)
LABKIT_MAKER(Dist_graph_create_adjacent, call_create_dist_graph,
             (Handle comm, int in, Any sources, Any from, int out, Any targets, Any to, Handle info, int reorder, Any made),
             (comm, in, sources, from, out, targets, to, info, reorder, made), Handle, int, Any, Any, int, Any, Any,
             Handle, int, Any)

LABKIT_MPI MPI_Comm_free(Any comm) {
  LABKIT_REAL(MPI_Comm_free, Any);
  if (rank_page().is_noting()) rank_page().freed(rank_page().handle_at(comm, 0));
  return real(comm);
}

LABKIT_MPI MPI_Comm_disconnect(Any comm) {
  LABKIT_REAL(MPI_Comm_disconnect, Any);
  if (rank_page().is_noting()) rank_page().freed(rank_page().handle_at(comm, 0));
  return real(comm);
}

// The program needs nobody any more, and nobody may be freed below the supervisor's eyes.
LABKIT_MPI MPI_Finalize() {
  static const auto real = reinterpret_cast<int (*)()>(original("PMPI_Finalize"));
  rank_page().raise_flag(kFinished);
  return real();
}

// -- for labkit ---------------------------------------------------------------------------------------------------

namespace labkit::waits {

const char* call_name(int number) {
  static const char* const names[] = {
      "",        "Send",     "Ssend",      "Rsend",    "Recv",        "Probe",      "Mprobe",     "Sendrecv",
      "Sendrecv_replace",    "Wait",       "Waitall",  "Waitany",     "Waitsome",   "Barrier",    "Bcast",
      "Gather",  "Gatherv",  "Scatter",    "Scatterv", "Allgather",   "Allgatherv", "Alltoall",   "Alltoallv",
      "Alltoallw",           "Reduce",     "Allreduce",               "Reduce_scatter",           "Reduce_scatter_block",
      "Scan",    "Exscan",   "Dup",        "Split",    "Split_type",  "Create",     "Create_cart", "Create_graph",
      "Create_dist_graph",   "Sub",
      "Ibarrier",            "Ibcast",   "Igather",    "Igatherv", "Iscatter",    "Iscatterv",  "Iallgather",
      "Iallgatherv",         "Ialltoall",              "Ialltoallv",              "Ialltoallw", "Ireduce",
      "Iallreduce",          "Ireduce_scatter",        "Ireduce_scatter_block",   "Iscan",      "Iexscan",
  };
  static_assert(sizeof names / sizeof *names == call_count && call_count <= kMostCalls);
  return number >= 0 && number < call_count ? names[number] : nullptr;
}

}  // namespace labkit::waits

/// Begin to note; called once, when MPI has been initialized. Returns 1 if the page is there.
LABKIT_MPI labkit_waits_open(const char* path, const RankPage::Constants* constants) {
  return rank_page().open(path, *constants) ? 1 : 0;
}

/// The program begins, on all ranks behind the same barrier: what labkit has called for itself does not count.
extern "C" __attribute__((visibility("default"))) void labkit_waits_restart() { rank_page().restart(); }

/// What has been begun and is complete by now offers nothing any more; how many these are.
extern "C" __attribute__((visibility("default"))) int labkit_waits_settle() { return rank_page().settle(); }
