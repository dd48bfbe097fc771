// Remote memory access and files for labkit.comm: transfers between two ranks, and waits for other things.
//
// What a transfer moves is Python's business: its callable is called at the simulated time of the last byte's
// arrival, inside the engine, so it may compute and copy but not communicate.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "labkit/engine/engine.hpp"

namespace labkit::bindings {

class Hub;

/// Calls what transfers were given; keeps those callables while they are under way.
class TransferEnds final : public Client {
 public:
  ~TransferEnds() override { forget(); }
  void snapshot(Request&) override {}
  void deliver(Request&, Request&) override {}
  void discard(Request&) override {}
  void completed(Request& request) override;
  /// A payload that denotes the callable.
  void* keep(PyObject* callable);
  /// The run has ended: let go of all.
  void forget();

 private:
  std::vector<PyObject*> kept_;
  std::vector<std::uint32_t> free_;
};

/// Handles as Python has them.
inline std::uint64_t number_of(RequestId id) { return (static_cast<std::uint64_t>(id.generation) << 32) | id.index; }
inline RequestId id_of(std::uint64_t number) {
  return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
}

/// Let the engine catch up with the running rank; false with a Python error.
bool catch_up_rank(Hub& hub, const char* name);

void bind_one_sided(nanobind::class_<Hub>& hub);

}  // namespace labkit::bindings
