"""The checker accepts right sorts and catches every planted mistake, and says where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.algorithms.sort_checker import SortReport
from labkit.errors import CheckError, DataError
from tests.support.refusals import raises_code

Keys = np.ndarray
#: name -> (the mistake, made on rank 1 of 4 unless it says otherwise; words of the finding)
MUTANTS: dict[str, tuple[Callable[[Any, Keys], Keys], str]] = {}


def mutant(words: str) -> Callable[[Callable[[Any, Keys], Keys]], Callable[[Any, Keys], Keys]]:
    def plant(mistake: Callable[[Any, Keys], Keys]) -> Callable[[Any, Keys], Keys]:
        MUTANTS[mistake.__name__] = mistake, words
        return mistake

    return plant


@mutant("1 lost")
def drops_a_key(comm: Any, block: Keys) -> Keys:
    return block[:-1] if comm.rank == 1 else block


@mutant("1 too many")
def duplicates_a_key(comm: Any, block: Keys) -> Keys:
    return np.append(block, block[-1]) if comm.rank == 1 else block


@mutant("not the same keys")
def drops_one_and_duplicates_another(comm: Any, block: Keys) -> Keys:
    if comm.rank == 1:
        block[3] = block[4]
    return block


@mutant("rank 1: its block is not sorted: key 5 is ")
def swaps_two_keys(comm: Any, block: Keys) -> Keys:
    if comm.rank == 1:
        block[[4, 5]] = block[[5, 4]]
    return block


@mutant("rank 2: its block is not sorted")
def forgets_to_merge(comm: Any, block: Keys) -> Keys:
    return np.concatenate([block[::2], block[1::2]]) if comm.rank == 2 else block


@mutant("rank 1: its first key")
def exchanges_blocks_of_two_ranks(comm: Any, block: Keys) -> Keys:
    blocks = comm.allgather(block)
    return blocks[{0: 1, 1: 0}.get(comm.rank, comm.rank)]


@mutant("rank 2: its first key")
def cuts_one_key_late(comm: Any, block: Keys) -> Keys:
    blocks = comm.allgather(block)
    if comm.rank == 1:  # takes the smallest but one of rank 2, who keeps the smallest
        return np.append(block, blocks[2][1])
    return np.delete(block, 1) if comm.rank == 2 else block


@mutant("rank 0: its keys were float64, its result is float32")
def changes_the_dtype(comm: Any, block: Keys) -> Keys:
    return block.astype("f4")


@mutant("not the same keys")
def loses_a_nan(comm: Any, block: Keys) -> Keys:
    block[np.isnan(block)] = np.inf
    return block


@mutant("rank 3: its block is not sorted")
def sorts_nan_first(comm: Any, block: Keys) -> Keys:
    return np.roll(block, 1) if comm.rank == 3 else block


@mutant("not the same keys")
def replaces_keys_by_others_of_the_same_sum(comm: Any, block: Keys) -> Keys:
    if comm.rank == 1:
        middle = len(block) // 2
        step = min(block[middle] - block[middle - 1], block[middle + 2] - block[middle + 1]) / 2
        block[middle] -= step
        block[middle + 1] += step
    return block


@mutant("not the same keys")
def returns_a_constant(comm: Any, block: Keys) -> Keys:
    return np.full_like(block, 1.0)


@mutant("not the same keys")
def moves_keys_by_one_bit(comm: Any, block: Keys) -> Keys:
    return np.nextafter(block, np.inf)


@mutant("not the same keys")
def repeats_a_pair_for_another(comm: Any, block: Keys) -> Keys:
    # Invisible to an exclusive or alone: each of two keys twice instead of two others twice.
    if comm.rank == 1:
        block[0:4] = block[[0, 0, 0, 0]]
    return block


@mutant("rank 1: its first key")
def sorts_backwards_between_ranks(comm: Any, block: Keys) -> Keys:
    return comm.allgather(block)[comm.size - 1 - comm.rank][: -1 if comm.rank == 0 else None]


@mutant("its result has 2 dimensions, not 1")
def returns_a_matrix(comm: Any, block: Keys) -> Keys:
    return block[:, None]


@mutant("96 keys went in, 0 came out")
def returns_nothing(comm: Any, block: Keys) -> Keys:
    return block[:0]


def sort_wrongly(comm: Any, mistake: Callable[[Any, Keys], Keys], **claims: Any) -> SortReport:
    """A correct sort by one rank, then the mistake; 24 float keys per rank, the last one NaN."""
    from labkit.algorithms.sort_checker import check_sorted
    from labkit.datasets import inputs

    keys = inputs.keys("uniform", comm.rank, comm.size, 24, dtype="f8")
    if comm.rank == 0:
        keys[7] = np.nan
    everything = np.sort(np.concatenate(comm.allgather(keys)))
    block = np.array_split(everything, comm.size)[comm.rank].copy()
    return check_sorted(comm, keys, mistake(comm, block), **claims)


def right(comm: Any, block: Keys) -> Keys:
    return block


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str) -> None:
    mistake, words = MUTANTS[name]
    reports = lk.run(sort_wrongly, 4, on="star:4", args=(mistake,)).results
    assert len(set(map(str, reports))) == 1, "the ranks must agree"
    assert not reports[0].is_sorted
    assert words in str(reports[0])
    with raises_code(CheckError, "wrong-result"):
        reports[0].require()


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("claims", [{}, {"sizes": "even"}, {"largest": 24}, {"imbalance": 1.0}])
def test_a_right_sort_passes(ranks: int, claims: dict[str, Any]) -> None:
    for report in lk.run(sort_wrongly, ranks, on=f"star:{ranks}", args=(right,), kwargs=claims).results:
        assert report.require() is report
        assert report.keys == 24 * ranks
        assert str(report) == f"sorted: {24 * ranks} keys on {ranks} ranks, imbalance 1.000"


def skewed(comm: Any, **claims: Any) -> SortReport:
    """All-equal keys on three ranks, sorted without tie-breaking: all on rank 1."""
    from labkit.algorithms.sort_checker import check_sorted

    return check_sorted(comm, np.ones(10), np.ones(30 * (comm.rank == 1)), **claims)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"largest": 12}, "rank 1: it holds 30 keys, more than the 12 permitted"),
        ({"imbalance": 1.5}, "rank 1: it holds 3.000 times the mean, permitted is 1.5"),
        ({"sizes": "even"}, "rank 0: it holds 0 keys, claimed were 10"),
        ({"sizes": [0, 29, 1]}, "rank 1: it holds 30 keys, claimed were 29"),
    ],
)
def test_claims_about_balance_are_held_to(claims: dict[str, Any], words: str) -> None:
    report = lk.run(skewed, 3, on="star:3", kwargs=claims).results[0]
    assert words in str(report)
    assert report.imbalance == 3


def test_without_a_claim_skew_is_reported_only() -> None:
    report = lk.run(skewed, 3, on="star:3").results[2]
    assert report.is_sorted
    assert report.lengths == (0, 30, 0)


def around_empty_ranks(comm: Any, second: float) -> SortReport:
    """Blocks on ranks 1 and 4 only."""
    from labkit.algorithms.sort_checker import check_sorted

    block = {1: np.array([1.0, 5.0]), 4: np.array([second, 9.0])}.get(comm.rank, np.empty(0))
    return check_sorted(comm, block, block)


def test_order_is_checked_across_empty_ranks() -> None:
    assert lk.run(around_empty_ranks, 6, on="star:6", args=(5.0,)).results[0].is_sorted
    report = lk.run(around_empty_ranks, 6, on="star:6", args=(4.0,)).results[0]
    assert "rank 4: its first key 4.0 is below 5.0, the last key of rank 1" in str(report)


def different_dtypes(comm: Any) -> SortReport:
    from labkit.algorithms.sort_checker import check_sorted

    keys = np.arange(3, dtype="i8" if comm.rank else "i4") + 5 * comm.rank
    return check_sorted(comm, keys, keys)


def test_ranks_of_different_dtypes_are_named() -> None:
    report = lk.run(different_dtypes, 3, on="star:3").results[0]
    assert "rank 1: its keys are int64, those of rank 0 are int32" in str(report)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "i8", "f2", "f4", "f8", "?"])
def test_extremes_compare_rightly_across_ranks(dtype: str) -> None:
    info = np.finfo(dtype) if dtype[0] == "f" else None if dtype == "?" else np.iinfo(dtype)
    low, high = (info.min, info.max) if info else (False, True)

    def program(comm: Any, ends: tuple[Any, Any]) -> bool:
        from labkit.algorithms.sort_checker import check_sorted

        block = np.array([ends[comm.rank]], dtype)
        return check_sorted(comm, block, block).is_sorted

    assert lk.run(program, 2, on="star:2", args=((low, high),)).results == [True, True]
    assert lk.run(program, 2, on="star:2", args=((high, low),)).results == [False, False]


def numpys_sort(comm: Any) -> bool:
    from labkit.algorithms.sort_checker import check_sorted

    keys = np.array([0.0, np.nan, -0.0, -np.nan, 1.0])
    return check_sorted(comm, keys, np.array([0.0, 0.0, 1.0, np.nan, np.nan])).is_sorted


def test_keys_that_numpy_calls_equal_are_equal() -> None:
    assert lk.run(numpys_sort, 1, on="star:1").results == [True]


def local_check(comm: Any) -> tuple[bool, bool]:
    from labkit.algorithms.sort_checker import check_sorted

    keys = np.array([2, 1])
    return (
        check_sorted(comm, keys, keys, scope="local").is_sorted,
        check_sorted(comm, keys, keys[:0], scope="local").is_sorted,  # nothing is compared between ranks
    )


def test_a_local_check_sends_nothing() -> None:
    run = lk.run(local_check, 2, on="star:2")
    assert run.results == [(False, True)] * 2
    assert run.messages == 0


def bad_arguments(comm: Any, claims: dict[str, Any]) -> str:
    from labkit.algorithms.sort_checker import check_sorted

    try:
        check_sorted(comm, np.empty(0), np.empty(0), **claims)
    except DataError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"scope": "most"}, 'scope must be "local" or "global"'),
        ({"sizes": [1]}, "one number for each of 2 ranks"),
    ],
)
def test_bad_arguments_are_refused(claims: dict[str, Any], words: str) -> None:
    for text in lk.run(bad_arguments, 2, on="star:2", args=(claims,)).results:
        assert words in text
