"""Models derived from machines: equal to simulated messages, around simulated collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import labkit as lk
from labkit import models, registry
from labkit.errors import DataError
from labkit.models import P, collective, congestion, message
from labkit.models.derived import closed_form
from labkit.sim.schedules import simulate
from tests.support.refusals import raises_code

SIZES = (0, 1, 8, 240, 255, 256, 1024, 1025, 1409, 1426, 4096, 65471, 65519, 65535, 65536, 10**6)


def one(comm: Any, size: int) -> float | None:
    data = np.zeros(size, np.uint8)
    if comm.rank == 0:
        comm.Send(data, 1)
    if comm.rank == 1:
        comm.Recv(data, 0)
        return lk.MPI.Wtime() - 1e-8
    return None


@pytest.mark.parametrize(
    "on", ["star:2", "torus:2", "jugene", "juqueen", "fattree:4x4:1x2:1x2", "graphene", "juropa"]
)
def test_a_message_takes_what_its_model_says(on: str) -> None:
    machine, model = lk.platform(on).mapped("block:1"), message(on)
    for size in SIZES:
        took = lk.run(one, 2, machine, args=(size,)).results[1]
        assert took == pytest.approx(model.evaluate(S=size), rel=1e-6)


def test_the_blue_genes_message_is_equation_1() -> None:
    model = message("jugene")
    for size in SIZES:
        start = 4.5e-6 if size < 256 else 5.7e-6 if size <= 1024 else 9.8e-6
        assert model.evaluate(S=size) == pytest.approx(start + 2.67e-9 * size, rel=1e-3)
    factor = congestion("jugene")
    assert sympy.simplify(factor - sympy.Rational(3, 2) * sympy.cbrt(P)) == 0
    lower, upper = message("jugene", congested=True).evaluate(S=1e6, P=512)
    assert lower == pytest.approx(9.8e-6 + 2.67e-3, rel=1e-3)
    assert upper == pytest.approx(9.8e-6 + 2.67e-3 * 1.5 * 8, rel=1e-3)


def test_congestion_of_other_machines() -> None:
    assert congestion("torus:4x4x4") == 6
    assert congestion("star") == 1
    assert float(congestion("fattree:4x4:1x1:1x1")) == pytest.approx(4)  # four hosts a cable


@pytest.mark.parametrize(
    ("operation", "algorithm", "rounds", "volume"),
    [
        ("allreduce", "ring", "2*P - 2", "2 - 2/P"),
        ("bcast", "binomial", "log(P, 2)", "log(P, 2)"),
        ("alltoall", "bruck", "log(P, 2)", "P*log(P, 2)/2"),
        ("allgather", "ring", "P - 1", "P - 1"),
    ],
)
def test_closed_forms(operation: str, algorithm: str, rounds: str, volume: str) -> None:
    found = closed_form(operation, algorithm)
    for got, wanted in zip(found, (rounds, volume), strict=True):
        assert sympy.simplify(got - sympy.sympify(wanted, locals={"P": P})) == 0


def test_closed_forms_are_the_stated_costs() -> None:
    """Each is looked at where it was not found."""
    n_found = 0
    for operation in registry.problems():
        for name in registry.names(operation):
            algorithm = registry.get(operation, name)
            try:
                rounds, volume = closed_form(operation, name)
            except DataError:
                continue
            n_found += 1
            p = 2**14
            cost = algorithm.cost(p, 2**30)
            assert float(rounds.subs(P, p)) == pytest.approx(cost.rounds, rel=1e-6)
            assert float(volume.subs(P, p)) * 2**30 == pytest.approx(cost.volume_bytes, rel=1e-6)
    assert n_found > 100


@pytest.mark.parametrize(("operation", "algorithm"), [("sorting", "radix_sort"), ("matmul", "cannon")])
def test_what_has_no_closed_form_is_refused(operation: str, algorithm: str) -> None:
    with pytest.raises(DataError):
        collective(operation, algorithm, "star")


@pytest.mark.parametrize(
    "on", ["star", "torus:4x4", "torus", "fattree:4x4:1x2:1x1", "dragonfly:2x1:2x1:2x1:2"]
)
def test_simulations_lie_inside_the_bounds(on: str) -> None:
    n_points = 0
    for operation in registry.problems():
        for name in registry.names(operation):
            try:
                model = collective(operation, name, on)
            except DataError:
                continue
            algorithm = registry.get(operation, name)
            for p in (p for p in (4, 8) if algorithm.requirements.unmet(p, True) is None):
                schedule = algorithm.build(p)
                for size in (8, 65536, 1 << 20):
                    took = simulate(schedule, on, n_bytes=size).makespan_s
                    lower, upper = model.evaluate(S=size, P=p)
                    assert lower * (1 - 1e-9) <= took <= upper * (1 + 1e-9), (operation, name, p, size)
                    n_points += 1
    assert n_points > 500


@pytest.mark.parametrize("on", ["torus", "torus:16x16x16", "torus:64x64", "dragonfly:8x4:8x4:16x1:8"])
@pytest.mark.parametrize("name", ["bine", "bine_halving", "recursive_doubling"])
def test_short_messages_between_the_hosts_farthest_apart_are_inside(on: str, name: str) -> None:
    """Their time is that of the hops, which grow with the machine."""
    took = simulate(registry.get("allreduce", name).build(4096), on, n_bytes=8).makespan_s
    lower, upper = collective("allreduce", name, on).evaluate(S=8, P=4096)
    assert lower <= took <= upper


def test_a_network_for_collectives_is_exact() -> None:
    for operation in ("barrier", "bcast", "allreduce"):
        model = collective(operation, "collective_network", "jugene")
        assert model.kind == "exact"
        for p in (4, 64):
            took = simulate(registry.get(operation, "collective_network").build(p), "jugene", n_bytes=800)
            assert model.evaluate(S=800, P=p) == pytest.approx(took.makespan_s, rel=1e-9)


def test_a_model_of_hosts_refuses_runs_whose_ranks_share_them() -> None:
    model = collective("allreduce", "recursive_doubling", "juqueen")
    chosen = {"allreduce": "recursive_doubling"}

    def program(comm):
        comm.Allreduce(np.ones(1), np.ones(1))

    shared = lk.run(program, 32, on="juqueen", coll=chosen)
    for derived in (model, 2 * model, model + model, model(S=8), model + models.exact("1 us")):
        with raises_code(DataError, "unsupported", "1"):
            derived.inside_bounds(shared, S=8)
    alone = lk.run(program, 32, on="juqueen", mapping="block:1", coll=chosen)
    assert model.inside_bounds(alone, S=8)
