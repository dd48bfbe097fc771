#include "labkit/topology/cluster.hpp"

#include <stdexcept>

namespace labkit {

void check_cluster_size(const std::string& what, std::int64_t hosts, std::int64_t links) {
  if (hosts > kMaxClusterHosts) {
    throw std::invalid_argument(what + " has more than 2^20 hosts, the most there may be");
  }
  if (links > kMaxClusterLinks) {
    throw std::invalid_argument(what + " has more than 2^24 links, the most there may be");
  }
}

std::int64_t capped_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t beyond = std::int64_t{1} << 40;
  return a > beyond / b ? beyond : a * b;
}

std::string joined(const std::vector<std::int32_t>& sizes) {
  std::string text;
  for (const std::int32_t size : sizes) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

}  // namespace labkit
