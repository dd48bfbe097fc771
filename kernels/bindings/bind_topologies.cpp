// _kernels.topology: clusters by the names of their topologies. A new one is an entry in the table.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bound_platform.hpp"
#include "labkit/topology/dragonfly.hpp"
#include "labkit/topology/fat_tree.hpp"
#include "labkit/topology/star.hpp"
#include "labkit/topology/torus.hpp"
#include "registration.hpp"
#include "words.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

using Factory = std::shared_ptr<const Platform> (*)(const nb::kwargs& given);

/// What labkit.machines.spec.ClusterSpec.build gives, by name.
template <class T>
void get(const nb::kwargs& given, const char* name, T& field) {
  field = nb::cast<T>(given[name]);
}

template <class Spec>
Spec with_cables(const nb::kwargs& given) {
  Spec spec;
  std::string sharing;
  std::optional<std::pair<double, double>> loopback;
  get(given, "bw", spec.link.bandwidth_bytes_per_s);
  get(given, "lat", spec.link.latency_s);
  get(given, "speed", spec.speed_flops);
  get(given, "cores", spec.cores);
  get(given, "sharing", sharing);
  get(given, "limiter", spec.limiter_bandwidth_bytes_per_s);
  get(given, "loopback", loopback);
  spec.duplex = word<Duplex>("sharing", sharing, {{"splitduplex", Duplex::split}, {"shared", Duplex::shared},
                                                  {"fatpipe", Duplex::fatpipe}});
  if (loopback) spec.loopback = LinkSpec{loopback->first, loopback->second};
  return spec;
}

std::shared_ptr<const Platform> star(const nb::kwargs& given) {
  auto spec = with_cables<StarSpec>(given);
  get(given, "hosts", spec.hosts);
  std::optional<std::tuple<double, double, bool>> backbone;  // bytes/s, s, is fat pipe
  get(given, "backbone", backbone);
  if (backbone) {
    const auto& [bandwidth, latency, is_fatpipe] = *backbone;
    spec.backbone = BackboneSpec{bandwidth, latency, is_fatpipe ? Policy::fatpipe : Policy::shared};
  }
  return make_star(spec);
}

std::shared_ptr<const Platform> torus(const nb::kwargs& given) {
  auto spec = with_cables<TorusSpec>(given);
  get(given, "sizes", spec.sizes);
  return make_torus(spec);
}

std::shared_ptr<const Platform> fat_tree(const nb::kwargs& given) {
  auto spec = with_cables<FatTreeSpec>(given);
  get(given, "down", spec.down);
  get(given, "up", spec.up);
  get(given, "cables", spec.cables);
  return make_fat_tree(spec);
}

std::shared_ptr<const Platform> dragonfly(const nb::kwargs& given) {
  auto spec = with_cables<DragonflySpec>(given);
  std::array<std::int32_t, 7> counts{};
  std::string routing;
  get(given, "counts", counts);
  get(given, "routing", routing);
  get(given, "seed", spec.seed);
  std::tie(spec.groups, spec.blue, spec.chassis, spec.black, spec.routers, spec.green, spec.nodes) =
      std::tuple_cat(counts);
  using Ways = DragonflyRouting;
  spec.routing = word<Ways>("routing", routing, {{"minimal", Ways::minimal}, {"shortest", Ways::shortest},
                                                 {"valiant", Ways::valiant}, {"adaptive", Ways::adaptive}});
  return make_dragonfly(spec);
}

BoundPlatform topology(const std::string& kind, std::vector<HostId> rank_hosts, const nb::kwargs& given) {
  const auto make = word<Factory>("topology", kind, {{"star", star}, {"torus", torus}, {"fattree", fat_tree},
                                                     {"dragonfly", dragonfly}});
  return placed(make(given), std::move(rank_hosts));
}

void bind_topologies(nb::module_& module) {
  module.def("topology", &topology, "kind"_a, "rank_hosts"_a, "kwargs"_a,
             "A cluster: what labkit.machines.spec.ClusterSpec.build gives, by name.");
}

const Registration topologies_registration(11, bind_topologies);

}  // namespace
}  // namespace labkit::bindings
