#include "labkit/network/certificate.hpp"

#include <algorithm>
#include <vector>

#include "labkit/network/sharing.hpp"

namespace labkit {
namespace {

constexpr double kTie = 1e-9;  // rates this close are equal: rounding of both solvers stays far below

struct Sum {
  double load = 0.0;
  double highest = 0.0;  // weighted rate
};

double move_needed(const FlowTable::Link& link, const Sum& sum) {
  return std::max(link.capacity - sum.load, sum.load - link.capacity) / link.capacity;
}

}  // namespace

Certificate certify(const Sharing& sharing) {
  const FlowTable& table = sharing.table();
  std::vector<Sum> sums(table.link_count());
  const auto counts = [&](FlowId id) { return table.flow(id).is_active && !sharing.is_waiting(id); };
  for (FlowId id = 0; id < table.size(); ++id) {
    if (!counts(id)) continue;
    const double rate = sharing.rate(id);
    for (const FlowTable::Use& use : table.uses(table.flow(id))) {
      Sum& sum = sums[use.link];
      sum.load += table.coefficient(use, table.flow(id)) * rate;
      sum.highest = std::max(sum.highest, rate / table.flow(id).inverse_weight);
    }
  }
  Certificate found;
  for (std::uint32_t link = 0; link < sums.size(); ++link) {
    const FlowTable::Link& here = table.link(link);
    if (here.is_fatpipe || sums[link].load <= here.capacity) continue;
    found.perturbation = std::max(found.perturbation, move_needed(here, sums[link]));
  }
  for (FlowId id = 0; id < table.size(); ++id) {
    if (!counts(id)) continue;
    const FlowTable::Flow& flow = table.flow(id);
    const double rate = sharing.rate(id);
    double bound = flow.bound;
    double least = kNever;
    for (const FlowTable::Use& use : table.uses(flow)) {
      const FlowTable::Link& link = table.link(use.link);
      if (link.is_fatpipe) {
        bound = std::min(bound, link.capacity / table.coefficient(use));
      } else if (rate / flow.inverse_weight >= sums[use.link].highest * (1.0 - kTie)) {
        least = std::min(least, move_needed(link, sums[use.link]));
      }
    }
    if (rate >= bound * (1.0 - kTie)) continue;
    if (least == kNever) {
      ++found.without_bottleneck;
    } else {
      found.perturbation = std::max(found.perturbation, least);
    }
  }
  return found;
}

}  // namespace labkit
