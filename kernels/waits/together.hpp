// Messages that a call waits for, or leaves behind: those that are complete are taken off the page while others last.
//
// A rank in Waitall is stuck as soon as one of its messages never comes, and the others, complete long ago, would
// look as if somebody might yet end them. MPI tells of their completion to nobody else, so the call is made of
// questions that leave the requests as they are.

#pragma once

#include "rank.hpp"

namespace labkit::waits {

/// Test for as long as most exchanges take; whether that has been the whole call, whose result is then in code.
bool complete_soon(Any request, Any status, int* code);
bool complete_soon(int count, Any requests, Any statuses, int* code);

/// Until this request is complete: write on the page which of the others that have been begun are complete, too.
void note_as_they_complete(Any request);
/// What MPI_Waitall does, each request by itself as soon as it is complete; those that are not stay on the page.
int wait_one_by_one(int count, Any requests, Any statuses);

/// A send and a receive in one call.
class Both {
 public:
  /// Whether both have been begun; if not, the library's own call tells what is wrong with them.
  bool begin(Any sent, Count sent_count, Handle sent_type, int dest, int sent_tag, Any got,
             Count got_count, Handle got_type, int source, int got_tag, Handle comm);
  /// Wait for both.
  int end(Any status);

 private:
  static constexpr int kReceive = 0, kSend = 1;
  [[nodiscard]] Any request(int which) {
    return requests_ + which * rank_page().constants().handle_bytes;
  }
  /// Whether one of them is over; if so, MPI has freed its request.
  bool is_over(int which, Any status);

  alignas(Handle) char requests_[2 * sizeof(Handle)];
  int said_[2] = {-1, -1};  // where the page says that it is waited for
  bool is_ended_[2] = {};
  int code_[2] = {};
};

}  // namespace labkit::waits
