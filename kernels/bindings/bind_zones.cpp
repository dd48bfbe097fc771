// _kernels.Zones: zones in zones, built point by point, then a _kernels.Platform.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bound_platform.hpp"
#include "labkit/topology/zones.hpp"
#include "registration.hpp"
#include "words.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

nb::tuple add_cluster(ZoneBuilder& self, ZoneId parent, const BoundPlatform& cluster, std::string name) {
  const auto made = self.add_cluster(parent, cluster.platform, std::move(name));
  return nb::make_tuple(made.zone, made.first_host, made.router);
}

void add_route(ZoneBuilder& self, ZoneId zone, PointId src, PointId dst, std::vector<LinkId> links,
               PointId gateway_src, PointId gateway_dst) {
  self.add_route(zone, {src, dst, gateway_src, gateway_dst, std::move(links)});
}

void add_bypass(ZoneBuilder& self, ZoneId zone, PointId src, PointId dst, std::vector<LinkId> links,
                PointId gateway_src, PointId gateway_dst) {
  self.add_bypass(zone, {src, dst, gateway_src, gateway_dst, std::move(links)});
}

/// Number of a host or link, times and values of its steps, period.
using Rows = std::vector<std::tuple<std::int32_t, std::vector<std::pair<double, double>>, double>>;

std::map<std::int32_t, Profile> to_profiles(const Rows& rows) {
  std::map<std::int32_t, Profile> out;
  for (const auto& [id, pairs, period_s] : rows) {
    std::vector<Profile::Step> steps;
    for (const auto& [at, value] : pairs) steps.push_back({at, value});
    out.emplace(id, Profile(std::move(steps), period_s));
  }
  return out;
}

void bind_zones(nb::module_& module) {
  nb::class_<ZoneBuilder>(module, "Zones", "Zones in zones, built point by point.")
      .def(nb::init<>())
      .def("zone", [](ZoneBuilder& self, ZoneId parent, const std::string& routing, std::string name) {
             using enum Routing;
             const auto way = word<Routing>("routing", routing, {{"full", full}, {"floyd", floyd},
                 {"dijkstra", dijkstra}, {"star", star}, {"none", none}});
             return self.add_zone(parent, way, std::move(name));
           }, "parent"_a, "routing"_a, "name"_a, "A new zone's number; the first one has parent -1.")
      .def("host", [](ZoneBuilder& self, ZoneId zone, double speed, std::int32_t cores, std::string name) {
             return self.add_host(zone, Host{speed, cores}, std::move(name));
           }, "zone"_a, "speed"_a, "cores"_a, "name"_a, "A new host's point.")
      .def("router", &ZoneBuilder::add_router, "zone"_a, "name"_a, "A new router's point.")
      .def("link", [](ZoneBuilder& self, double bw, double lat, bool is_fatpipe, std::string name) {
             return self.add_link({bw, lat, is_fatpipe ? Policy::fatpipe : Policy::shared}, std::move(name));
           }, "bw"_a, "lat"_a, "is_fatpipe"_a, "name"_a, "A new link's number.")
      .def("cluster", &add_cluster, "parent"_a, "cluster"_a, "name"_a,
           "A platform as a zone: (zone, point of its first host, point of its router).")
      .def("point_of", &ZoneBuilder::point_of, "zone"_a, "A zone as a point of its parent.")
      .def("route", &add_route, "zone"_a, "src"_a, "dst"_a, "links"_a, "gateway_src"_a = kNoPoint,
           "gateway_dst"_a = kNoPoint, "Links from point to point; -1 is the middle of a star.")
      .def("bypass", &add_bypass, "zone"_a, "src"_a, "dst"_a, "links"_a, "gateway_src"_a = kNoPoint,
           "gateway_dst"_a = kNoPoint, "Links that replace the zone's routes from point to point.")
      .def("build", [](ZoneBuilder& self, std::vector<HostId> rank_hosts, const Rows& speeds, const Rows& bandwidths,
                       const Rows& latencies) {
             Profiles profiles{to_profiles(speeds), to_profiles(bandwidths), to_profiles(latencies)};
             return placed(self.build(std::move(profiles)), std::move(rank_hosts));
           }, "rank_hosts"_a, "speeds"_a = Rows{}, "bandwidths"_a = Rows{}, "latencies"_a = Rows{},
           "The platform; hosts are numbered as they were added. What changes with time: (number of a host or link, "
           "[(time, value), ...], period) of each profile.");
}

const Registration zones_registration(11, bind_zones);

}  // namespace
}  // namespace labkit::bindings
