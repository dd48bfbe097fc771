"""Real MPI inside a container: a sort of real data, and messages larger than the container's shared memory.

usage: python - RANKS
Prints one JSON object.
"""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np

import labkit as lk
from labkit.algorithms.sorting.sample_sort import sample_sort
from labkit.datasets import flights


def sort_delays(comm):
    """Sort the flights' delays."""
    import os
    import socket

    mine = sample_sort(comm, flights.block("arr_delay", comm.rank, comm.size))
    return mine, os.getpid(), socket.gethostname()


def exchange(comm, mib):
    """Send every rank as many MiB as it gets from each."""
    sent = np.full((comm.size, mib << 17), float(comm.rank))
    got = np.empty_like(sent)
    comm.Alltoall(sent, got)
    return [float(part.mean()) for part in got]


def main() -> None:
    """Run both."""
    ranks = int(sys.argv[1])
    run = lk.run(sort_delays, ranks, "mpi", timeout_s=120)
    mine = np.concatenate([one[0] for one in run.results])
    truth = np.sort(flights.column("arr_delay"))
    large = lk.run(exchange, ranks, "mpi", args=(16,), timeout_s=120)
    print(json.dumps({
        "ranks": ranks,
        "sorted": bool(np.array_equal(mine, truth, equal_nan=True)),
        "keys": len(mine),
        "processes": len({(one[1], one[2]) for one in run.results}),
        "hosts": sorted({one[2] for one in run.results}),
        "exchanged": large.results == [[float(rank) for rank in range(ranks)]] * ranks,
        "exchanged_mib": 16 * ranks * ranks,
        "shared_memory_mib": shutil.disk_usage("/dev/shm").total >> 20,
        "mpi": run.machine["library"],
        "makespan_s": round(run.makespan_s, 4),
        "host_seconds": round(run.host_seconds, 2),
        "notes": run.notes,
        "is_valid": run.is_valid,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
