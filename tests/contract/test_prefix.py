"""Prefix sums, compaction and automata on distributed arrays against NumPy, on both machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets.matrices import offsets
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

SUMS = ("block_sums", "blelloch", "recursive_doubling")
LENGTHS = (0, 1, 5, 16, 37, 64)
TEXT = 'a,"b,c",,"x ""y"", z"\n"1\n2",3'
#: outside, inside quotation marks
QUOTES = (
    np.array([[symbol == ord('"') for symbol in range(128)], [symbol != ord('"') for symbol in range(128)]])
    * 1
)


def numbers(n: int, kind: str) -> Any:
    found = np.random.default_rng(n).integers(-9, 9, n)
    return found.astype(kind)


def share(array: Any, comm: Any) -> Any:
    edges = offsets(len(array), comm.size)
    return array[edges[comm.rank] : edges[comm.rank + 1]]


def solve(comm: Any) -> list[Any]:
    found = []
    for name in SUMS:
        for n in LENGTHS:
            for kind in ("i8", "f8", "i2"):
                given = share(numbers(n, kind), comm)
                kept = given.copy()
                found.append(registry.get("prefix", name).function(comm, given, n))
                assert np.array_equal(given, kept)
    compact = registry.get("prefix", "compaction").function
    for n in LENGTHS:
        values = numbers(n, "i8")
        for chosen in (values > 0, values < 99, values > 99, np.arange(n) < n // 3):
            found.append(compact(comm, share(values, comm), share(chosen, comm)))
    everything = numbers(20, "f8")  # all on the last rank
    mine = everything if comm.rank == comm.size - 1 else everything[:0]
    found.append(compact(comm, mine, mine > 0))
    text = np.frombuffer(TEXT.encode(), np.uint8)
    found.append(registry.get("prefix", "lexing").function(comm, share(text, comm), QUOTES))
    found.append(registry.get("prefix", "lexing").function(comm, share(text % 3, comm), CYCLE, start=1))
    return found


#: permutations of three states which do not commute, and a function which forgets
CYCLE = np.array([[1, 2, 0], [0, 2, 1], [1, 1, 1]]).T


def wanted() -> list[Any]:
    found = [
        np.cumsum(numbers(n, kind), dtype=kind) for _ in SUMS for n in LENGTHS for kind in ("i8", "f8", "i2")
    ]
    for n in LENGTHS:
        values = numbers(n, "i8")
        found += [values[values > 0], values, values[:0], values[: n // 3]]
    found.append(numbers(20, "f8")[numbers(20, "f8") > 0])
    text = np.frombuffer(TEXT.encode(), np.uint8)
    for table, symbols, start in ((QUOTES, text, 0), (CYCLE, text % 3, 1)):
        states = [start]
        for symbol in symbols:
            states.append(table[states[-1], symbol])
        found.append(np.array(states[1:]))
    return found


def require_right(results: list[list[Any]]) -> None:
    for number, whole in enumerate(wanted()):
        blocks = [found[number] for found in results]
        assert np.array_equal(np.concatenate(blocks), whole), number
        if number < len(wanted()) - 2:
            lengths = [len(block) for block in blocks]
            assert lengths == np.diff(offsets(len(whole), len(results))).tolist(), number
            assert {block.dtype for block in blocks} == {whole.dtype}


@pytest.mark.parametrize("ranks", range(1, 18))
def test_results_are_numpys(ranks: int) -> None:
    require_right(lk.run(solve, ranks, "star").results)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_results_are_numpys_on_real_mpi(ranks: int) -> None:
    require_right(lk.run(solve, ranks, "mpi").results)


def summed(comm: Any, name: str, m: int) -> None:
    registry.get("prefix", name).function(comm, np.ones(m), m * comm.size)


@pytest.mark.parametrize("ranks", [2, 5, 8, 16])
def test_additions_are_those_of_the_analysis(ranks: int) -> None:
    n = 64 * ranks
    steps = (n - 1).bit_length()

    def additions(name: str) -> float:
        counts = lk.run(summed, ranks, "star", args=(name, 64), count=True).counts
        return float(counts.query("phase == ''")["additions"].sum())

    assert additions("block_sums") == 2 * (n - ranks)
    assert additions("recursive_doubling") == sum(n - (1 << step) for step in range(steps))
    assert additions("blelloch") == 2 * (n - 1) + n


@pytest.mark.parametrize("name", [*SUMS, "compaction", "lexing"])
def test_growth_is_as_expected(name: str) -> None:
    def program(comm: Any) -> None:
        function = registry.get("prefix", name).function
        if name in SUMS:
            function(comm, np.ones(64), 64 * comm.size)
        elif name == "compaction":
            function(comm, np.arange(64), np.arange(64) % 3 > 0)
        else:
            function(comm, np.zeros(64, int), QUOTES)

    study = lk.sweep(program, [2, 4, 8, 16, 32, 64], "star", progress=False)
    for phase, growth in registry.get("prefix", name).expectations.items():
        assert study.expect(growth, **({"phase": phase} if phase else {})).match != "none", phase


@pytest.mark.parametrize("ranks", [2, 3, 8, 17])
@pytest.mark.parametrize("name", SUMS)
def test_messages_and_bytes_are_within_the_cost(name: str, ranks: int) -> None:
    counts = lk.run(summed, ranks, "star", args=(name, 48), count=True).counts.query("phase == ''")
    cost = registry.get("prefix", name).cost
    assert cost is not None
    bound = cost(ranks, 8 * 48)
    assert counts["messages"].max() <= bound.rounds
    assert counts["bytes"].max() <= bound.volume_bytes


@pytest.mark.parametrize(
    ("name", "given", "code", "facts"),
    [
        ("blelloch", ([1, 2], 3), "count-mismatch", ["int64", "(2,)"]),
        ("block_sums", (["a"], 1), "count-mismatch", ["<U1"]),
        ("recursive_doubling", ([], -1), "out-of-range", ["n", "-1"]),
        ("compaction", ([1, 2], [True]), "count-mismatch", ["(2,)", "(1,)"]),
        ("compaction", ([1, 2], [1, 0]), "wrong-type", ["keep", "int64"]),
        ("lexing", ([0], [[1]]), "count-mismatch", ["table"]),
        ("lexing", ([2], [[0, 0]]), "out-of-range", ["symbols", "0 to 1"]),
        ("lexing", ([0], [[0]], 1), "out-of-range", ["start", "1"]),
    ],
)
def test_what_does_not_fit_is_refused(name: str, given: Any, code: str, facts: list[str]) -> None:
    def program(comm: Any) -> None:
        registry.get("prefix", name).function(comm, *given)

    with raises_code((DataError, RankError), code, *facts):
        lk.run(program, 1, "star")
