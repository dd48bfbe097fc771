// The pool of chunks: chunks do not overlap, come back warm, and unused slabs go back to the system.
#include "labkit/engine/chunk_pool.hpp"

#include <doctest/doctest.h>

#ifdef __linux__

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "random.hpp"

namespace labkit::chunk_pool_test {


namespace {

constexpr std::size_t kChunk = std::size_t{16} << 10;
constexpr std::size_t kPerSlab = ChunkPool::kSlab / kChunk;

std::uintptr_t address(void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

TEST_CASE("chunks lie apart, aligned, in slabs of their own") {
  ChunkPool pool(kChunk);
  std::set<std::uintptr_t> seen;
  for (std::size_t i = 0; i < 2 * kPerSlab + 1; ++i) {
    void* chunk = pool.take();
    REQUIRE(chunk != nullptr);
    CHECK(address(chunk) % kChunk == 0);
    CHECK(seen.insert(address(chunk)).second);
    std::memset(chunk, static_cast<int>(i), kChunk);  // all of it is ours
  }
  CHECK(pool.chunks() == 2 * kPerSlab + 1);
  CHECK(pool.slabs() == 3);
  for (const std::uintptr_t chunk : seen) CHECK(pool.give(reinterpret_cast<void*>(chunk)));
  CHECK(pool.chunks() == 0);
}

TEST_CASE("the chunk given last is taken first, and what is foreign is refused") {
  ChunkPool pool(kChunk);
  void* first = pool.take();
  void* second = pool.take();
  CHECK(pool.give(first));
  CHECK(pool.give(second));
  CHECK(pool.take() == second);
  CHECK(pool.take() == first);
  int own = 0;
  CHECK_FALSE(pool.give(&own));
  CHECK(pool.chunks() == 2);
}

TEST_CASE("trimming keeps slabs in use and a few besides, and the rest is taken anew") {
  ChunkPool pool(kChunk);
  std::vector<void*> chunks;
  const std::size_t slabs = ChunkPool::kKeptSlabs + 20;
  for (std::size_t i = 0; i < slabs * kPerSlab; ++i) chunks.push_back(pool.take());
  CHECK(pool.slabs() == slabs);
  void* kept = chunks[5 * kPerSlab];
  std::memset(kept, 7, kChunk);
  for (void* chunk : chunks) {
    if (chunk != kept) CHECK(pool.give(chunk));
  }
  pool.trim();
  CHECK(pool.slabs() >= ChunkPool::kKeptSlabs);
  CHECK(pool.slabs() <= ChunkPool::kKeptSlabs + 1);
  CHECK(static_cast<unsigned char*>(kept)[kChunk - 1] == 7);
  CHECK(pool.chunks() == 1);
  std::set<void*> again;
  for (std::size_t i = 0; i < slabs * kPerSlab - 1; ++i) again.insert(pool.take());
  CHECK(again.size() == slabs * kPerSlab - 1);
  CHECK(again.count(kept) == 0);
  CHECK(pool.slabs() == slabs);
}

TEST_CASE("any order of taking and giving: no chunk twice, the counts add up") {
  test::Random random(11);
  ChunkPool pool(std::size_t{2} << 10);
  std::vector<void*> held;
  std::set<void*> all;
  for (int step = 0; step < 20'000; ++step) {
    if (held.empty() || random.below(5) < 3) {
      held.push_back(pool.take());
      REQUIRE(all.insert(held.back()).second);
    } else {
      const std::size_t at = random.below(held.size());
      std::swap(held[at], held.back());
      REQUIRE(pool.give(held.back()));
      all.erase(held.back());
      held.pop_back();
    }
    if (random.below(1000) == 0) pool.trim();
    REQUIRE(pool.chunks() == held.size());
  }
  CHECK(pool.slabs() * (ChunkPool::kSlab >> 11) >= held.size());
}

#endif

}  // namespace labkit::chunk_pool_test
