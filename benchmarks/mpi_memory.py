"""Memory of MPI: table 5 of Shudler et al. 2019 (doi:10.1109/TPDS.2019.2896993), measured here and modeled.

    python benchmarks/mpi_memory.py

First: what a communicator and a window take of the heap of each rank on this computer's MPI (glibc's
mallinfo2, the mean of eight, the largest of all ranks), judged against the expectations of the table.
Second: the memory of an MPI process on Juropa. ParaStation MPI needs 0.55 MB for each connection of its
reliable InfiniBand service (the article's reference 33), opened by the first message; 16 MB are there in any
case. Which connections the collectives of table 4 open follows from their algorithms.
"""

from __future__ import annotations

from typing import Any

import labkit as lk
from labkit.calibration import heap_bytes, partners

RANKS = (2, 3, 4, 6, 8, 12, 16)
#: as in the table
EXPECTED = {"Comm_create": "p", "Comm_dup": "1", "Win_create": "p", "Cart_create": "p"}
#: MPICH's algorithms for 800 bytes on many ranks
CALLS = {
    "barrier": "dissemination", "bcast": "binomial", "reduce": "binomial", "allreduce": "recursive_doubling",
    "gather": "binomial", "allgather": "recursive_doubling", "alltoall": "scattered",
}  # fmt: skip
BASE_MB, PEER_MB, NODE_GB, CORES = 16.0, 0.55, 24.0, 8


def taken(comm: Any, what: str) -> float:
    """Return the bytes that one more object takes on this rank."""
    from mpi4py import MPI

    memory = bytearray(8)
    make = {
        "Comm_create": lambda: comm.Create(comm.Get_group()),
        "Comm_dup": comm.Dup,
        "Cart_create": lambda: comm.Create_cart([comm.size]),
        "Win_create": lambda: MPI.Win.Create(memory, comm=comm),
    }[what]
    make()
    comm.Barrier()
    before = heap_bytes()
    kept = [make() for _ in range(8)]
    comm.Barrier()
    return (heap_bytes() - before) / len(kept)


def main() -> None:
    """Print both parts."""
    print("bytes of the heap that one more object takes on each rank of this computer's MPI")
    print("  ranks       " + " ".join(f"{p:>7}" for p in RANKS) + "  expected  verdict")
    for what, expected in EXPECTED.items():
        found = [max(lk.run(taken, p, "mpi", args=(what,), timeout_s=120).results) for p in RANKS]
        verdict = lk.judge(RANKS, found, expected, unit="B")
        row = " ".join(f"{one:7.0f}" for one in found)
        print(f"  {what:12}{row}  {expected:8}  {verdict.match}: {verdict.reading}")
    print("\nmemory of an MPI process on Juropa, MB: 16 + 0.55 for each partner")
    ranks = (64, 128, 256, 512, 1024)
    rows = {}
    for name, alltoall in (("scattered (MPICH)", "scattered"), ("Bruck", "bruck")):
        calls = CALLS | {"alltoall": alltoall}
        rows[name] = [BASE_MB + PEER_MB * max(partners(*call, p) for call in calls.items()) for p in ranks]
        verdict = lk.judge(ranks, rows[name], "log p", unit="MB")
        print(f"  alltoall {name:18}", *(f"{one:7.1f}" for one in rows[name]), f" {verdict.reading}")
    model = lk.fit(ranks, rows["scattered (MPICH)"])
    need = CORES * float(model.predict(8192)) / 1000
    print(f"  {model}; 8 processes on a node at 8192 ranks: {need:.0f} GB of {NODE_GB:.0f} GB")


if __name__ == "__main__":
    main()
