"""Forces of bodies against the sum over all pairs; partitions against what they promise of balance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.algorithms.partition._cuts import curve_keys
from labkit.datasets.bodies import KINDS, bodies
from labkit.datasets.matrices import offsets
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

PARTITIONS = {"curve": {}, "morton": {"kind": "morton"}, "bisection": {}}


def partition(comm: Any, kind: str, *given: Any) -> Any:
    name = "bisection" if kind == "bisection" else "curve"
    return registry.get("partition", name).function(comm, *given, **PARTITIONS[kind])


def all_pairs(positions: Any, masses: Any, softening: float = 0.0) -> Any:
    found = np.zeros_like(positions)
    for k, here in enumerate(positions):
        away = positions - here
        squared = (away**2).sum(1)
        apart = squared > 0
        found[k] = (masses[apart] / (squared[apart] + softening**2) ** 1.5) @ away[apart]
    return found


def pulls(positions: Any, masses: Any) -> Any:
    away = positions[None] - positions[:, None]
    squared = (away**2).sum(2)
    return np.where(squared > 0, masses / np.where(squared > 0, squared, 1), 0).sum(1)


def odd_bodies(name: str) -> tuple[Any, Any]:
    if name in KINDS:
        return bodies(name, 150, seed=3)
    if name == "none":
        return np.empty((0, 2)), np.empty(0)
    if name == "few":
        return bodies("even", 3)
    if name == "at two places":
        return np.repeat([[0.0, 0.0], [3.0, 4.0]], 20, axis=0), np.arange(40.0)
    return np.column_stack([np.arange(50.0), np.full(50, 7.0)]), np.ones(50)  # on a line


CASES = {name: odd_bodies(name) for name in (*KINDS, "none", "few", "at two places", "on a line")}
WANTED = {name: all_pairs(*case) for name, case in CASES.items()}
#: how strongly a body is pulled if all pulls have the same direction
STRENGTH = {name: pulls(*case) for name, case in CASES.items()}


def share(comm: Any, *whole: Any) -> list[Any]:
    mine = slice(*offsets(len(whole[0]), comm.size)[comm.rank : comm.rank + 2])
    return [one[mine] for one in whole]


def forces_are_right(comm: Any) -> None:
    """Two bodies at the corners of a cell pull up to 23 % more than both at its center, with theta = 0.5."""
    cases = CASES if comm.size < 6 else ("two_clusters", "few", "at two places")
    for case in cases:
        positions, masses, wanted, strength = share(comm, *CASES[case], WANTED[case], STRENGTH[case])
        for name, how, error in (
            ("ring", {}, 1e-12),
            ("barnes_hut", {"theta": 0.0}, 1e-12),
            ("barnes_hut", {"leaf": 1}, 0.25),
            ("barnes_hut", {}, 0.25),
        ):
            pull = registry.get("nbody", name).function(comm, positions, masses, **how)
            assert pull.acceleration.shape == positions.shape
            wrong = np.abs(pull.acceleration - wanted).max(1, initial=0.0)
            assert (wrong <= error * strength).all(), (case, name, how)
            if case in KINDS:
                assert comm.allreduce(wrong.sum()) <= 0.01 * comm.allreduce(strength.sum())
            assert pull.interactions.shape == (len(positions),)
            assert (pull.interactions <= len(CASES[case][0])).all()
            if error < 1e-6:
                assert (pull.interactions == len(CASES[case][0])).all()


def partitions_keep_what_they_promise(comm: Any) -> None:
    for case in CASES if comm.size < 6 else ("plummer", "few", "at two places"):
        positions, _ = CASES[case]
        n = len(positions)
        costs = np.random.default_rng(n).integers(0, 50, n)
        rows = np.column_stack([positions, costs, np.arange(n)])
        for kind in PARTITIONS:
            mine = partition(comm, kind, *share(comm, positions, costs, rows))
            everybody = comm.allgather(mine)
            together = np.concatenate(everybody)
            assert np.array_equal(together[np.argsort(together[:, 3])], rows), (case, kind)
            loads = np.array([part[:, 2].sum() for part in everybody])
            keys = positions if kind == "bisection" else keys_of(positions, kind)
            at_once = heaviest(keys, costs)
            slack = 2 * at_once + 1 if kind == "bisection" else at_once
            assert (np.abs(loads - costs.sum() / comm.size) <= slack).all(), (case, kind, loads)
            if kind != "bisection":
                along = keys_of(together[:, :2], kind)
                assert (np.diff(along) >= 0).all()
            elif n:
                assert_disjoint([part for part in everybody if len(part)])


def keys_of(positions: Any, kind: str) -> Any:
    if not len(positions):
        return np.empty(0, int)
    box = np.array([positions.min(0), positions.max(0)])
    return curve_keys(positions, box, "morton" if kind == "morton" else "hilbert")


def heaviest(keys: Any, costs: Any) -> float:
    """The costs of the points at the same key; of a bisection, with the same coordinate in either axis."""
    columns = keys.T if keys.ndim == 2 else [keys]
    sums = [np.bincount(np.unique(one, return_inverse=True)[1], costs) for one in columns if len(one)]
    return max((float(one.max()) for one in sums), default=0.0)


def assert_disjoint(parts: Any) -> None:
    for k, one in enumerate(parts):
        for other in parts[:k]:
            left, right = one[:, :2], other[:, :2]
            apart = (left.min(0) > right.max(0)) | (right.min(0) > left.max(0))
            assert apart.any(), (left, right)


@pytest.mark.parametrize("ranks", range(1, 18))
def test_forces_are_those_of_all_pairs(ranks: int) -> None:
    lk.run(forces_are_right, ranks, "star")


@pytest.mark.parametrize("ranks", range(1, 18))
def test_partitions_balance(ranks: int) -> None:
    lk.run(partitions_keep_what_they_promise, ranks, "star")


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_the_same_on_real_mpi(ranks: int) -> None:
    lk.run(forces_are_right, ranks, "mpi")
    lk.run(partitions_keep_what_they_promise, ranks, "mpi")


def test_neighbors_on_the_curves() -> None:
    """Hilbert's curve goes from each cell to a neighbor; Morton's visits all, and jumps."""
    grid = np.stack(np.meshgrid(np.arange(32), np.arange(32)), axis=-1).reshape(-1, 2) + 0.5
    box = np.array([[0.0, 0.0], [32.0, 32.0]])
    steps = {}
    for kind in ("hilbert", "morton"):
        keys = curve_keys(grid, box, kind)
        assert len(set(keys >> 22)) == 32 * 32
        steps[kind] = np.abs(np.diff(grid[np.argsort(keys)], axis=0)).sum(1)
    assert set(steps["hilbert"]) == {1.0}
    assert steps["morton"].max() > 16


def test_softening_and_the_error_of_theta() -> None:
    positions, masses = bodies("plummer", 400, seed=5)
    wanted = all_pairs(positions, masses, 0.05)
    typical = np.sqrt((wanted**2).mean())
    errors = {}

    def program(comm: Any, name: str, how: Any) -> Any:
        return registry.get("nbody", name).function(
            comm, *share(comm, positions, masses), softening=0.05, **how
        )

    for theta in (0.0, 0.25, 0.5, 1.0):
        parts = lk.run(program, 4, "star", args=("barnes_hut", {"theta": theta})).results
        found = np.concatenate([part.acceleration for part in parts])
        errors[theta] = np.sqrt(((found - wanted) ** 2).mean()) / typical
    assert errors[0.0] < 1e-12 < errors[0.25] < errors[0.5] < errors[1.0] < 0.1
    ring = lk.run(program, 4, "star", args=("ring", {})).results
    assert np.allclose(np.concatenate([part.acceleration for part in ring]), wanted, rtol=1e-10)


def step(comm: Any, name: str, n: int, kind: str = "even") -> None:
    positions, masses = share(comm, *bodies(kind, n))
    if name in PARTITIONS:
        partition(comm, name, positions, np.ones(len(positions), int), positions)
    else:
        if name == "barnes_hut":
            rows = np.column_stack([positions, masses])
            rows = partition(comm, "curve", positions, np.ones(len(positions), int), rows)
            positions, masses = rows[:, :2], rows[:, 2]
        registry.get("nbody", name).function(comm, positions, masses)


@pytest.mark.parametrize("name", ["ring", "barnes_hut", "curve", "bisection"])
def test_growth_is_as_expected(name: str) -> None:
    def program(comm: Any) -> None:
        step(comm, name, 64 * comm.size)

    problem = "nbody" if name in registry.names("nbody") else "partition"
    study = lk.sweep(program, [2, 4, 8, 16, 32], "star", progress=False)
    for phase, growth in registry.get(problem, name).expectations.items():
        if phase:
            assert study.expect(growth, phase=phase).match != "none", phase


@pytest.mark.parametrize("name", ["ring", "curve", "bisection"])
def test_messages_and_bytes_are_within_the_cost(name: str) -> None:
    counts = lk.run(step, 8, "star", args=(name, 800), count=True).counts.query("phase == ''")
    problem = "nbody" if name == "ring" else "partition"
    cost = registry.get(problem, name).cost
    assert cost is not None
    bound = cost(8, 100 * 24)
    assert counts["messages"].max() <= bound.rounds
    assert counts["bytes"].max() <= bound.volume_bytes


def test_compact_parts_need_fewer_bytes() -> None:
    """Of bodies in any order every rank needs nearly all; of a rectangle only those near its border."""
    received = {}
    for kind in ("as given", "curve", "bisection"):

        def program(comm: Any, kind: str = kind) -> None:
            positions, masses = share(comm, *bodies("even", 2048))
            rows = np.column_stack([positions, masses])
            if kind != "as given":
                rows = partition(comm, kind, positions, np.ones(len(positions), int), rows)
            registry.get("nbody", "barnes_hut").function(comm, rows[:, :2], rows[:, 2])

        counts = lk.run(program, 16, "star", count=True).counts.query("phase == 'exchange'")
        received[kind] = counts["received_bytes"].max()
    assert received["curve"] < 0.6 * received["as given"]
    assert received["bisection"] < 0.6 * received["as given"]


@pytest.mark.parametrize(
    ("problem", "name", "given", "how", "code", "facts"),
    [
        (
            "nbody",
            "ring",
            ([[0.0]], [1.0]),
            {},
            "not-finite",
            ["(m, 2)", "(1, 1)"],
        ),
        ("nbody", "ring", ([[0.0, np.nan]], [1.0]), {}, "not-finite", ["positions"]),
        ("nbody", "ring", ([[0.0, 1.0]], [-1.0]), {}, "out-of-range", ["masses"]),
        ("nbody", "ring", ([[0.0, 1.0]], [1.0]), {"softening": -1}, "out-of-range", ["softening", "-1"]),
        ("nbody", "barnes_hut", ([[0.0, 1.0]], [1.0]), {"theta": -0.1}, "out-of-range", ["theta", "-0.1"]),
        ("nbody", "barnes_hut", ([[0.0, 1.0]], [1.0]), {"leaf": 0}, "out-of-range", ["leaf", "1", "0"]),
        (
            "partition",
            "curve",
            ([[0.0, 1.0]], [0.5], [[1]]),
            {},
            "out-of-range",
            ["costs", "float64"],
        ),
        (
            "partition",
            "curve",
            ([[0.0, 1.0]], [1], [[1]]),
            {"kind": "peano"},
            "unknown-name",
            ["hilbert", "morton"],
        ),
        ("partition", "bisection", ([[0.0, 1.0]], [1], [1]), {}, "count-mismatch", ["rows"]),
    ],
)
def test_what_does_not_fit_is_refused(
    problem: str, name: str, given: Any, how: Any, code: str, facts: list[str]
) -> None:
    with raises_code((DataError, RankError), code, *facts):
        lk.run(lambda comm: registry.get(problem, name).function(comm, *given, **how), 1, "star")


def test_only_known_bodies_are_drawn() -> None:
    with raises_code(DataError, "unknown-name", "kind", "two_clusters", "'disk'"):
        bodies("disk", 3)
    whole, _ = bodies("two_clusters", 40, seed=2)
    part, masses = bodies("two_clusters", 40, slice(10, 20), seed=2)
    assert np.array_equal(part, whole[10:20])
    assert masses.sum() == pytest.approx(0.25)
