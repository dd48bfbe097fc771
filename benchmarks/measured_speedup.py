"""Is the speed-up of measured computation right? ``python benchmarks/measured_speedup.py [RUNS]``.

π by 2**24 random points and a Julia set of 1024 rows dealt out cyclically, on 1 to 64 ranks of a simulated
star, their computation measured on this host. Printed is how much of the speed-up that the charged time
promises (of the rank that computes longest) was reached, median and smallest of RUNS, behind the median
of the makespans; goal of the median: 90 %. And, beside it, what all ranks together were charged in terms of
one rank alone: work in small pieces is other work, as caches and pages go.
"""

from __future__ import annotations

import os
import sys

import numpy as np

import labkit as lk

GOAL = 0.9
RANKS = (1, 2, 4, 8, 16, 32, 64)


def pi(comm: lk.MPI.Comm, n: int = 1 << 24) -> float:
    points = np.random.default_rng(comm.rank).random((n // comm.size, 2))
    inside = int((np.square(points).sum(axis=1) < 1).sum())
    return 4 * comm.allreduce(inside) / (n // comm.size * comm.size)


def julia(comm: lk.MPI.Comm, rows: int = 1024, width: int = 512) -> int:
    inside = 0
    for row in range(comm.rank, rows, comm.size):
        z = np.linspace(-1.6, 1.6, width) + 1j * (2.2 * row / (rows - 1) - 1.1)
        for _ in range(100):
            z = z * z + (-0.75 + 0.11j)
            z = z[abs(z) <= 2]
        inside += len(z)
    return comm.allreduce(inside)


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    kept = True
    for program in (pi, julia):
        lk.run(program, 2, "star", compute="measured")  # imports
        alone_s = 0.0
        for ranks in RANKS:
            found = []
            for _ in range(runs):
                run = lk.run(program, ranks, "star", compute="measured", timeout_s=None)
                assert run.computation is not None
                found.append((run.computation.rank_seconds.max() / run.makespan_s, run))
            shares = sorted(share for share, _ in found)
            makespan_s = float(np.median([one.makespan_s for _, one in found]))
            total_s = float(np.median([one.computation.total_s for _, one in found]))  # type: ignore[union-attr]
            alone_s = alone_s or total_s
            median = float(np.median(shares))
            kept &= median >= GOAL
            print(
                f"{program.__name__:6} {ranks:3} ranks: {1e3 * makespan_s:8.2f} ms, {median:6.1%} of the "
                f"charged speed-up reached (at least {shares[0]:.1%}); all ranks compute "
                f"{total_s / alone_s:.2f} times what one alone does",
                flush=True,
            )
    print(f"goal of {GOAL:.0%}: {'kept' if kept else 'MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
