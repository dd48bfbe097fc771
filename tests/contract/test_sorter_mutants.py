"""Radix and mini sort with a mistake planted in one step: each is caught, and for the right reason."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import local
from labkit.algorithms.sorting import _rank_range, mini_sort, radix_sort
from labkit.errors import CheckError, DataError, DeadlockError, LabkitError

RankRange = _rank_range.RankRange
#: name -> (where the mistake is made, the step's name, the wrong step, who catches it, its words)
MUTANTS: dict[str, tuple[Any, str, Callable[..., Any], type[LabkitError], str]] = {}


def mutant(place: Any, step: str, words: str, caught_by: type[LabkitError] = CheckError) -> Any:
    """Plant what the decorated function makes of the right step."""

    def plant(mistake: Callable[[Any], Any]) -> Callable[[Any], Any]:
        MUTANTS[mistake.__name__] = place, step, mistake(getattr(place, step)), caught_by, words
        return mistake

    return plant


# --- radix sort -------------------------------------------------------------------------------------


@mutant(radix_sort, "digits", "is not sorted")
def leaves_out_the_last_digit(right: Any) -> Any:
    return lambda dtype, bits: right(dtype, bits)[:-1]


@mutant(radix_sort, "digits", "is not sorted")
def takes_the_highest_digit_first(right: Any) -> Any:
    return lambda dtype, bits: right(dtype, bits)[::-1]


@mutant(radix_sort, "digits", "is not sorted")
def leaves_a_bit_between_digits(right: Any) -> Any:
    return lambda dtype, bits: [(shift, max(width - 1, 1)) for shift, width in right(dtype, bits)]


@mutant(radix_sort, "exchange_by_alltoallv", "is not sorted")
def is_not_stable_between_ranks(right: Any) -> Any:
    def exchange(comm: Any, mine: Any, cuts: Any) -> Any:
        pieces, counts = right(comm, mine, cuts)
        parts = np.split(pieces, np.cumsum(counts)[:-1])
        return np.concatenate(parts[::-1]), counts[::-1]

    return exchange


@mutant(radix_sort, "exchange_by_alltoallv", "the counts", DataError)
def sends_to_the_next_rank(right: Any) -> Any:
    return lambda comm, mine, cuts: right(comm, mine, np.concatenate([[0], cuts[:-1]]))


@mutant(radix_sort, "find_positions", "the counts", DataError)
def forgets_the_ranks_before(right: Any) -> Any:
    def find(comm: Any, counts: Any) -> Any:
        totals = right(comm, counts).totals
        return radix_sort.Positions(np.cumsum(totals) - totals, totals)

    return find


@mutant(radix_sort, "block_bounds", "claimed were")
def divides_unevenly(right: Any) -> Any:
    return lambda n, p: np.maximum(right(n, p) - (np.arange(p + 1) % p > 0), 0)


@mutant(radix_sort, "local", "is not sorted")
def takes_the_sign_for_a_large_bit(right: Any) -> Any:
    unsigned = SimpleNamespace(**{name: getattr(right, name) for name in local.__all__})
    unsigned.to_codes = lambda keys: keys.view(f"u{keys.itemsize}").copy()
    unsigned.from_codes = lambda codes, dtype: codes.view(dtype)
    return unsigned


# --- mini sort --------------------------------------------------------------------------------------


@mutant(RankRange, "broadcast", "its first key")
def keeps_its_own_key_for_the_pivot(right: Any) -> Any:
    def broadcast(group: Any, key: Any, root: int) -> Any:
        right(group, key, root)
        return key

    return broadcast


@mutant(RankRange, "move", "its first key")
def does_not_take_the_key_that_comes(right: Any) -> Any:
    def move(group: Any, key: Any, place: int) -> Any:
        right(group, key, place)
        return key

    return move


@mutant(RankRange, "move", "not the same keys")
def moves_keys_in_fewer_bits(right: Any) -> Any:
    return lambda group, key, place: right(group, key & ~0xFF, place)


@mutant(RankRange, "sum_before_and_total", "Sendrecv from any rank", DeadlockError)
def counts_itself_before_itself(right: Any) -> Any:
    def sums(group: Any, value: int) -> tuple[int, int]:
        before, total = right(group, value)
        return before + value, total

    return sums


@mutant(mini_sort, "new_place", "Sendrecv from any rank", DeadlockError)
def sends_equal_keys_among_the_larger(right: Any) -> Any:
    def place(vote: int, place: int, before: int, total: int) -> int:
        wrong = vote == mini_sort.EQUAL and before >= mini_sort.EQUAL
        return right(vote, place, before, total) + wrong

    return place


@mutant(mini_sort, "new_place", "its first key")
def sends_larger_keys_first(right: Any) -> Any:
    def swapped(vote: int, place: int, before: int, total: int) -> int:
        equal, smaller = divmod(total, mini_sort.EQUAL)
        shift = {mini_sort.SMALLER: equal, mini_sort.EQUAL: -smaller}.get(vote, 0)
        return right(vote, place, before, total) + shift

    return swapped


@mutant(mini_sort, "local", "not the same keys")
def loses_the_lowest_bit(right: Any) -> Any:
    lossy = SimpleNamespace(**{name: getattr(right, name) for name in local.__all__})
    lossy.to_codes = lambda keys: keys >> 1
    lossy.from_codes = lambda codes, dtype: (codes << 1).astype(dtype)
    return lossy


def sort(comm: Any, sorter: str) -> None:
    """Sort keys with many duplicates, positive and negative, of up to 41 bits; even blocks are claimed."""
    from labkit import registry
    from labkit.algorithms.sort_checker import check_sorted
    from labkit.datasets import inputs

    n = registry.get("sorting", sorter).requirements.keys_per_rank or 40
    wide = inputs.keys("uniform", comm.rank, comm.size, n, seed=3)
    keys = np.where(wide % 3 == 0, 7, wide >> 22)
    result = registry.get("sorting", sorter).function(comm, keys)
    check_sorted(comm, keys, result, sizes="even").require()


@pytest.mark.parametrize("sorter", ["radix_sort", "mini_sort"])
def test_without_a_mistake_nothing_is_found(sorter: str) -> None:
    assert lk.run(sort, 9, on="star:9", args=(sorter,)).results == [None] * 9


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, step, wrong, caught_by, words = MUTANTS[name]
    monkeypatch.setattr(place, step, wrong)
    sorter = "radix_sort" if place is radix_sort else "mini_sort"
    with pytest.raises(LabkitError) as caught:
        lk.run(sort, 9, on="star:9", args=(sorter,))
    error = caught.value
    assert words in str(error)
    assert caught_by.__name__ in f"{type(error).__name__}: {error}"
