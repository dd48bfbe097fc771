"""The cost of a real run beyond the program itself: one launch of empty ranks, and what it is made of.

Last, a script that says hello: processor seconds under mpiexec and under labkit run. Both find the bytecode
of what they import in a folder of this benchmark's own, as an installed package has it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import labkit as lk
from labkit.errors import MachineError
from labkit.real.context import available_cores

REPEATS = 5
HELLO = "from mpi4py import MPI\nprint('hello from', MPI.COMM_WORLD.rank, 'of', MPI.COMM_WORLD.size)\n"


def program(comm):
    return comm.rank


def seconds(action) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def median(action) -> float:
    return statistics.median(seconds(action) for _ in range(REPEATS))


def processor_s(command: list[str], environment: dict[str, str]) -> float:
    """Return the least processor seconds, of user and system, of a command and all that it starts."""
    found = []
    for _ in range(4):  # the first of them compiles
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])


def scripts(mpiexec: str, options: list[str], environment: dict[str, str]) -> None:
    """Compare a script's launches."""
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "hello.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(HELLO)
        own = {name: text for name, text in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
        own["PYTHONPYCACHEPREFIX"] = os.path.join(scratch, "bytecode")
        print("hello.py: processor seconds, the least of 3")
        for ranks in (1, 16, 64):
            plain = processor_s([mpiexec, *options, "-n", str(ranks), sys.executable, script], own)
            words = ["-m", "labkit", "run", "-n", str(ranks), "--on", "mpi", script]
            mine = processor_s([sys.executable, *words], own)
            print(
                f"{ranks:5d}  mpiexec {plain:.2f}  labkit run {mine:.2f}  ratio {mine / plain:.2f}",
                flush=True,
            )


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
    from labkit.real.mpi.environment import root_permission

    options = ["--oversubscribe"] if launcher.kind == "openmpi" else []
    scripts(launcher.path, options, {**os.environ, **root_permission()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
