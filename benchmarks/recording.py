"""The cost of recording: CPU microseconds a call of mpi4py, plain and recorded, on one real rank; and two
programs plain, with ``summary=True``, with counters of the host besides, and with ``trace=True``: a ping-pong
of 8 bytes, and sample sort.

    python benchmarks/recording.py

One rank that talks to itself never waits, so that its CPU time is what its calls cost. The recorder's time is
not part of the lines: the clock that measures computation stands still in every call. In a trace it is part
of what lies between the calls.
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

WAYS = {
    "summary=True": {"summary": True},
    "counters=": {"counters": ["task-clock", "page-faults", "context-switches"]},
    "trace=True": {"trace": True},
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
        for name, how in WAYS.items():
            run = lk.run(program, 1, "mpi", args=(count,), **how)
            columns[name] = run.results[0]
        size = (Path(folder) / "t").stat().st_size
    print(f"{'microseconds of CPU':20}{''.join(f'{name:>20}' for name in columns)}")
    for name in CALLS:
        print(f"{name:20}{''.join(f'{column[name] * 1e6:20.2f}' for column in columns.values())}")
    print("more for each call")
    for name, calls in CALLS.items():
        more = [(column[name] - plain[name]) / calls * 1e6 for column in columns.values()]
        print(f"{name:20}{''.join(f'{one:20.2f}' for one in more)}")
    print(f"lines: {size / 1e6:.1f} MB; trace: {run.trace!r}")
    both("ping-pong of 8 B, a round trip", ping_pong, 2, (count,), lambda run: run.results[0] / count)
    both("sample sort of 2 x 500,000 keys", sort, 2, (500_000,), lambda run: max(run.results))


def both(name, program, ranks, args, seconds):
    """Print what a program takes in each way: the best of several runs, turn about."""
    found = {way: [] for way in ("plain", *WAYS)}
    for _ in range(5):
        for way, took in found.items():
            took.append(seconds(lk.run(program, ranks, "mpi", args=args, **WAYS.get(way, {}))))
    plain = min(found["plain"])
    print(f"{name}: {plain * 1e6:.2f} us plain")
    for way in WAYS:
        took = min(found[way])
        print(f"  {way:20}{took * 1e6:12.2f} us: {(took - plain) * 1e6:+12.2f} us, {took / plain - 1:+.1%}")


def ping_pong(comm, count):
    """Seconds of `count` round trips of 8 bytes."""
    import time

    x = np.ones(1)
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(count):
        if comm.rank == 0:
            comm.Send(x, 1)
            comm.Recv(x, 1)
        else:
            comm.Recv(x, 0)
            comm.Send(x, 0)
    return time.perf_counter() - begin


def sort(comm, count):
    """Seconds of sorting random keys; what it imports, a recorded rank has imported already."""
    import time

    from labkit.algorithms.sorting.sample_sort import sample_sort

    keys = np.random.default_rng(comm.rank).integers(0, 1 << 40, count)
    sample_sort(comm, keys[:1000])
    comm.Barrier()
    begin = time.perf_counter()
    sample_sort(comm, keys)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
