"""Histogram sort and exact splitting with a mistake planted in one step: each is caught, by its own words."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import local
from labkit.algorithms.sorting import _medians, exact_splitting_sort, histogram_sort
from labkit.errors import LabkitError

HistogramSearch, ExactSearch = histogram_sort.Search, exact_splitting_sort.Search
RANKS = 6
#: name -> (the sorter, where the mistake is made, the step's name, the wrong step, words of what catches it)
MUTANTS: dict[str, tuple[Any, Any, str, Callable[..., Any], str]] = {}


def mutant(sorter: Any, place: Any, step: str, words: str) -> Any:
    """Plant what the decorated function makes of the right step."""

    def plant(mistake: Callable[[Any], Any]) -> Callable[[Any], Any]:
        MUTANTS[mistake.__name__] = sorter, place, step, mistake(getattr(place, step)), words
        return mistake

    return plant


# --- histogram sort ---------------------------------------------------------------------------------


@mutant(histogram_sort, histogram_sort, "cuts_after", "a key was probed twice")
def breaks_no_ties(right: Any) -> Any:
    def cuts(mine: Any, keys: Any, owners: Any, places: Any, rank: int) -> Any:
        return np.searchsorted(mine, keys, side="right")

    return cuts


@mutant(histogram_sort, histogram_sort, "cuts_after", "a key was probed twice")
def breaks_ties_against_the_order_of_ranks(right: Any) -> Any:
    def cuts(mine: Any, keys: Any, owners: Any, places: Any, rank: int) -> Any:
        found = np.searchsorted(mine, keys, side="left")
        return np.where(owners < rank, np.searchsorted(mine, keys, side="right"), found)

    return cuts


@mutant(histogram_sort, histogram_sort, "share", "a key was probed twice")
def does_not_tell_its_probes(right: Any) -> Any:
    return lambda comm, own, is_mine: right(comm, own * (comm.rank != 1), is_mine)


@mutant(histogram_sort, histogram_sort, "nearest", "negative dimensions")
def takes_the_next_splitters_probe(right: Any) -> Any:
    return lambda positions, n, p: [np.roll(probes, 1) for probes in right(positions, n, p)]


@mutant(histogram_sort, HistogramSearch, "_look", "more than the .* permitted")
def stops_after_one_round(right: Any) -> Any:
    def look(search: Any) -> None:
        right(search)
        search.is_open &= len(search.history) < 2

    return look


@mutant(histogram_sort, HistogramSearch, "cuts", "more than the .* permitted")
def always_takes_the_probe_below(right: Any) -> Any:
    return lambda search: search.low_cut


@mutant(histogram_sort, HistogramSearch, "draw_probes", "a key was probed twice")
def draws_the_probes_it_has(right: Any) -> Any:
    def draw(search: Any, *others: Any) -> Any:
        search.high_is_mine = np.zeros_like(search.high_is_mine)
        return right(search, *others)

    return draw


@mutant(histogram_sort, histogram_sort, "exchange", "not the same keys")
def sends_keys_as_floats(right: Any) -> Any:
    return lambda comm, mine, cuts: right(comm, mine.astype("f4").astype(mine.dtype), cuts)


# --- exact splitting --------------------------------------------------------------------------------


@mutant(exact_splitting_sort, ExactSearch, "deal", "claimed were")
def deals_equal_keys_on_every_rank(right: Any) -> Any:
    return lambda search, comm: search.lower + np.minimum(search.needed, search.equal)


@mutant(exact_splitting_sort, ExactSearch, "deal", "claimed were")
def keeps_equal_keys_together(right: Any) -> Any:
    return lambda search, comm: search.lower + search.equal


@mutant(exact_splitting_sort, ExactSearch, "deal", "not cut in the one order")
def deals_equal_keys_from_the_last_rank(right: Any) -> Any:
    def deal(search: Any, comm: Any) -> Any:
        everyone = np.array(comm.allgather(search.equal))
        after = everyone[comm.rank + 1 :].sum(axis=0)
        return search.lower + np.clip(search.needed - after, 0, search.equal)

    return deal


@mutant(exact_splitting_sort, exact_splitting_sort, "block_sizes", "sizes that differ by 2 or more")
def rounds_sizes_up(right: Any) -> Any:
    return lambda n, p: np.diff(np.minimum(np.arange(p + 1) * -(-n // p), n))


@mutant(exact_splitting_sort, ExactSearch, "deal", "claimed were")
def deals_one_key_too_many(right: Any) -> Any:
    def deal(search: Any, comm: Any) -> Any:
        search.needed = search.needed + 1
        return right(search, comm)

    return deal


@mutant(exact_splitting_sort, _medians, "local", "a round dropped less than a quarter")
def forgets_the_weights(right: Any) -> Any:
    # In the order of ranks, not of medians, the weights add up to a half at any rank.
    others = SimpleNamespace(**{name: getattr(right, name) for name in local.__all__})
    others.merge_order = lambda keys, lengths: np.arange(len(keys))
    return others


@mutant(exact_splitting_sort, _medians, "keys_at", "a round dropped less than a quarter")
def takes_another_key_for_the_median(right: Any) -> Any:
    return lambda mine, places: right(mine, places // 4)


@mutant(exact_splitting_sort, exact_splitting_sort, "exchange", "claimed were")
def sends_pieces_to_the_next_rank(right: Any) -> Any:
    return lambda comm, mine, cuts: right(comm, mine, np.concatenate([[0], cuts[:-1]]))


def sort(comm: Any, sorter: str, name: str, options: dict[str, Any]) -> int:
    """Sort, checked globally; return the length of this rank's block."""
    from labkit import registry
    from labkit.datasets import inputs

    keys = inputs.keys(name, comm.rank, comm.size, 149, lengths="ragged")
    return len(registry.get("sorting", sorter).function(comm, keys, check="global", **options))


class Spies:
    """Look at what passes between a sorter's steps; a search that gets nowhere is ended at once."""

    def __init__(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.probed: set[tuple[int, int]] = set()
        self.blocks: dict[int, Any] = {}
        self.cuts: dict[int, Any] = {}
        exchange, cuts_after = module.exchange, getattr(module, "cuts_after", None)

        def spy_on_exchange(comm: Any, mine: Any, here: Any) -> Any:
            self.blocks[comm.rank], self.cuts[comm.rank] = mine.copy(), here  # the merge takes its memory
            return exchange(comm, mine, here)

        def spy_on_probes(mine: Any, keys: Any, owners: Any, places: Any, rank: int) -> Any:
            new = {(rank, place) for place in places.tolist()}
            if new & self.probed:
                raise AssertionError("a key was probed twice")
            self.probed |= new
            return cuts_after(mine, keys, owners, places, rank)

        monkeypatch.setattr(module, "exchange", spy_on_exchange)
        if module is histogram_sort:
            monkeypatch.setattr(module, "cuts_after", spy_on_probes)
        else:
            monkeypatch.setattr(ExactSearch, "narrow", self.spy_on_windows(ExactSearch.narrow))

    @staticmethod
    def spy_on_windows(right: Any) -> Any:
        def narrow(search: Any, *counts: Any) -> None:
            right(search, *counts)
            (_, before), (_, after) = search.history[-2:]
            assert after <= 3 / 4 * before, "a round dropped less than a quarter"

        return narrow

    def require_order(self) -> None:
        """Check that every cut is a place in the one order of (key, rank, place)."""
        ranks = range(RANKS)
        owners = np.repeat(ranks, [len(self.blocks[rank]) for rank in ranks])
        owners = owners[np.argsort(np.concatenate([self.blocks[rank] for rank in ranks]), kind="stable")]
        for j in range(RANKS - 1):
            here = [int(self.cuts[rank][j]) for rank in ranks]
            expected = np.bincount(owners[: sum(here)], minlength=RANKS).tolist()
            assert here == expected, "not cut in the one order of (key, rank, place)"
        self.probed.clear()


def require_promises(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one of the sorters on keys of several kinds, and hold it to everything it promises."""
    spies = Spies(module, monkeypatch)
    demanding = {"tolerance": 0, "probes": 1} if module is histogram_sort else {"sizes": "same"}
    for name in ("uniform", "few_unique", "all_equal", "staggered"):
        for options in ({}, demanding):
            arguments = (module.ALGORITHM.name, name, options)
            lengths = lk.run(sort, RANKS, on=f"star:{RANKS}", args=arguments, timeout_s=60).results
            if hasattr(module, "block_sizes") and not options:
                assert max(lengths) - min(lengths) < 2, "sizes that differ by 2 or more"
            spies.require_order()


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sorter, place, step, mistake, words = MUTANTS[name]
    monkeypatch.setattr(place, step, mistake)
    with pytest.raises((LabkitError, AssertionError), match=words):
        require_promises(sorter, monkeypatch)


@pytest.mark.parametrize("sorter", [histogram_sort, exact_splitting_sort])
def test_the_right_sorters_pass(sorter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    require_promises(sorter, monkeypatch)
