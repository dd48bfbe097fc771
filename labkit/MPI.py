"""`labkit.MPI`: the simulated module in the simulator, mpi4py.MPI inside a real rank.

A plain interpreter is a real rank, too, where an mpiexec has started it with others, or a real rank has
spawned it: its parents wait until it has started MPI.

Importing this file puts the right module in its own place. Everything in either module pickles by the
name ``labkit.MPI``, and is therefore the right machine's own object wherever it is unpickled.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labkit.errors import MachineError
from labkit.process.tree import JOB_VARIABLE
from labkit.program.context import installed_mpi

#: environment variables by which Open MPI and MPICH mark a spawned process
_SPAWNED = ("OMPI_PARENT_PORT", "PMI_SPAWNED")
#: variables with the number of processes: Open MPI, MPICH and derivatives, Slurm with PMIx
_SIZES = {
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "PMIX_RANK": "SLURM_STEP_NUM_TASKS",
}


def _launched() -> int:
    """How many ranks a launcher has started, if this process is one of them and none of labkit's own."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = spec.name if spec is not None else os.path.basename(getattr(main, "__file__", None) or "")
    if JOB_VARIABLE in os.environ or name.partition(".")[0] == "labkit":
        return 1
    told = [os.environ.get(size, "") for rank, size in _SIZES.items() if rank in os.environ]
    return max((int(one) for one in told if one.isdecimal()), default=1)


def _real(ranks: int) -> ModuleType:
    """Return mpi4py's module, in which the ranks that a launcher has started must see each other."""
    try:
        module = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise MachineError(
            f"a launcher has started this program on {ranks} ranks, and real MPI needs mpi4py and an MPI "
            f"library ({error}); install both, or simulate it with labkit run -n {ranks} --on star",
            code="missing-package",
        ) from error
    if module.COMM_WORLD.size == 1:
        library = module.Get_library_version().split(",")[0].splitlines()[0].strip()
        raise MachineError(
            f"a launcher has started this program on {ranks} ranks, and each of them is alone: the launcher "
            f"and mpi4py's library ({library}) do not belong together; labkit run -n {ranks} --on mpi starts "
            "it with the launcher that does",
            code="launcher-mismatch",
        )
    return module


def _is_spawned() -> bool:
    # A worker of MPIPoolExecutor has met its parents already; what it is given to do may simulate.
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    is_worker = spec is not None and spec.name == "mpi4py.futures.server"
    return any(name in os.environ for name in _SPAWNED) and not is_worker


def _module() -> Any:
    if (installed := installed_mpi()) is not None:
        return installed
    if _is_spawned():
        return importlib.import_module("mpi4py.MPI")
    if (ranks := _launched()) > 1:
        return _real(ranks)
    from labkit.comm.module import simulated_module

    return simulated_module()


sys.modules[__name__] = _module()

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
