// Worlds of ranks: jobs that are spawned while the run goes on (MPI_Comm_spawn), each with a COMM_WORLD of its own.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "hub/hub.hpp"

namespace labkit::bindings {

Rank Hub::spawn(const std::vector<HostId>& hosts) {
  const Rank first = ranks();
  const auto count = static_cast<Rank>(hosts.size());
  if (count == 0 || first + count > engine_.rank_count()) {
    throw std::invalid_argument("a run has room for " + std::to_string(engine_.rank_count() - world_) +
                                " spawned ranks; " + std::to_string(first - world_) + " have been spawned, and " +
                                std::to_string(count) + " more are asked for");
  }
  auto members = std::make_shared<Members>();
  for (Rank i = 0; i < count; ++i) {
    members->places.emplace(first + i, i);
    members->world_ranks.push_back(first + i);
    engine_.place(first + i, hosts[static_cast<std::size_t>(i)]);
  }
  jobs_.push_back({first, new_context(), std::move(members)});
  unfinished_ += count;
  for (Rank i = 0; i < count; ++i) engine_.start(first + i, engine_.clock(current_));
  return first;
}

const Hub::Job& Hub::job_of(Rank rank) const {
  const auto is_after = [](Rank wanted, const Job& job) { return wanted < job.first; };
  return *std::prev(std::upper_bound(jobs_.begin(), jobs_.end(), rank, is_after));
}

}  // namespace labkit::bindings
