"""Stand-in data: a run on it has the messages and the time of a run on the keys, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI, local
from labkit.algorithms.sorting.exact_splitting_sort import exact_splitting_sort
from labkit.algorithms.sorting.histogram_sort import histogram_sort
from labkit.algorithms.sorting.mini_sort import mini_sort
from labkit.algorithms.sorting.radix_sort import radix_sort
from labkit.algorithms.sorting.sample_sort import sample_sort
from labkit.datasets import inputs
from labkit.datasets.standins import STAND_INS, stand_in
from labkit.errors import DataError, RankError
from labkit.local import Range
from tests.support.refusals import raises_code

SORTERS = {"sample": sample_sort, "histogram": histogram_sort, "exact": exact_splitting_sort}
Sorter = Callable[..., Any]


def sort(comm: MPI.Comm, sorter: Sorter, name: str, n: int, is_real: bool) -> int:
    mine: Any = stand_in(name, comm.rank, comm.size, n)
    if is_real:
        mine = mine.sorted().keys()
    return len(sorter(comm, mine))


def both(sorter: Sorter, name: str, p: int, n: int, on: str = "star:{p}") -> tuple[lk.Run, lk.Run]:
    runs = [lk.run(sort, p, on.format(p=p), args=(sorter, name, n, is_real)) for is_real in (False, True)]
    return runs[0], runs[1]


@pytest.mark.parametrize("name", STAND_INS)
@pytest.mark.parametrize("sorter", SORTERS)
def test_messages_times_and_blocks_are_those_of_the_keys(sorter: str, name: str) -> None:
    phantom, real = both(SORTERS[sorter], name, 8, 3000)
    assert phantom.results == real.results
    assert (phantom.messages, phantom.bytes) == (real.messages, real.bytes)
    assert phantom.makespan_s == real.makespan_s


@pytest.mark.parametrize("sorter", SORTERS)
@pytest.mark.parametrize(("p", "n", "on"), [
    (1, 1000, "star:1"), (2, 0, "star:2"), (3, 1, "star:3"), (13, 777, "star:13"),
    (32, 20_000, "torus:4x8"), (16, 5000, "fattree:4x4:1x2:1x1"),
])  # fmt: skip
def test_any_ranks_and_machines(sorter: str, p: int, n: int, on: str) -> None:
    phantom, real = both(SORTERS[sorter], "uniform", p, n, on)
    assert phantom.results == real.results
    assert phantom.makespan_s == real.makespan_s
    assert phantom.phase_rows() == real.phase_rows()


def test_random_keys_of_the_distribution_differ_by_their_fluctuations_only() -> None:
    def random_keys(comm: MPI.Comm, name: str, n: int) -> int:
        return len(sample_sort(comm, inputs.keys(name, comm.rank, comm.size, n)))

    p, n = 16, 40_000
    for name in ("uniform", "gaussian", "bucket", "g_group", "staggered"):
        phantom = lk.run(sort, p, f"star:{p}", args=(sample_sort, name, n, False))
        real = lk.run(random_keys, p, f"star:{p}", args=(name, n))
        assert phantom.messages == real.messages, name
        assert phantom.bytes == pytest.approx(real.bytes, rel=0.02), name
        assert phantom.makespan_s == pytest.approx(real.makespan_s, rel=0.05), name


def test_it_takes_no_memory_and_says_what_it_assumes() -> None:
    run = lk.run(sort, 64, "star:64", args=(sample_sort, "uniform", 10**9, False))
    assert run.bytes is not None
    assert run.bytes > 8 * 64 * 10**9 * 63 / 64
    assert any("carry no keys" in note and "fluctuations" in note for note in run.notes)
    assert sum(run.results) == 64 * 10**9


def test_mini_sort_refuses_it() -> None:
    with raises_code(RankError, "unsupported"):
        lk.run(sort, 4, "star:4", args=(mini_sort, "uniform", 100, False))


@pytest.mark.parametrize("sorter", [*SORTERS.values(), radix_sort])
def test_there_is_nothing_to_check(sorter: Sorter) -> None:
    def program(comm: MPI.Comm) -> None:
        sorter(comm, stand_in("uniform", comm.rank, comm.size, 100), check="global")

    with raises_code(RankError, "unsupported", 'check="off"'):
        lk.run(program, 2, "star:2")


def test_keys_and_stand_ins_do_not_mix() -> None:
    def program(comm: MPI.Comm) -> None:
        mine: Any = stand_in("uniform", comm.rank, comm.size, 100)
        sample_sort(comm, mine if comm.rank else mine.sorted().keys())

    with raises_code(RankError, "collective-mismatch"):
        lk.run(program, 3, "star:3")


def test_kernels_that_look_at_every_key_refuse_it() -> None:
    mine = stand_in("uniform", 0, 1, 100)
    for kernel in (
        lambda k: local.histogram(k, np.array([0])),
        lambda k: local.merge_order(k, np.array([100])),
    ):
        with raises_code(DataError, "unsupported"):
            kernel(mine)
    with pytest.raises(TypeError, match="no content"):
        np.sort(mine)
    with raises_code(DataError, "unsupported"):
        mine[np.array([3])]


@pytest.mark.parametrize("seed", range(8))
def test_counting_agrees_with_the_keys_themselves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.integers(0, 2**64, 12, dtype=np.uint64)).tolist()
    ranges = []
    for begin, end in zip(cuts[::2], cuts[1::2], strict=False):
        is_value = rng.random() < 0.4
        ranges.append(Range(int(rng.integers(0, 500)), begin, 1 if is_value else end - begin))
    mine = local.stand_in(ranges, rank=seed).sorted()
    keys = mine.keys()
    assert (np.diff(keys) >= 0).all()
    limits = np.concatenate(
        [keys[::7], keys[::11] + 1, keys[::13] - 1, rng.integers(-(2**63), 2**63 - 1, 40)]
    )
    including = rng.random(len(limits)) < 0.5
    by_hand = [
        np.searchsorted(keys, x, "right" if i else "left") for x, i in zip(limits, including, strict=True)
    ]
    assert mine.count_up_to(limits, including).tolist() == by_hand
    places = rng.integers(-len(keys), len(keys), (3, 5))
    assert (mine[places] == keys[places]).all()


@pytest.mark.parametrize(
    ("ranges", "code"),
    [
        ([Range(5, 100, 50), Range(5, 120, 50)], "not-sorted"),
        ([Range(5, 100, 50), Range(5, 0, 50)], "not-sorted"),
        ([Range(100, 0, 50)], "count-mismatch"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(ranges: list[Range], code: str) -> None:
    with raises_code(DataError, code):
        local.stand_in(ranges, 0)


def test_unknown_inputs_are_refused() -> None:
    with raises_code(DataError, "unknown-name", "'worst_regular'"):
        stand_in("worst_regular", 0, 4, 10)
    with raises_code(DataError, "wrong-arguments"):
        stand_in("uniform", 0, 4, 10, values=3)
    with raises_code(DataError, "out-of-range", "0"):
        stand_in("uniform", 4, 4, 10)
