"""What a real run costs beyond the program itself: one launch of empty ranks, and what it is made of."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import labkit as lk
from labkit.errors import MachineError
from labkit.real.cores import available_cores

REPEATS = 5


def program(comm):
    return comm.rank


def seconds(action) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def median(action) -> float:
    return statistics.median(seconds(action) for _ in range(REPEATS))


def main() -> int:
    from labkit.real.mpi.environment import rank_environment
    from labkit.real.mpi.find import find_launcher

    try:
        launcher = find_launcher()
    except MachineError as error:
        print(error)
        return 0
    print(f"{launcher.describe()}, {available_cores()} cores, median of {REPEATS} launches")
    print(f"{'ranks':>5}  {'lk.run':>8}  {'mpiexec true':>13}  {'mpiexec python, import MPI':>27}")
    for ranks in (1, 2, 4, 8, 16):
        with tempfile.TemporaryDirectory() as scratch:
            environment = rank_environment(launcher, os.environ, "benchmark", scratch, None)
            bind = ["--bind-to", "none"] if launcher.kind == "openmpi" else []
            command = [launcher.path, *bind, "-n", str(ranks)]

            def bare(*what, command=command, environment=environment):
                subprocess.run([*command, *what], env=environment, check=True, capture_output=True)

            whole = median(lambda ranks=ranks: lk.run(program, ranks, "mpi"))
            empty = median(lambda: bare("true"))
            python = median(lambda: bare(sys.executable, "-m", "mpi4py", "-c", "from mpi4py import MPI"))
        print(f"{ranks:5d}  {whole:6.2f} s  {empty:11.2f} s  {python:25.2f} s", flush=True)
    run = lk.run(lambda comm: comm.barrier(), 2, "mpi", repeats=1000)
    times = sorted(one.makespan_s for one in run.repetitions[10:])
    print(f"1000 repetitions in one launch of 2 ranks: {run.host_seconds:.2f} s; "
          f"makespan of a barrier: {times[len(times) // 2] * 1e6:.1f} µs (median)")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
