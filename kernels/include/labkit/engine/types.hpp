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

}  // namespace labkit
