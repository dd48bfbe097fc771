// The compiled module: each category registers itself in its own bind_*.cpp.
#include <algorithm>
#include <utility>
#include <vector>

#include "registration.hpp"

namespace nb = nanobind;

namespace labkit::bindings {
namespace {

// A function's static: registrations run before main, in no order of files.
std::vector<std::pair<int, Registration::Bind>>& registered() {
  static std::vector<std::pair<int, Registration::Bind>> all;
  return all;
}

}  // namespace

Registration::Registration(int rank, Bind bind) { registered().emplace_back(rank, bind); }

void Registration::bind_all(nb::module_& module) {
  auto& all = registered();
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [rank, bind] : all) bind(module);
}

}  // namespace labkit::bindings

NB_MODULE(_kernels, module) {
  // At exit the interpreter drops modules, caches and tracebacks in no order that lets everything go.
  nb::set_leak_warnings(false);
  module.doc() = "labkit's compiled core: the simulation engine and the node-local kernels";
  labkit::bindings::Registration::bind_all(module);
}
