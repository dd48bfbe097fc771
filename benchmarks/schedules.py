"""The cost of a message of a native schedule to this computer, generation included.

Bias: CPU time of one collective on an idle machine, sizes only (no data) unless said; best of three; the
time of making the platform and the engine is included. The target is 1.5 us a message for recursive
doubling of 8 B on 4096 ranks of a star.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from labkit import registry
from labkit.schedule import Schedule
from labkit.sim.schedules import perform, simulate

CASES = [
    # problem, algorithm, ranks, bytes (message, or block)
    ("allreduce", "recursive_doubling", 4096, 8),
    ("allreduce", "recursive_doubling", 65536, 8),
    ("allreduce", "recursive_doubling", 4096, 1 << 20),
    ("allreduce", "ring", 512, 1 << 20),
    ("alltoall", "pairwise", 512, 64),
    ("alltoall", "pairwise", 512, 1 << 16),
    ("alltoall", "bruck", 4096, 8),
    ("alltoall", "linear", 256, 64),
    ("bcast", "binomial", 4096, 8),
    ("bcast", "linear", 4096, 8),
    ("barrier", "dissemination", 4096, 0),
]


def main() -> None:
    """Print a table."""
    print(
        f"{'schedule':38} {'ranks':>6} {'bytes':>8} {'model':5} {'messages':>9} {'s':>8} {'us/message':>10}"
    )
    simulate(registry.get("barrier", "dissemination").build(2))  # imports
    for problem, name, ranks, n_bytes in CASES:
        schedule = registry.get(problem, name).build(ranks)
        for model in ("smpi", "lab"):
            run = lambda m=model, s=schedule, n=n_bytes: simulate(s, "star", m, n_bytes=n, symmetry=False)  # noqa: E731
            row(f"{problem}/{name}", schedule, n_bytes, model, run)
    schedule = registry.get("allreduce", "recursive_doubling").build(4096)
    buffers = [{"send": np.ones(1), "recv": np.empty(1)} for _ in range(4096)]
    row("the same with data", schedule, 8, "lab", lambda: perform(schedule, buffers, "star", "lab", op="sum"))


def row(label: str, schedule: Schedule, n_bytes: int, model: str, run: Any) -> None:
    """Time one case and print it."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        result = run()
        best = min(best, time.process_time() - begin)
    each = best / result.messages * 1e6
    print(f"{label:38} {schedule.size:6} {n_bytes:8} {model:5} {result.messages:9} {best:8.3f} {each:10.2f}")


if __name__ == "__main__":
    main()
