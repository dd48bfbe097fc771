"""What it costs a real rank that its calls are noted, which is how a deadlock is told: 8 bytes to itself.

One rank, so that no scheduler is in it: processor nanoseconds of the calls of mpi4py as they are and noted,
the least of many blocks of one process. Give an mpiexec, or the one of labkit is taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

BLOCKS, CALLS = 40, 5_000


def least_ns(program: Callable[[], object]) -> float:
    """Processor nanoseconds of one round."""
    found = []
    for _ in range(BLOCKS):
        begin = time.process_time_ns()
        for _ in range(CALLS):
            program()
        found.append((time.process_time_ns() - begin) / CALLS)
    return min(found)


def rank(folder: str) -> None:
    """Measure in the rank."""
    from labkit.real.mpi.waits_library import load_library, open_page

    library = load_library()
    from mpi4py import MPI

    comm, data, got = MPI.COMM_WORLD, np.zeros(1), np.zeros(1)

    def message() -> None:
        request = comm.Isend(data, 0)
        comm.Recv(got, 0)
        request.Wait()

    programs: dict[str, Callable[[], object]] = {
        "Isend, Recv, Wait": message,
        "Sendrecv": lambda: comm.Sendrecv(data, 0, 0, got, 0, 0),
        "Allreduce": lambda: comm.Allreduce(data, got),
    }
    bare = {name: least_ns(program) for name, program in programs.items()}
    if not open_page(library, os.path.join(folder, "wait"), MPI, 0, 1):
        raise SystemExit("the calls of this MPI cannot be noted")
    for name, program in programs.items():
        noted = least_ns(program)
        print(f"{name:17}  bare {bare[name]:6.0f} ns  noted {noted:6.0f} ns  {noted - bare[name]:+5.0f} ns")


def main() -> None:
    """Start the rank."""
    from labkit.real.mpi.environment import rank_environment
    from labkit.real.mpi.find import find_launcher

    launcher = find_launcher(sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"{launcher.describe()}: 8 bytes to itself, the least of {BLOCKS} blocks", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = rank_environment(launcher, os.environ, "benchmark", folder, None)
        words = [sys.executable, __file__, "--rank", folder]
        subprocess.run([launcher.path, "-n", "1", *words], env=environment, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2])
    else:
        main()
