"""Memory of MPI: table 5 of Shudler et al. 2019 (doi:10.1109/TPDS.2019.2896993), measured here and modeled.

    python benchmarks/mpi_memory.py

First: what a communicator and a window take of the heap of each rank on this computer's MPI (glibc's
mallinfo2, the mean of eight, the largest of all ranks), judged against the expectations of the table.
Second: the memory of an MPI process on Juropa. ParaStation MPI needs 0.55 MB for each connection of its
reliable InfiniBand service (the article's reference 33), opened by the first message; 16 MB are there in any
case. Which connections the collectives of table 4 open follows from their algorithms.
Third: the bytes per rank that a communicator or window takes on Juqueen, Juropa and Piz Daint, by the records
that the sources of their libraries declare, next to the table's coefficients. Records that a call frees again
are in the sums: only with them are they equal to the coefficients of Juqueen and Juropa.
"""

from __future__ import annotations

import ctypes
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
INT, POINTER = ctypes.c_int, ctypes.c_void_p
#: records for each rank of a communicator, by their types, from the sources of MPICH
#: (github.com/pmodels/mpich) and of ParaStation MPI's device psp (github.com/ParaStation/psmpi)
RECORDS = {
    "member of a group": (INT, INT, INT, INT),  # MPID_Group_pmap_t of MPICH2: ranks, next one, flag
    "connection": (POINTER,),  # MPIDI_VCRT.vcr_table
    "task": (INT,),  # the same on PAMI, which names a peer by its task
    "mapping": (INT,),  # comm_create.c, freed at its end
    "place on the node, node": (INT, INT),  # intranode_table and internode_table of MPICH 3
    "window": (POINTER, INT, POINTER, POINTER),  # MPID_Win_rank_info of psp: base, unit, window, connection
    "counter": (INT,),  # rma_puts_accs of psp
    "message about a window": (POINTER, INT, POINTER),  # MPID_Wincreate_msg of psp, freed at its end
}
#: what is made, the records that it takes, and the table's bytes per rank
STATED = (
    ("Juqueen", "Comm_create", ("member of a group", "task", "mapping"), 24),
    ("Juropa", "Comm_create", ("member of a group", "connection", "mapping"), 28),
    ("Juropa", "Comm_dup", (), 0),
    ("Juropa", "Win_create", ("window", "counter", "message about a window"), 60),
    ("Piz Daint", "Comm_dup", ("place on the node, node",), 18),
    (
        "Piz Daint",
        "Comm_create",
        ("member of a group", "connection", "mapping", "place on the node, node"),
        46,
    ),
)


def record_bytes(name: str) -> int:
    """Return the size of a record of these types as C lays it out."""
    fields = [(f"field{i}", one) for i, one in enumerate(RECORDS[name])]
    return ctypes.sizeof(type("Record", (ctypes.Structure,), {"_fields_": fields}))


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
    print("\nbytes per rank of the communicator: records in the library's source, and as printed")
    for machine, what, records, printed in STATED:
        sizes = {name: record_bytes(name) for name in records}
        parts = " + ".join(f"{size} ({name})" for name, size in sizes.items()) or "shared with the original"
        print(f"  {machine:10}{what:12}{sum(sizes.values()):4} printed {printed:3}: {parts}")


if __name__ == "__main__":
    main()
