"""What recording costs: CPU microseconds a call of mpi4py, plain and recorded, on one real rank.

    python benchmarks/recording.py

One rank that talks to itself never waits, so that its CPU time is what its calls cost. The recorder's time is
not part of the trace: the clock that measures computation stands still in every call.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import labkit as lk

CALLS = {
    "Irecv, Send, Wait": 3,
    "irecv, send, wait": 3,
    "Sendrecv": 1,
    "Allreduce": 1,
    "allreduce": 1,
    "Barrier": 1,
}


def program(comm, count):
    """CPU seconds of each kind of call, `count` times."""
    import time

    x, y = np.ones(8), np.empty(8)

    def messages():
        request = comm.Irecv(y, 0, 1)
        comm.Send(x, 0, 1)
        request.Wait()

    def objects():
        request = comm.irecv(None, 0, 1)
        comm.send(1.5, 0, 1)
        request.wait()

    kinds = {
        "Irecv, Send, Wait": messages,
        "irecv, send, wait": objects,
        "Sendrecv": lambda: comm.Sendrecv(x, 0, 1, y, 0, 1),
        "Allreduce": lambda: comm.Allreduce(x, y),
        "allreduce": lambda: comm.allreduce(1.5),
        "Barrier": comm.Barrier,
    }
    took = {}
    for name, call in kinds.items():
        best = float("inf")
        for _ in range(5):
            begin = time.thread_time()
            for _ in range(count):
                call()
            best = min(best, time.thread_time() - begin)
        took[name] = best / count
    return took


def main(count: int = 5000) -> None:
    """Measure, and print a table."""
    plain = lk.run(program, 1, "mpi", args=(count,)).results[0]
    columns = {"plain": plain}
    with tempfile.TemporaryDirectory() as folder:
        for compute in ("none", "measured"):
            run = lk.run(program, 1, "mpi", args=(count,), trace_ti=Path(folder) / "t", compute=compute)
            columns[f"recorded, {compute}"] = run.results[0]
        size = (Path(folder) / "t").stat().st_size
    print(f"{'microseconds of CPU':20}" + "".join(f"{name:>20}" for name in columns) + f"{'a call more':>14}")
    for name, calls in CALLS.items():
        more = (columns["recorded, measured"][name] - plain[name]) / calls * 1e6
        row = "".join(f"{column[name] * 1e6:20.2f}" for column in columns.values())
        print(f"{name:20}{row}{more:14.2f}")
    print(f"trace: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
