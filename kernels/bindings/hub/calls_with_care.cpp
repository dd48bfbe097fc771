// Calls that are not simply made: refused before Init and after Finalize, or late, where other orders are explored.
#include "hub/hub.hpp"

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

const std::string* Hub::refusal() const {
  const auto found = refused_.find(current_);
  return found == refused_.end() ? nullptr : &found->second;
}

}  // namespace labkit::bindings
