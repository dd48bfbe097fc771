// Loaded before all other libraries in the processes of a run on this host (LD_PRELOAD, see
// labkit/real/mpi/environment.py): what MPI's launcher and libraries listen on stays on the loopback interface.
// Open MPI and MPICH bind their ports to all interfaces, and have no setting for that.

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace {

using Bind = int (*)(int, const sockaddr*, socklen_t);

/// Whether a function is of MPI or its launcher: a program's own servers listen where the program says.
bool is_of_mpi(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  std::string_view name{info.dli_fname};
  name = name.substr(name.rfind('/') + 1);  // npos + 1 is 0: a name without a folder
  for (const std::string_view start : {"libmpi", "libopen-", "libprrte", "libpmi", "libevent", "libfabric", "libuc",
                                       "mca_", "prte", "orte", "mpiexec", "mpirun", "hydra"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int bind(int descriptor, const sockaddr* address,
                                                           socklen_t length) noexcept {
  static const auto original = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
  if (original == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  if (address == nullptr || !is_of_mpi(__builtin_return_address(0))) return original(descriptor, address, length);
  if (address->sa_family == AF_INET && length >= socklen_t{sizeof(sockaddr_in)}) {
    sockaddr_in changed{};
    std::memcpy(&changed, address, sizeof changed);
    if (changed.sin_addr.s_addr == htonl(INADDR_ANY)) {
      changed.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      return original(descriptor, reinterpret_cast<const sockaddr*>(&changed), sizeof changed);
    }
  }
  if (address->sa_family == AF_INET6 && length >= socklen_t{sizeof(sockaddr_in6)}) {
    sockaddr_in6 changed{};
    std::memcpy(&changed, address, sizeof changed);
    if (IN6_IS_ADDR_UNSPECIFIED(&changed.sin6_addr)) {
      changed.sin6_addr = in6addr_loopback;
      return original(descriptor, reinterpret_cast<const sockaddr*>(&changed), sizeof changed);
    }
  }
  return original(descriptor, address, length);
}
