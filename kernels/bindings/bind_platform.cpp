// _kernels.Platform and _kernels.Model: machines and network models, as labkit.sim makes them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bound_platform.hpp"
#include "labkit/engine/cores.hpp"
#include "labkit/network/model.hpp"
#include "labkit/topology/degraded.hpp"
#include "registration.hpp"
#include "words.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace labkit::bindings {
namespace {

using FactorTable = std::vector<std::pair<double, double>>;
using CostTable = std::vector<std::tuple<std::uint64_t, double, double>>;

SizeFactor to_factor(const FactorTable& table) {
  std::vector<SizeFactor::Step> steps;
  for (const auto& [threshold, value] : table) steps.push_back({threshold, value});
  return SizeFactor(std::move(steps));
}

SizeCost to_cost(const CostTable& table) {
  std::vector<SizeCost::Section> sections;
  for (const auto& [threshold, constant, per_byte] : table) sections.push_back({threshold, constant, per_byte});
  return SizeCost(std::move(sections));
}

FactorTable from_factor(const SizeFactor& factor) {
  FactorTable table;
  for (const auto& step : factor.steps()) table.emplace_back(step.threshold_bytes, step.value);
  return table;
}

CostTable from_cost(const SizeCost& cost) {
  CostTable table;
  for (const auto& s : cost.sections()) table.emplace_back(s.threshold_bytes, s.constant_s, s.per_byte_s);
  return table;
}

nb::tuple link(const BoundPlatform& self, LinkId id) {
  if (id < 0 || static_cast<std::size_t>(id) >= self.platform->link_count()) throw std::invalid_argument("no such link");
  const Link& found = self.platform->link(id);
  return nb::make_tuple(self.platform->router().link_name(id), found.bandwidth_bytes_per_s, found.latency_s,
                        found.policy == Policy::fatpipe ? "fatpipe" : "shared");
}

nb::tuple route(const BoundPlatform& self, HostId src, HostId dst) {
  const auto count = static_cast<HostId>(self.platform->host_count());
  if (src < 0 || src >= count || dst < 0 || dst >= count) throw std::invalid_argument("no such host");
  Route found;
  self.platform->route(src, dst, found);
  std::vector<std::string> names;
  for (LinkId link : found.links) names.push_back(self.platform->router().link_name(link));
  return nb::make_tuple(names, found.latency_s);
}

BoundPlatform worse(const BoundPlatform& self, const std::vector<LinkId>& links, double bandwidth_factor,
                    double latency_factor) {
  return {degraded(self.platform, links, bandwidth_factor, latency_factor), self.rank_hosts};
}

std::string link_name(const BoundPlatform& self, LinkId link) {
  if (link < 0 || static_cast<std::size_t>(link) >= self.platform->link_count())
    throw std::invalid_argument("no such link");
  return self.platform->router().link_name(link);
}

void bind_platform(nb::module_& module) {
  nb::class_<BoundPlatform>(module, "Platform", "A machine for the engine, and the host of each rank.")
      .def_prop_ro("host_count", [](const BoundPlatform& self) { return self.platform->host_count(); })
      .def_prop_ro("link_count", [](const BoundPlatform& self) { return self.platform->link_count(); })
      .def_prop_ro("rank_count", [](const BoundPlatform& self) { return self.rank_hosts.size(); })
      .def_prop_ro("rank_hosts", [](const BoundPlatform& self) { return self.rank_hosts; })
      .def("speed", [](const BoundPlatform& self, std::size_t rank) {
             return self.platform->host(self.rank_hosts.at(rank)).speed_flops;
           }, "rank"_a, "Flop/s of the core a rank runs on.")
      .def("cores", [](const BoundPlatform& self, std::size_t rank) {
             return self.platform->host(self.rank_hosts.at(rank)).cores;
           }, "rank"_a, "Cores of the host a rank runs on.")
      .def("crowded_hosts", [](const BoundPlatform& self) {
             std::vector<std::tuple<HostId, std::int32_t, std::int32_t>> rows;
             for (const CrowdedHost& one : crowded_hosts(*self.platform, self.rank_hosts)) {
               rows.emplace_back(one.host, one.cores, one.ranks);
             }
             return rows;
           }, "Hosts with more ranks than cores: their numbers, cores and ranks.")
      .def("placed", [](const BoundPlatform& self, std::vector<HostId> rank_hosts) {
             return placed(self.platform, std::move(rank_hosts));
           }, "rank_hosts"_a, "The same machine with other ranks on it.")
      .def("link", &link, "link"_a, "Name, bandwidth (bytes/s), latency (s) and policy (shared, fatpipe) of a link.")
      .def("route", &route, "src"_a, "dst"_a, "Names of the links from host to host, and their latency (s).")
      .def("degraded", &worse, "links"_a, "bandwidth_factor"_a, "latency_factor"_a,
           "The same machine, with these links' bandwidths and latencies multiplied.")
      .def("link_name", &link_name, "link"_a)
      .def("__repr__", [](const BoundPlatform& self) { return self.platform->router().describe(); });
}

PenaltyFactors to_penalties(const std::vector<double>& numbers) {
  if (numbers.empty()) return {};
  if (numbers.size() != 3) throw std::invalid_argument("penalties are three numbers, or none");
  return {numbers[0], numbers[1], numbers[2]};
}

// Every field by its name: labkit.machines.models knows them, and gives them all.
Model make_model(const nb::kwargs& values) {
  Model model;
  const auto get = [&](const char* name, auto& field) {
    field = nb::cast<std::decay_t<decltype(field)>>(values[name]);
  };
  FactorTable latency, bandwidth;
  CostTable send, isend, recv, message;
  std::vector<std::tuple<std::string, double, double, double, double>> collective;
  std::vector<double> penalties;
  std::string sharing;
  get("name", model.name);
  get("weight_s_bytes", model.weight_s_bytes);
  get("latency_factor", latency);
  get("bandwidth_factor", bandwidth);
  get("message_latency", message);
  get("collective_network", collective);
  get("tcp_gamma_bytes", model.tcp_gamma_bytes);
  get("cross_traffic", model.cross_traffic);
  get("penalties", penalties);
  get("sharing", sharing);
  get("latency_s", model.latency_s);
  get("gap_s", model.gap_s);
  get("gap_per_byte_s", model.gap_per_byte_s);
  get("envelope_bytes", model.envelope_bytes);
  get("detached_below_bytes", model.detached_below_bytes);
  get("eager_below_bytes", model.eager_below_bytes);
  get("send_overhead", send);
  get("isend_overhead", isend);
  get("recv_overhead", recv);
  get("match_s", model.match_s);
  get("wtime_s", model.wtime_s);
  get("test_s", model.test_s);
  get("iprobe_s", model.iprobe_s);
  model.latency_factor = to_factor(latency);
  model.bandwidth_factor = to_factor(bandwidth);
  model.penalties = to_penalties(penalties);
  model.contention =
      word<Contention>("sharing", sharing, {{"maxmin", Contention::maxmin}, {"delay", Contention::delay}});
  model.message_latency = to_cost(message);
  for (const auto& [operation, least_s, start_s, stage_s, per_byte_s] : collective) {
    model.collective_network[operation] = {least_s, start_s, stage_s, per_byte_s};
  }
  model.send_overhead = to_cost(send);
  model.isend_overhead = to_cost(isend);
  model.recv_overhead = to_cost(recv);
  model.validate();
  return model;
}

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model", "A network model: every number that turns a message into time.")
      .def("__init__", [](Model* self, const nb::kwargs& values) { new (self) Model(make_model(values)); },
           "Every field of labkit.machines.models.NetworkModel, by name.")
      .def_ro("name", &Model::name)
      .def_ro("cross_traffic", &Model::cross_traffic)
      .def_ro("detached_below_bytes", &Model::detached_below_bytes)
      .def_ro("eager_below_bytes", &Model::eager_below_bytes)
      .def_ro("match_s", &Model::match_s)
      .def_ro("wtime_s", &Model::wtime_s)
      .def_ro("test_s", &Model::test_s)
      .def_ro("iprobe_s", &Model::iprobe_s)
      .def_prop_ro("latency_factor", [](const Model& self) { return from_factor(self.latency_factor); })
      .def_prop_ro("bandwidth_factor", [](const Model& self) { return from_factor(self.bandwidth_factor); })
      .def_prop_ro("send_overhead", [](const Model& self) { return from_cost(self.send_overhead); })
      .def_prop_ro("isend_overhead", [](const Model& self) { return from_cost(self.isend_overhead); })
      .def_prop_ro("recv_overhead", [](const Model& self) { return from_cost(self.recv_overhead); })
      .def("__repr__", [](const Model& self) { return "Model('" + self.name + "')"; });
}

const Registration platform_registration(10, bind_platform);
const Registration model_registration(10, bind_model);

}  // namespace
}  // namespace labkit::bindings
