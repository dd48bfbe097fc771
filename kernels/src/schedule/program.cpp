// Programs and cursors: a schedule's steps, generated once where they are few.
#include <string_view>
#include <utility>

#include "labkit/schedule/schedule.hpp"

namespace labkit {

std::size_t Step::entries() const {
  std::size_t total = 0;
  for (const Column& column : columns) total += column.count;
  return total;
}

Program::Program(std::string name, std::int32_t size, Layout layout, std::vector<BufferSpec> buffers, Open open,
                 std::size_t max_kept_entries, std::int64_t parts, std::int32_t teller)
    : name_(std::move(name)), size_(size), cut_{layout, parts}, buffers_(std::move(buffers)), teller_(teller),
      open_(std::move(open)), max_kept_entries_(max_kept_entries) {
  if (size_ < 1) throw std::invalid_argument(name_ + ": a program needs at least 1 rank, got " + std::to_string(size_));
  if (parts < 1 || (parts > 1 && layout != Layout::uniform)) {
    throw std::invalid_argument(name_ + ": " + std::to_string(parts) + " parts; only uniform blocks are cut, into 1 or more");
  }
  for (const BufferSpec& buffer : buffers_) {
    if (!buffer.is_temporary) ++caller_buffers_;
    tells_ = tells_ || buffer.holds != Holds::blocks;
    const std::size_t counts = buffer.block_counts.size();
    if (counts != 1 && counts != static_cast<std::size_t>(size_)) {
      throw std::invalid_argument(name_ + ": buffer " + buffer.name + " has " + std::to_string(counts) +
                                  " block counts; give 1, or one for each of " + std::to_string(size_) + " ranks");
    }
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferSpec& buffer = buffers_[i];
    const bool is_caller = i < caller_buffers_;
    const bool is_like_known = buffer.like >= 0 && static_cast<std::size_t>(buffer.like) < caller_buffers_;
    if (is_caller == buffer.is_temporary || !is_like_known) {
      throw std::invalid_argument(name_ + ": buffer " + buffer.name +
                                  ": the caller's buffers come first, and a temporary is like one of them");
    }
  }
  constexpr std::string_view kOnTheNetwork = "/collective_network";
  if (name_.ends_with(kOnTheNetwork)) collective_network_ = name_.substr(0, name_.size() - kOnTheNetwork.size());
  if (tells_ && (layout != Layout::table || caller_buffers_ == 0 || teller_ >= size_)) {
    throw std::invalid_argument(name_ + ": sizes are told where they come from a table of one of the ranks, or of each");
  }
}

std::shared_ptr<const Step> StepCursor::next() {
  if (program_->is_complete_) {
    return position_ < program_->steps_.size() ? program_->steps_[position_++] : nullptr;
  }
  if (has_failed_) throw ScheduleFault(program_->name() + ": the generator of its steps has failed");
  has_failed_ = true;  // unless it comes back: a generator that raised says "no more" when asked again
  if (!source_) source_ = program_->open_();
  std::shared_ptr<const Step> step = source_->next();
  has_failed_ = false;
  ++position_;
  keep(step);
  return step;
}

// A pass that saw all steps, and not too many, leaves them to the passes after it.
void StepCursor::keep(const std::shared_ptr<const Step>& step) {
  if (!is_keeping_) return;
  if (!step) {
    --position_;  // the end is not a step
    program_->steps_ = std::move(kept_);
    program_->is_complete_ = true;
    is_keeping_ = false;
    return;
  }
  kept_entries_ += step->entries();
  if (kept_entries_ > program_->max_kept_entries_) {
    is_keeping_ = false;
    kept_.clear();
    return;
  }
  kept_.push_back(step);
}

}  // namespace labkit
