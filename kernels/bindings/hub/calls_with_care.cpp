// Calls that are not simply made: refused before Init and after Finalize, or late, where other orders are explored.
#include "hub/hub.hpp"

#include <algorithm>
#include <cstring>

#include "python/call_places.hpp"

namespace labkit::bindings {

void Hub::refuse_calls(Rank rank, const std::string& why) {
  if (why.empty()) refused_.erase(rank);
  else refused_[rank] = why;
  needs_care_ = needs_care_ || !refused_.empty();
}

namespace {

/// Bits that look random, of a number (SplitMix64).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

void Hub::stagger(std::uint64_t seed, double most_s, PyObject* on_any) {
  late_seed_ = mixed(seed);
  is_always_late_ = seed % 2 != 0;
  most_late_s_ = most_s;
  calls_made_.assign(ranks_.size(), 0);
  Py_XSETREF(on_any_, Py_NewRef(on_any));
  needs_care_ = true;
}

// In a try each rank has a lateness of its own, before all its calls (odd seeds) or before every second one by
// chance, so that ranks change places as wholes, and single messages do.
void Hub::be_late() {
  if (most_late_s_ <= 0.0) return;
  const auto share = [](std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1.0p-53; };
  const std::uint64_t own = mixed(late_seed_ ^ (static_cast<std::uint64_t>(current_) * 0x9e3779b97f4a7c15U));
  const std::uint64_t now = mixed(own ^ ++calls_made_[static_cast<std::size_t>(current_)]);
  if (!is_always_late_ && (now & 1U) != 0) return;
  engine_.sleep(current_, most_late_s_ * share(own) * (is_always_late_ ? 1.0 : share(now)));
}

void Hub::saw_any(Rank source, std::int32_t tag) {
  if (on_any_ == nullptr) return;
  PyObject* answer = PyObject_CallFunction(on_any_, "ii", source, tag);
  if (answer == nullptr) PyErr_WriteUnraisable(on_any_);
  Py_XDECREF(answer);
}

void Hub::watch(PyObject* places, PyObject* warn) {
  Py_XSETREF(places_, Py_NewRef(places));
  Py_XSETREF(warn_, Py_NewRef(warn));
  engine_.keep_buffered_sends();
}

std::int32_t Hub::place_of_send(Context context) const {
  return places_ == nullptr || (context & 1U) != 0 ? -1 : place_of_call(places_);
}

void Hub::warn(const char* kind, Rank peer, const char* text, std::uint64_t number) {
  if (warn_ == nullptr || ++warned_ > kMostWarnings) return;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* answer = PyObject_CallFunction(warn_, "sisK", kind, peer, text, static_cast<unsigned long long>(number));
  if (answer == nullptr) PyErr_WriteUnraisable(warn_);
  Py_XDECREF(answer);
  PyErr_Restore(type, value, trace);
}

std::uint64_t Hub::irecv_room() const {
  constexpr std::uint64_t kOfMpi4py = 32768;
  if (irecv_room_.empty()) return kOfMpi4py;
  const auto found = irecv_room_.find(current_);
  return found == irecv_room_.end() ? kOfMpi4py : found->second;
}

namespace {

/// Of phantoms only the length counts.
std::uint64_t sum_of(const Payload& payload) {
  const bool is_phantom = payload.bytes > 0 && phantom_memory().holds(payload.data);
  return is_phantom ? payload.bytes : sum_of_beginning(payload.data, payload.bytes);
}

}  // namespace

void Hub::note_match(const Request& send, const Request& receive, const Payload& from, Payload& to, std::uint64_t bytes) {
  if (from.kind != to.kind && from.kind != 0 && to.kind != 0 && bytes > 0) {
    to.sent_kind = from.kind;
    to.sent_by = send.owner;
  }
  const bool is_wild = receive.peer == kAnySource && !to.asks_source && (receive.context & 1U) == 0 &&
                       receive.actor == receive.owner && races_.is_open(receive.owner);
  const bool may_race = is_wild || (races_.is_watched(receive.owner) && (receive.context & 1U) == 0);
  if (!may_race && to.clash == 0) return;
  const std::uint64_t sum = sum_of(from);
  if (to.clash != 0) buffers_in_use_.delivered(to, sum);
  if (!may_race) return;
  const RequestId id{send.partner, receive.generation};
  races_.matched(send, receive, id, sum, is_wild);
  if (is_wild) find_rival(receive, id, sum);
}

/// A receive from any source gets a message; is there one of another rank that it could have got, with other bytes?
void Hub::find_rival(const Request& receive, RequestId id, std::uint64_t sum) {
  Envelope other;
  if (!engine_.probe(receive.actor, kAnySource, receive.tag, receive.context, other)) return;
  if (other.source == receive.source) return;
  const auto* rival = static_cast<const Payload*>(engine_.request(other.send).payload);
  if (sum_of(*rival) != sum) races_.found_rival(receive.owner, id, other.source);
}

void Hub::use_memory(const char* name, const Payload& payload, MemoryUse use) {
  if (!payload.has_view || payload.layout != nullptr || phantom_memory().holds(payload.data)) return;
  const bool is_written = use != MemoryUse::read;
  switch (buffers_in_use_.look(current_, payload.data, payload.bytes, is_written)) {
    case BuffersInUse::Clash::none: return;
    case BuffersInUse::Clash::with_send: return warn("in use", -1, name, 0);
    case BuffersInUse::Clash::with_receive:
      if (use != MemoryUse::received_later) warn("in use", -1, name, is_written ? 2 : 1);
  }
}

void Hub::use_memory(const char* name, const BoundBuffer& buffer) {
  const auto* data = reinterpret_cast<const char*>(buffer.data);
  if (data == nullptr || phantom_memory().holds(data)) return;
  const std::size_t blocks = buffer.counts.empty() ? 1 : buffer.counts.size();
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::int64_t count = buffer.counts.empty() ? buffer.count : buffer.counts[block];
    const std::int64_t begin = buffer.counts.empty() ? 0 : buffer.displacements[block];
    if (count <= 0) continue;
    const auto bytes = static_cast<std::uint64_t>(count * buffer.element_bytes);
    // a send's buffer may be read, and which buffers a collective writes is not known here
    if (buffers_in_use_.look(current_, data + begin * buffer.element_bytes, bytes, false) == BuffersInUse::Clash::none) continue;
    return warn("in use", -1, name, 3);
  }
}

const std::string* Hub::refusal() const {
  const auto found = refused_.find(current_);
  return found == refused_.end() ? nullptr : &found->second;
}

}  // namespace labkit::bindings
