"""The settings under which ranks run: what was measured to start fast and to behave when oversubscribed."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence

from labkit.errors import MachineError
from labkit.process.tree import JOB_VARIABLE, THREADS

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Mapping

    from labkit.real.mpi.find import Launcher
    from labkit.real.mpi.hosts import HostFile

__all__ = [
    "BOOTSTRAP",
    "STREAM",
    "host_options",
    "launch_command",
    "rank_environment",
    "restore_preload",
    "root_permission",
    "without_inherited",
]

#: the file in a launch's folder that says that standard error stays apart: both are passed on
STREAM = "stream"

#: variables that a launcher or a batch system sets for ITS ranks: inherited, they confuse a new launcher
_INHERITED = re.compile(
    r"^(PMIX_|PMI_|PMI2_|OMPI_COMM_|OMPI_UNIVERSE_|OMPI_FILE_|OMPI_APP_|OMPI_NUM_APP|OMPI_ARGV|OMPI_COMMAND"
    r"|OMPI_MCA_orte_ess_|OMPI_MCA_ess_|PRTE_LAUNCHED|HYDI_|HYDRA_CONTROL|MPI_LOCAL)"
)

#: what of Open MPI talks to a batch system
_ALLOCATORS, _STARTERS = "^slurm,tm,lsf,gridengine,pbs,flux", "^slurm,tm,lsf,pals"

#: environment variables passed to ranks on other hosts; the launcher itself passes the settings of MPI
_TRAVELS = re.compile(r"^(LABKIT_|PYTHON|OMP_|OPENBLAS_|MKL_|NUMEXPR_|MPI4PY_|BOKEH_)")

#: The caller's search path replaces the one that `-c` makes, before labkit is looked for.
BOOTSTRAP = (
    "import sys; directory = sys.argv[1]; "
    "file = open(directory + '/path', encoding='utf-8', errors='surrogateescape'); "
    "sys.path[:] = file.read().split('\\0'); file.close(); "
    "from labkit.real.mpi.child import main; main(directory)"
)


def launch_command(launcher: Launcher, ranks: int, directory: str, hosts: Sequence[str] = ()) -> list[str]:
    """Build the command line that starts the ranks of the job in `directory`.

    `hosts` are the options that place them on several hosts; see `host_options`.
    """
    command = [launcher.path, *hosts]
    if launcher.kind == "openmpi":
        command += ["--bind-to", "none"]
        if launcher.version and launcher.version[0] < 5:
            command += ["--oversubscribe"]
    elif launcher.kind == "mpich":
        command += ["-print-all-exitcodes"]  # marks the rank that ended first, not those that were killed
    command += ["-n", str(ranks)]
    return [*command, sys.executable, "-c", BOOTSTRAP, directory]


def host_options(launcher: Launcher, hosts: HostFile, file: str, environment: Mapping[str, str]) -> list[str]:
    """Build the launcher's options for a run on several hosts."""
    if launcher.kind not in ("openmpi", "mpich"):
        raise MachineError(
            f"a host file needs Open MPI or MPICH, and {launcher.path} is neither; choose with LABKIT_MPI",
            code="missing-tool",
        )
    with open(file, "w", encoding="utf-8") as target:
        target.write(hosts.text(launcher))
    names = sorted(name for name in environment if _TRAVELS.match(name))
    if launcher.kind == "mpich":
        return ["-f", file, "-genvlist", ",".join(names)]
    prefix = os.path.dirname(os.path.dirname(launcher.path))
    return ["--prefix", prefix, "--hostfile", file, *(word for name in names for word in ("-x", name))]


def rank_environment(
    launcher: Launcher,
    base: Mapping[str, str],
    token: str,
    scratch: str,
    shared: str | None,
    hosts: HostFile | None = None,
) -> dict[str, str]:
    """Build the environment of the launcher and its ranks."""
    environment = without_inherited(base)
    environment[JOB_VARIABLE] = token
    environment["LABKIT_TMPDIR"] = base.get("TMPDIR", "")
    environment["TMPDIR"] = scratch
    wanted = dict.fromkeys(THREADS, "1")
    wanted["PYTHONFAULTHANDLER"] = "1"
    if launcher.kind == "openmpi":
        wanted.update(_open_mpi(launcher, shared, hosts is not None, scratch))
    elif launcher.kind == "mpich":
        wanted["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # without it a barrier of 4 ranks on 2 cores takes ms
        # This host, also inside a batch job; or those of the host file.
        wanted |= {"HYDRA_RMK": "user", "HYDRA_LAUNCHER": "fork" if hosts is None else "ssh"}
    if hosts is None:
        environment |= loopback_settings(base, scratch)
    # With MPI4PY_MPIABI set, mpi4py does not look at MPI4PY_LIBMPI: it is the second choice.
    if launcher.library and "MPI4PY_MPIABI" not in base:
        wanted["MPI4PY_LIBMPI"] = launcher.library
    elif launcher.kind != "unknown":
        wanted["MPI4PY_MPIABI"] = launcher.kind
    return {**wanted, **environment}


def without_inherited(base: Mapping[str, str]) -> dict[str, str]:
    """Leave out what another launcher or batch system has set for its own ranks."""
    return {name: value for name, value in base.items() if not _INHERITED.match(name)}


def _open_mpi(launcher: Launcher, shared: str | None, has_hosts: bool, scratch: str) -> dict[str, str]:
    old = bool(launcher.version) and launcher.version[0] < 5
    settings = {
        # One machine only: without looking for networks the import of mpi4py.MPI falls from 1.2 s to 0.16 s.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": ("self,vader" if old else "self,sm")
        + (",tcp" if has_hosts or has_loopback() else ""),
        "OMPI_MCA_mpi_yield_when_idle": "1",
        # It cannot be used with these, and prints an error for each window.
        "OMPI_MCA_osc": "^ucx",
        # Its handler would print a native stack over the Python one that faulthandler writes.
        "OMPI_MCA_opal_signal": "",
    }
    if not has_hosts:  # only for processes that ranks spawn, which shared memory does not reach
        settings["OMPI_MCA_btl_tcp_if_include"] = "127.0.0.0/8"
    if old:
        settings["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    else:
        settings["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    # This host, also inside a batch job, whose other hosts do not see the private folders; or a host file's.
    for name, framework in (("ras", _ALLOCATORS), ("plm", _STARTERS)):
        settings[f"{'OMPI' if old else 'PRTE'}_MCA_{name}"] = framework
    if has_hosts and not old:  # in the run's folder, so that no session file is left on another host
        settings["PRTE_MCA_prte_remote_tmpdir_base"] = scratch
    if shared is not None:
        for component in ("btl_vader" if old else "btl_sm", "osc_sm", "osc_rdma"):
            settings[f"OMPI_MCA_{component}_backing_directory"] = shared
    return settings | root_permission()


def has_loopback() -> bool:
    """Whether the loopback interface joins processes of this host; in a sandbox it may be down."""
    try:
        with open("/sys/class/net/lo/flags", encoding="ascii") as file:
            return bool(int(file.read(), 16) & 1)
    except FileNotFoundError:  # not Linux
        return True
    except (OSError, ValueError):
        return False


def root_permission() -> dict[str, str]:
    """Return what lets root, as in containers, start ranks of Open MPI; nothing for other users."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    return dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")


# The library that keeps the ports of a run on one host to its loopback interface (`kernels/loopback`).
#
# Open MPI and MPICH listen on all interfaces, their launchers as well, and no setting of theirs changes that.
# Every rank of a real run loads this file: it needs little.


_PRELOAD = "LD_PRELOAD"
#: environment variable with the program's own value of it
_ORIGINAL = "LABKIT_LD_PRELOAD"
_SEPARATORS = frozenset(": \t\n")


def loopback_settings(base: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return the environment variables that load the library into a launcher and its ranks."""
    kernels = importlib.util.find_spec("labkit._kernels")  # next to them; they themselves are not needed
    if sys.platform != "linux" or kernels is None or kernels.origin is None:
        return {}
    path = os.path.join(os.path.dirname(kernels.origin), "_loopback.so")
    if not os.path.exists(path):
        return {}
    if _SEPARATORS & set(path):
        path, target = os.path.join(scratch, "loopback.so"), path
        if _SEPARATORS & set(path):
            return {}
        os.symlink(target, path)
    own = base.get(_PRELOAD, "")
    return {_PRELOAD: f"{path}:{own}" if own else path, _ORIGINAL: own}


def restore_preload() -> None:
    """Let what a rank's program starts have the program's own LD_PRELOAD."""
    own = os.environ.pop(_ORIGINAL, None)
    if own:
        os.environ[_PRELOAD] = own
    elif own is not None:
        os.environ.pop(_PRELOAD, None)
