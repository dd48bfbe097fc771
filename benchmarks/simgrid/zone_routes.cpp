// Prints every route of a SimGrid platform: "source destination latency link link ...", by names.
//
// usage: zone_routes PLATFORM.xml HOST HOST ...; a pair that has no route gives no line.
#include <cstdio>
#include <exception>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  simgrid::s4u::Engine engine(&argc, argv);
  engine.load_platform(argv[1]);
  engine.seal_platform();  // shortest paths are computed now
  for (int src = 2; src < argc; ++src) {
    for (int dst = 2; dst < argc; ++dst) {
      std::vector<simgrid::s4u::Link*> links;
      double latency = 0;
      engine.host_by_name(argv[src])->route_to(engine.host_by_name(argv[dst]), links, &latency);
      if (links.empty()) continue;
      std::printf("%s %s %.17g", argv[src], argv[dst], latency);
      for (const auto* link : links) std::printf(" %s", link->get_cname());
      std::printf("\n");
    }
  }
}
