// Memory for the Python frames of the ranks.
//
// CPython keeps the frames of every greenlet in chunks of 16 KiB and asks the system for each of them
// (two system calls and a page fault for every rank that starts; a mapping each). The pool hands them out of
// slabs of 2 MiB instead: a rank that starts takes the chunk of one that has ended, warm as it is. Only pages
// that were touched cost memory, so slabs never use huge pages.
//
// A page is still much for a rank whose frames take some hundred bytes. Where ranks are many, each begins in a
// small root chunk, two to a page, and takes a whole chunk only when its calls nest deeper.
#pragma once

#include <cstddef>

namespace labkit::bindings {

/// Let CPython take its frame chunks from the pool from now on (once a process; needs the GIL).
void install_frame_pool();
/// Let the running greenlet, which has no Python frame yet, begin in a small root chunk. Does nothing where
/// frames are not known to be kept this way.
void begin_in_small_chunk();
/// Give the memory of unused slabs back to the system, but for a few.
void trim_frame_pool();
/// Chunks that greenlets hold now, and slabs mapped, for tests.
struct FramePoolUse {
  std::size_t chunks;
  std::size_t slabs;
};
FramePoolUse frame_pool_use();

}  // namespace labkit::bindings
