"""The cost of a collective call of a Python rank to this computer, by the short way and by the general one.

The general way is taken by messages in list form, ``[buf, type]``: Python reads, checks and looks up. The
short way is that of whole arrays, from the second call of a form on: the compiled entry recognizes it. CPU
microseconds of a call; alone: one rank, so that nothing but the call is left; of many: each rank's share
where all wait for each other, with the switch to the next rank and the engine's messages in it. The
difference of a long and a short run, so that starting the ranks is not in it; best of three.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import labkit as lk
from labkit import MPI
from labkit.sim.isolation import host_clock  # in ranks, `time` reads simulated time

CALLS = ("Barrier", "Bcast", "Allreduce", "Allgather", "Alltoall", "Scan", "Sendrecv")
RANKS, SHORT, LONG = 256, 10, 60
ALONE = 20_000


def calls(comm: Any, name: str, is_general: bool, rounds: int) -> float:
    """CPU seconds of so many calls of this rank (and of whoever runs while it waits)."""
    wide, all_wide, one, out = np.zeros(comm.size), np.zeros(comm.size), np.zeros(1), np.zeros(1)
    form = (lambda buffer: [buffer, MPI.DOUBLE]) if is_general else (lambda buffer: buffer)
    arguments = {
        "Barrier": (),
        "Bcast": (form(one),),
        "Allgather": (form(one), form(all_wide)),
        "Alltoall": (form(wide), form(all_wide)),
        "Sendrecv": (form(one), (comm.rank + 1) % comm.size, 0, form(out), (comm.rank - 1) % comm.size, 0),
    }.get(name, (form(one), form(out)))
    call = getattr(comm, name)
    call(*arguments)
    begin = host_clock.thread_time()
    for _ in range(rounds):
        call(*arguments)
    return host_clock.thread_time() - begin


def alone_us(name: str, is_general: bool) -> float:
    runs = [lk.run(calls, 1, "star:1", args=(name, is_general, ALONE)).results[0] for _ in range(3)]
    return min(runs) / ALONE * 1e6


def of_many_us(name: str, is_general: bool) -> float:
    best = []
    for rounds in (SHORT, LONG):
        took = []
        for _ in range(3):
            begin = time.process_time()
            lk.run(calls, RANKS, "star", args=(name, is_general, rounds), timeout_s=None)
            took.append(time.process_time() - begin)
        best.append(min(took))
    return (best[1] - best[0]) / ((LONG - SHORT) * RANKS) * 1e6


def main() -> None:
    """Print the table."""
    load = os.getloadavg()[0]
    print(f"CPU us a call and rank{f'; load average {load:.1f} (machine busy)' if load > 1 else ''}")
    print(f"{'':12} {'alone':>16} {f'{RANKS} ranks':>18}")
    print(f"{'':12} {'short':>8}{'general':>8}{'short':>10}{'general':>8}")
    for name in CALLS:
        alone = [alone_us(name, how) for how in (False, True)]
        many = [of_many_us(name, how) for how in (False, True)]
        is_same = name == "Barrier"  # it has no message that could be in list form
        shown = [*alone, *many]
        cells = [f"{value:.2f}" if not (is_same and i % 2) else "" for i, value in enumerate(shown)]
        print(f"{name:12} {cells[0]:>8}{cells[1]:>8}{cells[2]:>10}{cells[3]:>8}", flush=True)


if __name__ == "__main__":
    main()
