// The compiled module: each category registers itself in its own bind_*.cpp.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_kernels, module) {
    module.doc() = "labkit's compiled core: the simulation engine and the node-local kernels";
}
