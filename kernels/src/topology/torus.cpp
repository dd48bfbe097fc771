#include "labkit/topology/torus.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace labkit {
namespace {

constexpr Link kCommonLoopback{10e9, 0.0, Policy::fatpipe};

class TorusRouter final : public Router {
 public:
  explicit TorusRouter(const TorusSpec& spec, LinkId per_host)
      : sizes_(spec.sizes),
        latency_s_(spec.link.latency_s),
        loopback_latency_s_(spec.loopback ? spec.loopback->latency_s : kCommonLoopback.latency_s),
        is_split_(spec.duplex == Duplex::split),
        has_limiter_(spec.limiter_bandwidth_bytes_per_s.has_value()),
        has_loopback_(spec.loopback.has_value()),
        per_cable_(links_per_cable(spec)),
        limiter_(static_cast<LinkId>(spec.sizes.size()) * per_cable_),
        per_host_(per_host) {
    for (const std::int32_t size : sizes_) hosts_ *= size;
  }

  void route(HostId src, HostId dst, Route& out) const override {
    if (src == dst) {
      const bool is_common = !has_loopback_ && !has_limiter_;
      // The last link of a host is its loopback or, without one, its limiter.
      out.links.push_back(is_common ? hosts_ * per_host_ : (src + 1) * per_host_ - 1);
      out.latency_s = loopback_latency_s_;
      return;
    }
    HostId at = src;
    HostId stride = 1;
    LinkId cable = 0;
    for (const std::int32_t size : sizes_) {
      const std::int32_t from = src / stride % size;
      const std::int32_t to = dst / stride % size;
      if (from != to) at = walk(at, from, to, size, stride, cable, out);
      stride *= size;
      cable += per_cable_;
    }
    if (has_limiter_) out.links.push_back(at * per_host_ + limiter_);
  }

  [[nodiscard]] std::string link_name(LinkId link) const override {
    if (link == hosts_ * per_host_) return "loopback";
    const HostId host = link / per_host_;
    const LinkId role = link % per_host_;
    if (has_limiter_ && role == limiter_) return "limiter " + std::to_string(host);
    if (role >= limiter_) return "loopback " + std::to_string(host);
    const auto dimension = static_cast<std::size_t>(role / per_cable_);
    HostId stride = 1;
    for (std::size_t j = 0; j < dimension; ++j) stride *= sizes_[j];
    const std::string own = std::to_string(host);
    const std::string next = std::to_string(up_from(host, host / stride % sizes_[dimension], sizes_[dimension], stride));
    const std::string axis = dimension < 3 ? std::string(1, "xyz"[dimension]) : "d" + std::to_string(dimension + 1);
    if (!is_split_) return own + " - " + next + " (" + axis + ")";
    return role % 2 == 0 ? own + " -> " + next + " (+" + axis + ")" : next + " -> " + own + " (-" + axis + ")";
  }

  [[nodiscard]] std::string describe() const override { return "torus of " + joined(sizes_) + " hosts"; }

 private:
  static HostId up_from(HostId host, std::int32_t place, std::int32_t size, HostId stride) {
    return place == size - 1 ? host - (size - 1) * stride : host + stride;
  }

  /// Along one dimension; returns the host where the message then is.
  HostId walk(HostId at, std::int32_t from, std::int32_t to, std::int32_t size, HostId stride, LinkId cable,
              Route& out) const {
    const std::int32_t up = to > from ? to - from : to - from + size;
    const bool is_tie = 2 * up == size;
    if (is_tie ? from != size / 2 : 2 * up < size) {
      for (std::int32_t step = 0, place = from; step < up; ++step) {
        cross(at, at * per_host_ + cable, out);
        at = up_from(at, place, size, stride);
        place = place == size - 1 ? 0 : place + 1;
      }
      return at;
    }
    const LinkId downward = cable + (is_split_ ? 1 : 0);
    for (std::int32_t step = up, place = from; step < size; ++step) {
      const HostId next = place == 0 ? at + (size - 1) * stride : at - stride;
      cross(at, next * per_host_ + downward, out);
      at = next;
      place = place == 0 ? size - 1 : place - 1;
    }
    return at;
  }

  void cross(HostId at, LinkId link, Route& out) const {
    if (has_limiter_) out.links.push_back(at * per_host_ + limiter_);
    out.links.push_back(link);
    out.latency_s += latency_s_;
  }

  std::vector<std::int32_t> sizes_;
  double latency_s_;
  double loopback_latency_s_;
  bool is_split_;
  bool has_limiter_;
  bool has_loopback_;
  LinkId per_cable_;
  LinkId limiter_;  // offset from the host's first link, also where the loopback follows
  LinkId per_host_;
  HostId hosts_ = 1;
};

}  // namespace

std::shared_ptr<const Platform> make_torus(const TorusSpec& spec) {
  const std::string what = "a torus of " + joined(spec.sizes);
  if (spec.sizes.empty()) throw std::invalid_argument("a torus needs at least one dimension");
  std::int64_t count = 1;
  for (const std::int32_t size : spec.sizes) {
    if (size < 1) throw std::invalid_argument(what + " has a size below 1");
    count = capped_product(count, size);
  }
  const std::int64_t per_host = static_cast<std::int64_t>(spec.sizes.size()) * links_per_cable(spec) +
                                (spec.limiter_bandwidth_bytes_per_s ? 1 : 0) + (spec.loopback ? 1 : 0);
  check_cluster_size(what, count, capped_product(count, per_host));
  std::vector<Link> links;
  links.reserve(static_cast<std::size_t>(count * per_host + 1));
  for (std::int64_t host = 0; host < count; ++host) {
    links.insert(links.end(), spec.sizes.size() * static_cast<std::size_t>(links_per_cable(spec)), cable_link(spec));
    if (spec.limiter_bandwidth_bytes_per_s) links.push_back(limiter_link(spec));
    if (spec.loopback) links.push_back(loopback_link(spec));
  }
  if (!spec.loopback && !spec.limiter_bandwidth_bytes_per_s) links.push_back(kCommonLoopback);
  std::vector<Host> hosts(static_cast<std::size_t>(count), Host{spec.speed_flops, spec.cores});
  return std::make_shared<const Platform>(
      std::move(hosts), std::move(links),
      std::make_unique<const TorusRouter>(spec, static_cast<LinkId>(per_host)));
}

}  // namespace labkit
