"""The gain of ``lk.sweep(..., jobs=2)`` over the serial sweep, on this host's cores.

The same study of an all-to-all on simulated tori, serial, over processes, and (where ipyparallel is) over the
engines of a cluster that is up already; every study is compared with the serial one to the last bit. Columns:
median wall-clock seconds, the serial sweep's median divided by it, the processor seconds of all processes.
A busy host shows less: the cores that this benchmark got on average stand beside (got).

    python benchmarks/sweep_jobs.py [--jobs 2] [--repeats 3] [--points 12]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import labkit as lk


def program(comm: Any, n: int) -> None:
    """Exchange n bytes between all pairs, again and again."""
    with lk.phase("exchange"):
        for _ in range(3):
            comm.alltoall([bytes(n)] * comm.size)


def cpu_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--points", type=int, default=12)
    options = parser.parse_args()

    def study(jobs: Any) -> Any:
        sizes = [64 * (k + 1) for k in range(options.points)]
        return lk.sweep(program, 256, "torus:16x16", n=sizes, repeats=2, jobs=jobs, progress=False)

    ways: dict[str, Callable[[], Any]] = {
        "serial": lambda: study(1),
        f"jobs={options.jobs}": lambda: study(options.jobs),
    }
    cluster = None
    if importlib.util.find_spec("ipyparallel") is not None:
        import ipyparallel

        cluster = ipyparallel.Cluster(n=options.jobs, log_level=50)
        client = cluster.start_and_connect_sync()
        view = client.load_balanced_view()
        study(view)  # the engines import labkit
        ways[f"jobs=view of {options.jobs} engines"] = lambda: study(view)
    print(f"{'':26}{'seconds':>10}{'speed-up':>10}{'processor':>10}{'got':>8}")
    reference = None
    serial_s = 0.0
    try:
        for name, run in ways.items():
            times, used = [], []
            for _ in range(options.repeats):
                begin, cpu = time.perf_counter(), cpu_s()
                found = run()
                times.append(time.perf_counter() - begin)
                used.append(cpu_s() - cpu)
            reference = found if reference is None else reference
            if not (found.data.equals(reference.data) and found.notes == reference.notes):
                print(f"{name}: NOT the study of the serial sweep")
                return 1
            median = statistics.median(times)
            serial_s = serial_s or median
            share = "" if "view" in name else f"{statistics.median(used) / median:.2f}"
            spent = "" if "view" in name else f"{statistics.median(used):.2f}"
            print(f"{name:26}{median:10.2f}{serial_s / median:10.2f}{spent:>10}{share:>8}", flush=True)
    finally:
        if cluster is not None:
            client.close()
            cluster.stop_cluster_sync()
    print(f"load: {os.getloadavg()[0]:.1f} processes ready to run on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
