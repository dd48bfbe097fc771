"""Applications against the verification values of their benchmarks, serial solvers and closed formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve, spsolve_triangular

import labkit as lk
from labkit import MPI, registry
from labkit.algorithms.applications import cg, ep, finite_elements, ft, lu, orbitals, smg, sweep3d, weather
from labkit.errors import RankError
from tests.support.refusals import raises_code

NAMES = registry.names("applications")
RANKS = (1, 2, 3, 4, 7, 8, 16)


def run(program: Any, ranks: int, *args: Any, on: str = "star", **kwargs: Any) -> list[Any]:
    return lk.run(program, ranks, on, args=args, kwargs=kwargs).results


def joined(blocks: list[Any], axes: tuple[int, ...]) -> Any:
    """Put the blocks of a grid of ranks together along these axes."""
    for axis, parts in zip(axes[::-1], MPI.Compute_dims(len(blocks), len(axes))[::-1], strict=True):
        blocks = [np.concatenate(blocks[k : k + parts], axis) for k in range(0, len(blocks), parts)]
    return blocks[0]


def test_random_numbers_are_those_of_the_benchmarks() -> None:
    from labkit.algorithms.applications._nas import MULTIPLIER, randoms

    state, wanted = 314159265, []
    for _ in range(1000):
        state = state * MULTIPLIER % 2**46
        wanted.append(state / 2**46)
    for skip, count in ((0, 1000), (17, 1), (999, 1), (5, 130), (0, 0)):
        assert randoms(314159265, skip, count).tolist() == wanted[skip : skip + count]


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_class_s_is_verified(ranks: int) -> None:
    """EP's batches are the same on any number of ranks: class T is tested on more."""
    for found in run(ep.ep, 3, "S") if ranks == 3 else ():
        assert found[:2] == pytest.approx(ep.VERIFIED["S"], rel=1e-8)
    for found in run(cg.cg, ranks, "S"):
        assert found.zeta == pytest.approx(cg.VERIFIED["S"], abs=1e-10)
    for found in run(ft.ft, ranks, "S"):
        assert found == pytest.approx(ft.VERIFIED["S"], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["W", "A"])
def test_larger_classes_are_verified(size: str) -> None:
    assert run(cg.cg, 6, size)[0].zeta == pytest.approx(cg.VERIFIED[size], abs=1e-10)
    found = run(ep.ep, 5, size)[0]
    assert found[:2] == pytest.approx(ep.VERIFIED[size], rel=1e-8)


def gaussians(pairs: int) -> tuple[float, float, Any]:
    """Draw EP's pairs one after another."""
    state, x_sum, y_sum, counts = 271828183, 0.0, 0.0, np.zeros(10, int)
    for _ in range(pairs):
        uniform = []
        for _ in range(2):
            state = state * 5**13 % 2**46
            uniform.append(2 * state / 2**46 - 1)
        t = uniform[0] ** 2 + uniform[1] ** 2
        if t <= 1:
            x, y = (one * np.sqrt(-2 * np.log(t) / t) for one in uniform)
            x_sum, y_sum = x_sum + x, y_sum + y
            counts[int(max(abs(x), abs(y)))] += 1
    return x_sum, y_sum, counts


def test_pairs_are_those_of_one_rank() -> None:
    x, y, counts = gaussians(2**16)
    for ranks in RANKS:
        for found in run(ep.ep, ranks, "T"):
            assert found.counts == counts.tolist()
            assert (found.x, found.y) == pytest.approx((x, y), rel=1e-10)


def system_of_lu(n: int) -> tuple[Any, Any]:
    """Return LU's matrix and its lower triangle with the cells' own blocks; the first index is the plane."""
    back, here = sp.eye_array(n, k=-1), sp.eye_array(n)
    west, north, low = lu.COUPLING
    lower = sp.kron(sp.kron(sp.kron(here, here), back), west)
    lower = lower + sp.kron(sp.kron(sp.kron(here, back), here), north)
    lower = lower + sp.kron(sp.kron(sp.kron(back, here), here), low)
    cells = sp.kron(sp.eye_array(n**3), lu.DIAGONAL)
    return (cells + lower + lower.T).tocsc(), lower.tocsr()


def test_relaxation_is_that_of_one_rank_and_converges() -> None:
    matrix, lower = system_of_lu(6)
    omega, ones = 1.2, np.ones(6**3 * 5)
    inside = sp.kron(sp.eye_array(6**3), np.linalg.inv(lu.DIAGONAL / omega)).tocsr()
    blocks = sp.kron(sp.eye_array(6**3), lu.DIAGONAL / omega)
    # a block-triangular system is a triangular one after a product with the inverted blocks
    forward = spsolve_triangular((sp.eye_array(6**3 * 5) + inside @ lower).tocsr(), inside @ ones)
    backward = spsolve_triangular(
        (sp.eye_array(6**3 * 5) + inside @ lower.T).tocsr(), inside @ (blocks @ forward), lower=False
    )
    once, solved = (2 - omega) * backward, spsolve(matrix, ones)
    for ranks in RANKS:
        first = joined([one.u for one in run(lu.lu, ranks, "T", steps=1)], (1, 2))
        assert np.allclose(first.ravel(), once, rtol=1e-12)
        results = run(lu.lu, ranks, "T", steps=20)
        assert np.allclose(joined([one.u for one in results], (1, 2)).ravel(), solved, rtol=1e-9)
        assert len({tuple(one.norms) for one in results}) == 1


def swept(n: int, steps: int) -> Any:
    """Transport particles cell by cell."""
    flux, cell = np.zeros((n, n, n)), 5.0 / n
    for _ in range(steps):
        source, flux = sweep3d.SCATTERED * flux + 1, np.zeros((n, n, n))
        for signs, direction in itertools.product(itertools.product((1, -1), repeat=3), sweep3d.DIRECTIONS):
            enters = np.zeros((3, n, n))
            each, c = [range(n)[::sign] for sign in signs], 2 * direction / cell
            for i, j, k in itertools.product(*each):
                from_sides = np.array([enters[0, j, k], enters[1, i, k], enters[2, i, j]])
                here = (source[i, j, k] + c @ from_sides) / (sweep3d.TOTAL + c.sum())
                flux[i, j, k] += sweep3d.WEIGHT * here
                enters[0, j, k], enters[1, i, k], enters[2, i, j] = 2 * here - from_sides
    return flux


def test_particles_are_those_of_one_rank_and_conserved() -> None:
    wanted = swept(5, 4)
    for ranks, blocks in itertools.product(RANKS, ({}, {"planes": 2, "angles": 4})):
        results = run(sweep3d.sweep3d, ranks, "T", steps=4, **blocks)
        assert np.allclose(joined([one.flux for one in results], (0, 1)), wanted, rtol=1e-12)
    one = run(sweep3d.sweep3d, 6, "T", steps=40)[0]
    assert one.emitted == pytest.approx(one.absorbed + one.left, rel=1e-11)
    assert one.change < 1e-11


def test_energies_are_those_of_the_box() -> None:
    levels = 1 - np.cos(np.arange(1, 7) * np.pi / 7)
    wanted = np.sort(np.add.outer(np.add.outer(levels, levels), levels).ravel())[:7]
    alone = run(orbitals.orbitals, 1, "T", repulsion=2.0)[0]
    for ranks in RANKS:
        results = run(orbitals.orbitals, ranks, "T")
        for one in results:
            assert np.allclose(one.energies[:7], wanted, rtol=1e-12)
        whole = np.concatenate([one.orbitals for one in results])
        assert np.allclose(whole @ whole.T, np.eye(8), atol=1e-12)
        repelled = run(orbitals.orbitals, ranks, "T", repulsion=2.0)
        assert np.allclose(repelled[0].energies, alone.energies, rtol=1e-9)
    assert (alone.energies[:7] > wanted).all()


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 10.0, 100.0), (100.0, 1.0, 0.01)])
def test_multigrid_converges_for_all_coefficients(weights: tuple[float, ...]) -> None:
    line, here = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(7, 7)), sp.eye_array(7)
    matrix = sum(
        w * sp.kron(sp.kron(*pair), last)
        for w, (pair, last) in zip(
            weights, [((line, here), here), ((here, line), here), ((here, here), line)], strict=True
        )
    )
    wanted = spsolve(matrix.tocsc(), np.ones(343))
    for ranks in (*RANKS, 12, 27) if weights == (1.0, 1.0, 1.0) else (1, 3, 8, 27):
        results = run(smg.smg, ranks, "T", coefficients=weights, steps=5)
        residuals = results[0].residuals
        falls = np.divide(residuals[1:], residuals[:-1])
        assert (falls[np.array(residuals[1:]) > 1e-10] < 0.36).all()
        found = joined([one.u for one in results], (0, 1, 2)).ravel()
        assert np.linalg.norm(matrix @ found - 1) == pytest.approx(residuals[-1], abs=1e-10)
        assert np.linalg.norm(found - wanted) <= residuals[-1] * np.linalg.norm(wanted)


def heated(steps: int) -> Any:
    """Solve the systems of all elements directly."""
    nodes, elements = finite_elements.mesh(*finite_elements.SIZES["T"][:2])
    places = (np.repeat(nodes, 8, axis=1).ravel(), np.tile(nodes, 8).ravel())
    numbers = np.tile(finite_elements.ELEMENT.ravel(), len(nodes))
    stiffness = sp.coo_array((numbers, places), shape=(len(elements),) * 2).tocsc()
    mass = sp.diags_array((elements >= 0).sum(axis=1) / 8)
    values = (np.arange(len(elements)) % 5 < 2).astype(float)
    for _ in range(steps):
        values = spsolve((mass + finite_elements.STEP * stiffness).tocsc(), mass @ values)
    return values


def test_elements_conduct_what_the_whole_system_does() -> None:
    wanted = heated(2)
    for ranks, every in itertools.product(RANKS, (False, True)):
        results = run(finite_elements.finite_elements, ranks, "T", every=every)
        found = np.full(len(wanted), np.nan)
        for one in results:
            found[one.nodes] = one.values
            assert one.heat == pytest.approx(one.heat_at_begin, rel=1e-12)
        assert np.allclose(found, wanted, rtol=1e-10)
        assert sum(len(one.nodes) for one in results) == len(wanted)


def test_an_element_conducts_no_constant() -> None:
    """Rows add up to 0, and a linear temperature is in balance inside a block of eight elements."""
    assert np.allclose(finite_elements.ELEMENT.sum(axis=1), 0, atol=1e-15)
    assert np.allclose(np.linalg.eigvalsh(finite_elements.ELEMENT)[0], 0, atol=1e-15)
    corners = np.array(list(itertools.product((0, 1), repeat=3)))
    inside = 0.0
    for first in itertools.product((0, 1), repeat=3):
        temperatures = (np.array(first) + corners) @ np.array([1.0, -2.0, 0.5])
        middle = int(np.flatnonzero((np.array(first) + corners == 1).all(axis=1))[0])
        inside += float(finite_elements.ELEMENT[middle] @ temperatures)
    assert inside == pytest.approx(0, abs=1e-14)


def forecast(steps: int) -> Any:
    """Carry and mix moisture cell by cell."""
    rows, columns, levels, _ = weather.SIZES["T"]
    north, west = weather.wind(rows, columns)
    land = weather.is_land(rows, columns)
    line = np.diag(np.r_[1, np.full(levels - 2, 2.0), 1])
    line -= np.diag(np.ones(levels - 1), 1) + np.diag(np.ones(levels - 1), -1)
    field = np.fromfunction(lambda i, j, k: i % 7 + j % 5 + k % 3 + 1, (rows, columns, levels))
    for _ in range(steps):
        moved = field.copy()
        for i, j in itertools.product(range(rows), range(columns)):
            for to, speed in (((i - 1, j), -north[i, j]), ((i, j - 1), -west[i, j])):
                if min(to) >= 0:
                    flow = speed * (field[i, j] if speed > 0 else field[to])
                    moved[i, j] -= flow
                    moved[to] += flow
        for i, j in zip(*np.nonzero(land), strict=True):
            moved[i, j] = np.linalg.solve(np.eye(levels) + weather.MIXING * line, moved[i, j])
        field = moved
    return field


def test_weather_is_that_of_cells_one_by_one_and_loses_no_water() -> None:
    wanted, alone = forecast(4), run(weather.weather, 1, "T")[0]
    assert np.allclose(alone.moisture, wanted, rtol=1e-12)
    for ranks, balanced in itertools.product(RANKS, (False, True)):
        results = run(weather.weather, ranks, "T", balanced=balanced)
        for one in results:
            (i, j), (a, b, _) = one.first, one.moisture.shape
            assert (one.moisture == alone.moisture[i : i + a, j : j + b]).all()
            assert one.most == alone.moisture.max()
            assert one.water == pytest.approx(one.water_at_begin, rel=1e-13)
        assert sum(one.moisture.size for one in results) == wanted.size


def test_balanced_blocks_cost_about_the_same() -> None:
    took = [
        lk.run(weather.weather, 64, "star", args=("europe",), kwargs={"charged": True, "steps": 1, **how})
        for how in ({}, {"balanced": True})
    ]
    assert took[1].makespan_s < 0.6 * took[0].makespan_s


def on_all(comm: Any) -> list[Any]:
    """Return numbers of each application's small class, as a single rank finds them, too."""
    found = []
    for module in (ep, cg, ft, lu, sweep3d, orbitals, smg, finite_elements, weather):
        one = module.ALGORITHM.function(comm, "T")
        found.append({
            "ep": lambda one: one.counts, "cg": lambda one: one.zeta, "ft": lambda one: one[-1],
            "lu": lambda one: one.norms[1], "sweep3d": lambda one: one.left,
            "orbitals": lambda one: one.energies[0], "smg": lambda one: one.residuals[1],
            "finite_elements": lambda one: one.heat, "weather": lambda one: one.most,
        }[module.ALGORITHM.name](one))  # fmt: skip
    return found


@pytest.mark.mpi
@pytest.mark.parametrize("counts", [(1, 2, 3, 4), pytest.param((7, 8, 16), marks=pytest.mark.slow)])
def test_the_same_on_real_mpi(counts: tuple[int, ...]) -> None:
    wanted = run(on_all, 1)[0]
    for ranks in counts:
        for found in run(on_all, ranks, on="mpi"):
            for one, other in zip(found, wanted, strict=True):
                assert np.allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_charged_runs_send_the_same_messages(name: str) -> None:
    program = registry.get("applications", name).function
    for ranks in (1, 3, 8):
        real, charged = (
            lk.run(program, ranks, "star", args=("T",), kwargs={"charged": charged})
            for charged in (False, True)
        )
        assert (charged.messages, charged.bytes) == (real.messages, real.bytes)
        if name != "cg":  # whose blocks have different numbers of entries
            assert charged.makespan_s == pytest.approx(real.makespan_s, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, {"steps": steps}) for name in NAMES if name != "ep" for steps in (0, -1, 1.5, True)),
        ("sweep3d", {"planes": 0}),
        ("sweep3d", {"angles": -3}),
        ("orbitals", {"repulsion": -1.0}),
        ("orbitals", {"repulsion": np.nan}),
        ("smg", {"coefficients": (1.0, 0.0, 1.0)}),
        ("smg", {"coefficients": (1.0, 1.0)}),
        ("finite_elements", {"iterations": 0}),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, given: dict[str, Any]) -> None:
    with raises_code(RankError, "out-of-range"):
        run(registry.get("applications", name).function, 1, "T", **given)


def test_more_ranks_than_rows_of_air_are_refused() -> None:
    with raises_code(RankError, "invalid-value"):
        run(weather.weather, 19, "T")


@pytest.mark.parametrize("name", NAMES)
def test_unknown_classes_are_refused(name: str) -> None:
    with raises_code(RankError, "unknown-name"):
        run(registry.get("applications", name).function, 2, "Z")


def test_flows_see_the_limit_that_loggps_does_not() -> None:
    """Figure 8 of Degomme et al. 2017: alltoallv on Tibidabo; LogGPS predicts nearly perfect scaling."""
    speedups = {}
    for model in ("lab", "loggps"):
        times = [
            lk.run(orbitals.orbitals, ranks, "tibidabo", model=model, args=("small",),
                   kwargs={"charged": True, "steps": 1}).makespan_s for ranks in (1, 128)
        ]  # fmt: skip
        speedups[model] = times[0] / times[1]
    assert speedups["lab"] < 45 < 75 < speedups["loggps"]
