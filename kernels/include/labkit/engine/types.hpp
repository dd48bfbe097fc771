// The few names every part of the engine shares.
#pragma once

#include <cstdint>
#include <limits>

namespace labkit {

using Time = double;  ///< seconds of simulated time
using HostId = std::int32_t;
using LinkId = std::int32_t;
using Rank = std::int32_t;  ///< world rank, 0 .. p-1
using Context = std::uint32_t;  ///< a communicator, as the engine sees it

inline constexpr Rank kAnySource = -1;
inline constexpr std::int32_t kAnyTag = -1;
inline constexpr Time kNever = std::numeric_limits<Time>::infinity();
inline constexpr std::uint32_t kNone = 0xffffffffu;

/// Ask for a cache line that is needed soon. With many ranks an engine waits for memory most of the time, and what
/// comes next is known: events of one instant, and ranks that are ready, stand in lists.
inline void fetch_line(const void* address) { __builtin_prefetch(address); }

}  // namespace labkit
