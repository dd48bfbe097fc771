// The short way of a collective call: what a rank need not find out again because a rank before it has.
//
// The general way is Python (labkit.comm): it reads any form of message, checks it, chooses the algorithm
// and says what is wrong. Most calls are of a plain form: contiguous buffers, alone or with a count and one
// of MPI's own datatypes, and MPI's own operators. A
// call's form is all that its meaning depends on, so what the general way made of a form is kept as a plan,
// and the next call of that form, by another rank or in the next round of a loop, goes straight to the
// engine. Whatever is not plain, not known, or not what the ranks before agreed on goes the general way.
//
// Blocks of any sizes (Gatherv, ...) are plain, too, where counts and displacements are arrays or lists of
// integers. Their sizes are read here at each call. They are part of the form only where all ranks must give the
// same ones, or where the choice of the algorithm depends on them: the rank that comes first chooses.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hub/hub_collective.hpp"

namespace labkit::bindings {

inline constexpr std::size_t kQuickBuffers = 2;

/// A buffer argument: how long it is, of what, and what may be done with it; in `[buffer, count, datatype]`
/// also what of it is meant.
struct QuickBuffer {
  static constexpr std::size_t kFormat = 8;
  std::uint64_t bytes = 0;
  std::int64_t count = -1;         ///< -1: not given
  const void* datatype = nullptr;  ///< nullptr: not given. MPI's own only, which never go away
  std::array<char, kFormat> format{};
  std::int32_t item_bytes = 0;
  bool is_given = false;  ///< false: None, or IN_PLACE
  bool is_read_only = false;
  bool is_phantom = false;  ///< a phantom buffer (labkit.sized)
  bool unused = false;
  friend bool operator==(const QuickBuffer&, const QuickBuffer&) = default;
};

/// Where a buffer argument is, and what of it is meant: what differs between calls of one form.
struct QuickMemory {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t count = -1;                          ///< elements; -1: not given
  std::vector<std::int64_t> counts, displacements;  ///< of a table's blocks, in elements
  /// The elements of one block; -1: they do not fit, or are not whole.
  [[nodiscard]] std::int64_t elements(std::int32_t element_bytes) const;
};

/// All that the meaning of a plain call depends on, but for where the buffers are.
struct QuickForm {
  const void* method = nullptr;
  const void* op = nullptr;  ///< nullptr: not given. Plans are kept for MPI's own only, which never go away
  Context context = 0;
  std::int32_t root = -1;
  std::array<QuickBuffer, kQuickBuffers> buffers;
  std::int64_t is_root = 0;  ///< whether the caller is the root
  const void* joined = nullptr;     ///< the agreement of the ranks before, where only the first rank chooses
  std::vector<std::int64_t> sizes;  ///< of blocks, as far as the meaning depends on them
  friend bool operator==(const QuickForm&, const QuickForm&) = default;
};

/// Which of its arguments a buffer of the engine is: what the general way made of the form.
struct QuickSlot {
  enum class From : std::int8_t {
    nothing,
    argument,
    copy_of_all,
    copy_of_own,
    table,   ///< an argument, cut as its sizes say
    single,  ///< an argument that is one block of a table
  };
  From from = From::nothing;
  std::int8_t argument = 0;
  std::int32_t element_bytes = 1;
  std::int64_t count = 0;
};

struct QuickPlan {
  std::shared_ptr<const Agreement> agreement;
  std::array<QuickSlot, kQuickBuffers> slots;
  std::size_t slot_count = 0;
};

/// A call that goes the general way and may leave a plan behind.
struct QuickQuestion {
  QuickForm form;
  std::array<QuickMemory, kQuickBuffers> memory;
  const char* name = "";
  Rank rank = -1;
  std::int32_t size = 0;
  bool keeps_own_block = false;  ///< in place: the rank's own block is copied, not the whole
};

class QuickTable {
 public:
  [[nodiscard]] const QuickPlan* find(const QuickForm& form) const;
  /// The same terms as an earlier call's, where a plan knows of one: ranks compare by identity.
  [[nodiscard]] std::shared_ptr<const Agreement> known(const Agreement& terms) const;
  void ask(QuickQuestion question) { question_ = std::move(question); }
  void withdraw() { question_.reset(); }
  /// The general way got to the engine: keep what it made of the question's form, if there is one of this
  /// rank and call, and every buffer is an argument or the copy that IN_PLACE means.
  void answer(Rank rank, const char* name, const std::shared_ptr<const Agreement>& agreement,
              std::span<const BoundBuffer> buffers);
  [[nodiscard]] bool has_question(Rank rank, const char* name) const;
  void forget();

 private:
  static constexpr std::size_t kMostPlans = 64;
  struct Hash {
    std::size_t operator()(const QuickForm& form) const;
  };
  std::unordered_map<QuickForm, QuickPlan, Hash> plans_;
  std::optional<QuickQuestion> question_;
};

/// The type of methods with a short way: QuickMethod(function, keeps_own_block, tables, starts, forgets). `tables`: a
/// bit for each buffer that is a table of blocks; with the parameter `recvcounts` that has the first one's sizes.
/// `starts`: the method is nonblocking. `forgets`: of its buffers mpi4py's request keeps none.
PyTypeObject* quick_method_type();

}  // namespace labkit::bindings
