// Schedules as the native reader sees them: columns of operations over ranks, handed over lazily.
//
// The Python package labkit.schedule has the same model and the texts that explain it; the numbers
// of OpKind are those of its Kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace labkit {

/// A schedule that cannot be carried out; the message names rank and operation.
class ScheduleFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class OpKind : std::uint8_t { send, isend, recv, irecv, wait, copy, combine };

/// One number for all entries of a column, or one for each.
class Field {
 public:
  Field() = default;
  explicit Field(std::int64_t constant) : constant_(constant) {}
  explicit Field(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  [[nodiscard]] std::int64_t at(std::size_t i) const { return values_.empty() ? constant_ : values_[i]; }
  [[nodiscard]] bool is_constant() const { return values_.empty(); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

 private:
  std::int64_t constant_ = 0;
  std::vector<std::int64_t> values_;
};

/// Blocks (first + i*stride + j) mod n of a buffer, j < run and i*stride + j < length; buffer < 0:
/// no data, length < 0: the whole buffer, run <= 0: contiguous.
struct Section {
  std::int32_t buffer = -1;
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t run = 0;
  std::int64_t stride = 1;
};

struct SectionField {
  std::int32_t buffer = -1;
  Field first, length, run, stride;
  [[nodiscard]] Section at(std::size_t i) const {
    return {buffer, first.at(i), length.at(i), run.at(i), stride.at(i)};
  }
};

struct Column {
  OpKind kind = OpKind::wait;
  bool is_everybody = false;         ///< entry i belongs to rank i, for all ranks; `ranks` is empty
  std::int32_t label = 0;
  std::size_t count = 0;             ///< entries
  std::vector<std::int32_t> ranks;   ///< rank of each entry; a rank may occur several times
  Field peer;
  SectionField section;
  SectionField source;
  Field is_source_first;
};

struct Step {
  std::vector<Column> columns;
  [[nodiscard]] std::size_t entries() const;
};

/// Hands over a schedule's steps one by one; nullptr when there are no more.
class StepSource {
 public:
  StepSource() = default;
  StepSource(const StepSource&) = delete;
  StepSource& operator=(const StepSource&) = delete;
  virtual ~StepSource() = default;
  virtual std::shared_ptr<const Step> next() = 0;
};

/// Where the sizes of a buffer's blocks come from; counts are in elements.
enum class Layout : std::uint8_t {
  uniform,  ///< every block has `count` elements, one after another; or is cut into parts (see Cut)
  split,    ///< `count` elements in n blocks, the first (count mod n) one element longer
  table,    ///< counts[b] elements at displacements[b]
};

/// How buffers are cut into blocks: a layout, and into how many blocks each of a uniform buffer is cut once more.
struct Cut {
  Layout layout = Layout::uniform;
  std::int64_t parts = 1;
};

/// What the blocks of a buffer are.
enum class Holds : std::uint8_t {
  blocks,  ///< as large as those of the buffer that it is like
  counts,  ///< numbers of 8 bytes: block i is the size of the block of the i-th rank from the holder on
  told,    ///< block i is as large as count i says
};

struct BufferSpec {
  std::string name;
  std::int32_t like = 0;                 ///< the caller's buffer whose block sizes it shares
  bool is_temporary = false;
  std::vector<std::int64_t> block_counts;  ///< number of blocks: one entry for all ranks, or one each
  Holds holds = Holds::blocks;
  [[nodiscard]] std::int64_t blocks(std::size_t rank) const {
    return block_counts.size() == 1 ? block_counts.front() : block_counts[rank];
  }
};

/// What all runs of one schedule share: its buffers, and its steps where they are few.
class Program {
 public:
  using Open = std::function<std::unique_ptr<StepSource>()>;
  /// Steps are kept for the next run as long as they have at most max_kept_entries in all.
  Program(std::string name, std::int32_t size, Layout layout, std::vector<BufferSpec> buffers, Open open,
          std::size_t max_kept_entries = std::size_t{1} << 18, std::int64_t parts = 1, std::int32_t teller = -1);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int32_t size() const { return size_; }
  [[nodiscard]] Layout layout() const { return cut_.layout; }
  [[nodiscard]] Cut cut() const { return cut_; }
  [[nodiscard]] const std::vector<BufferSpec>& buffers() const { return buffers_; }
  /// The caller's buffers come first; the temporaries follow.
  [[nodiscard]] std::size_t caller_buffers() const { return caller_buffers_; }
  /// The operation whose messages travel the machine's collective network, where it has one; else empty.
  [[nodiscard]] const std::string& collective_network() const { return collective_network_; }
  /// Whether ranks tell each other the sizes of blocks.
  [[nodiscard]] bool tells() const { return tells_; }
  /// The rank whose first buffer has the sizes that are told; -1: every rank's has its own.
  [[nodiscard]] std::int32_t teller() const { return teller_; }

 private:
  friend class StepCursor;
  std::string name_;
  std::int32_t size_;
  Cut cut_;
  std::vector<BufferSpec> buffers_;
  std::size_t caller_buffers_ = 0;
  bool tells_ = false;
  std::int32_t teller_ = -1;
  std::string collective_network_;
  Open open_;
  std::size_t max_kept_entries_;
  bool is_complete_ = false;
  std::vector<std::shared_ptr<const Step>> steps_;
};

/// One pass over a program's steps: from memory where an earlier pass left them there.
class StepCursor {
 public:
  explicit StepCursor(std::shared_ptr<Program> program) : program_(std::move(program)) {}
  [[nodiscard]] std::shared_ptr<const Step> next();

 private:
  void keep(const std::shared_ptr<const Step>& step);
  std::shared_ptr<Program> program_;
  std::unique_ptr<StepSource> source_;
  std::vector<std::shared_ptr<const Step>> kept_;
  std::size_t position_ = 0;
  std::size_t kept_entries_ = 0;
  bool is_keeping_ = true;
  bool has_failed_ = false;
};

}  // namespace labkit
