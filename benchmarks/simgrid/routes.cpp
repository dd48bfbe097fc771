// Prints every route of a SimGrid platform: "source destination latency link link ...".
//
// usage: routes PLATFORM.xml; hosts are called host-0, host-1, ...; a pair without links gives no line.
#include <cstdio>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  simgrid::s4u::Engine engine(&argc, argv);
  engine.load_platform(argv[1]);
  const std::size_t hosts = engine.get_host_count();
  for (std::size_t src = 0; src < hosts; ++src) {
    for (std::size_t dst = 0; dst < hosts; ++dst) {
      std::vector<simgrid::s4u::Link*> links;
      double latency = 0;
      engine.host_by_name("host-" + std::to_string(src))
          ->route_to(engine.host_by_name("host-" + std::to_string(dst)), links, &latency);
      if (links.empty()) continue;
      std::printf("%zu %zu %.17g", src, dst, latency);
      for (const auto* link : links) std::printf(" %s", link->get_cname());
      std::printf("\n");
    }
  }
}
