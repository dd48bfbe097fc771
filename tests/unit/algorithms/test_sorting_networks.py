"""Sorting networks by the 0-1 principle: a network that sorts all zeros and ones sorts everything."""

from __future__ import annotations

from itertools import product
from types import ModuleType

import pytest

from labkit.algorithms.sorting import bitonic_sort, odd_even_merge_sort
from labkit.schedule.doubling import ceil_log2


def compared(network: ModuleType, values: list[int]) -> list[int]:
    """Carry out the comparisons of all ranks, each when both partners have come to it."""
    p = len(values)
    waiting = [list(network.comparisons(rank, p)) for rank in range(p)]
    while any(waiting):
        rank, (partner, keeps_low) = next(
            (r, own[0])
            for r, own in enumerate(waiting)
            if own and waiting[own[0][0]] and waiting[own[0][0]][0] == (r, not own[0][1])
        )
        low, high = sorted((values[rank], values[partner]))
        values[rank], values[partner] = (low, high) if keeps_low else (high, low)
        waiting[rank].pop(0)
        waiting[partner].pop(0)
    return values


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_odd_even_merge_sorts_any_number(p: int) -> None:
    for values in product([0, 1], repeat=p):
        assert compared(odd_even_merge_sort, list(values)) == sorted(values)


@pytest.mark.parametrize("p", [1, 2, 4, 8])
def test_bitonic_sorts_powers_of_two(p: int) -> None:
    for values in product([0, 1], repeat=p):
        assert compared(bitonic_sort, list(values)) == sorted(values)


@pytest.mark.parametrize("p", [2, 3, 5, 8, 17, 64])
def test_no_rank_has_more_comparisons_than_the_depth(p: int) -> None:
    depth = ceil_log2(p) * (ceil_log2(p) + 1) // 2
    counts = [len(list(odd_even_merge_sort.comparisons(rank, p))) for rank in range(p)]
    assert max(counts) <= depth
    if p & (p - 1) == 0:
        assert {len(list(bitonic_sort.comparisons(rank, p))) for rank in range(p)} == {depth}
