"""The cost of a message from Python to this computer: a blocking send and receive on 1024 simulated ranks.

Bias: a ring in which everybody sends, then receives; the difference of a long and a short run, so that
starting the ranks is not in it; best of three. The target is 5 us a pair. Starting ranks is shown apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import labkit as lk

RANKS, SHORT, LONG = 1024, 20, 120


def buffers(comm: Any, rounds: int) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    send, receive = np.zeros(1), np.zeros(1)
    for _ in range(rounds):
        comm.Send(send, right)
        comm.Recv(receive, left)


def numbers(comm: Any, rounds: int) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(rounds):
        comm.send(5, right)
        comm.recv(source=left)


def dictionaries(comm: Any, rounds: int) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(rounds):
        comm.send({"a": 1, "b": [1, 2]}, right)
        comm.recv(source=left)


def pair_us(program: Callable[..., None]) -> float:
    """Return the best microseconds of a pair."""
    best = [
        min(lk.run(program, RANKS, "star", args=(n,)).host_seconds for _ in range(3)) for n in (SHORT, LONG)
    ]
    return (best[1] - best[0]) / ((LONG - SHORT) * RANKS) * 1e6


def main() -> None:
    """Print the table."""
    for program in (buffers, numbers, dictionaries):
        print(f"send and receive, {program.__name__:12} {RANKS:6} ranks {pair_us(program):6.2f} us a pair")
    for ranks in (1024, 16384):
        for isolate in (True, False):
            seconds = lk.run(lambda comm: comm.rank, ranks, "star", isolate=isolate).host_seconds
            print(f"starting, isolate={isolate!s:5} {ranks:15} ranks {seconds / ranks * 1e6:6.1f} us a rank")


if __name__ == "__main__":
    main()
