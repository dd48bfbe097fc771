// Ranks that come to collective calls: from a communicator to the call they share, and on to the engine.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "hub/hub.hpp"
#include "mpi/mpi_objects.hpp"

namespace labkit::bindings {

/// The running rank comes to its next call on a communicator, by the general way; the first one fills in what
/// the call is. Raises outside any run and when the run is ending.
std::shared_ptr<SharedCall> arrive(Hub& hub, nanobind::handle comm);

/// The same by the short way: nullptr, and nothing has happened, where ranks before agreed on something else.
std::shared_ptr<SharedCall> join(const CommObject* comm, Hub* hub, const std::shared_ptr<const Agreement>& agreement);

/// The call that the running rank would come to, where another rank has come before; else nullptr.
const SharedCall* open_call(const CommObject* comm, Hub* hub);

/// The call a rank is in; nullptr for none.
std::shared_ptr<SharedCall> call_of_rank(Hub& hub, Rank rank);
void leave(Hub& hub);

/// The running rank's part of a call by the general way; it returns when the rank is through. `may_repeat`: a
/// call of the same form will mean the same.
void run_collective(Hub& hub, nanobind::handle comm, const std::shared_ptr<SharedCall>& call,
                    const nanobind::tuple& buffers, std::shared_ptr<const Reduction> reduction, const char* name,
                    bool has_data, bool may_repeat);

/// The same beside what the rank does: a request that is complete when its part is over.
nanobind::object start_collective(Hub& hub, nanobind::handle comm, const std::shared_ptr<SharedCall>& call,
                                  const nanobind::tuple& buffers, std::shared_ptr<const Reduction> reduction,
                                  const char* name, bool has_data, bool may_repeat);
/// Of either way: the rank's part begins. `memory` is what holds the buffers.
nanobind::object begin_collective(Hub& hub, CommObject* comm, std::shared_ptr<SharedCall> call, std::int32_t rank,
                                  std::vector<BoundBuffer> buffers, nanobind::object memory, const char* name);
/// Several messages, rows of (buffer, peer, tag), as one request, whose status is the first receive's.
nanobind::object start_messages(Hub& hub, nanobind::object comm, std::string name, const nanobind::list& receives,
                                const nanobind::list& sends, bool sends_first);
/// A request that the program completes itself.
nanobind::object start_general(Hub& hub, std::string name);
/// What a rank has under way: rows of (name, world ranks that have not come to it, whether it is waited for, the
/// engine's number of the agent).
nanobind::list operations_of(Hub& hub, Rank rank);

}  // namespace labkit::bindings
