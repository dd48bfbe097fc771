"""Tuning at run time on real MPI: every codelet of every collective is right, and all ranks decide alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labkit as lk
from labkit.tuning.neighbor_exchange import FORMS
from tests.support.neighbors import edges, halos

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


def every_collective(comm):
    """Use every codelet once, on random data, beside the library's own method; return what was decided."""
    from mpi4py import MPI

    p, me = comm.size, comm.rank
    rng = np.random.default_rng(me)
    counts = [3 * rank % 5 for rank in range(p)]  # an empty one among them
    table = np.add.outer(np.arange(p), np.arange(p)) % 3  # what rank i sends to rank j
    decided = []

    def tried(operation, make, **more):
        with getattr(lk.tune, operation)(comm, measurements=1, warmup=0, timing="nobarrier") as call:
            for _ in range(len(call.functions) + 1):
                args, results = make()
                own, wanted = make()
                for array, other in zip(args, own, strict=True):
                    _copy(array, other)
                call(*args, **more)
                getattr(comm, operation.capitalize())(*own, **more)
                for result, right in zip(results, wanted, strict=True):
                    np.testing.assert_array_equal(result, right, err_msg=operation)
            decided.append((operation, call.phase, call.winner, len(call.explain().decisions)))

    def filled(n):
        return rng.integers(0, 100, n).astype(float)

    def empty(n):
        return np.full(n, -1.0)

    def reduced(n=10):
        return (lambda out: ([filled(n), out], [out]))(empty(n))

    def in_place(n=10):
        return (lambda out: ([MPI.IN_PLACE, out], [out]))(filled(n))

    tried("allreduce", reduced)
    tried("allreduce", in_place, op=MPI.MAX)
    tried("scan", reduced)
    tried(
        "reduce", lambda: (lambda out: ([filled(4), out], [out] if me == p - 1 else []))(empty(4)), root=p - 1
    )
    tried("bcast", lambda: (lambda data: ([data], [data]))(filled(7)), root=p - 1)
    tried("bcast", lambda: (lambda data: ([[data, 3, MPI.DOUBLE]], [data[:3]]))(filled(7)))
    tried("allgather", lambda: (lambda out: ([filled(2), out], [out]))(empty(2 * p)))
    tried("allgather", lambda: in_place(2 * p))
    tried("alltoall", lambda: (lambda out: ([filled(2 * p), out], [out]))(empty(2 * p)))
    tried("alltoall", lambda: in_place(2 * p))
    tried("gather", lambda: (lambda out: ([filled(2), out], [out] if me == 0 else []))(empty(2 * p)))
    tried("scatter", lambda: (lambda out: ([filled(2 * p), out], [out]))(empty(2)))
    tried("reduce_scatter_block", lambda: (lambda out: ([filled(2 * p), out], [out]))(empty(2)))
    tried(
        "reduce_scatter", lambda: (lambda out: ([filled(sum(counts)), out, counts], [out]))(empty(counts[me]))
    )
    tried(
        "allgatherv", lambda: (lambda out: ([filled(counts[me]), [out, counts]], [out]))(empty(sum(counts)))
    )
    tried("allgatherv", lambda: (lambda out: ([MPI.IN_PLACE, [out, counts]], [out]))(filled(sum(counts))))
    tried("gatherv", lambda: (lambda out: (
        [filled(counts[me]), [out, counts]], [out] if me == 0 else []
    ))(empty(sum(counts))))  # fmt: skip
    tried("alltoallv", lambda: (lambda out: (
        [[filled(table[me].sum()), table[me]], [out, table[:, me]]], [out]
    ))(empty(table[:, me].sum())))  # fmt: skip
    tried("barrier", lambda: ([], []))
    return decided


def _copy(source, target):
    """Give two calls the same buffers."""
    for one, other in ((source, target),):
        if isinstance(one, list):
            _copy(one[0], other[0])
        elif isinstance(one, np.ndarray):
            other[...] = one


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_whatever_is_tried_the_result_is_the_librarys(ranks):
    results = lk.run(every_collective, ranks, "mpi", timeout_s=120).results
    assert all(result == results[0] for result in results)
    assert {phase for _, phase, _, _ in results[0]} == {"production"}
    assert {count for *_, count in results[0]} == {1}


def region(comm):
    """Tune an overlapped exchange and a reduction together; the same words on all ranks."""
    p = comm.size
    with (
        lk.tune.alltoall(comm, ["library", "pairwise", "bruck"]) as exchange,
        lk.tune.allreduce(comm, ["library", "ring"]) as allreduce,
    ):
        timer = lk.tune.timer(comm, exchange, allreduce, every=2, measurements=4, search="attributes")
        for step in range(40):
            sent, got, total = np.arange(4.0 * p) + step, np.empty(4 * p), np.empty(1)
            with timer:
                handle = exchange.start(sent, got)
                handle.wait()
                allreduce(got[:1].copy(), total)
            assert (got.reshape(p, 4) == np.arange(4) + 4 * comm.rank + step).all()
            assert total[0] == sum(4 * rank + step for rank in range(p))
        timer.close()
        decision = timer.explain().decisions[0]
        return decision.winner, decision.trials, [row.name for row in decision.rows]


@pytest.mark.slow
def test_a_region_and_a_history(tmp_path):
    results = lk.run(region, 3, "mpi", timeout_s=120).results
    assert results[0][0] is not None
    assert all(result == results[0] for result in results)
    first, again = (
        lk.run(_remembered, 2, "mpi", timeout_s=120, path=str(tmp_path / "h.sqlite")).results
        for _ in range(2)
    )
    assert first[0] == first[1]
    assert again[0] == again[1]
    assert "knows of no calls" in first[0]
    assert "is remembered" in again[0]


def _remembered(comm, path):
    with lk.tune.barrier(comm, ["library", "linear"], history=path, measurements=3) as barrier:
        for _ in range(20):
            barrier()
        return barrier.explain().decisions[0].events[0]


@pytest.mark.slow
def test_exchanges_with_neighbors():
    both = [name for name in FORMS if name != "Neighbor_alltoallw"]
    for dims, periods, shape, forms in (
        ([3], [True], (5, 4), FORMS), ([2, 2], [True, False], (5, 4, 2), both),
        ([2, 2], [False, False], (3, 3), FORMS),
    ):  # fmt: skip
        ranks = int(np.prod(dims))
        args = (dims, periods, shape, 1, list(forms))
        assert lk.run(halos, ranks, "mpi", args=args, timeout_s=120).results == [[]] * ranks
    assert lk.run(edges, 3, "mpi", forms=list(FORMS), timeout_s=120).results == [[]] * 3


def test_ranks_of_a_tuned_program_load_neither_pandas_nor_scipy(tmp_path: Path) -> None:
    program = """
import sys
import numpy as np
from mpi4py import MPI
import labkit as lk
with lk.tune.allreduce(MPI.COMM_WORLD) as allreduce:
    for _ in range(50):
        allreduce(np.zeros(4), np.zeros(4))
print(sorted({"pandas", "scipy", "sympy", "bokeh", "labkit.study", "labkit.sim"} & set(sys.modules)))
"""
    command = [
        sys.executable,
        "-c",
        program,
    ]  # Open MPI leaves the folder of a process that nothing has launched
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=own)
    assert done.stdout.strip() == "[]"
