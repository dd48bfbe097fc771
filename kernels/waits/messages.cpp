// Messages and requests, noted and passed on to the library.

#include <vector>

#include "calls.hpp"
#include "together.hpp"

using namespace labkit::waits;

namespace {

/// The requests of a list as they are before a call that ends some of them; none where the call is not noted.
class Listed {
 public:
  Listed(Any requests, int count, bool is_noted) : count_(is_noted && count > 0 ? count : 0) {
    if (count_ > kFew) many_.resize(static_cast<std::size_t>(count_));
    for (int i = 0; i < count_; ++i) handles()[i] = rank_page().handle_at(requests, i);
  }
  void over(int index) {
    if (index >= 0 && index < count_) rank_page().over(handles()[index]);
  }
  void all_over() {
    for (int i = 0; i < count_; ++i) over(i);
  }
  void started() {
    for (int i = 0; i < count_; ++i) rank_page().started(handles()[i]);
  }

 private:
  static constexpr int kFew = 16;  // need no memory from the heap

  Handle* handles() { return count_ > kFew ? many_.data() : few_; }

  int count_;
  Handle few_[kFew];
  std::vector<Handle> many_;
};

}  // namespace

// -- blocking messages, and those that are posted -----------------------------------------------------------------

#define COUNT int
#define NAME(call) MPI_##call
#include "counted_messages.inc"
#ifdef LABKIT_LARGE_COUNTS
#undef COUNT
#undef NAME
#define COUNT Count
#define NAME(call) MPI_##call##_c
#include "counted_messages.inc"
#endif

LABKIT_MPI MPI_Probe(int source, int tag, Handle comm, Any status) {
  LABKIT_REAL(MPI_Probe, int, int, Handle, Any);
  Blocking now(call_probe);
  now.message(kProbe, source, tag, comm, 0);
  now.wait();
  return real(source, tag, comm, status);
}

LABKIT_MPI MPI_Mprobe(int source, int tag, Handle comm, Any message, Any status) {
  LABKIT_REAL(MPI_Mprobe, int, int, Handle, Any, Any);
  Blocking now(call_mprobe);
  now.message(kProbe, source, tag, comm, 0);
  now.wait();
  return real(source, tag, comm, message, status);
}

// -- requests -----------------------------------------------------------------------------------------------------

LABKIT_MPI MPI_Start(Any request) {
  LABKIT_REAL(MPI_Start, Any);
  const int code = real(request);
  if (code == 0 && rank_page().is_noting()) rank_page().started(rank_page().handle_at(request, 0));
  return code;
}

LABKIT_MPI MPI_Startall(int count, Any requests) {
  LABKIT_REAL(MPI_Startall, int, Any);
  const int code = real(count, requests);
  Listed(requests, count, code == 0 && rank_page().is_noting()).started();
  return code;
}

LABKIT_MPI MPI_Wait(Any request, Any status) {
  LABKIT_REAL(MPI_Wait, Any, Any);
  const Handle handle = rank_page().page() == nullptr ? 0 : rank_page().handle_at(request, 0);
  Blocking now(call_wait);
  if (now.is_noted()) rank_page().wait_for(request, 1);
  now.wait_for_requests();
  int code = 0;
  // What has been begun besides may be complete, and offer nothing any more.
  const bool has_others = now.is_noted() && rank_page().page()->requests > 1;
  if (!has_others || !complete_soon(request, status, &code)) {
    if (has_others) note_as_they_complete(request);
    code = real(request, status);
  }
  if (now.is_noted()) rank_page().over(handle);
  return code;
}

LABKIT_MPI MPI_Waitall(int count, Any requests, Any statuses) {
  LABKIT_REAL(MPI_Waitall, int, Any, Any);
  Blocking now(call_waitall);
  Listed listed(requests, count, now.is_noted());
  if (now.is_noted()) rank_page().wait_for(requests, count);
  now.wait_for_requests();
  int code = 0;
  if (!now.is_noted() || (count < 2 && rank_page().page()->requests < 2)) {
    code = real(count, requests, statuses);
  } else if (!complete_soon(count, requests, statuses, &code)) {
    code = wait_one_by_one(count, requests, statuses);
  }
  listed.all_over();
  return code;
}

LABKIT_MPI MPI_Waitany(int count, Any requests, Ints index, Any status) {
  LABKIT_REAL(MPI_Waitany, int, Any, Ints, Any);
  Blocking now(call_waitany);
  Listed listed(requests, count, now.is_noted());
  if (now.is_noted()) rank_page().wait_for(requests, count);
  now.wait();
  const int code = real(count, requests, index, status);
  if (code == 0) listed.over(*index);
  return code;
}

LABKIT_MPI MPI_Waitsome(int count, Any requests, Ints done, Ints indices, Any statuses) {
  LABKIT_REAL(MPI_Waitsome, int, Any, Ints, Ints, Any);
  Blocking now(call_waitsome);
  Listed listed(requests, count, now.is_noted());
  if (now.is_noted()) rank_page().wait_for(requests, count);
  now.wait();
  const int code = real(count, requests, done, indices, statuses);
  for (int i = 0; code == 0 && i < *done; ++i) listed.over(indices[i]);
  return code;
}

LABKIT_MPI MPI_Test(Any request, Ints flag, Any status) {
  LABKIT_REAL(MPI_Test, Any, Ints, Any);
  const bool is_noted = rank_page().is_noting();
  const Handle handle = is_noted ? rank_page().handle_at(request, 0) : 0;
  const int code = real(request, flag, status);
  if (is_noted && code == 0 && *flag != 0) rank_page().over(handle);
  return code;
}

LABKIT_MPI MPI_Testall(int count, Any requests, Ints flag, Any statuses) {
  LABKIT_REAL(MPI_Testall, int, Any, Ints, Any);
  Listed listed(requests, count, rank_page().is_noting());
  const int code = real(count, requests, flag, statuses);
  if (code == 0 && *flag != 0) listed.all_over();
  return code;
}

LABKIT_MPI MPI_Testany(int count, Any requests, Ints index, Ints flag, Any status) {
  LABKIT_REAL(MPI_Testany, int, Any, Ints, Ints, Any);
  Listed listed(requests, count, rank_page().is_noting());
  const int code = real(count, requests, index, flag, status);
  if (code == 0 && *flag != 0) listed.over(*index);
  return code;
}

LABKIT_MPI MPI_Testsome(int count, Any requests, Ints done, Ints indices, Any statuses) {
  LABKIT_REAL(MPI_Testsome, int, Any, Ints, Ints, Any);
  Listed listed(requests, count, rank_page().is_noting());
  const int code = real(count, requests, done, indices, statuses);
  for (int i = 0; code == 0 && i < *done; ++i) listed.over(indices[i]);
  return code;
}

LABKIT_MPI MPI_Request_free(Any request) {
  LABKIT_REAL(MPI_Request_free, Any);
  RankPage& page = rank_page();
  if (page.is_noting()) {
    // A message that nobody asks about any more goes its own way.
    if (page.over(page.handle_at(request, 0), true)) page.raise_flag(kBuffered);
  }
  return real(request);
}

LABKIT_MPI MPI_Cancel(Any request) {
  LABKIT_REAL(MPI_Cancel, Any);
  rank_page().raise_flag(kBuffered);  // whether it has been cancelled is known at its end only
  return real(request);
}
