#include "labkit/network/network.hpp"

#include <algorithm>
#include <utility>

namespace labkit {
namespace {

/// Repairs know nothing of bounds and links that change.
SharingOptions suited(SharingOptions options, const Model& model, const Platform& platform) {
  if (model.penalties.is_used() || platform.profiles().has_links()) options.solver = Solver::filling;
  return options;
}

}  // namespace

Network::Network(std::shared_ptr<const Platform> platform, const Model& model, EventQueue& queue,
                 EventKinds kinds, SharingOptions options)
    : platform_(std::move(platform)),
      demands_(*platform_, model),
      queue_(queue),
      kinds_(kinds),
      sharing_(platform_->links(), suited(options, model, *platform_)) {
  if (model.penalties.is_used()) {
    penalties_ = std::make_unique<Penalties>(model.penalties, platform_->host_count());
  }
  if (model.contention == Contention::delay) {
    delays_ = std::make_unique<Delays>(*platform_, model, queue, kinds.latency_over, kinds.flow_end);
  }
  if (platform_->profiles().has_links() && !delays_) link_changes_ = std::make_unique<LinkChanges>(*platform_, model);
  const bool chooses = platform_->router().chooses();  // then messages of a pair take many ways
  const bool is_fixed = !chooses && !penalties_ && !link_changes_;
  if (options.classes == Classes::always && is_fixed) classes_ = std::make_unique<FlowClasses>();
  if (!chooses) return;
  use_.resize(platform_->link_count());
  sent_.resize(platform_->host_count());
}

std::uint32_t Network::start(HostId src, HostId dst, std::uint64_t payload_bytes, std::uint32_t cookie) {
  if (delays_) {
    delays_->start(src, dst, payload_bytes, cookie);
    return 0;
  }
  const std::uint32_t way = sent_.empty() ? 0 : choose_way(src, dst);
  if (link_changes_ && under_way_++ == 0) change_links();
  const Demand& demand = demands_.read(src, dst, payload_bytes, queue_.now(), way);
  std::uint32_t id = 0;  // of a flow, or of a message that will join one
  if (classes_) {
    id = announce(src, dst, demand, cookie);
  } else {
    id = create(demand);
    flows_[id].cookie = cookie;
    if (link_changes_) link_changes_->made(id, demand);
    if (!use_.empty()) count_use(id, 1);
    if (penalties_ && src != dst) rebound(penalties_->start(id, src, dst, demand.bound));
  }
  const Event begin{kinds_.latency_over, id, 0};
  if (demand.latency_s > 0.0) {
    queue_.push(queue_.now() + demand.latency_s, begin);
  } else {
    on_latency_over(begin);
  }
  return way;
}

FlowId Network::create(const Demand& demand) {
  const FlowId id = sharing_.create(demand.loads, demand.weight, demand.bound);
  if (id >= flows_.size()) flows_.resize(id + 1, Flow{0, 0, 1, 0, kNever, kNever, 0, 0});
  Flow& flow = flows_[id];
  flow.remaining_bytes = demand.size_bytes;
  flow.rate = 0.0;
  flow.factor = demand.factor;
  flow.end_s = flow.queued_s = kNever;
  return id;
}

std::uint32_t Network::choose_way(HostId src, HostId dst) {
  return platform_->router().choose(src, dst, sent_[static_cast<std::size_t>(src)]++, use_);
}

/// The message begins (1) or ceases (-1) to use the links of its route; of what its way back loads, none.
void Network::count_use(FlowId id, std::uint32_t change) {
  const FlowTable& table = sharing_.table();
  for (const FlowTable::Use& use : table.uses(table.flow(id))) {
    if (table.coefficient(use) >= 1.0) use_[use.link] += change;
  }
}

void Network::rebound(const std::vector<Penalties::Change>& changes) {
  for (const Penalties::Change& change : changes) sharing_.set_bound(change.flow, change.bound);
}

void Network::activate(FlowId id) {
  Flow& flow = flows_[id];
  flow.updated_s = queue_.now();
  sharing_.activate(id, sharing_.is_incremental() ? flow.remaining_bytes / flow.factor : 0.0);
}

/// Nothing changes while nothing is under way: else the queue of a profile with a period would never be empty.
void Network::change_links() {
  link_changes_->apply(sharing_, queue_.now());
  const Time next = link_changes_->next(queue_.now());
  if (has_change_ || next == kNever) return;
  has_change_ = true;
  queue_.push(next, {kinds_.link_change, kNone, 0});
}

void Network::on_link_change() {
  has_change_ = false;
  if (under_way_ > 0) change_links();
}

void Network::settle() {
  ++tolerance_use_.instants;
  if (sharing_.is_incremental()) {
    retimed_.clear();
    if (!sharing_.wants_filling()) {
      sharing_.repair(queue_.now());
      queue_next_end();
      certify_sometimes();
      return;
    }
    take_back();
    return;
  }
  for (const FlowId flow : sharing_.solve()) reschedule(flow);
  for (const FlowId flow : retimed_) {
    if (sharing_.is_active(flow)) reschedule(flow);
  }
  retimed_.clear();
  if (sharing_.wants_incremental()) hand_over();
}

/// A certificate costs as much as a filling: at the first, second, fourth ... and every 4096th
/// instant that may use the tolerance.
void Network::certify_sometimes() {
  if (!sharing_.is_loose()) return;
  const std::uint64_t count = ++tolerance_use_.loose;
  if (count % 4096 != 0 && (count & (count - 1)) != 0) return;
  const Certificate found = certify(sharing_);
  Certificate& worst = tolerance_use_.worst;
  ++tolerance_use_.certified;
  worst.perturbation = std::max(worst.perturbation, found.perturbation);
  worst.without_bottleneck = std::max(worst.without_bottleneck, found.without_bottleneck);
}

/// The sharing times the flows from now on: it gets what each has left.
void Network::hand_over() {
  const Time now = queue_.now();
  sharing_.begin_incremental();
  for (FlowId id = 0; id < sharing_.flow_slots(); ++id) {
    if (!sharing_.is_active(id)) continue;
    Flow& flow = flows_[id];
    const double moved = flow.rate * (now - flow.updated_s);
    flow.remaining_bytes = std::max(0.0, flow.remaining_bytes - moved);
    flow.updated_s = now;
    ++flow.stamp;
    sharing_.adopt(id, flow.remaining_bytes / flow.factor, now);
  }
  sharing_.finish_incremental(now);
  sharing_.repair(now);
  queue_next_end();
}

/// The flows are timed here again, by their rates.
void Network::take_back() {
  const Time now = queue_.now();
  for (FlowId id = 0; id < sharing_.flow_slots(); ++id) {
    if (!sharing_.is_active(id)) continue;
    Flow& flow = flows_[id];
    if (!sharing_.is_waiting(id)) flow.remaining_bytes = sharing_.work_left(id, now) * flow.factor;
    flow.updated_s = now;
    flow.rate = 0.0;
    flow.end_s = flow.queued_s = kNever;
  }
  sharing_.leave_incremental();
  sharing_.solve_all();
  for (FlowId id = 0; id < sharing_.flow_slots(); ++id) {
    if (sharing_.is_active(id)) reschedule(id);
  }
  ++next_end_stamp_;
  next_end_s_ = kNever;
}

/// One event stands for the first end of all. One that comes too early stays, as in reschedule.
void Network::queue_next_end() {
  const Time at = sharing_.next_end();
  if (at >= next_end_s_) return;
  next_end_s_ = at;
  queue_.push(at, {kinds_.flow_end, kNone, ++next_end_stamp_});
}

bool Network::on_next_end(const Event& event, std::uint32_t& cookie) {
  if (event.stamp != next_end_stamp_) return false;
  next_end_s_ = kNever;
  const bool is_due = sharing_.next_end() <= queue_.now();
  if (is_due) {
    cookie = end(sharing_.first_to_end());
  }
  queue_next_end();
  return is_due;
}

/// The rate has changed. An event that now comes too early stays and is pushed again when it
/// fires; only one that would come too late is replaced.
void Network::reschedule(FlowId id) {
  Flow& flow = flows_[id];
  const Time now = queue_.now();
  if (flow.rate > 0.0) {
    flow.remaining_bytes = std::max(0.0, flow.remaining_bytes - flow.rate * (now - flow.updated_s));
  }
  flow.updated_s = now;
  flow.rate = sharing_.rate(id) * flow.factor;
  flow.end_s = now + flow.remaining_bytes / flow.rate;
  if (flow.end_s < flow.queued_s) {
    flow.queued_s = flow.end_s;
    queue_.push(flow.end_s, {kinds_.flow_end, id, ++flow.stamp});
  }
}

bool Network::on_flow_end(const Event& event, std::uint32_t& cookie) {
  if (delays_) {
    cookie = delays_->on_end(event);
    return true;
  }
  if (event.id == kNone) return on_next_end(event, cookie);
  Flow& flow = flows_[event.id];
  if (event.stamp != flow.stamp) return false;
  if (flow.end_s > queue_.now()) {
    flow.queued_s = flow.end_s;
    queue_.push(flow.end_s, {kinds_.flow_end, event.id, ++flow.stamp});
    return false;
  }
  ++flow.stamp;  // whatever is still queued for it is out of date
  cookie = end(event.id);
  if (penalties_) rebound(penalties_->end(event.id));
  return true;
}

/// Its last byte has arrived; its cookie.
std::uint32_t Network::end(FlowId id) {
  if (classes_) return end_of_class(id);
  if (link_changes_) --under_way_;
  if (!use_.empty()) count_use(id, ~0u);
  sharing_.remove(id, queue_.now());
  return flows_[id].cookie;
}

}  // namespace labkit
