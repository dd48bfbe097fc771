#include "labkit/engine/cores.hpp"

#include <algorithm>

namespace labkit {

std::vector<CrowdedHost> crowded_hosts(const Platform& platform, const std::vector<HostId>& rank_hosts) {
  std::vector<CrowdedHost> found;
  const auto does_not_grow = [](HostId a, HostId b) { return a >= b; };
  if (std::adjacent_find(rank_hosts.begin(), rank_hosts.end(), does_not_grow) == rank_hosts.end()) return found;
  std::vector<HostId> hosts = rank_hosts;
  std::sort(hosts.begin(), hosts.end());
  for (auto first = hosts.begin(); first != hosts.end();) {
    const auto last = std::upper_bound(first, hosts.end(), *first);
    const std::int32_t cores = platform.host(*first).cores;
    if (last - first > cores) found.push_back({*first, cores, static_cast<std::int32_t>(last - first)});
    first = last;
  }
  return found;
}

Cores::Cores(const Platform& platform, const std::vector<HostId>& rank_hosts, EventQueue& queue, std::uint32_t end_kind)
    : queue_(queue), end_kind_(end_kind) {
  const std::vector<CrowdedHost> crowded = crowded_hosts(platform, rank_hosts);
  if (crowded.empty()) return;
  hosts_.resize(crowded.size());
  for (std::size_t i = 0; i < crowded.size(); ++i) hosts_[i].cores = crowded[i].cores;
  const auto is_before = [](const CrowdedHost& one, HostId host) { return one.host < host; };
  for (const HostId host : rank_hosts) {
    const auto at = std::lower_bound(crowded.begin(), crowded.end(), host, is_before);
    const bool is_crowded = at != crowded.end() && at->host == host;
    places_.push_back(is_crowded ? static_cast<std::uint32_t>(at - crowded.begin()) : kNone);
  }
}

double Cores::slowdown(const Shared& host) {
  return std::max(1.0, static_cast<double>(host.ends.size()) / host.cores);
}

void Cores::catch_up(Shared& host) const {
  const Time now = queue_.now();
  if (now > host.updated_s) host.clock_s += (now - host.updated_s) / slowdown(host);
  host.updated_s = now;
}

void Cores::mark(std::uint32_t index) {
  if (hosts_[index].is_changed) return;
  hosts_[index].is_changed = true;
  changed_.push_back(index);
}

void Cores::begin(Rank rank, double work_s) {
  Shared& host = hosts_[place(rank)];
  if (host.ends.empty()) {  // a clock that starts anew at 0 rounds least
    host.clock_s = 0.0;
    host.updated_s = queue_.now();
  } else {
    catch_up(host);
  }
  host.ends.push_back({host.clock_s + work_s, begun_++, rank});
  std::push_heap(host.ends.begin(), host.ends.end(), is_later);
  mark(place(rank));
}

void Cores::on_end(const Event& event, std::vector<Rank>& over) {
  Shared& host = hosts_[event.id];
  if (event.stamp != host.stamp || host.ends.empty()) return;  // the host has changed since
  host.clock_s = std::max(host.clock_s, host.ends.front().at_s);  // this is when it shows that: no rounding
  host.updated_s = queue_.now();
  while (!host.ends.empty() && host.ends.front().at_s <= host.clock_s) {
    over.push_back(host.ends.front().rank);
    std::pop_heap(host.ends.begin(), host.ends.end(), is_later);
    host.ends.pop_back();
  }
  mark(event.id);
}

void Cores::settle() {
  for (const std::uint32_t index : changed_) {
    Shared& host = hosts_[index];
    host.is_changed = false;
    ++host.stamp;
    if (host.ends.empty()) continue;
    const double left_s = std::max(0.0, host.ends.front().at_s - host.clock_s);
    queue_.push(queue_.now() + left_s * slowdown(host), {end_kind_, index, host.stamp});
  }
  changed_.clear();
}

}  // namespace labkit
