// Ranks that begin and end, the run loop, and what the engine reports.
#include "labkit/engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "parts.hpp"

namespace labkit {
namespace {

constexpr Network::EventKinds kNetworkKinds{2, 3, 9};  // Parts::latency_over, Parts::flow_end, Parts::link_change

std::shared_ptr<const Platform> require(std::shared_ptr<const Platform> platform) {
  if (!platform) throw std::invalid_argument("the engine needs a platform");
  return platform;
}

const std::vector<HostId>& checked(const std::vector<HostId>& hosts, const Platform& platform) {
  if (hosts.empty()) throw std::invalid_argument("the engine needs at least one rank");
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] < 0 || static_cast<std::size_t>(hosts[i]) >= platform.host_count()) {
      throw std::invalid_argument("rank " + std::to_string(i) + " is placed on host " + std::to_string(hosts[i]) +
                                  "; the platform has hosts 0 to " + std::to_string(platform.host_count() - 1));
    }
  }
  return hosts;
}

/// Several ranks on a host make messages between the same two hosts likely.
SharingOptions resolved(SharingOptions options, std::vector<HostId> hosts) {
  if (options.classes != Classes::automatic) return options;
  std::sort(hosts.begin(), hosts.end());
  const bool share = std::adjacent_find(hosts.begin(), hosts.end()) != hosts.end();
  options.classes = share ? Classes::always : Classes::never;
  return options;
}

}  // namespace

Engine::Parts::Parts(std::shared_ptr<const Platform> platform_, Model model_,
                     std::vector<HostId> hosts, SharingOptions options, std::size_t spare_ranks)
    : platform(require(std::move(platform_))),
      model(std::move(model_)),
      network(platform, model, queue, kNetworkKinds, resolved(options, hosts)),
      matching(slab, hosts.size() + spare_ranks, model.match_s > 0),
      rank_count(static_cast<Rank>(hosts.size() + spare_ranks)),
      ranks(hosts.size() + spare_ranks),
      cores(*platform, checked(hosts, *platform), queue, end_work) {
  static_assert(kNetworkKinds.latency_over == latency_over && kNetworkKinds.flow_end == flow_end);
  static_assert(kNetworkKinds.link_change == link_change);
  model.validate();
  if (cores.is_used()) computations.resize(ranks.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    ranks[i].host = hosts[i];
    ranks[i].shares_cores = cores.are_shared_by(static_cast<Rank>(i));
    if (ranks[i].shares_cores && platform->profiles().speeds.contains(hosts[i])) {
      throw std::invalid_argument("host " + std::to_string(hosts[i]) +
                                  " has a speed that changes with time, and more ranks than cores; give it at most a rank a core");
    }
  }
}

Request& Engine::Parts::live(RequestId id) {
  if (!slab.is_live(id)) throw std::logic_error("a request handle that was released is used again");
  return slab.at(id.index);
}

Engine::Engine(std::shared_ptr<const Platform> platform, Model model,
               std::vector<HostId> rank_hosts, SharingOptions options, std::size_t spare_ranks)
    : parts_(std::make_unique<Parts>(std::move(platform), std::move(model),
                                     std::move(rank_hosts), options, spare_ranks)) {}

Engine::~Engine() {
  RequestSlab& slab = parts_->slab;
  for (std::uint32_t i = 0; i < slab.slot_count(); ++i) {
    Request& request = slab.at(i);
    if (request.state != RequestState::free && request.has_snapshot) request.client->discard(request);
  }
}

Rank Engine::rank_count() const { return parts_->rank_count; }
const Model& Engine::model() const { return parts_->model; }
const Platform& Engine::platform() const { return *parts_->platform; }
HostId Engine::host_of(Rank rank) const { return parts_->rank(rank).host; }
void Engine::set_noise(Noise noise) {
  if (!noise.fits(static_cast<std::size_t>(rank_count()))) throw std::invalid_argument("noise needs a slowdown for every rank");
  parts_->noise = std::move(noise);
}
Recorder& Engine::recorder() { return parts_->recorder; }
void Engine::keep_counts() { parts_->counts = std::make_unique<Counts>(static_cast<std::size_t>(rank_count())); }
const Counts* Engine::counts() const { return parts_->counts.get(); }
Counts* Engine::counts() { return parts_->counts.get(); }
std::uint64_t Engine::events() const { return parts_->events; }
Blocked Engine::blocked(Rank rank) const { return parts_->rank(rank).blocked; }

void Engine::keep_buffered_sends() { parts_->buffered = std::make_unique<BufferedSends>(static_cast<std::size_t>(rank_count())); }
const BufferedSends* Engine::buffered_sends() const { return parts_->buffered.get(); }
void Engine::note_look(Rank rank) {
  if (parts_->buffered) parts_->buffered->looked(rank);
}

void Engine::set_call_log(CallLog* log) { parts_->calls = log; }
CallLog* Engine::call_log() { return parts_->calls; }

Engine::ToleranceUse Engine::tolerance_use() const {
  const Network::ToleranceUse& use = parts_->network.tolerance_use();
  return {parts_->network.sharing().repairs(), use.instants, use.loose, use.certified,
          use.worst.perturbation, use.worst.without_bottleneck};
}

Time Engine::makespan() const {
  Time latest = 0.0;
  for (Rank rank = 0; rank < rank_count(); ++rank) latest = std::max(latest, clock(rank));
  return latest;
}

std::vector<RequestId> Engine::requests_of(Rank rank) const {
  std::vector<RequestId> out;
  for (std::uint32_t i = 0; i < parts_->slab.slot_count(); ++i) {
    const Request& request = parts_->slab.at(i);
    if (request.state != RequestState::free && request.owner == rank) {
      out.push_back(parts_->slab.id_of(i));
    }
  }
  return out;
}

std::vector<std::vector<RequestId>> Engine::requests_by_rank() const {
  std::vector<std::vector<RequestId>> out(static_cast<std::size_t>(rank_count()));
  for (std::uint32_t i = 0; i < parts_->slab.slot_count(); ++i) {
    const Request& request = parts_->slab.at(i);
    if (request.state != RequestState::free) out[static_cast<std::size_t>(request.owner)].push_back(parts_->slab.id_of(i));
  }
  return out;
}

void Engine::place(Rank rank, HostId host) { parts_->rank(rank).host = checked({host}, *parts_->platform).front(); }

void Engine::start(Rank rank, Time at) {
  Parts::RankState& state = parts_->rank(rank);
  state.clock = at;
  if (at > now()) {
    parts_->queue.push(at, {Parts::begin, static_cast<std::uint32_t>(rank), 0});
  } else {
    parts_->make_ready(rank);
  }
}

void Engine::finish(Rank rank) { parts_->rank(rank).blocked = Blocked::finished; }

void Engine::wake(Rank rank) { parts_->make_ready(rank); }

void Engine::set_driver(Rank rank, Driver* driver) { parts_->rank(rank).driver = driver; }

void Engine::Parts::make_ready(Rank r) {
  RankState& state = rank(r);
  state.blocked = Blocked::no;
  if (state.is_ready) return;
  state.is_ready = true;
  (state.driver != nullptr ? driven : ready).push(r);
}

Rank Engine::next_ready() {
  if (parts_->ready.is_empty()) return -1;
  const Rank rank = parts_->ready.pop();
  parts_->rank(rank).is_ready = false;
  return rank;
}

void Engine::Parts::handle(const Event& event) {
  std::uint32_t cookie = kNone;
  switch (event.kind) {
    case post_send:
      --rank(slab.at(event.id).actor).queued_posts;
      act_send(event.id);
      break;
    case post_receive:
      --rank(slab.at(event.id).actor).queued_posts;
      act_receive(event.id);
      break;
    case latency_over:
      network.on_latency_over(event);
      break;
    case flow_end:
      if (network.on_flow_end(event, cookie)) flow_over(cookie);
      break;
    case catch_up:
      caught_up(static_cast<Rank>(event.id));
      break;
    case operation_over:
      operation_is_over(event.id, queue.now());
      break;
    case begin_work:
      cores.begin(static_cast<Rank>(event.id), computations[event.id].work_s);
      break;
    case end_work:
      end_computations(event);
      break;
    case link_change:
      network.on_link_change();
      break;
    default:
      make_ready(static_cast<Rank>(event.id));
  }
}

/// An event comes soon: what it begins with.
void Engine::Parts::fetch(const Event& event) const {
  switch (event.kind) {
    case post_send:
    case post_receive: slab.fetch(event.id); break;
    case latency_over:
    case flow_end: network.fetch(event.id); break;
    default:
      if (event.id < ranks.size()) fetch_line(&ranks[event.id]);
  }
}

/// An event comes very soon, and what it begins with is there: what it goes on with.
void Engine::Parts::fetch_more(const Event& event) const {
  if (event.kind == flow_end || event.kind == latency_over) {
    const std::uint32_t request = network.fetched_cookie(event.id);
    if (event.kind == flow_end) slab.fetch(request);
  } else if (event.kind == post_send || event.kind == post_receive) {
    const Request& request = slab.at(event.id);
    fetch_line(&rank(request.actor));
    matching.fetch(event.kind == post_send ? request.peer : request.owner);
  }
}

/// The next of the ranks that drivers resume.
Rank Engine::Parts::next_driven() {
  constexpr std::size_t kFar = 8, kNear = 4, kNext = 1;
  if (const Rank r = driven.ahead(kFar); r >= 0) fetch_line(&rank(r));
  if (const Rank r = driven.ahead(kNear); r >= 0 && rank(r).driver != nullptr) rank(r).driver->fetch(r, false);
  if (const Rank r = driven.ahead(kNext); r >= 0 && rank(r).driver != nullptr) rank(r).driver->fetch(r, true);
  return driven.pop();
}

void Engine::pause_every(std::chrono::steady_clock::duration host_time) { parts_->pause_every = host_time; }

Advance Engine::advance(std::uint64_t max_events) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint32_t kEventsPerClock = 32;
  Parts& parts = *parts_;
  const std::uint64_t paused = std::exchange(parts.paused_before, 0);
  const std::uint64_t last = paused > 0 ? paused : parts.events + max_events;
  const bool pauses = parts.pause_every != Clock::duration::max();
  const Clock::time_point until = pauses ? Clock::now() + parts.pause_every : Clock::time_point::max();
  std::uint32_t since_clock = 0;
  const auto is_time = [&](std::uint32_t weight) {
    if (!pauses || (since_clock += weight) < kEventsPerClock) return false;
    since_clock = 0;
    if (Clock::now() < until) return false;
    parts.paused_before = last;
    return true;
  };
  for (;;) {
    if (is_time(kEventsPerClock / 4)) return Advance::paused;  // sharing links anew takes long when many flows do
    while (!parts.driven.is_empty()) {
      const Rank rank = parts.next_driven();
      Parts::RankState& state = parts.rank(rank);
      state.is_ready = false;
      state.driver->resume(rank);
      if (is_time(1)) return Advance::paused;
    }
    Event event;
    while (parts.queue.pop(event)) {
      parts.queue.look_ahead([&](const Event& far) { parts.fetch(far); }, [&](const Event& near) { parts.fetch_more(near); });
      parts.handle(event);
      if (++parts.events >= last) return Advance::budget;
      if (is_time(1)) return Advance::paused;
    }
    if (!parts.driven.is_empty()) continue;
    if (!parts.ready.is_empty()) return Advance::ready;
    if (!parts.network.is_settled()) {
      parts.network.settle();
      continue;  // rounding may let a flow end at this very instant
    }
    if (!parts.cores.is_settled()) {
      parts.cores.settle();
      continue;  // as above
    }
    if (!parts.queue.advance()) return Advance::idle;
  }
}

}  // namespace labkit
