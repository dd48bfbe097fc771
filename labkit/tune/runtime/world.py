"""The machine of a rank, real or simulated, as tuning at run time needs it: clock, module, name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit import context
from labkit.real.collectives.messages import mpi_of

__all__ = ["clock_of", "is_simulated", "machine_of", "most_of", "simulated_machine"]


def is_simulated(comm: Any) -> bool:
    """Whether the ranks are simulated."""
    return context.simulated() is not None and type(comm).__module__.partition(".")[0] == "labkit"


def clock_of(comm: Any) -> Callable[[], float]:
    """Return the rank's clock, in seconds."""
    clock: Callable[[], float] = mpi_of(comm).Wtime
    return clock


def simulated_machine(comm: Any) -> str:
    """Return the platform's specification; empty on a real machine."""
    return str(context.simulated().calls.choose.machine) if is_simulated(comm) else ""


def most_of(comm: Any, values: list[float]) -> list[float]:
    """Return the maximum of each number over the ranks."""
    mine, most = np.array(values, np.float64), np.empty(len(values))
    comm.Allreduce(mine, most, op=mpi_of(comm).MAX)
    return [float(value) for value in most]


def machine_of(comm: Any) -> tuple[str, int]:
    """Return a name for what the ranks run on, and how many consecutive ranks share a host; the same on all.

    Two runs of the same name may learn from each other: the same simulated platform (its content, mapping,
    network model and calibration), or the same MPI library, with as many ranks on each host.
    """
    hosts = comm.allgather(str(mpi_of(comm).Get_processor_name()))
    changes = [rank for rank in range(1, len(hosts)) if hosts[rank] != hosts[rank - 1]]
    node = changes[0] if changes else len(hosts)
    regular = changes == list(range(node, len(hosts), node)) and len(set(hosts)) == len(changes) + 1
    node = node if regular else 1
    if is_simulated(comm):
        where = f"simulated {simulated_machine(comm)} ({context.simulated().setting[:16]})"
    else:
        library = str(mpi_of(comm).Get_library_version()).replace("\0", "").splitlines()[0]
        where = library.partition(", package")[0]
    return f"{where}, {len(set(hosts))} hosts, {node} ranks in a row", node
