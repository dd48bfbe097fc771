// _kernels.ArrayMemory: what the arrays that one rank makes take, by NumPy's handler of allocations (NEP 49).
//
// The handler stands in the context of the greenlet (or thread) that calls install(), so each simulated rank
// has its own. It asks NumPy's own handler for the memory, and puts the size before each block: realloc is not
// told the old one. An array holds on to the handler that it was made with, however long it lives.
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

// NumPy's structures, whose layout is part of its binary interface (numpy/ndarraytypes.h).
struct Allocator {
  void* context;
  void* (*malloc)(void*, std::size_t);
  void* (*calloc)(void*, std::size_t, std::size_t);
  void* (*realloc)(void*, void*, std::size_t);
  void (*free)(void*, void*, std::size_t);
};
struct Handler {
  char name[127];
  std::uint8_t version;
  Allocator allocator;
};

constexpr const char* kCapsule = "mem_handler";
constexpr std::size_t kSetHandler = 304;
constexpr std::size_t kDefaultHandler = 306;
constexpr std::size_t kHead = alignof(std::max_align_t);

void** numpy_api() {
  static void** const api = [] {
    const nb::object capsule = nb::module_::import_("numpy._core._multiarray_umath").attr("_ARRAY_API");
    auto* found = static_cast<void**>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
    if (found == nullptr) throw nb::python_error();
    return found;
  }();
  return api;
}

/// Shared by the counter and the arrays that were made while it was in force.
struct Held {
  Handler handler{};
  Allocator below{};
  std::size_t now = 0;
  std::size_t peak = 0;

  void* keep(void* block, std::size_t bytes) {
    if (block == nullptr) return nullptr;
    std::memcpy(block, &bytes, sizeof bytes);
    now += bytes;
    if (now > peak) peak = now;
    return static_cast<char*>(block) + kHead;
  }
  static std::size_t size_of(void* block) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    return bytes;
  }
};

Held& held(void* context) { return *static_cast<Held*>(context); }
void* block_of(void* data) { return static_cast<char*>(data) - kHead; }

void* take(void* context, std::size_t bytes) {
  Held& mine = held(context);
  return mine.keep(mine.below.malloc(mine.below.context, bytes + kHead), bytes);
}

void* take_zeros(void* context, std::size_t count, std::size_t size) {
  Held& mine = held(context);
  const std::size_t bytes = count * size;  // NumPy has checked it
  return mine.keep(mine.below.calloc(mine.below.context, bytes + kHead, 1), bytes);
}

void* take_anew(void* context, void* data, std::size_t bytes) {
  if (data == nullptr) return take(context, bytes);
  Held& mine = held(context);
  const std::size_t before = Held::size_of(block_of(data));
  void* block = mine.below.realloc(mine.below.context, block_of(data), bytes + kHead);
  if (block == nullptr) return nullptr;
  mine.now -= before;
  return mine.keep(block, bytes);
}

void give(void* context, void* data, std::size_t) {
  if (data == nullptr) return;
  Held& mine = held(context);
  const std::size_t bytes = Held::size_of(block_of(data));
  mine.now -= bytes;
  mine.below.free(mine.below.context, block_of(data), bytes + kHead);
}

/// What the running rank's arrays take.
class ArrayMemory {
 public:
  ArrayMemory() {
    auto mine = std::make_unique<Held>();
    std::strcpy(mine->handler.name, "labkit array memory");
    mine->handler.version = 1;
    // The default one is asked below, whichever is in force: handlers are not stacked on each other.
    auto* const* standard = static_cast<PyObject**>(numpy_api()[kDefaultHandler]);
    auto* below = static_cast<Handler*>(PyCapsule_GetPointer(*standard, kCapsule));
    if (below == nullptr) throw nb::python_error();
    mine->below = below->allocator;
    mine->handler.allocator = {mine.get(), take, take_zeros, take_anew, give};
    capsule_ = nb::steal(PyCapsule_New(&mine->handler, kCapsule, [](PyObject* capsule) {
      auto* handler = static_cast<Handler*>(PyCapsule_GetPointer(capsule, kCapsule));
      delete static_cast<Held*>(handler->allocator.context);
    }));
    if (!capsule_.is_valid()) throw nb::python_error();
    held_ = mine.release();
  }

  void install() const {
    nb::steal(set(capsule_.ptr()));
  }
  static void uninstall() { nb::steal(set(nullptr)); }
  [[nodiscard]] std::size_t now() const { return held_->now; }
  [[nodiscard]] std::size_t peak() const { return held_->peak; }
  void set_peak(std::size_t bytes) { held_->peak = bytes > held_->now ? bytes : held_->now; }

 private:
  static PyObject* set(PyObject* capsule) {
    using Set = PyObject* (*)(PyObject*);
    PyObject* before = reinterpret_cast<Set>(numpy_api()[kSetHandler])(capsule);
    if (before == nullptr) throw nb::python_error();
    return before;
  }

  nb::object capsule_;
  Held* held_ = nullptr;
};

const Registration memory(50, [](nb::module_& module) {
  nb::class_<ArrayMemory>(module, "ArrayMemory", "Bytes that the arrays of one rank take, now and at most.")
      .def(nb::init<>())
      .def("install", &ArrayMemory::install, "Count what this greenlet or thread makes from now on.")
      .def_static("uninstall", &ArrayMemory::uninstall, "Count nothing any more, in this greenlet or thread.")
      .def_prop_ro("now", &ArrayMemory::now)
      .def_prop_rw("peak", &ArrayMemory::peak, &ArrayMemory::set_peak, "The most since it was set.");
});

}  // namespace
}  // namespace labkit::bindings
