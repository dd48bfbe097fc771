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

/// A receive from any source gets a message; is there one of another rank that it could have got, with other bytes?
void Hub::compare_rival(const Request& receive, const Payload& from, Payload& to) {
  Envelope other;
  if (!engine_.probe(receive.actor, kAnySource, receive.tag, receive.context, other)) return;
  if (other.source == receive.source) return;
  const auto* rival = static_cast<const Payload*>(engine_.request(other.send).payload);
  const bool is_phantom = rival->bytes > 0 && (phantom_memory().holds(rival->data) || phantom_memory().holds(from.data));
  if (rival->bytes == from.bytes) {
    const std::uint64_t compared = std::min(from.bytes, kMostCompared);
    if (is_phantom || compared == 0 || std::memcmp(rival->data, from.data, compared) == 0) return;
  }
  to.has_rival = true;
  to.rival = other.source;
}

const std::string* Hub::refusal() const {
  const auto found = refused_.find(current_);
  return found == refused_.end() ? nullptr : &found->second;
}

}  // namespace labkit::bindings
