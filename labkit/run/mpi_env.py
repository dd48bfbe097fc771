"""The settings under which ranks run: what was measured to start fast and to behave when oversubscribed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from labkit.run.mpi_find import Launcher
from labkit.run.processes import JOB_VARIABLE

__all__ = ["BOOTSTRAP", "launch_command", "rank_environment"]

#: variables that a launcher or a batch system sets for ITS ranks: inherited, they confuse a new launcher
_INHERITED = re.compile(
    r"^(PMIX_|PMI_|PMI2_|OMPI_COMM_|OMPI_UNIVERSE_|OMPI_FILE_|OMPI_APP_|OMPI_NUM_APP|OMPI_ARGV|OMPI_COMMAND"
    r"|OMPI_MCA_orte_ess_|OMPI_MCA_ess_|PRTE_LAUNCHED|HYDI_|HYDRA_CONTROL|MPI_LOCAL)"
)

#: one thread per rank: the cores belong to the ranks
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

#: what of Open MPI talks to a batch system
_ALLOCATORS, _STARTERS = "^slurm,tm,lsf,gridengine,pbs,flux", "^slurm,tm,lsf,pals"

#: The interpreter's own search path replaces the one that `-m mpi4py` makes, before labkit is looked for.
BOOTSTRAP = (
    "import sys; directory = sys.argv[1]; "
    "file = open(directory + '/path', encoding='utf-8', errors='surrogateescape'); "
    "sys.path[:] = file.read().split('\\0'); file.close(); "
    "from labkit.run.mpi_child import main; main(directory)"
)


def launch_command(launcher: Launcher, ranks: int, directory: str) -> list[str]:
    """Build the command line that starts the ranks of the job in `directory`."""
    command = [launcher.path]
    if launcher.kind == "openmpi":
        command += ["--bind-to", "none"]
        if launcher.version and launcher.version[0] < 5:
            command += ["--oversubscribe"]
    elif launcher.kind == "mpich":
        command += ["-print-all-exitcodes"]  # tells the rank that ended first from those that were killed
    command += ["-n", str(ranks)]
    # Through mpi4py's runner an exception that escapes even labkit's own handling still aborts all ranks.
    return [*command, sys.executable, "-m", "mpi4py", "-c", BOOTSTRAP, directory]


def rank_environment(
    launcher: Launcher, base: Mapping[str, str], token: str, scratch: str, shared: str | None
) -> dict[str, str]:
    """Build the environment of the launcher and its ranks.

    Parameters
    ----------
    launcher : Launcher
        The mpiexec that will be used.
    base : mapping
        The environment to start from; a setting that is already in it stays.
    token : str
        The job's token, by which its processes are found.
    scratch : str
        Private directory for the launcher's session files, so that none is left after a kill.
    shared : str or None
        Private directory in shared memory for the same reason.

    Returns
    -------
    dict
        The environment.
    """
    environment = {name: value for name, value in base.items() if not _INHERITED.match(name)}
    environment[JOB_VARIABLE] = token
    environment["LABKIT_TMPDIR"] = base.get("TMPDIR", "")
    environment["TMPDIR"] = scratch
    wanted = dict.fromkeys(_THREADS, "1")
    wanted["PYTHONFAULTHANDLER"] = "1"
    if launcher.kind == "openmpi":
        wanted.update(_open_mpi(launcher, shared))
    elif launcher.kind == "mpich":
        wanted["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # without it a barrier of 4 ranks on 2 cores takes ms
        wanted |= {"HYDRA_RMK": "user", "HYDRA_LAUNCHER": "fork"}  # this host, also inside a batch job
    # With MPI4PY_MPIABI set, mpi4py does not look at MPI4PY_LIBMPI: it is the second choice.
    if launcher.library and "MPI4PY_MPIABI" not in base:
        wanted["MPI4PY_LIBMPI"] = launcher.library
    elif launcher.kind != "unknown":
        wanted["MPI4PY_MPIABI"] = launcher.kind
    return {**wanted, **environment}


def _open_mpi(launcher: Launcher, shared: str | None) -> dict[str, str]:
    old = bool(launcher.version) and launcher.version[0] < 5
    settings = {
        # One machine only: without looking for networks the import of mpi4py.MPI falls from 1.2 s to 0.16 s.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,vader" if old else "self,sm",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        # Its handler would print a native stack over the Python one that faulthandler writes.
        "OMPI_MCA_opal_signal": "",
    }
    if old:
        settings["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    else:
        settings["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    # This host, also inside a batch job, whose other hosts do not see the private folders.
    for name, framework in (("ras", _ALLOCATORS), ("plm", _STARTERS)):
        settings[f"{'OMPI' if old else 'PRTE'}_MCA_{name}"] = framework
    if shared is not None:
        settings["OMPI_MCA_btl_vader_backing_directory" if old else "OMPI_MCA_btl_sm_backing_directory"] = (
            shared
        )
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # containers and course images run as root
        settings["OMPI_ALLOW_RUN_AS_ROOT"] = settings["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return settings
