"""Operators that do not commute get their operands in rank order, by every algorithm and at every p."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import labkit as lk
from labkit import MPI, registry
from tests.support.refusals import raises_code

RANKS = [*range(1, 10), 13, 16, 17]
PRIME = 10007


def product(left, right, datatype):
    """Multiply 2x2 matrices modulo a prime: left times right."""
    a, b = (np.frombuffer(data, np.int64).reshape(-1, 2, 2) for data in (left, right))
    b[:] = a @ b % PRIME


def mine(rank, n):
    return np.random.default_rng([rank, n]).integers(0, PRIME, (n, 2, 2))


def buffers(comm, n, counts):
    """Return what every upper-case reduction gives; `counts` are matrices for each rank."""
    times = MPI.Op.Create(product, commute=False)
    p, me, x = comm.size, comm.rank, mine(comm.rank, n)
    results = {}
    for name in ("Allreduce", "Scan", "Exscan"):
        got = np.zeros_like(x)
        getattr(comm, name)(x, got, times)
        results[name] = got
    for root in {0, p // 2, p - 1}:
        got = np.zeros_like(x)
        comm.Reduce(x, got, times, root)
        results["Reduce", root] = got
    got = np.zeros((n, 2, 2), np.int64)
    comm.Reduce_scatter_block(mine(me, n * p), got, times)
    results["Reduce_scatter_block"] = got
    got = np.zeros((counts[me], 2, 2), np.int64)
    comm.Reduce_scatter(mine(me, sum(counts)), got, [4 * count for count in counts], times)
    results["Reduce_scatter"] = got
    return results


def chain(matrices):
    """Multiply from left to right, one after another."""
    return functools.reduce(lambda a, b: a @ b % PRIME, matrices)


def expected(p, n, counts):
    operands = [mine(rank, n) for rank in range(p)]
    prefixes = list(itertools.accumulate(operands, lambda a, b: a @ b % PRIME))
    blocks = chain([mine(rank, n * p) for rank in range(p)])
    ragged = chain([mine(rank, sum(counts)) for rank in range(p)])
    ends = np.cumsum(counts)
    for rank in range(p):
        results = {
            "Allreduce": prefixes[-1],
            "Scan": prefixes[rank],
            "Exscan": prefixes[rank - 1] if rank else np.zeros_like(operands[0]),
            "Reduce_scatter_block": blocks[n * rank : n * (rank + 1)],
            "Reduce_scatter": ragged[ends[rank] - counts[rank] : ends[rank]],
        }
        for root in {0, p // 2, p - 1}:
            results["Reduce", root] = prefixes[-1] if rank == root else np.zeros_like(operands[0])
        yield results


def verify(run, p, n, counts):
    for rank, (found, wanted) in enumerate(zip(run.results, expected(p, n, counts), strict=True)):
        assert found.keys() == wanted.keys()
        for what, values in wanted.items():
            np.testing.assert_array_equal(found[what], values, err_msg=f"rank {rank}: {what}")


@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("n", [1, 6, 2001])
def test_matrix_products(p, n):
    counts = [(3 * rank) % 5 for rank in range(p)]
    verify(lk.run(buffers, p, f"star:{p}", args=(n, counts)), p, n, counts)


PROBLEMS = ("reduce", "allreduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block")
IN_ORDER = [
    (problem, name)
    for problem in PROBLEMS
    for name in registry.names(problem)
    if not registry.get(problem, name).requirements.commutative
]


@pytest.mark.parametrize(("problem", "name"), IN_ORDER)
@pytest.mark.parametrize("p", [3, 8, 13])
def test_by_every_algorithm_that_keeps_the_order(problem, name, p):
    counts = [(3 * rank) % 5 for rank in range(p)]
    n = 8  # matrices: rabenseifner cuts a message into up to 8 parts
    verify(lk.run(buffers, p, f"star:{p}", args=(n, counts), coll={problem: name}), p, n, counts)


@pytest.mark.parametrize("problem", ["allreduce", "reduce_scatter", "reduce_scatter_block"])
def test_an_algorithm_that_does_not_is_refused(problem):
    with raises_code(lk.errors.LabkitError, "malformed-schedule"):
        lk.run(buffers, 4, "star:4", args=(1, [1] * 4), coll={problem: "ring"})


def text(comm):
    letter = chr(ord("a") + comm.rank)
    op = MPI.Op.Create(lambda a, b, datatype=None: a + b, commute=False)
    last = comm.size - 1
    return [
        comm.allreduce(letter, op=op),
        comm.reduce(letter, op=op, root=last),
        comm.scan(letter, op=lambda a, b: a + b),
        comm.exscan(letter, op=op),
    ]


@pytest.mark.parametrize("p", RANKS)
def test_text_is_joined_in_order(p):
    alphabet = "abcdefghijklmnopq"[:p]
    for rank, found in enumerate(lk.run(text, p, f"star:{p}").results):
        at_root = alphabet if rank == p - 1 else None
        assert found == [alphabet, at_root, alphabet[: rank + 1], alphabet[:rank] or None]


def rounding(comm):
    """Sums whose last bits depend on the order of their operands."""
    x = np.random.default_rng(comm.rank).random(64 * comm.size) * 10.0 ** (comm.rank % 7)
    got = np.zeros(64)
    comm.Reduce_scatter_block(x, got)
    return got.tobytes()


@pytest.mark.parametrize("name", [None, *registry.names("reduce_scatter_block")])
def test_the_same_bits_every_time(name):
    coll = {} if name is None else {"reduce_scatter_block": name}
    p = 6 if name is None or not registry.get("reduce_scatter_block", name).requirements.unmet(6) else 8
    first, second = (lk.run(rounding, p, f"star:{p}", coll=coll).results for _ in range(2))
    assert first == second
