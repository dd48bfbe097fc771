#include "frame_pool.hpp"

#include <Python.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace labkit::bindings {

#ifdef __linux__
namespace {

constexpr std::size_t kChunk = std::size_t{16} << 10;  // CPython's DATA_STACK_CHUNK_SIZE
constexpr std::size_t kSmallChunk = std::size_t{2} << 10;
constexpr std::size_t kSlab = std::size_t{2} << 20;
constexpr std::size_t kKeptSlabs = 16;

/// Chunks of one size. Slabs lie at multiples of their size, so that a chunk's address names its slab.
class ChunkPool {
 public:
  explicit ChunkPool(std::size_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  void* take() {
    if (free_.empty() && !map_slab()) return nullptr;
    void* chunk = free_.back();
    free_.pop_back();
    ++slabs_[slab_of(chunk)];
    ++used_;
    return chunk;
  }

  /// False: it is not from here.
  bool give(void* memory) {
    const auto found = slabs_.find(slab_of(memory));
    if (found == slabs_.end()) return false;
    --found->second;
    --used_;
    free_.push_back(memory);
    return true;
  }

  void trim() {
    if (slabs_.size() <= kKeptSlabs) return;
    std::size_t kept = 0;
    std::vector<void*> left;
    std::unordered_map<std::uintptr_t, bool> is_kept;
    for (const auto& [slab, chunks] : slabs_) is_kept[slab] = chunks > 0 || kept++ < kKeptSlabs;
    for (void* chunk : free_) {
      if (is_kept[slab_of(chunk)]) left.push_back(chunk);
    }
    free_.swap(left);
    for (const auto& [slab, keep] : is_kept) {
      if (keep) continue;
      munmap(reinterpret_cast<void*>(slab), kSlab);
      slabs_.erase(slab);
    }
  }

  [[nodiscard]] FramePoolUse use() const { return {used_, slabs_.size()}; }

 private:
  static std::uintptr_t slab_of(void* chunk) { return reinterpret_cast<std::uintptr_t>(chunk) & ~(kSlab - 1); }

  bool map_slab() {
    void* memory = mmap(nullptr, 2 * kSlab, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t slab = (begin + kSlab - 1) & ~(kSlab - 1);
    if (slab > begin) munmap(memory, slab - begin);
    if (begin + kSlab > slab) munmap(reinterpret_cast<void*>(slab + kSlab), begin + kSlab - slab);
    madvise(reinterpret_cast<void*>(slab), kSlab, MADV_NOHUGEPAGE);
    slabs_.emplace(slab, 0);
    for (std::size_t at = kSlab; at > 0; at -= chunk_bytes_) {
      free_.push_back(reinterpret_cast<void*>(slab + at - chunk_bytes_));
    }
    return true;
  }

  std::size_t chunk_bytes_;
  std::unordered_map<std::uintptr_t, std::size_t> slabs_;  // chunks in use, by slab
  std::vector<void*> free_;                                // the last one given is the first one taken: it is warm
  std::size_t used_ = 0;
};

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
    const FramePoolUse whole = whole_.use();
    const FramePoolUse small = small_.use();
    return {whole.chunks + small.chunks, whole.slabs + small.slabs};
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
