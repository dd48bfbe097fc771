// What a rank of real MPI waits for, where its supervisor can read it: a file, mapped into the rank's memory.
//
// The rank alone writes. `epoch` grows at the beginning and at the end of every blocking call, so that a reader
// who finds the same odd number twice knows that the rank has been in one call all the while. labkit/real/waits
// reads the same layout.

#pragma once

#include <atomic>
#include <cstdint>

namespace labkit::waits {

inline constexpr std::uint64_t kMagic = 0x31746177'6b62616cULL;  // "labkwat1" in memory: the layout's version
inline constexpr int kMostWaited = 32;
inline constexpr int kMostComms = 64;
inline constexpr int kMostMembers = 1 << 16;
inline constexpr int kMostRequests = 1 << 12;  // a power of two
inline constexpr int kMostCalls = 64, kNameBytes = 24;
inline constexpr int kHistory = 32;            // collectives that are remembered of each communicator

enum Kind : std::int32_t { kOther = 0, kSend = 1, kRecv = 2, kProbe = 3, kCollective = 4 };

// What makes the page say less than all: then nobody may be blamed.
enum Flag : std::uint32_t { kThreads = 1, kOverflow = 2, kBuffered = 4, kFinished = 8 };

// One thing waited for, or offered. Of a collective `tag` is the root (-1: none), `peer` its call and `ordinal` its
// number in the communicator, from 1; of a message `ordinal` is 1 for a persistent request. -1: any peer, any tag.
struct Entry {
  std::int32_t kind, peer, tag, is_active;
  std::uint64_t comm, ordinal, bytes, handle;
};

struct CommRow {
  std::uint64_t handle, id, entered, made;
  std::int32_t first_member, members;
  std::int32_t calls[kHistory], roots[kHistory];
};

struct Page {
  std::uint64_t magic;
  std::atomic<std::uint64_t> epoch;
  std::int32_t call, waited, comms, members;
  std::atomic<std::uint32_t> flags;
  std::uint32_t requests;
  char names[kMostCalls][kNameBytes];  // of the calls, by number
  Entry waiting[kMostWaited];
  CommRow rows[kMostComms];
  std::int32_t member[kMostMembers];
  Entry request[kMostRequests];  // a hash table by handle; 0: free
};

}  // namespace labkit::waits
