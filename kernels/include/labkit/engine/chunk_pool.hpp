// Chunks of memory of one size, out of slabs that are mapped and given back as a whole (Linux).
#pragma once

#ifdef __linux__

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace labkit {

/// Not for several threads at once. Slabs lie at multiples of their size, so that a chunk's address names its slab.
class ChunkPool {
 public:
  static constexpr std::size_t kSlab = std::size_t{2} << 20;
  static constexpr std::size_t kKeptSlabs = 16;

  explicit ChunkPool(std::size_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  /// nullptr: the system has no more memory.
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

  /// Gives unused slabs back to the system, but for a few.
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

  /// Chunks in use, and slabs mapped.
  [[nodiscard]] std::size_t chunks() const { return used_; }
  [[nodiscard]] std::size_t slabs() const { return slabs_.size(); }

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

}  // namespace labkit

#endif
