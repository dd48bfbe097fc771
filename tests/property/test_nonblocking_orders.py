"""Nonblocking collectives in any order of completion, several at once, beside messages with wildcards.

The oracle is NumPy on the data of all ranks at once. Every rank starts the same collectives in the same
order, as MPI wants; when it starts them, what it computes in between and in which order it waits is drawn.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import MPI

KINDS = (
    *("barrier", "bcast", "allreduce", "maximum", "scan", "exscan", "reduce"),
    *("gather", "allgather", "alltoall", "reduce_scatter", "scatter"),
)
SIZES = [1, 7, 3000, 20_000]


def data_of(rank: int, number: int, elements: int) -> np.ndarray:
    return ((np.arange(elements) + 3) * (rank + 2) * (number + 1)) % 101


def begin(comm, kind: str, number: int, count: int, root: int):
    """Start one; the request and where its result will be."""
    me, p = comm.rank, comm.size
    one, many = data_of(me, number, count), data_of(me, number, count * p)
    into, wide = np.full(count, -1), np.full(count * p, -1)
    if kind == "barrier":
        return comm.Ibarrier(), None
    if kind == "bcast":
        into = one.copy()
        return comm.Ibcast(into, root), into
    if kind == "allreduce":
        return comm.Iallreduce(one, into), into
    if kind == "maximum":
        return comm.Iallreduce(one, into, MPI.MAX), into
    if kind == "scan":
        return comm.Iscan(one, into), into
    if kind == "exscan":
        return comm.Iexscan(one, into), into
    if kind == "reduce":
        return comm.Ireduce(one, into if me == root else None, root=root), into
    if kind == "gather":
        return comm.Igather(one, wide if me == root else None, root), wide
    if kind == "allgather":
        return comm.Iallgather(one, wide), wide
    if kind == "alltoall":
        return comm.Ialltoall(many, wide), wide
    if kind == "reduce_scatter":
        return comm.Ireduce_scatter_block(many, into), into
    return comm.Iscatter(many if me == root else None, into, root), into


def expected(kind: str, number: int, count: int, root: int, me: int, p: int):
    """Return what rank `me` must have in the end."""
    ones = np.array([data_of(rank, number, count) for rank in range(p)])
    manys = np.array([data_of(rank, number, count * p) for rank in range(p)]).reshape(p, p, count)
    nothing = np.full(count, -1)
    wide = np.full(count * p, -1)
    return {
        "barrier": None,
        "bcast": ones[root],
        "allreduce": ones.sum(0),
        "maximum": ones.max(0),
        "scan": ones[: me + 1].sum(0),
        "exscan": ones[:me].sum(0) if me else nothing,
        "reduce": ones.sum(0) if me == root else nothing,
        "gather": ones.reshape(-1) if me == root else wide,
        "allgather": ones.reshape(-1),
        "alltoall": manys[:, me].reshape(-1),
        "reduce_scatter": manys[:, me].sum(0),
        "scatter": manys[root, me],
    }[kind]


def program(comm, calls, orders, delays, way):
    me, p = comm.rank, comm.size
    comms = [comm, comm.Dup(), comm.Split(0, -comm.rank)]
    delay = iter([delays[(me + i) % len(delays)] for i in range(4 * len(calls) + 4)])
    under_way, inbox = [], []
    for number, (kind, count, root, which) in enumerate(calls):
        lk.compute(seconds=next(delay))
        on = comms[which % 3]
        under_way.append((*begin(on, kind, number, count, root % p), on))
        comm.send((me, number), (me + number) % p, number)
    order = orders[me % len(orders)]
    places = sorted(range(len(calls)), key=lambda i: (order[i % len(order)], i))
    for _ in range(len(calls) // 2):
        inbox.append(comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG))
    requests = [under_way[i][0] for i in places]
    if way == "Waitall":
        MPI.Request.Waitall(requests)
    elif way == "Waitany":
        for _ in requests:
            MPI.Request.Waitany(requests)
            lk.compute(seconds=next(delay))
    elif way == "Testsome":
        while any(requests):
            MPI.Request.Testsome(requests)
    else:
        for request in requests:
            lk.compute(seconds=next(delay))
            request.Wait()
    assert not any(requests)
    inbox += [comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG) for _ in range(len(calls) - len(inbox))]
    assert sorted(inbox) == sorted(((me - number) % p, number) for number in range(len(calls)))
    return [(on.rank, None if into is None else into.tolist()) for _, into, on in under_way]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    ranks=st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16]),
    calls=st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(SIZES), st.integers(0, 15), st.integers(0, 2)),
        min_size=1,
        max_size=7,
    ),
    orders=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=3),
    delays=st.lists(st.sampled_from([0.0, 1e-7, 3e-5, 1e-3]), min_size=1, max_size=5),
    way=st.sampled_from(["Wait", "Waitall", "Waitany", "Testsome"]),
    machine=st.sampled_from(["star:16", "torus:4x4", "fattree:4x4:1x2:1x1"]),
    model=st.sampled_from(["lab", "smpi", "raw"]),
)  # fmt: skip
def test_any_order_of_completion_gives_the_results_of_numpy(
    ranks, calls, orders, delays, way, machine, model
) -> None:
    how = {"args": (calls, orders, delays, way), "model": model}
    run = lk.run(program, ranks, machine, **how)
    for found in run.results:
        for number, ((kind, count, root, which), (rank, values)) in enumerate(zip(calls, found, strict=True)):
            # on the third communicator the ranks are in the opposite order: data follows the rank there
            wanted = expected(kind, number, count, root % ranks, rank, ranks)
            assert values == (None if wanted is None else wanted.tolist()), (kind, count, which)
    assert lk.run(program, ranks, machine, **how).makespan_s == run.makespan_s
