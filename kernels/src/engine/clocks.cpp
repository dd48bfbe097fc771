// What pushes a rank's clock ahead: computing, sleeping, reading it.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "parts.hpp"

namespace labkit {
namespace {

bool is_time(double seconds) { return seconds >= 0.0 && seconds < kNever; }

[[noreturn, gnu::cold, gnu::noinline]] void refuse(Rank rank, const char* does, double seconds) {
  throw std::invalid_argument("rank " + std::to_string(rank) + " " + does + " for " + std::to_string(seconds) +
                              " s; it must be finite and at least 0");
}

}  // namespace

Time Engine::now() const { return parts_->queue.now(); }
Time Engine::clock(Rank rank) const { return parts_->rank(rank).clock; }
bool Engine::shares_cores(Rank rank) const { return parts_->rank(rank).shares_cores; }
bool Engine::shares_cores() const { return parts_->cores.is_used(); }

bool Engine::compute(Rank rank, double seconds) {
  if (!is_time(seconds)) refuse(rank, "computes", seconds);
  if (parts_->calls != nullptr) parts_->calls->computed(rank, seconds);
  if (!parts_->platform->profiles().speeds.empty()) seconds = parts_->at_speed(rank, seconds);
  const Parts::RankState& state = parts_->rank(rank);
  if (!state.shares_cores) {
    parts_->work_alone(rank, seconds);
    return true;
  }
  // A detour of the system's is work, too: it lasts as long as it lasts on a core of its own.
  const Noise& noise = parts_->noise;
  const double work_s = noise.is_used() ? noise.after(rank, state.clock, seconds) - state.clock : seconds;
  if (!(work_s > 0.0)) return true;
  parts_->begin_computation(rank, work_s);
  return false;
}

void Engine::sleep(Rank rank, double seconds) {
  if (!is_time(seconds)) refuse(rank, "sleeps", seconds);
  if (parts_->calls != nullptr) parts_->calls->slept(rank, seconds);
  parts_->work_alone(rank, seconds);
}

void Engine::delay(Rank rank, double seconds) { parts_->rank(rank).clock += seconds; }

bool Engine::poll(Rank rank, double seconds) {
  CallLog* const log = std::exchange(parts_->calls, nullptr);
  if (log != nullptr) log->slept(rank, seconds);
  const bool goes_on = compute(rank, seconds);
  parts_->calls = log;
  return goes_on;
}

Time Engine::wtime(Rank rank) {
  Parts::RankState& state = parts_->rank(rank);
  if (parts_->calls != nullptr) parts_->calls->slept(rank, parts_->model.wtime_s);
  state.clock += parts_->model.wtime_s;
  return state.clock;
}

double Engine::Parts::at_speed(Rank r, double seconds) const {
  const auto& speeds = platform->profiles().speeds;
  const RankState& state = rank(r);
  const auto found = speeds.find(state.host);
  if (found == speeds.end()) return seconds;
  const Time end = found->second.after(state.clock, seconds);
  if (end < kNever) return end - state.clock;
  throw std::invalid_argument("rank " + std::to_string(r) + " computes on a host whose speed is 0 from some time on: it never ends");
}

/// The rank's clock may be ahead: then it joins the others when the engine gets there.
void Engine::Parts::begin_computation(Rank r, double work_s) {
  RankState& state = rank(r);
  state.blocked = Blocked::compute;
  computations[static_cast<std::size_t>(r)] = {state.clock, work_s};
  if (state.clock > queue.now()) {
    queue.push(state.clock, {begin_work, static_cast<std::uint32_t>(r), 0});
  } else {
    cores.begin(r, work_s);
  }
}

void Engine::Parts::end_computations(const Event& event) {
  computed.clear();
  cores.on_end(event, computed);
  for (const Rank r : computed) {
    const Computation& done = computations[static_cast<std::size_t>(r)];
    RankState& state = rank(r);
    state.clock = std::max(state.clock, queue.now());
    recorder.keep_computation(r, done.begin_s, queue.now(), done.work_s);
    make_ready(r);
  }
}

}  // namespace labkit
