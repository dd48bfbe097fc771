"""The communicator's collectives against plain Python, for every spelling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import MismatchError, RankError
from tests.support.refusals import raises_code

RANKS = [1, 2, 3, 4, 5, 7, 8, 16]


def results(program, ranks, *args, **how):
    return lk.run(program, ranks, args=args, **how).results


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("root", [0, -1])
def test_rooted_buffers(ranks: int, root: int) -> None:
    def program(comm, root):
        root %= comm.size
        p, r = comm.size, comm.rank
        data = np.arange(7.0) if r == root else np.zeros(7)
        comm.Bcast(data, root)
        assert data.tolist() == list(range(7))
        everything = np.zeros((p, 3), int) if r == root else None
        comm.Gather(np.full(3, r), everything, root)
        if r == root:
            assert (everything == np.arange(p)[:, None]).all()
        mine = np.zeros(2, int)
        comm.Scatter(np.repeat(np.arange(p), 2) if r == root else None, mine, root)
        assert mine.tolist() == [r, r]
        total = np.zeros(3, int)
        comm.Reduce(np.full(3, r + 1), total, MPI.PROD, root)
        return total.tolist() if r == root else None

    product = int(np.prod(np.arange(1, ranks + 1)))
    assert results(program, ranks, root)[root] == [product] * 3


@pytest.mark.parametrize("ranks", RANKS)
def test_vector_buffers_of_every_size(ranks: int) -> None:
    def program(comm):
        p, r = comm.size, comm.rank
        sizes = [i % 3 for i in range(p)]  # zero among them
        begins = [sum(sizes[:i]) + i for i in range(p)]  # gaps between the blocks
        mine = np.full(sizes[r], r)
        wanted = np.full(sum(sizes) + p, -1)
        for i in range(p):
            wanted[begins[i] : begins[i] + sizes[i]] = i
        got = np.full(sum(sizes) + p, -1)
        comm.Allgatherv(mine, [got, (sizes, begins)])
        assert (got == wanted).all()
        got[:] = -1
        comm.Gatherv(mine, [got, (sizes, begins)] if r == p - 1 else None, p - 1)
        assert r != p - 1 or (got == wanted).all()
        back = np.full(sizes[r], -1)
        comm.Scatterv([wanted, (sizes, begins)] if r == 0 else None, back, 0)
        assert (back == mine).all()
        send = np.concatenate([np.full((r + i) % 4, 100 * r + i) for i in range(p)])
        theirs = np.concatenate([np.full((i + r) % 4, 100 * i + r) for i in range(p)])
        counts = [(r + i) % 4 for i in range(p)]
        out = np.zeros_like(theirs)
        comm.Alltoallv([send, counts], [out, counts])
        return (out == theirs).all()

    assert all(results(program, ranks))


@pytest.mark.parametrize("ranks", RANKS)
def test_reductions_and_in_place(ranks: int) -> None:
    def program(comm):
        r, p = comm.rank, comm.size
        x = np.array([r + 1, 10 * (r + 1)])
        y = np.zeros(2, int)
        comm.Allreduce(x, y)
        assert y.tolist() == [p * (p + 1) // 2, 10 * p * (p + 1) // 2]
        comm.Scan(x, y)
        assert y[0] == (r + 1) * (r + 2) // 2
        y[:] = -1
        comm.Exscan(x, y)
        assert y[0] == (r * (r + 1) // 2 if r else -1)
        comm.Allreduce(MPI.IN_PLACE, x, MPI.MAX)
        assert x[0] == p
        blocks = np.zeros(p, int)
        blocks[r] = r
        comm.Allgather(MPI.IN_PLACE, blocks)
        assert blocks.tolist() == list(range(p))
        comm.Alltoall(MPI.IN_PLACE, blocks)
        assert (blocks == r).all()
        pair = np.array([(float(r % 3), r)], dtype=MPI.DOUBLE_INT.dtype)
        best = np.zeros_like(pair)
        comm.Allreduce([pair, MPI.DOUBLE_INT], [best, MPI.DOUBLE_INT], MPI.MAXLOC)
        return best[0]["value"], best[0]["index"]

    wanted = max((float(r % 3), -r) for r in range(ranks))
    assert results(program, ranks) == [(wanted[0], -wanted[1])] * ranks


@pytest.mark.parametrize("ranks", RANKS)
def test_a_programs_own_operator_keeps_rank_order(ranks: int) -> None:
    def program(comm):
        def multiply(left, right, datatype):  # 2x2 matrices: associative, not commutative
            a, b = np.frombuffer(left, int).reshape(2, 2), np.frombuffer(right, int).reshape(2, 2)
            b[:] = a @ b

        op = MPI.Op.Create(multiply, commute=False)
        mine = np.array([1, comm.rank, 0, 1 + comm.rank % 2])
        out = np.zeros(4, int)
        comm.Allreduce(mine, out, op)
        return out.tolist()

    wanted = np.eye(2, dtype=int)
    for rank in range(ranks):
        wanted = wanted @ np.array([[1, rank], [0, 1 + rank % 2]])
    assert results(program, ranks) == [wanted.reshape(-1).tolist()] * ranks


@pytest.mark.parametrize("ranks", RANKS)
def test_objects(ranks: int) -> None:
    def program(comm):
        p, r = comm.size, comm.rank
        assert comm.bcast({"r": r}, root=p - 1) == {"r": p - 1}
        assert comm.gather("x" * r, root=p - 1) == (["x" * i for i in range(p)] if r == p - 1 else None)
        assert comm.allgather((r, None)) == [(i, None) for i in range(p)]
        assert comm.scatter([[i] * i for i in range(p)] if r == 0 else None) == [r] * r
        assert comm.alltoall([(r, i) for i in range(p)]) == [(i, r) for i in range(p)]
        assert comm.reduce([r], root=p // 2) == (list(range(p)) if r == p // 2 else None)
        assert comm.allreduce(r, MPI.MAX) == p - 1
        assert comm.allreduce((r % 2, r), MPI.MINLOC) == (0, 0)
        assert comm.scan([r]) == list(range(r + 1))
        comm.barrier()
        return comm.exscan([r])

    assert results(program, ranks) == [None, *(list(range(r)) for r in range(1, ranks))]


def test_nobody_leaves_a_barrier_before_the_last_has_come() -> None:
    def program(comm):
        lk.compute(seconds=0.1 * comm.rank)
        comm.Barrier()
        return MPI.Wtime()

    assert min(results(program, 7)) >= 0.6


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (
            lambda comm: comm.Barrier() if comm.rank == 2 else comm.Bcast(np.zeros(1)),
            ("collective-mismatch",),
        ),
        (
            lambda comm: comm.Bcast(np.zeros(1), comm.rank % 2),
            ("root-mismatch", "root=1", "rank 1", "root=0", "rank 0"),
        ),
        (
            lambda comm: comm.Allreduce(np.zeros(1 + comm.rank // 3), np.zeros(1 + comm.rank // 3)),
            ("collective-mismatch", "bytes=16"),
        ),
        (
            lambda comm: comm.Allreduce(np.zeros(1), np.zeros(1), [MPI.SUM, MPI.MAX][comm.rank // 3]),
            ("collective-mismatch", "op="),
        ),
    ],
    ids=["calls", "roots", "sizes", "operators"],
)
def test_ranks_that_disagree_are_named(program, wanted: tuple[str, ...]) -> None:
    with raises_code(MismatchError, *wanted, "rank 0"):
        lk.run(program, 4, isolate=False)


def test_a_root_that_is_no_rank() -> None:
    def program(comm):
        for call in (lambda: comm.Bcast(np.zeros(1), 5), lambda: comm.reduce(1, root=-1)):
            with pytest.raises(MPI.Exception, match="root="):
                call()

    lk.run(program, 2, isolate=False)


def test_an_algorithm_can_be_chosen_and_must_exist() -> None:
    def program(comm):
        out = np.zeros(1000)
        comm.Allreduce(np.ones(1000), out)
        return float(out[0])

    runs = {name: lk.run(program, 8, coll={"allreduce": name}) for name in ("ring", "recursive_doubling")}
    assert all(run.results == [8.0] * 8 for run in runs.values())
    assert runs["ring"].messages == 8 * 14
    assert runs["recursive_doubling"].messages == 8 * 3
    with raises_code(lk.errors.ScheduleError, "unknown-name", "'rong'"):
        lk.run(program, 8, coll={"allreduce": "rong"})


def test_operators_agree_with_numpy() -> None:
    def program(comm, name, code):
        rng = np.random.default_rng(comm.rank)
        mine = rng.integers(0, 2 if name.startswith("L") else 5, 8).astype(code)
        out = np.zeros_like(mine)
        comm.Allreduce(mine, out, getattr(MPI, name))
        return mine, out

    functions = {
        "SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum, "BAND": np.bitwise_and,
        "BOR": np.bitwise_or, "BXOR": np.bitwise_xor, "LAND": np.logical_and, "LOR": np.logical_or,
        "LXOR": np.logical_xor,
    }  # fmt: skip
    for (name, function), code in itertools.product(functions.items(), ("i4", "u1", "i8")):
        rows = results(program, 3, name, code)
        wanted = function.reduce([mine for mine, _ in rows]).astype(code)
        assert all((out == wanted).all() for _, out in rows), (name, code)


def with_more_room(comm, is_short):
    """Ranks of odd numbers send less than the root expects, and have more room than it sends."""
    me, p = comm.rank, comm.size
    counts = [3 + rank + 2 * (rank % 2) for rank in range(p)]
    if is_short:
        counts[3] = 1
    got = np.full(sum(counts), -1, "i4")
    comm.Gatherv(np.full(3 + me, me, "i4"), [got, counts] if me == 0 else None)
    request = comm.Igatherv(lk.sized(8 * me), [lk.sized(8 * sum(range(p))), [8 * r for r in range(p)]], 1)
    back = np.full(3 + me + 4, -1, "i4")
    comm.Scatterv([got, counts] if me == 0 else None, back)
    request.Wait()
    return got.tolist(), back.tolist()


TREES = ["binomial", "knomial:radix=3", "two_level:node=3"]


@pytest.mark.parametrize("name", TREES)
def test_trees_of_told_sizes_take_what_the_linear_ones_take(name: str) -> None:
    chosen = {"gatherv": name, "scatterv": name.replace("two_level", "two_level_direct")}
    for ranks in (2, 5, 7):
        wanted = results(with_more_room, ranks, False)
        assert results(with_more_room, ranks, False, coll=chosen) == wanted
    with raises_code(RankError, "rank-failed", "rank 3", "24", "rank 0"):
        results(with_more_room, 7, True, coll=chosen)
