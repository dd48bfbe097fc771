#include "labkit/trace/transfer_analysis.hpp"

#include <algorithm>
#include <cmath>

#include "labkit/network/demand.hpp"
#include "labkit/network/link_changes.hpp"
#include "labkit/network/sharing.hpp"

namespace labkit {
namespace {

constexpr double kFull = 1.0 - 1e-9;

struct Change {
  Time at;
  std::uint32_t transfer;
  bool is_start;
};

class Analysis {
 public:
  Analysis(const Platform& platform, const Model& model, std::span<const Transfer> transfers,
           AnalysisOptions options)
      : platform_(platform),
        transfers_(transfers),
        options_(options),
        demands_(platform, model),
        sharing_(platform.links(), {0.0, Solver::filling, 0}),
        link_changes_(platform, model),
        states_(transfers.size()),
        links_(platform.link_count()) {
    out_.latency_s.resize(transfers.size());
    out_.links.resize(platform.link_count());
    out_.utilisation.resize(platform.link_count() * options.bins);
    bin_s_ = options.bins > 0 ? options.end_s / options.bins : 0.0;
  }

  TransferAnalysis run() {
    collect_changes();
    Time link_change = platform_.profiles().has_links() ? 0.0 : kNever;
    for (std::size_t i = 0; i < changes_.size();) {
      now_ = std::min(changes_[i].at, link_change);
      if (now_ == link_change) {
        link_changes_.apply(sharing_, now_);
        link_change = link_changes_.next(now_);
      }
      for (; i < changes_.size() && changes_[i].at == now_; ++i) apply(changes_[i]);
      ++out_.instants;
      if (!may_solve(i)) continue;
      ++out_.solved;
      for (const FlowId flow : sharing_.solve()) take_rate(flow);
    }
    finish_rows();
    return std::move(out_);
  }

 private:
  struct State {          // of a transfer
    FlowId flow = kNone;
    double rate = 0.0;
    double factor = 1.0;
    double size_bytes = 0.0;
    double moved_bytes = 0.0;
    Time since_s = 0.0;
    LinkId narrowest = kWindow;  // what its own bound comes from
    LinkId holder = kWindow;
  };
  struct LinkState {
    double load = 0.0;
    Time since_s = 0.0;
    std::uint32_t flows = 0;
  };

  const Demand& demand_of(const Transfer& transfer) {
    return demands_.read(transfer.source, transfer.destination, transfer.bytes, transfer.start_s, transfer.way);
  }

  void collect_changes() {
    for (std::uint32_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& transfer = transfers_[i];
      const Demand& demand = demand_of(transfer);
      out_.latency_s[i] = std::min(demand.latency_s, transfer.arrived_s - transfer.start_s);
      const Time activation = transfer.start_s + demand.latency_s;
      if (demand.loads.empty() || activation >= transfer.arrived_s) continue;
      changes_.push_back({activation, i, true});
      changes_.push_back({transfer.arrived_s, i, false});
    }
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      if (a.at != b.at) return a.at < b.at;
      if (a.is_start != b.is_start) return !a.is_start;
      return a.transfer < b.transfer;
    });
  }

  /// Spends the work evenly over the run.
  [[nodiscard]] bool may_solve(std::size_t done) const {
    if (options_.work == 0) return true;
    const double share = static_cast<double>(done) / static_cast<double>(changes_.size());
    return static_cast<double>(sharing_.flows_filled()) <= share * static_cast<double>(options_.work);
  }

  void apply(const Change& change) {
    State& state = states_[change.transfer];
    if (change.is_start) {
      const Transfer& transfer = transfers_[change.transfer];
      const Demand& demand = demand_of(transfer);
      state.flow = sharing_.create(demand.loads, demand.weight, demand.bound);
      link_changes_.made(state.flow, demand);
      state.factor = demand.factor;
      state.size_bytes = demand.size_bytes;
      state.since_s = now_;
      for (std::size_t k = 0; k < demand.forward; ++k) {
        const LinkId link = demand.loads[k].link;
        if (platform_.bandwidth(link, transfer.start_s) <= demand.bound) state.narrowest = link;
      }
      if (state.flow >= owners_.size()) owners_.resize(state.flow + 1);
      owners_[state.flow] = change.transfer;
      sharing_.activate(state.flow);
      for (const auto& use : uses(state.flow)) ++links_[use.link].flows;
      return;
    }
    settle(change.transfer);
    set_rate(state, 0.0);
    for (const auto& use : uses(state.flow)) {
      LinkState& link = links_[use.link];
      if (--link.flows == 0) link.load = 0.0;  // without what rounding left behind
    }
    const double error = std::abs(state.moved_bytes - state.size_bytes) / state.size_bytes;
    out_.moved_error = std::max(out_.moved_error, error);
    sharing_.remove(state.flow);
  }

  void take_rate(FlowId flow) {
    const std::uint32_t transfer = owners_[flow];
    State& state = states_[transfer];
    settle(transfer);
    set_rate(state, sharing_.rate(flow));
    const std::uint32_t bottleneck = sharing_.table().flow(flow).bottleneck;
    state.holder = bottleneck == kNone ? state.narrowest : static_cast<LinkId>(bottleneck);
  }

  /// The time since its last change counts for what held it.
  void settle(std::uint32_t transfer) {
    State& state = states_[transfer];
    const Time seconds = now_ - state.since_s;
    state.since_s = now_;
    if (state.rate <= 0.0 || seconds <= 0.0) return;
    state.moved_bytes += state.rate * state.factor * seconds;
    if (state.holder >= 0) out_.links[static_cast<std::size_t>(state.holder)].held_s += seconds;
    out_.held.push_back({transfer, state.holder, seconds});
  }

  void set_rate(State& state, double rate) {
    for (const auto& use : uses(state.flow)) {
      account(use.link);
      links_[use.link].load += sharing_.table().coefficient(use) * (rate - state.rate);
    }
    state.rate = rate;
  }

  /// The link's load since its last change goes into its sums and its bins.
  void account(std::uint32_t id) {
    LinkState& state = links_[id];
    const Time from = state.since_s;
    state.since_s = now_;
    if (state.load <= 0.0 || now_ <= from) return;
    const double capacity = platform_.bandwidth(static_cast<LinkId>(id), from);
    out_.links[id].bytes += state.load * (now_ - from);
    if (state.load >= capacity * kFull) out_.links[id].full_s += now_ - from;
    if (bin_s_ <= 0.0) return;
    const auto last = static_cast<std::int64_t>(options_.bins) - 1;
    auto bin = std::min(last, static_cast<std::int64_t>(from / bin_s_));
    for (Time begin = from; begin < now_ && bin <= last; ++bin) {
      const Time end = bin == last ? now_ : std::min(now_, static_cast<double>(bin + 1) * bin_s_);
      if (end <= begin) continue;
      out_.utilisation[id * options_.bins + static_cast<std::size_t>(bin)] +=
          state.load / capacity * (end - begin) / bin_s_;
      begin = end;
    }
  }

  [[nodiscard]] std::span<const FlowTable::Use> uses(FlowId flow) const {
    return sharing_.table().uses(sharing_.table().flow(flow));
  }

  /// Neighboring rows of one transfer and one holder are one.
  void finish_rows() {
    std::vector<Held>& rows = out_.held;
    std::stable_sort(rows.begin(), rows.end(), [](const Held& a, const Held& b) { return a.transfer < b.transfer; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (kept > 0 && rows[kept - 1].transfer == rows[i].transfer && rows[kept - 1].link == rows[i].link) {
        rows[kept - 1].seconds += rows[i].seconds;
      } else {
        rows[kept++] = rows[i];
      }
    }
    rows.resize(kept);
  }

  const Platform& platform_;
  std::span<const Transfer> transfers_;
  AnalysisOptions options_;
  DemandReader demands_;
  Sharing sharing_;
  LinkChanges link_changes_;
  std::vector<State> states_;
  std::vector<LinkState> links_;
  std::vector<std::uint32_t> owners_;  // transfer of a flow
  std::vector<Change> changes_;
  TransferAnalysis out_;
  Time now_ = 0.0;
  double bin_s_ = 0.0;
};

}  // namespace

TransferAnalysis analyze_transfers(const Platform& platform, const Model& model,
                                   std::span<const Transfer> transfers, AnalysisOptions options) {
  return Analysis(platform, model, transfers, options).run();
}

}  // namespace labkit
