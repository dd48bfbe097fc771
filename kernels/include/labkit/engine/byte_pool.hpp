// Memory of messages: blocks of a few sizes that are used again, as one round of a collective needs what the
// round before gave back. The general allocator takes a tenth of a run's time for them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <vector>

namespace labkit {

class BytePool {
 public:
  BytePool() = default;
  ~BytePool() {
    for (const std::vector<std::byte*>& blocks : free_) {
      for (std::byte* block : blocks) ::operator delete(block);
    }
  }
  BytePool(const BytePool&) = delete;
  BytePool& operator=(const BytePool&) = delete;

  /// Memory for so many bytes, aligned as `new` aligns.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    const auto size_class = static_cast<std::size_t>(std::bit_width(bytes == 0 ? 0 : bytes - 1));
    std::byte* block = nullptr;
    if (size_class < free_.size() && !free_[size_class].empty()) {
      block = free_[size_class].back();
      free_[size_class].pop_back();
    } else {
      block = static_cast<std::byte*>(
          ::operator new(kHeader + (size_class < free_.size() ? std::size_t{1} << size_class : bytes)));
    }
    new (block) std::size_t(size_class);
    return block + kHeader;
  }

  /// What `take` gave, or nullptr.
  void give_back(std::byte* memory) noexcept {
    if (memory == nullptr) return;
    std::byte* const block = memory - kHeader;
    const std::size_t size_class = *std::launder(reinterpret_cast<std::size_t*>(block));
    if (size_class < free_.size()) {
      try {
        free_[size_class].push_back(block);
        return;
      } catch (const std::bad_alloc&) {  // no room to note it: let it go
      }
    }
    ::operator delete(block);
  }

 private:
  static constexpr std::size_t kHeader = alignof(std::max_align_t);
#ifdef __SANITIZE_ADDRESS__
  static constexpr std::size_t kClasses = 0;  // a block that is used again would hide a use of it after its end
#else
  static constexpr std::size_t kClasses = 18;  // blocks of up to 128 KiB are kept
#endif

  std::array<std::vector<std::byte*>, kClasses> free_;
};

}  // namespace labkit
