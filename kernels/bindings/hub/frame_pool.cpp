#include "hub/frame_pool.hpp"

#include <Python.h>

#include <mutex>

#include "labkit/engine/chunk_pool.hpp"

namespace labkit::bindings {

#ifdef __linux__
namespace {

constexpr std::size_t kChunk = std::size_t{16} << 10;  // CPython's DATA_STACK_CHUNK_SIZE
constexpr std::size_t kSmallChunk = std::size_t{2} << 10;

/// Stands before CPython's allocator of arenas.
class FramePool {
 public:
  explicit FramePool(const PyObjectArenaAllocator& before) : before_(before) {}

  void* take(std::size_t bytes) {
    if (ChunkPool* chunks = pool_of(bytes)) {
      const std::lock_guard lock(mutex_);  // interpreters with a GIL of their own share the allocator
      if (void* chunk = chunks->take()) return chunk;
    }
    return before_.alloc(before_.ctx, bytes);
  }

  void give(void* memory, std::size_t bytes) {
    if (ChunkPool* chunks = pool_of(bytes)) {
      const std::lock_guard lock(mutex_);
      if (chunks->give(memory)) return;
    }
    before_.free(before_.ctx, memory, bytes);
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    whole_.trim();
    small_.trim();
  }

  FramePoolUse use() {
    const std::lock_guard lock(mutex_);
    return {whole_.chunks() + small_.chunks(), whole_.slabs() + small_.slabs()};
  }

 private:
  ChunkPool* pool_of(std::size_t bytes) {
    return bytes == kChunk ? &whole_ : bytes == kSmallChunk ? &small_ : nullptr;
  }

  PyObjectArenaAllocator before_;
  std::mutex mutex_;
  ChunkPool whole_{kChunk};
  ChunkPool small_{kSmallChunk};
};

FramePool* pool = nullptr;  // never destroyed: threads end after static objects do

void* take(void* context, std::size_t bytes) { return static_cast<FramePool*>(context)->take(bytes); }
void give(void* context, void* memory, std::size_t bytes) { static_cast<FramePool*>(context)->give(memory, bytes); }

}  // namespace

void install_frame_pool() {
  if (pool != nullptr) return;
  PyObjectArenaAllocator before{};
  PyObject_GetArenaAllocator(&before);
  pool = new FramePool(before);
  PyObjectArenaAllocator ours{pool, take, give};
  PyObject_SetArenaAllocator(&ours);
}

// What CPython's push_chunk does for a thread's first frame, with a smaller chunk; whoever ends the greenlet gives
// it back by the size that is written in it.
void begin_in_small_chunk() {
#if PY_VERSION_HEX < 0x030E0000
  PyObjectArenaAllocator now{};
  PyObject_GetArenaAllocator(&now);
  PyThreadState* state = PyThreadState_Get();
  if (pool == nullptr || now.ctx != pool || state->datastack_chunk != nullptr) return;
  auto* chunk = static_cast<_PyStackChunk*>(pool->take(kSmallChunk));
  if (chunk == nullptr) return;
  chunk->previous = nullptr;
  chunk->size = kSmallChunk;
  chunk->top = 0;
  state->datastack_chunk = chunk;
  state->datastack_top = &chunk->data[1];  // a root's first place stays free: its first frame is never taken for the end
  state->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(chunk) + kSmallChunk);
#endif
}

void trim_frame_pool() {
  if (pool != nullptr) pool->trim();
}

FramePoolUse frame_pool_use() { return pool == nullptr ? FramePoolUse{0, 0} : pool->use(); }

#else  // elsewhere CPython's own way will do

void install_frame_pool() {}
void begin_in_small_chunk() {}
void trim_frame_pool() {}
FramePoolUse frame_pool_use() { return {0, 0}; }

#endif

}  // namespace labkit::bindings
