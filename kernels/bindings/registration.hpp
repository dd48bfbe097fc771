// How a category of bindings joins the module: each bind_*.cpp registers itself, so that adding one
// is adding its file.
//
//     static const Registration platform(10, [](nb::module_& module) { ... });
//
// Lower ranks go first; a type must be bound before a signature that names it.
#pragma once

#include <nanobind/nanobind.h>

namespace labkit::bindings {

class Registration {
 public:
  using Bind = void (*)(nanobind::module_& module);
  Registration(int rank, Bind bind);
  /// Called once, by the module.
  static void bind_all(nanobind::module_& module);
};

}  // namespace labkit::bindings
