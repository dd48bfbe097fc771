// Collective: ranks entering, their operations in order, waits. The bytes are in schedule_data.cpp.
#include <algorithm>
#include <utility>

#include "labkit/schedule/collective.hpp"

namespace labkit {
namespace {

/// log2 by squaring, bit by bit: a library's has other last bits on other computers.
double log2_of(std::int32_t ranks) {
  double rest = ranks;
  double logarithm = 0.0;
  for (; rest >= 2.0; rest /= 2.0) logarithm += 1.0;
  for (double bit = 0.5; bit > 1e-9; bit /= 2.0) {
    rest *= rest;
    if (rest < 2.0) continue;
    rest /= 2.0;
    logarithm += bit;
  }
  return logarithm;
}

}  // namespace

Collective::Collective(Engine& engine, std::shared_ptr<Program> program, CollectiveSetup setup)
    : engine_(engine), program_(std::move(program)), setup_(std::move(setup)), cursor_(program_),
      ranks_(static_cast<std::size_t>(program_->size())) {
  if (setup_.memory == nullptr) setup_.memory = std::make_shared<BytePool>();
  const auto& networks = engine_.model().collective_network;
  if (!program_->collective_network().empty() && !networks.empty() && program_->size() == engine_.rank_count()) {
    const auto found = networks.find(program_->collective_network());
    if (found != networks.end()) network_ = &found->second;
    stages_ = log2_of(program_->size());
  }
  if (setup_.world_ranks.empty()) {
    if (program_->size() > engine_.rank_count()) {
      throw std::invalid_argument(program_->name() + " on " + std::to_string(program_->size()) + " ranks, the engine has " +
                                  std::to_string(engine_.rank_count()));
    }
    return;
  }
  if (setup_.world_ranks.size() != ranks_.size()) {
    throw std::invalid_argument(program_->name() + " on " + std::to_string(program_->size()) + " ranks got " +
                                std::to_string(setup_.world_ranks.size()) + " world ranks");
  }
  if (ranks_.size() == 1) return;  // a table of all ranks, for every rank alone, would be quadratic
  local_rank_.assign(static_cast<std::size_t>(engine_.rank_count()), -1);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    local_rank_.at(static_cast<std::size_t>(setup_.world_ranks[i])) = static_cast<std::int32_t>(i);
  }
}

/// The bytes of the rank's message: of its first buffer.
double Collective::message_bytes(std::int32_t rank) const {
  const std::vector<BoundBuffer>& buffers = *state(rank).buffers;
  return buffers.empty() ? 0.0 : static_cast<double>(buffers[0].count) * buffers[0].element_bytes;
}

Collective::~Collective() {
  for (RankState& rank : ranks_) {
    for (std::byte* memory : rank.temporaries) setup_.memory->give_back(memory);
  }
}

void Collective::bind(std::int32_t rank, std::shared_ptr<const std::vector<BoundBuffer>> buffers) {
  RankState& s = ranks_.at(static_cast<std::size_t>(rank));
  if (s.has_entered) {
    throw std::invalid_argument(program_->name() + ": rank " + std::to_string(rank) + " has entered before");
  }
  if (buffers->size() != program_->caller_buffers()) {
    throw std::invalid_argument(program_->name() + " takes " + std::to_string(program_->caller_buffers()) +
                                " buffers, rank " + std::to_string(rank) + " came with " + std::to_string(buffers->size()));
  }
  s.has_entered = true;
  s.buffers = std::move(buffers);
  if (program_->tells()) tell(rank);
}

bool Collective::enter(std::int32_t rank, std::vector<BoundBuffer> buffers) {
  bind(rank, std::make_shared<const std::vector<BoundBuffer>>(std::move(buffers)));
  if (run(rank)) return true;
  engine_.set_driver(world(rank), this);
  return false;
}

bool Collective::enter_beside(std::int32_t rank, std::vector<BoundBuffer> buffers, Rank agent) {
  bind(rank, std::make_shared<const std::vector<BoundBuffer>>(std::move(buffers)));
  ranks_[static_cast<std::size_t>(rank)].agent = agent;
  return run(rank);
}

bool Collective::go_on(std::int32_t rank) {
  if (ranks_[static_cast<std::size_t>(rank)].is_waiting) settle(rank);
  return run(rank);
}

void Collective::join(std::int32_t rank, std::shared_ptr<const std::vector<BoundBuffer>> buffers) {
  bind(rank, std::move(buffers));
  ranks_[static_cast<std::size_t>(rank)].ends_silently = true;
  engine_.set_driver(world(rank), this);
}

std::int32_t Collective::local(Rank world_rank) const {
  if (ranks_.size() == 1) return 0;
  return local_rank_.empty() ? world_rank : local_rank_[static_cast<std::size_t>(world_rank)];
}

void Collective::fetch(Rank world_rank, bool is_next) const {
  const RankState& s = state(local(world_rank));
  if (!is_next) {
    fetch_line(&s);
    fetch_line(&s.buffers);
    fetch_line(reinterpret_cast<const std::byte*>(&s + 1) - 1);
    return;
  }
  fetch_line(s.open.data());
  fetch_line(s.queue.data() + s.head);
  fetch_line(s.buffers.get());
}

void Collective::resume(Rank world_rank) {
  const std::int32_t rank = local(world_rank);
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  if (s.ends_silently) {
    if (go_on(rank)) engine_.finish(world_rank);
    return;
  }
  // An error belongs to the rank that made it, not to whoever drives the engine.
  try {
    if (!go_on(rank)) return;
  } catch (...) {
    s.failure = std::current_exception();
  }
  engine_.set_driver(world_rank, nullptr);
  engine_.wake(world_rank);
}

const std::string& Collective::fault(std::int32_t rank) const {
  static const std::string none;
  return faults_.empty() ? none : faults_[static_cast<std::size_t>(rank)];
}

void Collective::note_fault(std::int32_t rank, const std::string& what) {
  if (faults_.empty()) faults_.resize(ranks_.size());
  std::string& text = faults_[static_cast<std::size_t>(rank)];
  if (text.empty()) text = program_->name() + ": " + what;
}

// Go on until the rank must wait (false) or its program has ended (true).
bool Collective::run(std::int32_t rank) {
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  for (;;) {
    while (s.head == s.queue.size()) {
      s.queue.clear();
      s.head = 0;
      if (pull()) continue;
      if (!s.open.empty()) {
        throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " ends with " +
                            std::to_string(s.open.size()) + " requests it has not waited for");
      }
      end(rank);
      return true;
    }
    const Reference reference = s.queue[s.head++];
    const LiveColumn& live = columns_[reference.column - first_column_];
    const bool goes_on = execute(rank, *live.column, reference.entry);
    consumed(reference.column);
    if (!goes_on) return false;
  }
}

void Collective::end(std::int32_t rank) {
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  if (network_ != nullptr && s.failure == nullptr) engine_.delay(actor(rank), network_->at(stages_, message_bytes(rank)));
  s.has_ended = true;
  ++ended_;
  for (std::byte* memory : s.temporaries) setup_.memory->give_back(memory);
  s.temporaries.clear();
  if (!told_.empty()) told_[static_cast<std::size_t>(rank)].reset();
  s.buffers.reset();
  std::vector<Reference>().swap(s.queue);
  std::vector<Open>().swap(s.open);
}

// Take the next step and give every rank its entries. False when the schedule has no more.
bool Collective::pull() {
  const std::shared_ptr<const Step> step = cursor_.next();
  if (!step) return false;
  for (const Column& column : step->columns) {
    if (column.count > 0) add_column(column, step);
  }
  return true;
}

void Collective::add_column(const Column& column, const std::shared_ptr<const Step>& step) {
  if (dead_columns_ > 64 && 2 * dead_columns_ > columns_.size()) {
    columns_.erase(columns_.begin(), columns_.begin() + static_cast<std::ptrdiff_t>(dead_columns_));
    first_column_ += static_cast<std::uint32_t>(dead_columns_);
    dead_columns_ = 0;
  }
  const auto number = first_column_ + static_cast<std::uint32_t>(columns_.size());
  columns_.push_back({&column, step, column.count});
  if (column.is_everybody) {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) ranks_[i].queue.push_back({number, i});
    return;
  }
  for (std::uint32_t i = 0; i < column.count; ++i) {
    const std::int32_t rank = column.ranks[i];
    if (rank < 0 || rank >= program_->size()) {
      throw ScheduleFault(program_->name() + ": an operation of rank " + std::to_string(rank) + "; there are " +
                          std::to_string(program_->size()));
    }
    ranks_[static_cast<std::size_t>(rank)].queue.push_back({number, i});
  }
}

void Collective::consumed(std::uint32_t column) {
  LiveColumn& live = columns_[column - first_column_];
  if (--live.remaining > 0) return;
  live.step.reset();
  while (dead_columns_ < columns_.size() && columns_[dead_columns_].remaining == 0) ++dead_columns_;
}

bool Collective::execute(std::int32_t rank, const Column& column, std::size_t entry) {
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  switch (column.kind) {
    case OpKind::isend:
    case OpKind::irecv:
      s.open.push_back({post(rank, column, entry), column.label});
      return true;
    case OpKind::send:
    case OpKind::recv: {
      // a label no schedule can use, so that the wait means this request alone
      constexpr std::int32_t kBlocking = -2;
      s.open.push_back({post(rank, column, entry), kBlocking});
      return wait(rank, kBlocking);
    }
    case OpKind::wait:
      return wait(rank, column.label);
    case OpKind::copy:
      copy(rank, column.source.at(entry), column.section.at(entry));
      return true;
    case OpKind::combine:
      return combine(rank, column.source.at(entry), column.section.at(entry), column.is_source_first.at(entry) != 0);
  }
  return true;
}

RequestId Collective::post(std::int32_t rank, const Column& column, std::size_t entry) {
  const std::int64_t peer = column.peer.at(entry);
  if (peer < 0 || peer >= program_->size()) {
    throw ScheduleFault(program_->name() + ": rank " + std::to_string(rank) + " names rank " + std::to_string(peer) +
                        " as its partner; there are " + std::to_string(program_->size()));
  }
  const Section section = column.section.at(entry);
  const auto [bytes, data] = locate(rank, section);
  Transfer* transfer = setup_.has_data && bytes > 0 && !holds_counts(section) ? new_transfer(rank, section, data) : nullptr;
  // Both ends name the client, also where one of them has nothing to move.
  Client* client = setup_.has_data ? this : nullptr;
  if (column.kind == OpKind::send || column.kind == OpKind::isend) {
    SendPost send;
    send.rank = actor(rank);
    send.dest = world(static_cast<std::int32_t>(peer));
    send.tag = setup_.tag;
    send.context = setup_.context;
    send.bytes = bytes;
    send.payload = transfer;
    send.client = client;
    send.is_blocking = column.kind == OpKind::send;
    if (network_ != nullptr) send.mode = SendMode::copy;
    return engine_.send(send);
  }
  ReceivePost receive;
  receive.rank = actor(rank);
  receive.source = world(static_cast<std::int32_t>(peer));
  receive.tag = setup_.tag;
  receive.context = setup_.context;
  receive.capacity_bytes = bytes;
  receive.payload = transfer;
  receive.client = client;
  return engine_.receive(receive);
}

// Wait for the open requests with this label (-1: all). True: go on.
bool Collective::wait(std::int32_t rank, std::int32_t label) {
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  wait_ids_.clear();
  for (const Open& open : s.open) {
    if (label == -1 || open.label == label) wait_ids_.push_back(open.request);
  }
  if (wait_ids_.empty()) return true;
  s.waited_label = label;
  s.is_waiting = true;
  if (!engine_.wait_all(actor(rank), wait_ids_)) return false;
  settle(rank);
  return true;
}

// The wait is over: look at what came, and give the requests back.
void Collective::settle(std::int32_t rank) {
  RankState& s = ranks_[static_cast<std::size_t>(rank)];
  s.is_waiting = false;
  std::size_t left = 0;
  for (const Open& open : s.open) {
    if (s.waited_label != -1 && open.label != s.waited_label) {
      s.open[left++] = open;
      continue;
    }
    const Request& request = engine_.request(open.request);
    if (request.is_truncated) {
      note_fault(rank, "a message of " + std::to_string(request.received_bytes) + " bytes from world rank " +
                           std::to_string(request.source) + " is longer than its place, " +
                           std::to_string(request.bytes) + " bytes");
    }
    engine_.release(open.request);
  }
  s.open.resize(left);
}

std::string Collective::describe(std::int32_t rank) const {
  const RankState& s = state(rank);
  if (!s.has_entered) return program_->name() + ": not entered";
  if (s.has_ended) return program_->name() + ": ended";
  std::string text = program_->name() + ": waits for";
  for (const Open& open : s.open) {
    if (s.waited_label != -1 && open.label != s.waited_label) continue;
    const Request& request = engine_.request(open.request);
    if (request.state == RequestState::complete) continue;
    text += request.kind == RequestKind::send ? " a send to world rank " : " a receive from world rank ";
    text += std::to_string(request.peer) + ",";
  }
  if (text.back() == ',') text.pop_back();
  return text;
}

}  // namespace labkit
