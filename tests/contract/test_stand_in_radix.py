"""Radix sort on stand-in data: the messages and the time of a run on keys that have its distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import labkit as lk
from labkit import MPI, local
from labkit.algorithms.sorting.radix_sort import block_bounds, radix_sort
from labkit.datasets.standins import STAND_INS, stand_in
from labkit.errors import DataError, RankError
from labkit.local import Range, StandIn
from labkit.local.standin import Passes
from tests.support.refusals import raises_code

Words = NDArray[np.uint64]
WIDTH = 64


def keys_of(given: list[StandIn], bits: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Make keys that a sort of these stand-ins sorts: of what is known of them alone, digits are drawn.

    All keys go through the passes one by one: each piece's digits are dealt to its keys at random, as often
    as the stand-in counts them, and a stable sort by the digit puts the keys in order.
    """
    rng = np.random.default_rng(seed)
    passes = Passes([[tuple(one) for one in mine.ranges()] for mine in given])
    total, p = sum(map(len, given)), len(given)
    words, source = np.zeros(total, np.uint64), np.arange(total)
    history: tuple[tuple[int, int], ...] = ()
    mixtures: Any = None
    for shift in range(0, WIDTH, bits):
        width = min(bits, WIDTH - shift)
        passes.counts(history, 0, shift, width)
        order = passes._orders[history, shift, width]
        assert not order.is_blended
        now = np.repeat(order.part_mixtures, order.lengths)
        assert mixtures is None or (now == mixtures).all()
        assert order.bounds.tolist() == (
            block_bounds(total, p).tolist() if history else [0, *np.cumsum([len(mine) for mine in given])]
        )
        counts = np.diff(order.below(width, slice(None), slice(None)), axis=1)
        digit = np.empty(total, np.int64)
        begins = np.cumsum(order.lengths) - order.lengths
        for begin, length, row in zip(begins, order.lengths, counts, strict=True):
            digit[begin : begin + length] = rng.permutation(np.repeat(np.arange(1 << width), row))
        words[source] |= digit.astype(np.uint64) << np.uint64(shift)
        children = np.empty(total, np.int64)
        for number in np.unique(now):
            split = order.known.split(order.known.all[number], width)
            children[now == number] = split.children[digit[now == number]]
        by_digit = np.argsort(digit, kind="stable")
        mixtures, source = children[by_digit], source[by_digit]
        history = (*history, (shift, width))
    assert (np.diff(words[source].astype(object)) >= 0).all()
    ends = np.cumsum([len(mine) for mine in given])[:-1]
    return np.split((words ^ np.uint64(1 << 63)).view(np.int64), ends)


def sort(comm: MPI.Comm, mine: list[Any], options: dict[str, Any]) -> int:
    return len(radix_sort(comm, mine[comm.rank], **options))


def both(given: list[StandIn], keys: list[Any], on: str, **options: Any) -> tuple[lk.Run, lk.Run]:
    phantom, real = (lk.run(sort, len(given), on, args=(mine, options)) for mine in (given, keys))
    return phantom, real


def same(phantom: lk.Run, real: lk.Run) -> None:
    assert phantom.results == real.results
    assert (phantom.messages, phantom.bytes) == (real.messages, real.bytes)
    assert phantom.makespan_s == real.makespan_s
    assert phantom.phase_rows() == real.phase_rows()


def given_of(name: str, p: int, n: int) -> list[StandIn]:
    return [stand_in(name, rank, p, n) for rank in range(p)]


@pytest.mark.slow
@pytest.mark.parametrize("exchange", ["alltoallv", "messages"])
@pytest.mark.parametrize("name", STAND_INS)
def test_messages_times_and_blocks_are_those_of_keys(name: str, exchange: str) -> None:
    given = given_of(name, 8, 300)
    keys = keys_of(given, 8)
    same(*both(given, keys, "star:8", exchange=exchange))


@pytest.mark.slow
@pytest.mark.parametrize("name", STAND_INS)
def test_those_keys_have_the_distribution(name: str) -> None:
    """They lie in the ranges, but for ends that are no powers of two, and in each as many as it says."""
    p, n = 5, 1000
    given = given_of(name, p, n)
    for mine, stood_for in zip(keys_of(given, 8), given, strict=True):
        words = np.sort(mine.view(np.uint64) ^ np.uint64(1 << 63))
        keys, begins, widths = (np.array(column) for column in zip(*stood_for.ranges(), strict=True))
        slack = np.array([int(width) // 16 for width in widths])
        low = [max(int(a) - int(b), 0) for a, b in zip(begins, slack, strict=True)]
        high = [int(a) + int(w) + int(b) - 1 for a, w, b in zip(begins, widths, slack, strict=True)]
        first = np.searchsorted(words, np.array(low, np.uint64), side="left")
        last = np.searchsorted(words, np.array([min(x, 2**64 - 1) for x in high], np.uint64), side="right")
        is_in_some = np.zeros(n + 1, np.int64)
        np.add.at(is_in_some, first, 1)
        np.add.at(is_in_some, last, -1)
        assert (np.cumsum(is_in_some)[:n] > 0).all()
        found, spread = last - first, 5 * np.sqrt(keys) + 1
        assert (found >= keys - spread).all()
        assert (found <= keys + n // 8 + spread).all()
        is_value = widths == 1
        assert (found[is_value] == keys[is_value]).all()


@pytest.mark.parametrize("name", ["sorted", "g_group", "mirrored", "staggered", "all_to_one"])
@pytest.mark.slow
def test_taking_pieces_as_mixed_evenly_changes_messages_by_little(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = given_of(name, 8, 3000)
    exact = lk.run(sort, 8, "star:8", args=(given, {}))
    monkeypatch.setattr("labkit.local.standin.MOST_PARTS", 1 << 12)
    mixed = lk.run(sort, 8, "star:8", args=(given, {}))
    assert any("mixed evenly" in note for note in mixed.notes)
    assert not any("mixed evenly" in note for note in exact.notes)
    assert mixed.messages == exact.messages
    assert mixed.bytes == pytest.approx(exact.bytes, rel=1e-3)
    assert mixed.makespan_s == pytest.approx(exact.makespan_s, rel=5e-3)


@pytest.mark.parametrize(("p", "n", "on", "bits"), [
    (1, 700, "star:1", 8), (2, 0, "star:2", 8), (3, 1, "star:3", 8), (13, 333, "star:13", 5),
    (32, 500, "torus:4x8", 11), (16, 900, "fattree:4x4:1x2:1x1", 3), (6, 100, "star:6", 16),
    (7, 250, "star:7", 1),
])  # fmt: skip
@pytest.mark.parametrize("name", ["uniform", "gaussian", "zipf"])
@pytest.mark.slow
def test_any_ranks_machines_and_digits(name: str, p: int, n: int, on: str, bits: int) -> None:
    given = given_of(name, p, n)
    same(*both(given, keys_of(given, bits, seed=p), on, bits=bits))


def test_unlike_ranks_with_unlike_lengths_and_mixed_widths() -> None:
    rng = np.random.default_rng(5)
    given = []
    for rank in range(6):
        cuts = sorted({int(x) for x in rng.integers(0, 2**64, 6, dtype=np.uint64)})
        ranges = [
            Range(int(rng.integers(0, 60)), a, b - a) for a, b in zip(cuts[::2], cuts[1::2], strict=True)
        ]
        ranges = sorted([*ranges, Range(rank * 7, cuts[1] + 5 * rank, 1)], key=lambda one: one.begin)
        given.append(local.stand_in([one for one in ranges if one.keys], rank))
    for bits in (4, 8):
        same(*both(given, keys_of(given, bits), "star:6", bits=bits))


def test_constant_digits_are_skipped_alike() -> None:
    given = [local.stand_in([Range(40 + rank, 1 << 63, 1 << 16), Range(3, (1 << 63) + (1 << 20), 1)], rank)
             for rank in range(5)]  # fmt: skip
    phantom, real = both(given, keys_of(given, 8), "star:5", skip_constant=True)
    same(phantom, real)
    assert phantom.messages < both(given, keys_of(given, 8), "star:5")[0].messages


def test_random_keys_differ_by_their_fluctuations_only() -> None:
    p, n = 16, 40_000
    random = [np.random.default_rng(rank).integers(-(2**63), 2**63, n) for rank in range(p)]
    phantom, real = both(given_of("uniform", p, n), random, f"star:{p}")
    assert phantom.messages == real.messages
    assert phantom.bytes == pytest.approx(real.bytes, rel=0.001)
    assert phantom.makespan_s == pytest.approx(real.makespan_s, rel=0.02)


def test_several_sorts_and_other_communicators_in_one_run() -> None:
    def program(comm: MPI.Comm) -> list[int]:
        half = comm.Split(comm.rank % 2, -comm.rank)
        a = radix_sort(half, stand_in("uniform", comm.rank, comm.size, 50 + comm.rank))
        b = radix_sort(comm, stand_in("sorted", comm.rank, comm.size, 50 + comm.rank))
        c = radix_sort(comm, stand_in("few_unique", comm.rank, comm.size, 50 + comm.rank))
        return [len(a), len(b), len(c)]

    lengths = np.array(lk.run(program, 6, "star:6").results)
    assert lengths.sum(axis=0).tolist() == [315, 315, 315]
    assert sorted(lengths[::2, 0]) == [52, 52, 52]
    assert lengths[:, 1].tolist() == [52, 53, 52, 53, 52, 53]


@pytest.mark.slow
def test_ten_million_keys_a_rank_take_no_memory() -> None:
    given = given_of("sorted", 64, 10**7)
    run = lk.run(sort, 64, "star:64", args=(given, {"bits": 8}))
    assert run.results == [10**7] * 64
    assert run.bytes is not None
    assert run.bytes > 7 * 8 * 64 * 10**7 * 0.95
    assert any("mixed evenly" in note for note in run.notes)
    assert any("lower bits is equally frequent" in note for note in run.notes)


def test_what_cannot_be_followed_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many different values on every rank: their digits follow from no free bits."""
    monkeypatch.setattr("labkit.local.standin.MOST_PARTS", 1 << 10)
    rng = np.random.default_rng(1)
    given = []
    for rank in range(8):
        values = np.unique(rng.integers(0, 2**64, 300, dtype=np.uint64)).tolist()
        given.append(local.stand_in([Range(1, value, 1) for value in values], rank))
    with raises_code(RankError, "unsupported", "8"):
        lk.run(sort, 8, "star:8", args=(given, {}))


def test_digits_are_known_in_a_sort_on_a_simulated_machine_only() -> None:
    with raises_code(DataError, "unsupported"):
        local.digit_counts(stand_in("uniform", 0, 1, 100), 0, 8)

    class RealComm:
        size, rank = 1, 0

    with raises_code(DataError, "unsupported"):
        radix_sort(RealComm(), stand_in("uniform", 0, 1, 100))
