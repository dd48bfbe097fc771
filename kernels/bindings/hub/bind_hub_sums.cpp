// _kernels.HubSums: what the ranks of a simulated run call, summed up as they call it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hub/hub.hpp"
#include "labkit/engine/counts.hpp"
#include "labkit/trace/call_sums.hpp"
#include "registration.hpp"
#include "summed_columns.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

/// From which call path a message is sent the engine counts, also for collectives that go on beside their ranks.
class HubSums {
 public:
  explicit HubSums(Hub& hub) : hub_(hub) {
    if (hub.engine().counts() == nullptr) hub.engine().keep_counts();
    counts().keep_places();
  }

  /// The running rank begins a call; the rank.
  Rank opened(nb::handle name, std::int32_t place) {
    const Rank rank = running();
    settle(rank);
    charge_ahead();
    const std::int32_t path = sums_.call(rank, number_of(name), place, clock(rank));
    counts().move(rank, path);
    return rank;
  }
  void closed(Rank rank) {
    settle(rank);
    rank_of(rank).poll = -1;
    over(rank);
  }
  /// The call that the running rank is in is a collective, to which it gives so much.
  void joined(Rank rank, std::int64_t bytes) { rank_of(rank).given = bytes; }
  /// The running rank gives so much more to the collective that it is in.
  void gave(std::int64_t bytes) {
    Own& own = rank_of(running());
    if (own.given >= 0) own.given += bytes;
  }
  /// A call found nothing: no call of its own, if it follows the last such one closely.
  void polled(Rank rank) {
    const auto [path, began_s] = sums_.inside(rank);
    const Own before = rank_of(rank);
    over(rank);
    if (before.poll == path && began_s - before.poll_s <= kSpin_s) sums_.again(rank, path);
    rank_of(rank).poll = path;
    rank_of(rank).poll_s = clock(rank);
  }
  void enter(Rank rank, std::string_view phase, double now_s) { sums_.enter(rank, phase, now_s); }
  void leave(Rank rank, std::string_view phase, double now_s) { sums_.leave(rank, phase, now_s); }

  /// The run is over: the sums, and the names of the calls by their numbers.
  nb::dict columns() {
    for (Rank rank = 0; rank < hub_.ranks(); ++rank) {
      settle(rank);
      sums_.finish(rank, clock(rank));
    }
    std::vector<std::pair<std::uint64_t, PlaceCounts>> sent(counts().by_place().begin(), counts().by_place().end());
    std::sort(sent.begin(), sent.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [key, own] : sent) {
      const std::int32_t path = Counts::place_of(key);
      if (path < 0) continue;
      sums_.sent(Counts::rank_of(key), path, static_cast<std::int64_t>(own.sent),
                 static_cast<std::int64_t>(own.sent_bytes), static_cast<std::int64_t>(own.empty));
    }
    nb::dict columns = summed_columns(sums_, 0);
    columns["calls"] = calls_;
    return columns;
  }

 private:
  /// Polls that follow each other within this time are one call, as in a trace.
  static constexpr double kSpin_s = 20e-6;

  struct Own {
    std::int64_t given = -1;  ///< to the collective that it is in; -1: it is in none
    std::int32_t poll = -1;   ///< call path of its last poll, and when that was over
    double poll_s = 0.0;
  };

  [[nodiscard]] Rank running() const {
    if (hub_.current() < 0) throw std::logic_error("no rank of this run is running");
    return hub_.current();
  }
  [[nodiscard]] Counts& counts() { return *hub_.engine().counts(); }
  [[nodiscard]] double clock(Rank rank) { return hub_.engine().clock(rank); }
  Own& rank_of(Rank rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (index >= ranks_.size()) ranks_.resize(index + 1);
    return ranks_[index];
  }
  /// What the rank has spent until a call that charges it.
  void charge_ahead() {
    HostClock& host = hub_.host_clock();
    if (!host.is_on()) return;
    const double flops = host.take_ahead(static_cast<std::size_t>(running()));
    if (flops > 0.0 && !hub_.compute_flops(flops)) throw nb::python_error();
  }
  void settle(Rank rank) {
    const std::int64_t bytes = std::exchange(rank_of(rank).given, -1);
    const std::int32_t path = bytes < 0 ? -1 : sums_.inside(rank).first;
    if (path >= 0) sums_.joined(rank, path, bytes, false);  // its bytes are those of its messages
  }
  void over(Rank rank) {
    hub_.skip_host();
    sums_.over(rank, clock(rank));
    counts().move(rank, -1);
  }
  /// Names are strings of a table, which live as long as the process: most are known by their address.
  std::int32_t number_of(nb::handle name) {
    if (const auto found = known_.find(name.ptr()); found != known_.end()) return found->second;
    const auto [found, is_new] =
        numbers_.try_emplace(nb::cast<std::string>(name), static_cast<std::int32_t>(nb::len(calls_)));
    if (is_new) calls_.append(name);
    known_.emplace(name.ptr(), found->second);
    kept_.append(name);
    return found->second;
  }

  Hub& hub_;
  CallSums sums_;
  std::vector<Own> ranks_;
  nb::list calls_;  // by number
  nb::list kept_;   // whose addresses are known
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::unordered_map<PyObject*, std::int32_t> known_;
};

const Registration registration(70, [](nb::module_& module) {
  nb::class_<HubSums>(module, "HubSums", "What the ranks of a simulated run call, summed up as they call it.")
      .def(nb::init<Hub&>(), "hub"_a, nb::keep_alive<1, 2>())
      .def("opened", &HubSums::opened, "name"_a, "place"_a, nb::sig("def opened(self, name: str, place: int) -> int"),
           "The running rank begins a call; the rank.")
      .def("closed", &HubSums::closed, "rank"_a, "A call is over.")
      .def("joined", &HubSums::joined, "rank"_a, "bytes"_a, "A call is a collective, to which its rank gives so much.")
      .def("gave", &HubSums::gave, "bytes"_a, "The running rank gives so much more to the collective that it is in.")
      .def("polled", &HubSums::polled, "rank"_a, "A call found nothing.")
      .def("enter", &HubSums::enter, "rank"_a, "phase"_a, "now_s"_a, "A rank enters a phase.")
      .def("leave", &HubSums::leave, "rank"_a, "phase"_a, "now_s"_a, "A rank leaves the innermost phase of that name.")
      .def("columns", &HubSums::columns, "The run is over: its sums by rank and call path, an array a column.");
});

}  // namespace
}  // namespace labkit::bindings
