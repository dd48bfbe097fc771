#include "labkit/network/penalties.hpp"

#include <algorithm>

namespace labkit {

const std::vector<Penalties::Change>& Penalties::start(FlowId id, HostId src, HostId dst, double bound) {
  changes_.clear();
  if (id >= transfers_.size()) transfers_.resize(id + 1);
  Host& from = host(src);
  Host& to = host(dst);
  transfers_[id] = {src, dst, bound, 0.0, static_cast<std::uint32_t>(from.out.size()),
                    static_cast<std::uint32_t>(to.in.size())};
  from.out.push_back(id);
  to.in.push_back(id);
  if (to.in.size() >= kCrowd) ++from.crowded;
  count(dst, src, true);
  if (to.in.size() == kCrowd) crowd(dst, true);
  refresh_out(src);
  for (const FlowId flow : to.in) refresh(flow);
  return changes_;
}

const std::vector<Penalties::Change>& Penalties::end(FlowId id) {
  changes_.clear();
  if (id >= transfers_.size() || transfers_[id].src < 0) return changes_;
  const Transfer gone = transfers_[id];
  transfers_[id].src = -1;
  Host& from = host(gone.src);
  Host& to = host(gone.dst);
  const bool was_crowded = to.in.size() >= kCrowd;
  from.out[gone.out_place] = from.out.back();
  transfers_[from.out.back()].out_place = gone.out_place;
  from.out.pop_back();
  to.in[gone.in_place] = to.in.back();
  transfers_[to.in.back()].in_place = gone.in_place;
  to.in.pop_back();
  if (was_crowded) --from.crowded;
  count(gone.dst, gone.src, false);
  if (was_crowded && to.in.size() < kCrowd) crowd(gone.dst, false);
  refresh_out(gone.src);
  for (const FlowId flow : to.in) refresh(flow);
  return changes_;
}

/// One transfer more or fewer from src to dst.
void Penalties::count(HostId dst, HostId src, bool is_start) {
  auto& sources = host(dst).sources;
  const auto found = std::find_if(sources.begin(), sources.end(), [src](const auto& one) { return one.first == src; });
  if (is_start && found == sources.end()) {
    sources.push_back({src, 1});
  } else if (is_start) {
    ++found->second;
  } else if (--found->second == 0) {
    *found = sources.back();
    sources.pop_back();
  }
}

/// The host's other incoming transfers: their sources have a crowded destination now, or no longer.
void Penalties::crowd(HostId dst, bool is_crowded) {
  for (const FlowId flow : host(dst).in) {
    Host& source = host(transfers_[flow].src);
    if (is_crowded && flow == host(dst).in.back()) continue;  // the one that has just come is counted
    source.crowded += is_crowded ? 1u : ~0u;
  }
  for (const auto& [src, transfers] : host(dst).sources) refresh_out(src);
}

void Penalties::refresh_out(HostId src) {
  for (const FlowId flow : host(src).out) refresh(flow);
}

void Penalties::refresh(FlowId id) {
  Transfer& transfer = transfers_[id];
  const Host& from = host(transfer.src);
  const Host& to = host(transfer.dst);
  double out = 1.0;
  if (from.out.size() > 1) {
    // The largest penalty of its transfers counts for all of them.
    const bool is_crowded = factors_.ys > 1.0 ? from.crowded > 0 : from.crowded == from.out.size();
    out = static_cast<double>(from.out.size()) * factors_.bs * (is_crowded ? factors_.ys : 1.0);
  }
  double in = 1.0;
  if (to.in.size() > 1) {
    double mine = 1.0;
    if (to.sources.size() < to.in.size()) {  // else every source has one: no search, which would cost p^3 in all
      mine = std::find_if(to.sources.begin(), to.sources.end(), [&](const auto& one) {
               return one.first == transfer.src;
             })->second;
    }
    in = mine * factors_.be * static_cast<double>(to.sources.size());
  }
  const double bound = transfer.alone / std::max(out, in);
  if (bound == transfer.bound) return;
  transfer.bound = bound;
  changes_.push_back({id, bound});
}

}  // namespace labkit
