"""Failures of ranks in other containers, provoked; run on the head of a cluster.

usage: python failures.py RANKS
Prints one JSON object: for each failure what was reported, and after how many seconds.
"""

from __future__ import annotations

import json
import sys
import time

import labkit as lk


def raises(comm):
    """Raise on the last rank while the others wait."""
    if comm.rank == comm.size - 1:
        raise ValueError("the last rank is unhappy")
    comm.barrier()


def loops(comm):
    """Never end, on the last rank, in Python."""
    if comm.rank == comm.size - 1:
        while True:
            comm.Iprobe()
    comm.barrier()


def dies(comm):
    """End without a word, on the last rank."""
    import os
    import signal

    if comm.rank == comm.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


def unreachable(comm):
    """Do nothing, where nobody is."""


def main() -> None:
    """Run each."""
    ranks = int(sys.argv[1])
    found = {}
    with open("/cluster/nobody", "w") as file:
        file.write("10.89.77.250 slots=2\n")  # an address of the network where nobody is
    for program in (raises, loops, dies, unreachable):
        begin = time.monotonic()
        hosts = {"hostfile": "/cluster/nobody"} if program is unreachable else {}
        try:
            lk.run(program, ranks, "mpi", timeout_s=20 if hosts else 10, **hosts)
            found[program.__name__] = {"error": "", "text": "no error"}
        except lk.errors.LabkitError as error:
            found[program.__name__] = {"error": type(error).__name__, "text": str(error)}
        found[program.__name__]["seconds"] = round(time.monotonic() - begin, 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
