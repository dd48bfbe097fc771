"""The cost of a run on a cluster of engines that stays up, beside a launch of mpiexec and plain ipyparallel.

The same small program (a sum over all ranks) and one that carries data out and back, called again and again
on 4 ranks: by ``lk.run(..., on=cluster)``, by ``lk.run(..., on="mpi")``, which starts and ends MPI every
time, and by ipyparallel's own ``view.apply_sync`` on the same engines, which times nothing, names no failing
rank and has no time limit. Columns: median and least wall-clock milliseconds of a call, the processor
milliseconds of this process, and the median divided by plain ipyparallel's.

    python benchmarks/cluster.py [--ranks 4] [--calls 20] [--kib 1024]
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import labkit as lk
from labkit.errors import LabkitError


def program(comm: Any, data: Any) -> Any:
    """Sum the ranks' numbers, and give the data back."""
    comm.allreduce(comm.rank)
    return data


def plain(data: Any) -> Any:
    """Do the same as an ipyparallel task."""
    from mpi4py import MPI

    MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)
    return data


def timed(call: Callable[[], Any], calls: int) -> tuple[float, float, float]:
    """Return median and least wall-clock time and mean processor time of a call, in milliseconds."""
    call()
    cpu = time.process_time()
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times), min(times), (time.process_time() - cpu) * 1e3 / calls


def measure(cluster: Any, ranks: int, calls: int, data: Any) -> None:
    """Print the three ways to run the program with this data."""
    view = cluster.client[:]
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "plain ipyparallel": (lambda: view.apply_sync(plain, data), calls),
        "lk.run on the cluster": (lambda: lk.run(program, ranks, cluster, args=(data,)), calls),
        'lk.run(on="mpi")': (lambda: lk.run(program, ranks, "mpi", args=(data,)), max(calls // 4, 3)),
    }
    reference = 0.0
    for name, (call, number) in ways.items():
        median, least, cpu = timed(call, number)
        reference = reference or median
        print(
            f"{data.nbytes // 1024:8} KiB  {name:22} {median:10.1f} {least:10.1f} {cpu:10.1f} "
            f"{median / reference:8.1f}",
            flush=True,
        )


def main() -> int:
    """Start the engines once, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--kib", type=int, default=1024, help="what the second program carries")
    options = parser.parse_args()
    missing = [name for name in ("mpi4py", "ipyparallel") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not run: {', '.join(missing)} is not installed (pip install 'labkit[mpi,lab]')")
        return 0
    begin = time.perf_counter()
    try:
        machine = lk.cluster(options.ranks)
    except LabkitError as error:
        print(f"not run: {str(error).splitlines()[0]}")
        return 0
    with machine:
        print(f"{options.ranks} engines up in {time.perf_counter() - begin:.1f} s")
        print(f"{'data':>12}  {'way':22} {'median ms':>10} {'least ms':>10} {'CPU ms':>10} {'ratio':>8}")
        for kib in (0, options.kib):
            measure(machine, options.ranks, options.calls, np.zeros(kib * 128))
    return 0


if __name__ == "__main__":
    sys.exit(main())
