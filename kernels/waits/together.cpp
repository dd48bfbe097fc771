#include "together.hpp"

#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

namespace labkit::waits {

namespace {

/// An exchange that takes longer is looked at request by request: far less than what a deadlock lasts.
constexpr std::chrono::milliseconds kSoon{5};
/// Questions between two looks at the clock.
constexpr int kQuestions = 16;

class Soon {
 public:
  /// Whether there is time for one more question.
  bool is_now() {
    if (++asked_ % kQuestions != 0) return true;
    const auto now = Clock::now();
    if (asked_ == kQuestions) end_ = now + kSoon;
    return now < end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  int asked_ = 0;
  Clock::time_point end_;
};

/// The program's statuses, unless it ignores them.
class Statuses {
 public:
  explicit Statuses(Any first)  // MPI_STATUSES_IGNORE is 0 or 1
      : first_(reinterpret_cast<std::uintptr_t>(first) < sizeof(int) ? nullptr : static_cast<char*>(first)) {}

  [[nodiscard]] Any at(int i) const { return first_ == nullptr ? ignored_ : first_ + i * layout().status_bytes; }
  void set_error(int i, std::int32_t code) const {
    if (first_ != nullptr) std::memcpy(first_ + i * layout().status_bytes + layout().error_at, &code, sizeof code);
  }

 private:
  static const RankPage::Constants& layout() { return rank_page().constants(); }

  char* first_;
  alignas(16) mutable char ignored_[128];
};

int wait(Any request, Any status) {
  static const auto real = reinterpret_cast<int (*)(Any, Any)>(original("PMPI_Wait"));
  return real(request, status);
}

/// A nonblocking call in the form that holds the count.
class Post {
 public:
  Post(const char* name, const char* large) : call_(reinterpret_cast<Call>(original(name))), large_(large) {}

  int operator()(Any buffer, Count count, Handle type, int peer, int tag, Handle comm, Any request) const {
    using Large = int (*)(Any, Count, Handle, int, int, Handle, Any);
    if (count > std::numeric_limits<int>::max()) {
      return reinterpret_cast<Large>(original(large_))(buffer, count, type, peer, tag, comm, request);
    }
    return call_(buffer, static_cast<int>(count), type, peer, tag, comm, request);
  }

 private:
  using Call = int (*)(Any, int, Handle, int, int, Handle, Any);

  Call call_;
  const char* large_;
};

}  // namespace

bool is_complete(Handle request) {
  using GetStatus = int (*)(Handle, Ints, Any);
  static const auto get_status = reinterpret_cast<GetStatus>(original("PMPI_Request_get_status"));
  int flag = 0;
  alignas(16) char status[128];
  // One that has failed is complete: MPICH gives its error here, and its own Wait tells the program.
  return !rank_page().is_null_request(request) && (get_status(request, &flag, status) != 0 || flag != 0);
}

bool complete_soon(Any request, Any status, int* code) {
  using Test = int (*)(Any, Ints, Any);
  static const auto test = reinterpret_cast<Test>(original("PMPI_Test"));
  int flag = 0;
  for (Soon soon; soon.is_now();) {
    *code = test(request, &flag, status);
    if (*code != 0 || flag != 0) return true;
  }
  return false;
}

bool complete_soon(int count, Any requests, Any statuses, int* code) {
  using TestAll = int (*)(int, Any, Ints, Any);
  static const auto test_all = reinterpret_cast<TestAll>(original("PMPI_Testall"));
  int flag = 0;
  for (Soon soon; soon.is_now();) {
    *code = test_all(count, requests, &flag, statuses);
    if (*code != 0 || flag != 0) return true;
  }
  return false;
}

void note_as_they_complete(Any request) {
  RankPage& page = rank_page();
  const Handle one = page.handle_at(request, 0);
  for (std::uint32_t other = 0; page.is_under_way(one); ++other) {
    if (page.has_completed(one) || page.has_completed(page.request_at(other))) {
      page.wait_anew([&] { page.wait_for(request, 1); });
    }
  }
}

int wait_one_by_one(int count, Any requests, Any statuses) {
  RankPage& page = rank_page();
  std::vector<int> known;
  std::vector<int> unknown;
  for (int i = 0; i < count; ++i) {
    const Handle one = page.handle_at(requests, i);
    (page.is_null_request(one) || page.is_known(one) ? known : unknown).push_back(i);
  }
  const Statuses in(statuses);
  int code = 0;
  int failed = -1;
  const auto ends_well = [&](int i) {
    const Handle one = page.handle_at(requests, i);
    if (code != 0 || (page.is_under_way(one) && !page.has_completed(one))) return false;
    code = wait(static_cast<char*>(requests) + i * page.constants().handle_bytes, in.at(i));
    if (code != 0) failed = i;
    return code == 0;
  };
  for (std::uint32_t other = 0; code == 0 && !known.empty(); ++other) {
    const auto ended = std::erase_if(known, ends_well);
    if (ended > 0 || page.has_completed(page.request_at(other))) {
      page.wait_anew([&] { page.wait_for(requests, count); });
    }
  }
  std::erase_if(unknown, ends_well);  // nobody knows who ends them: nobody is blamed meanwhile
  if (code == 0) return 0;
  for (int i = 0; i < count; ++i) in.set_error(i, 0);
  for (const int i : known) in.set_error(i, page.constants().error_pending);
  for (const int i : unknown) in.set_error(i, page.constants().error_pending);
  in.set_error(failed, code);
  return page.constants().error_in_status;
}

bool Both::begin(Any sent, Count sent_count, Handle sent_type, int dest, int sent_tag, Any got,
                 Count got_count, Handle got_type, int source, int got_tag, Handle comm) {
  using Request = int (*)(Any);
  static const auto cancel = reinterpret_cast<Request>(original("PMPI_Cancel"));
  static const auto free = reinterpret_cast<Request>(original("PMPI_Request_free"));
  static const Post receive{"PMPI_Irecv", "PMPI_Irecv_c"};
  static const Post send{"PMPI_Isend", "PMPI_Isend_c"};
  const int nobody = rank_page().constants().proc_null;
  int said = 0;
  if (dest != nobody) said_[kSend] = said++;
  if (source != nobody) said_[kReceive] = said;
  if (receive(got, got_count, got_type, source, got_tag, comm, request(kReceive)) != 0) return false;
  if (send(sent, sent_count, sent_type, dest, sent_tag, comm, request(kSend)) == 0) return true;
  cancel(request(kReceive));
  free(request(kReceive));
  return false;
}

bool Both::is_over(int which, Any status) {
  using Test = int (*)(Any, Ints, Any);
  static const auto test = reinterpret_cast<Test>(original("PMPI_Test"));
  if (is_ended_[which]) return true;
  int flag = 0;
  code_[which] = test(request(which), &flag, status);
  return is_ended_[which] = code_[which] != 0 || flag != 0;
}

int Both::end(Any status) {
  RankPage& page = rank_page();
  alignas(16) char ignored[128];
  const auto are_over = [&] {
    const bool is_sent = is_over(kSend, ignored);
    return is_over(kReceive, status) && is_sent;
  };
  for (Soon soon; !are_over() && soon.is_now();) {
  }
  while (!are_over()) {
    const int ended = is_ended_[kSend] ? kSend : kReceive;
    if (!is_ended_[ended] || said_[ended] < 0) continue;
    said_[ended] = -1;
    if (const int other = said_[kSend + kReceive - ended]; other >= 0) {
      const Entry left = page.page()->waiting[other];
      page.wait_anew([&] { page.wait_for(left); });
    }
  }
  return code_[kSend] != 0 ? code_[kSend] : code_[kReceive];
}

}  // namespace labkit::waits
