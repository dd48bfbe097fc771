// What a message carries, on the Python side: the engine only holds a pointer to one of these.
//
// Payloads live in a pool, never on a rank's stack: the stack of a suspended rank is copied away.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <deque>

#include "labkit/engine/types.hpp"
#include "labkit/local/byte_layout.hpp"

namespace labkit::bindings {

/// Memory that stands for phantom buffers (labkit.sized): it is never copied from or into.
struct PhantomMemory {
  const char* begin = nullptr;
  std::uint64_t bytes = 0;
  [[nodiscard]] bool holds(const char* data) const {
    return static_cast<std::uint64_t>(data - begin) < bytes;
  }
};
PhantomMemory& phantom_memory();

/// The bytes of one send, or the place where one receive wants them.
struct Payload {
  char* data = nullptr;
  std::uint64_t bytes = 0;         ///< of the message, or the room for it
  PyObject* owner = nullptr;       ///< a bytes object holding `data`: never changes, needs no copy; or a receive's layout
  const ByteLayout* layout = nullptr;  ///< receive: how the bytes lie from `data` on; nullptr: in a row
  PyObject* received = nullptr;    ///< object receive: the message, as bytes
  char* copy = nullptr;            ///< a snapshot too long for `small`
  Payload* next_free = nullptr;
  Py_buffer view{};                ///< pins the program's buffer while has_view
  bool has_view = false;
  bool is_object = false;          ///< receive: hand the message over as bytes
  bool is_delivered = false;       ///< receive: the bytes are there
  bool is_unfilled = false;        ///< receive: a size came where bytes were wanted
  bool is_in_use = false;
  bool asks_source = false;        ///< receive: a status will say whose message it was
  bool is_used = false;            ///< receive: its memory is the program's until its Wait (BuffersInUse)
  char kind = 0;                   ///< of its elements, a letter of the buffer protocol; 0: not known, or bytes
  std::uint32_t item_bytes = 0;    ///< of an element; 0: not known
  char sent_kind = 0;              ///< receive: of what has come, if it is another
  Rank sent_by = -1;               ///< whose that is
  std::uint32_t clash = 0;         ///< receive: its group in BuffersInUse; 0: nobody else receives into its memory
  char small[64];                  ///< snapshots of short messages
};

class PayloadPool {
 public:
  PayloadPool() = default;
  PayloadPool(const PayloadPool&) = delete;
  PayloadPool& operator=(const PayloadPool&) = delete;
  ~PayloadPool();
  [[nodiscard]] Payload* take();
  /// Lets go of everything it holds.
  void give(Payload* payload);

 private:
  static void clear(Payload& payload);
  std::deque<Payload> storage_;  // stable addresses: a Py_buffer may point into itself
  Payload* free_ = nullptr;
};

/// Unpin the program's buffer.
void release_view(Payload& payload);

/// Point the payload at the program's buffer: an object with the buffer protocol, or one of
/// mpi4py's list forms. Sets a Python error and returns false when it is none.
bool pin_buffer(PyObject* spec, bool is_writable, Payload& payload);

/// Point the payload at a bytes object, which it keeps.
void hold_bytes(PyObject* bytes, Payload& payload);

}  // namespace labkit::bindings
