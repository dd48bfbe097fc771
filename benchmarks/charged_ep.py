"""A charged EP kernel and three allreduces on a torus: host time and memory of many simulated ranks.

``python benchmarks/charged_ep.py [RANKS ...]``; the NAS benchmark EP with its random numbers charged
instead of drawn: 2**36 pairs (class D) over all ranks, then the sums of x, of y and of the ten counts. One
process a size, CPU seconds (start-up of the interpreter and imports apart) and the largest resident set.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

#: goal for 65,536 ranks
GOAL_CPU_S, GOAL_MB = 20.0, 1200.0
PAIRS = 2**36
#: a logarithm, a square root and some twenty operations more for each pair
FLOPS_PER_PAIR = 60.0
#: dimensions of the torus by ranks
SHAPES = {512: "8x8x8", 4096: "16x16x16", 32768: "32x32x32", 65536: "64x32x32"}


def measure(ranks: int) -> None:
    """Simulate, and print one line."""
    import numpy as np

    import labkit as lk

    def ep(comm: lk.MPI.Comm) -> None:
        lk.compute(flops=PAIRS / comm.size * FLOPS_PER_PAIR)
        for length in (1, 1, 10):
            comm.Allreduce(np.zeros(length), np.empty(length))

    lk.run(ep, 8, "torus:2x2x2")  # imports
    begin = time.process_time()
    run = lk.run(ep, ranks, f"torus:{SHAPES[ranks]}", timeout_s=None)
    took = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{ranks:6} ranks, torus:{SHAPES[ranks]:9}: {took:6.2f} s CPU, {memory:6.0f} MB, "
        f"{run.messages:,} messages, makespan {run.makespan_s:.6f} s"
    )


def main() -> None:
    """Measure each size in a process of its own."""
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        measure(int(sys.argv[2]))
        return
    for ranks in map(int, sys.argv[1:] or ["4096", "65536"]):
        subprocess.run([sys.executable, __file__, "--one", str(ranks)], check=True)
    print(f"goal for 65536 ranks: {GOAL_CPU_S:g} s and {GOAL_MB:g} MB")


if __name__ == "__main__":
    main()
