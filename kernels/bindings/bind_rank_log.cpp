// _kernels.RankLog: what one rank of a real run calls, written as the simulator writes its runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ctime>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "labkit/engine/call_log.hpp"
#include "registration.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

/// The log of one rank. Computation is the CPU time of the calling thread between leave() and enter().
class RankLog {
 public:
  RankLog(Rank rank, double flops_per_s, bool is_measuring)
      : rank_(rank),
        log_(std::vector<double>(static_cast<std::size_t>(rank < 0 ? 0 : rank) + 1, flops_per_s)),
        is_measuring_(is_measuring) {
    if (rank < 0) throw std::invalid_argument("a rank is 0 or more");
    leave();
  }

  void enter() {
    if (!is_measuring_) return;
    const double seconds = cpu_s() - left_s_;
    measured_s_ += seconds;
    log_.computed(rank_, seconds);
  }
  void leave() {
    if (is_measuring_) left_s_ = cpu_s();
  }
  void compute(double seconds) { log_.computed(rank_, seconds); }

  /// The number by which the other calls know this post.
  std::uint32_t post(bool is_send, Rank peer, std::int32_t tag, std::uint64_t bytes, Context context, bool is_synchronous,
                     bool is_buffered, bool is_blocking) {
    Request request;
    request.kind = is_send ? RequestKind::send : RequestKind::receive;
    request.owner = rank_;
    request.peer = peer;
    request.tag = tag;
    request.bytes = bytes;
    request.context = context;
    const SendMode mode = is_synchronous ? SendMode::synchronous : is_buffered ? SendMode::buffered : SendMode::standard;
    log_.posted(request, posts_, mode, is_blocking);
    return posts_++;
  }
  void matched(std::uint32_t post, Rank source, std::int32_t tag, std::uint64_t bytes) {
    Request request;
    request.owner = rank_;
    request.source = source;
    request.source_tag = tag;
    request.received_bytes = bytes;
    log_.matched(request, post);
  }
  void waited(const std::vector<std::uint32_t>& posts) {
    ids_.clear();
    for (const std::uint32_t post : posts) ids_.push_back({post, 0});
    log_.waited(rank_, ids_);
  }
  void cancelled(std::uint32_t post) { log_.cancelled(rank_, post); }
  void probed(Rank source, std::int32_t tag, Context context) { log_.probed(rank_, source, tag, context); }
  void collective(std::string text) {
    log_.begin_collective(rank_, std::move(text));
    log_.end_collective(rank_);
  }
  void declare(std::string text) { log_.declare(rank_, std::move(text)); }

  [[nodiscard]] std::string lines() const { return log_.lines(rank_); }
  [[nodiscard]] std::uint64_t calls() const { return log_.calls(); }
  [[nodiscard]] double measured_s() const { return measured_s_; }

 private:
  static double cpu_s() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  Rank rank_;
  CallLog log_;
  bool is_measuring_;
  double left_s_ = 0.0;
  double measured_s_ = 0.0;
  std::uint32_t posts_ = 0;
  std::vector<RequestId> ids_;
};

const Registration registration(42, [](nb::module_& module) {
  nb::class_<RankLog>(module, "RankLog", "What one rank of a real run calls, for a time-independent trace.")
      .def(nb::init<Rank, double, bool>(), "rank"_a, "flops_per_s"_a, "is_measuring"_a)
      .def("enter", &RankLog::enter, "A call begins: the thread's CPU time since leave() was computation.")
      .def("leave", &RankLog::leave, "A call is over.")
      .def("compute", &RankLog::compute, "seconds"_a, "Computation that the program charges.")
      .def("post", &RankLog::post, "is_send"_a, "peer"_a, "tag"_a, "bytes"_a, "context"_a, "is_synchronous"_a,
           "is_buffered"_a, "is_blocking"_a, "A send or a receive; the number by which it is known.")
      .def("matched", &RankLog::matched, "post"_a, "source"_a, "tag"_a, "bytes"_a, "What a receive got.")
      .def("waited", &RankLog::waited, "posts"_a, "A wait is over: one for all of these.")
      .def("cancelled", &RankLog::cancelled, "post"_a)
      .def("probed", &RankLog::probed, "source"_a, "tag"_a, "context"_a)
      .def("collective", &RankLog::collective, "text"_a, "A collective's action; empty: nothing moves.")
      .def("declare", &RankLog::declare, "text"_a, "A communicator's members.")
      .def("lines", [](const RankLog& log) {
             const std::string lines = log.lines();
             return nb::bytes(lines.data(), lines.size());
           }, "The actions as lines of a trace.")
      .def_prop_ro("calls", &RankLog::calls)
      .def_prop_ro("measured_s", &RankLog::measured_s, "CPU seconds that counted as computation.");
});

}  // namespace
}  // namespace labkit::bindings
