// Plans of plain collective calls: kept by the general way, found by the short one.
#include <bit>
#include <cstring>
#include <utility>

#include "hub/quick_calls.hpp"

namespace labkit::bindings {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (std::rotl(hash, 5) ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

/// Whether a table is cut as its argument says, or is the one block that an argument is.
bool is_as_given(const QuickQuestion& question, const BoundBuffer& buffer, QuickSlot& slot) {
  const QuickMemory& memory = question.memory[static_cast<std::size_t>(slot.argument)];
  if (!memory.counts.empty()) {
    slot.from = QuickSlot::From::table;
    return buffer.counts == memory.counts && buffer.displacements == memory.displacements;
  }
  slot.from = QuickSlot::From::single;
  return buffer.counts.size() == 1 && buffer.displacements.front() == 0 &&
         buffer.counts.front() == memory.elements(buffer.element_bytes);
}

/// Which slot makes this buffer out of the arguments; false: none does.
bool slot_of(const QuickQuestion& question, const BoundBuffer& buffer, QuickSlot& slot) {
  const bool is_cut = !buffer.counts.empty() || !buffer.displacements.empty();
  slot.element_bytes = buffer.element_bytes;
  slot.count = buffer.count;
  if (buffer.data == nullptr) return !is_cut;
  int found = -1;
  for (std::size_t i = 0; i < kQuickBuffers; ++i) {
    if (!question.form.buffers[i].is_given || question.memory[i].data != buffer.data) continue;
    if (found >= 0) return false;  // both arguments are the same memory
    found = static_cast<int>(i);
  }
  if (found >= 0) {
    slot.from = QuickSlot::From::argument;
    slot.argument = static_cast<std::int8_t>(found);
    return !is_cut || is_as_given(question, buffer, slot);
  }
  if (is_cut) return false;
  // IN_PLACE: what is sent is a copy of what lies in the other buffer
  const auto& given = question.form.buffers;
  if (given[0].is_given || !given[1].is_given) return false;
  const std::uint64_t bytes = static_cast<std::uint64_t>(buffer.element_bytes) * static_cast<std::uint64_t>(buffer.count);
  const std::uint64_t blocks = bytes * static_cast<std::uint64_t>(question.size);
  slot.argument = 1;
  slot.from = question.keeps_own_block ? QuickSlot::From::copy_of_own : QuickSlot::From::copy_of_all;
  return question.keeps_own_block ? blocks == given[1].bytes : bytes == given[1].bytes || blocks == given[1].bytes;
}

}  // namespace

std::int64_t QuickMemory::elements(std::int32_t element_bytes) const {
  const auto element = static_cast<std::uint64_t>(element_bytes);
  if (count >= 0) return static_cast<std::uint64_t>(count) <= bytes / element ? count : -1;
  return bytes % element == 0 ? static_cast<std::int64_t>(bytes / element) : -1;
}

std::size_t QuickTable::Hash::operator()(const QuickForm& form) const {
  std::uint64_t hash = mixed(0, reinterpret_cast<std::uintptr_t>(form.method));
  hash = mixed(hash, reinterpret_cast<std::uintptr_t>(form.op));
  hash = mixed(hash, (std::uint64_t{form.context} << 32U) | static_cast<std::uint32_t>(form.root));
  for (const QuickBuffer& buffer : form.buffers) {
    std::uint64_t format = 0;
    std::memcpy(&format, buffer.format.data(), sizeof format);
    hash = mixed(mixed(mixed(hash, buffer.bytes), static_cast<std::uint64_t>(buffer.count)), format);
  }
  hash = mixed(hash, reinterpret_cast<std::uintptr_t>(form.joined));
  for (const std::int64_t size : form.sizes) hash = mixed(hash, static_cast<std::uint64_t>(size));
  return static_cast<std::size_t>(hash);
}

const QuickPlan* QuickTable::find(const QuickForm& form) const {
  const auto found = plans_.find(form);
  return found == plans_.end() ? nullptr : &found->second;
}

std::shared_ptr<const Agreement> QuickTable::known(const Agreement& terms) const {
  for (const auto& [form, plan] : plans_) {
    const Agreement& one = *plan.agreement;
    const bool is_same = one.program == terms.program && one.reduction == terms.reduction &&
                         one.element_bytes == terms.element_bytes && one.has_data == terms.has_data;
    if (is_same && one.name.equal(terms.name) && one.facts.equal(terms.facts)) return plan.agreement;
  }
  return nullptr;
}

bool QuickTable::has_question(Rank rank, const char* name) const {
  return question_ && question_->rank == rank && std::strcmp(question_->name, name) == 0;
}

void QuickTable::answer(Rank rank, const char* name, const std::shared_ptr<const Agreement>& agreement,
                        std::span<const BoundBuffer> buffers) {
  if (!has_question(rank, name) || buffers.size() > kQuickBuffers) return;
  QuickPlan plan{agreement, {}, buffers.size()};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!slot_of(*question_, buffers[i], plan.slots[i])) return;
  }
  if (plans_.size() >= kMostPlans) plans_.clear();  // each holds a program: a loop over roots has one for each
  plans_.insert_or_assign(question_->form, std::move(plan));
  question_.reset();
}

void QuickTable::forget() {
  plans_.clear();
  question_.reset();
}

}  // namespace labkit::bindings
