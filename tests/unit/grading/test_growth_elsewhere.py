"""Who knows on which ranks costs and growth are judged must not do something else on the others."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

from labkit.grading import find_assignment
from labkit.grading.bench import OpenBench
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial
from tests.support.course import ASSIGNMENTS

BROADCAST = ASSIGNMENTS["broadcast"]
PREFIX_SUM = ASSIGNMENTS["prefix_sum"]
SORT = ASSIGNMENTS["sort"]


def _broadcasts_on_powers(comm: Any, data: Any, root: int) -> Any:
    """A tree on numbers of ranks that are fixed in the checks; on others the root sends to all."""
    if comm.size & (comm.size - 1):
        if comm.rank == root:
            for other in range(comm.size):
                if other != root:
                    comm.send(data, other)
            return data
        return comm.recv(source=root)
    me, reach = (comm.rank - root) % comm.size, 1
    while reach < comm.size:
        if me < reach:
            comm.send(data, (me + reach + root) % comm.size)
        elif me < 2 * reach:
            data = comm.recv(source=(me - reach + root) % comm.size)
        reach *= 2
    return data


def test_growth_on_ranks_that_are_known_is_not_enough() -> None:
    def chains_elsewhere(comm: Any, keys: Any, buckets: int) -> Any:
        counts, total = np.bincount(keys, minlength=buckets), None
        if comm.size & (comm.size - 1):
            before = comm.recv(source=comm.rank - 1) if comm.rank else 0 * counts
            total = before + counts
            comm.send(total, comm.rank + 1) if comm.rank + 1 < comm.size else None
            total = comm.bcast(total, root=comm.size - 1)
        else:
            total, before = comm.allreduce(counts), comm.scan(counts) - counts
        first, found = np.cumsum(total) - total + before, np.empty(len(keys), np.int64)
        order = np.argsort(keys, kind="stable")
        found[order] = (first - np.cumsum(counts) + counts)[keys[order]] + np.arange(len(keys))
        return found

    for name, function in (("broadcast", _broadcasts_on_powers), ("scaling_bug", chains_elsewhere)):
        (found,) = find_assignment(name).try_out(function, only=["scaling"]).results
        assert (found.points, "are allowed." in found.feedback) == (0, True), found.feedback


@pytest.mark.parametrize("ranks", [(9, 37), (13, 37), (20, 43)])
def test_a_chain_between_powers_of_two_is_found(ranks: tuple[int, int]) -> None:
    """Short enough for the bound there, but longer than on more ranks."""

    def chains(comm: Any, keys: Any, buckets: int) -> Any:
        counts = np.bincount(keys, minlength=buckets)
        if ranks[0] <= comm.size <= ranks[1] and comm.size & (comm.size - 1):
            before = comm.recv(source=comm.rank - 1) if comm.rank else 0 * counts
            if comm.rank + 1 < comm.size:
                comm.send(before + counts, comm.rank + 1)
            total = comm.bcast(before + counts, root=comm.size - 1)
        else:
            total, before = comm.allreduce(counts), comm.scan(counts) - counts
        first, found = np.cumsum(total) - total + before, np.empty(len(keys), np.int64)
        order = np.argsort(keys, kind="stable")
        found[order] = (first - np.cumsum(counts) + counts)[keys[order]] + np.arange(len(keys))
        return found

    check = find_assignment("scaling_bug").check_named("scaling")
    for draw in (1, 2):
        assert check.judge(Trial(OpenBench(chains), Seed(3, draw))).score == 0, draw


def _sorts_on_few(comm: Any, keys: Any) -> Any:
    """By samples, 8 p of each rank; above 16 ranks one rank sorts for all."""
    keys, ranks = np.sort(keys), comm.size
    if ranks > FEW[0]:
        every = comm.gather(keys)
        return comm.scatter(np.array_split(np.sort(np.concatenate(every)), ranks) if comm.rank == 0 else None)
    picked = np.linspace(0, len(keys) - 1, 8 * ranks).astype(int)
    samples = np.sort(np.concatenate(comm.allgather(keys[picked])))
    at = np.linspace(0, len(samples) - 1, ranks + 1).astype(int)[1:-1]
    parts = np.split(keys, np.searchsorted(keys, samples[at]))
    return np.sort(np.concatenate(comm.alltoall(parts)))


def _broadcasts_on_few(comm: Any, data: Any, root: int) -> Any:
    """A binomial tree; above 40 ranks the root sends to all others."""
    ranks, me, reach = comm.size, (comm.rank - root) % comm.size, 1
    if ranks > 40:
        if me == 0:
            for other in range(1, ranks):
                comm.send(data, (other + root) % ranks)
            return data
        return comm.recv(source=root)
    while reach < ranks:
        if me < reach and me + reach < ranks:
            comm.send(data, (me + reach + root) % ranks)
        elif reach <= me < 2 * reach:
            data = comm.recv(source=(me - reach + root) % ranks)
        reach *= 2
    return data


#: up to how many ranks `_sorts_on_few` does what is asked for
FEW = [16]


def _is_passed(check: Any, function: Any, seed: Seed) -> bool:
    score: float = check.judge(Trial(OpenBench(function), seed)).score
    return score == 1


def _most_ranks(check: Any, seed: Seed) -> int:
    return max(case.ranks for case in check.cases(seed))


@pytest.mark.slow
def test_costs_are_judged_on_as_many_ranks_as_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who knows the tests must not save the work on the numbers of ranks that they leave out."""
    volume, rounds = SORT.check_named("volume"), BROADCAST.check_named("rounds")
    seeds = [Seed(13, draw) for draw in range(6)]
    assert not any(_is_passed(volume, _sorts_on_few, seed) for seed in seeds[:2])
    assert sum(_is_passed(rounds, _broadcasts_on_few, seed) for seed in seeds) < len(seeds)
    monkeypatch.setattr(f"{__name__}.FEW", [64])
    most = next(seed for seed in (Seed(13, draw) for draw in count()) if _most_ranks(volume, seed) == 64)
    assert all(_is_passed(volume, _sorts_on_few, seed) for seed in (*seeds[:2], most))
    drawn: Any = PREFIX_SUM.check_named("volume")
    assert drawn.drawn[1] == 64
