// Counters of the host's kernel and processor for the calling thread: Linux's perf events.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace labkit::bindings {

/// What became of an event: counted, counted in the program's own code only, or refused (an errno, negative).
enum CounterState : std::int32_t { kCounted = 0, kUserOnly = 1 };

/// A group of events, read by one call of the system. What is refused is 0 throughout.
class HostCounters {
 public:
  using Event = std::pair<std::uint32_t, std::uint64_t>;  ///< perf's type and config

  explicit HostCounters(const std::vector<Event>& events) {
    for (const Event& event : events) states_.push_back(open(event));
    slot_.assign(events.size(), -1);
    for (std::size_t at = 0, slot = 0; at < events.size(); ++at) {
      if (states_[at] >= 0) slot_[at] = static_cast<std::int32_t>(slot++);
    }
    values_.assign(3 + files_.size(), 0);
  }
  HostCounters(const HostCounters&) = delete;
  HostCounters& operator=(const HostCounters&) = delete;
  ~HostCounters() {
#if defined(__linux__)
    for (const int file : files_) close(file);
#endif
  }

  [[nodiscard]] const std::vector<std::int32_t>& states() const { return states_; }
  [[nodiscard]] std::size_t size() const { return states_.size(); }

  /// Appends the present values, one for each event.
  void read_to(std::vector<std::uint64_t>& into) {
    read_group();
    for (const std::int32_t slot : slot_) into.push_back(slot < 0 ? 0 : values_[3 + static_cast<std::size_t>(slot)]);
  }
  /// The share of the time in which the processor's registers were there for the group; 1 without any event.
  double share() {
    read_group();
    return values_[1] == 0 ? 1.0 : static_cast<double>(values_[2]) / static_cast<double>(values_[1]);
  }

 private:
#if defined(__linux__)
  std::int32_t open(const Event& event) {
    perf_event_attr attributes;
    std::memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = event.first;
    attributes.config = event.second;
    attributes.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    for (const bool is_user_only : {false, true}) {
      attributes.exclude_kernel = attributes.exclude_hv = is_user_only ? 1 : 0;
      const int leader = files_.empty() ? -1 : files_.front();
      const long file = syscall(SYS_perf_event_open, &attributes, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
      if (file >= 0) {
        files_.push_back(static_cast<int>(file));
        return is_user_only ? kUserOnly : kCounted;
      }
      if (errno != EACCES && errno != EPERM) break;
    }
    return -errno;
  }
  void read_group() {
    const std::size_t n_bytes = values_.size() * sizeof values_[0];
    if (!files_.empty() && read(files_.front(), values_.data(), n_bytes) < 0) values_.assign(values_.size(), 0);
  }
#else
  std::int32_t open(const Event&) { return -ENOSYS; }
  void read_group() {}
#endif

  std::vector<int> files_;
  std::vector<std::int32_t> states_;
  std::vector<std::int32_t> slot_;      ///< of an event: its place in the group; -1: refused
  std::vector<std::uint64_t> values_;   ///< number of events, time enabled, time running, a value for each
};

}  // namespace labkit::bindings
