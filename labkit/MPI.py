"""`labkit.MPI`: the simulated module in the simulator, mpi4py.MPI inside a real rank.

What a real rank has spawned is one, too, though a plain interpreter runs it: its parents wait until it has
started MPI.

Importing this file puts the right module in its own place. Everything in either module pickles by the
name ``labkit.MPI``, and is therefore the right machine's own object wherever it is unpickled.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from labkit.context import installed_mpi

#: how Open MPI and MPICH tell a process that it has been spawned
_SPAWNED = ("OMPI_PARENT_PORT", "PMI_SPAWNED")


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
    from labkit.comm.module import simulated_module

    return simulated_module()


sys.modules[__name__] = _module()

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
