"""Sorts on stand-in data: 10^7 keys per rank on more ranks than any memory holds; host time and memory.

``python benchmarks/stand_in_sorts.py [RANKS ...]``. Each line is a process of its own; times are CPU
seconds, with the interpreter's start apart. A run on the keys themselves would take 80 MB per rank.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

N_LOCAL = 10**7
SORTS = ("sample_sort", "histogram_sort", "exact_splitting_sort", "radix_sort")


def measure(name: str, ranks: int) -> None:
    """Simulate one sort, and print one line."""
    import labkit as lk
    from labkit import registry
    from labkit.datasets.standins import stand_in

    sorter = registry.get("sorting", name).function
    assert sorter is not None

    def program(comm: lk.MPI.Comm) -> int:
        return len(sorter(comm, stand_in("uniform", comm.rank, comm.size, N_LOCAL)))

    begin = time.process_time()
    run = lk.run(program, ranks, "fattree", timeout_s=None)
    took = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:21} {ranks:5} ranks: {took:7.1f} s CPU, {memory:6.0f} MB, {run.messages:12,} messages, "
        f"makespan {run.makespan_s:.4f} s, imbalance {max(run.results) / N_LOCAL:.3f}",
        flush=True,
    )


def main() -> None:
    """Measure every sort at every number of ranks."""
    if len(sys.argv) == 4 and sys.argv[1] == "--one":
        measure(sys.argv[2], int(sys.argv[3]))
        return
    for ranks in sys.argv[1:] or ["256", "1024"]:
        for name in SORTS:
            subprocess.run([sys.executable, __file__, "--one", name, ranks], check=True)


if __name__ == "__main__":
    main()
