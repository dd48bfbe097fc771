"""Node-local work: right results, and charges that depend on committed data alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit import local
from labkit.errors import DataError
from labkit.local import calibrate, grid
from labkit.local.costs import Cost, KernelCosts, find_calibration
from labkit.program import context
from tests.support.refusals import raises_code

RUNS = st.lists(st.lists(st.integers(-5, 5), max_size=8).map(sorted), min_size=1, max_size=6)


class Ledger:
    """A machine that notes what it is charged."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self.flops: list[float] = []

    def begin_phase(self, name: str) -> None: ...

    def end_phase(self, name: str) -> None: ...

    def compute(self, seconds: float | None, flops: float | None) -> None:
        assert seconds is None
        assert flops is not None
        self.flops.append(flops)

    def wtime(self) -> float:
        return 0.0


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    machine = Ledger()
    monkeypatch.setattr(context, "current", lambda: machine)
    return machine


@given(RUNS, st.integers(0, 60), st.booleans())
def test_a_merge_may_take_memory_that_is_not_needed(runs: list[list[int]], n: int, is_sorted: bool) -> None:
    keys = np.array([key for run in runs for key in run], np.int64)
    around = np.full(100, 7)
    spare = local.sort(np.arange(n)[::-1]) if is_sorted else around[20 : 20 + n]
    merged = local.merge(keys, [len(run) for run in runs], out=spare)
    assert merged.tolist() == sorted(keys.tolist())
    assert np.shares_memory(merged, spare) == (0 < len(keys) <= n)
    assert (around[:20] == 7).all()
    assert (around[20 + n :] == 7).all()


def test_a_large_sorted_array_has_room_for_a_few_keys_more() -> None:
    keys = np.arange(1 << 18)
    spare = local.sort(keys)
    assert not np.shares_memory(local.merge(keys, [len(keys)]), spare)
    few, many = np.arange((1 << 18) + 1000), np.arange((1 << 18) * 2)
    assert np.shares_memory(local.merge(few, [500, len(few) - 500], out=spare), spare)
    assert not np.shares_memory(local.merge(many, [len(many)], out=spare), spare)


@given(RUNS)
def test_merge_and_its_order_agree_with_sorted(runs: list[list[int]]) -> None:
    keys = np.array([key for run in runs for key in run], np.int64)
    lengths = np.array([len(run) for run in runs])
    assert local.merge(keys, lengths).tolist() == sorted(keys.tolist())
    by_key_then_position = sorted(range(len(keys)), key=lambda i: (keys[i], i))
    assert local.merge_order(keys, lengths).tolist() == by_key_then_position


@given(st.lists(st.integers(-5, 5), max_size=20), st.lists(st.tuples(st.integers(-6, 6), st.booleans())))
def test_count_up_to_agrees_with_counting(keys: list[int], limits: list[tuple[int, bool]]) -> None:
    counts = local.count_up_to(
        np.array(sorted(keys), np.int64),
        np.array([key for key, _ in limits], np.int64),
        np.array([including for _, including in limits], bool),
    )
    assert counts.tolist() == [sum(k < x or (k == x and including) for k in keys) for x, including in limits]


def test_runs_that_do_not_add_up_are_refused() -> None:
    with raises_code(DataError, "count-mismatch", "3", "4"):
        local.merge(np.zeros(4), np.array([1, 2]))


def test_work_is_charged_as_calibrated(ledger: Ledger) -> None:
    keys = np.arange(1000, dtype=np.uint64)
    local.sort(keys)
    local.merge(keys, np.array([500, 0, 500]))
    speed = local.calibration().reference_flops_per_s
    expected = [local.predicted_s("sort", 8, 1000, 1000), local.predicted_s("merge", 8, 1000, 2)]
    assert ledger.flops == [seconds * speed for seconds in expected]
    assert all(flops > 0 for flops in ledger.flops)


def test_every_kernel_charges_what_it_did(ledger: Ledger) -> None:
    keys, counts = np.arange(1000, dtype=np.uint64), np.array([500, 500])
    splitters = keys[::100].copy()
    many = np.full(100, 10)
    digits = local.digit_counts(keys, 0, 4)
    local.scatter(keys, digits, 0, 4)
    local.partition(keys, 0, 4)
    local.merge_order(keys, counts)
    local.merge(keys, many)
    local.classify(keys, splitters)
    local.histogram(keys, splitters)
    local.distribute(keys, splitters)
    local.count_up_to(keys, splitters, np.zeros(10, bool))
    local.to_codes(np.arange(1000.0))
    expected = [
        ("digit_counts", 1000, 16, 16),
        ("scatter", 1000, 16, 16),
        ("digit_counts", 1000, 16, 16),
        ("scatter", 1000, 16, 16),
        ("merge_order", 1000, 2, 0),
        ("merge_many", 1000, 1000, 0),  # more runs than the tree is for
        ("classify", 1000, 11, 10),
        ("histogram", 1000, 11, 10),
        ("distribute", 1000, 11, 10),
        ("count_up_to", 10, 1000, 0),
        ("code", 1000, 1, 0),
    ]
    speed = local.calibration().reference_flops_per_s
    assert ledger.flops == [speed * local.predicted_s(kernel, 8, *numbers) for kernel, *numbers in expected]


def test_few_keys_of_a_wide_digit_are_charged_as_few(ledger: Ledger) -> None:
    for n in (1024, 1025):
        keys = np.arange(n, dtype=np.uint64)
        local.scatter(keys, local.digit_counts(keys, 0, 16), 0, 16)
    few = local.predicted_s("scatter_few", 8, 1024)
    many = local.predicted_s("scatter", 8, 1025, 1 << 16, 1 << 16)
    speed = local.calibration().reference_flops_per_s
    assert ledger.flops[1::2] == [few * speed, many * speed]
    assert few < many


def test_merging_a_thousand_keys_has_no_jump_where_it_sorts_anew(ledger: Ledger) -> None:
    keys = np.arange(1000, dtype=np.uint64)
    for runs in (8, 16, 32, 64, 128, 256):
        local.merge(keys, np.bincount(np.arange(1000) % runs))
    tree, *anew = ledger.flops
    assert len(set(anew)) == 1
    assert tree < anew[0] < 2 * tree


@pytest.mark.parametrize(
    ("kernel", "itemsize", "wanted"),
    [
        ("quicksort", 8, ("unknown-name", "'quicksort'", "8")),
        ("code", 1, ("unknown-name", "'code'", "1", "2", "4")),
    ],
)
def test_an_unknown_kernel_is_refused(kernel: str, itemsize: int, wanted: tuple[str, ...]) -> None:
    with raises_code(DataError, *wanted):
        local.predicted_s(kernel, itemsize, 10)


def test_nothing_is_charged_outside_a_run() -> None:
    assert context.current() is None
    assert local.sort(np.array([2, 1])).tolist() == [1, 2]


@pytest.mark.parametrize("kernel", local.KERNELS)
def test_the_shipped_calibration_is_plausible(kernel: str) -> None:
    for itemsize in (2, 4, 8):
        cost = local.calibration().costs[kernel, itemsize]
        assert 1e-7 < cost.call_s < 1e-4
        per_key = cost.item_s + cost.item_log_s * math.log2(1000)
        assert 1e-10 < per_key < 1e-6
        assert cost.largest_error < 1


def test_fit_recovers_coefficients() -> None:
    truth = Cost(2e-6, 3e-9, 5e-10, 7e-10)
    cells = [(n, k, k, truth.seconds(n, k, k)) for n in (10, 100, 10_000) for k in (2, 16, 256)]
    found = calibrate.fit_cost(cells)
    assert found.call_s == pytest.approx(truth.call_s, rel=1e-6)
    assert found.item_s == pytest.approx(truth.item_s, rel=1e-6)
    assert found.item_log_s == pytest.approx(truth.item_log_s, rel=1e-6)
    assert found.entry_s == pytest.approx(truth.entry_s, rel=1e-6)
    assert found.largest_error < 1e-6


def test_calibrate_writes_what_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "SIZES", (16, 64, 256, 1000))
    monkeypatch.setattr(grid, "DIFFERENT_KEYS", 1000)
    monkeypatch.setattr(calibrate, "_seconds_per_call", lambda job, samples, sample_s: 1e-6)
    path = tmp_path / "mine.toml"
    assert calibrate.main(["--out", str(path)]) == 0
    previous = local.use_calibration(path)
    try:
        assert local.calibration().name == "mine"
        assert set(local.calibration().costs) == set(previous.costs)
        assert local.predicted_s("sort", 8, 1000, 1000) == pytest.approx(1e-6, rel=1e-3)
    finally:
        local.use_calibration(previous)


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "reference_flops_per_s = 1.0\n[machine]\n",
        "reference_flops_per_s = 1.0\n[machine]\n[kernels.sort.8]\ncall_s = -1.0\nitem_s = 0.0\n"
        "item_log_s = 0.0\nentry_s = 0.0\nlargest_error = 0.0\n",
    ],
)
def test_broken_calibrations_are_refused(text: str) -> None:
    with raises_code(DataError, "unreadable-file", "labkit.local.calibrate"):
        KernelCosts.read(text, "broken")


def test_unknown_calibrations_are_refused(tmp_path: Path) -> None:
    with raises_code(DataError, "unknown-name", "'nobody'"):
        local.use_calibration("nobody")
    with raises_code(DataError, "missing-file"):
        local.use_calibration(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("name", "is_tree"), [("default", False), ("xeon-e5-2670", True), ("powerpc-a2", True)]
)
def test_a_core_without_a_fast_sort_merges_many_runs_by_a_tree(name: str, is_tree: bool) -> None:
    """The tree is charged as long as it is cheaper; measured costs keep the measured crossover."""
    costs, n = find_calibration(name), 64_000
    wanted = costs.seconds("merge", 8, n, 64) if is_tree else costs.seconds("merge_many", 8, n, n)

    def program(comm: object) -> list[int]:
        return local.merge(np.tile(np.arange(n // 64), 64), [n // 64] * 64).tolist()

    run = lk.run(program, 1, "star:1", calibration=name)
    assert run.results[0] == np.repeat(np.arange(n // 64), 64).tolist()
    assert run.makespan_s == pytest.approx(wanted, rel=1e-9)
