"""The set of collective algorithms: complete for many ranks and parameters, named as SMPI names them."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import numpy as np
import pytest

from labkit import registry
from labkit.algorithms.reduce._tree import POSTING
from labkit.errors import ScheduleError
from labkit.schedule import check, count
from labkit.sim.schedules import perform
from tests.support.collectives import affine, case_of
from tests.support.refusals import raises_code

#: beyond those of tests/contract/test_schedule_results.py
RANKS = (31, 33)
WITH_PARAMETERS = [
    (problem, name, parameter)
    for problem, name in registry.schedules()
    for parameter in registry.get(problem, name).parameters
]


@pytest.mark.parametrize(("problem", "name"), registry.schedules())
@pytest.mark.slow
def test_complete_on_many_ranks(problem: str, name: str) -> None:
    algorithm = registry.get(problem, name)
    for p in RANKS:
        if not algorithm.requirements.unmet(p, algorithm.requirements.commutative):
            proof = check(algorithm.build(p, p // 2, commutative=algorithm.requirements.commutative))
            assert proof, proof


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "name", "parameter"), WITH_PARAMETERS)
def test_any_value_of_a_parameter(problem: str, name: str, parameter: str) -> None:
    """Proved, performed and costed with other values than the default."""
    rng = np.random.default_rng(1)
    for value in (1, 2, 3, 5):
        algorithm = registry.get(problem, f"{name}:{parameter}={value}")
        commutative = algorithm.requirements.commutative
        for p in (1, 2, 6, 9, 13):
            schedule = algorithm.build(p, p // 2, commutative=commutative)
            proof = check(schedule)
            assert proof, proof
            case = case_of(schedule, rng, 7, "sum" if commutative else affine)
            perform(schedule, case.buffers, f"star:{p}", "lab", op=case.op, counts=case.counts)
            case.verify()
            if parameter in POSTING:  # they change when messages are posted; the cost is that of the default
                continue
            cost = algorithm.cost(p, 720.0)
            expected = (cost.rounds, cost.volume_bytes, cost.reduced_bytes)
            assert count(algorithm.build(p), 720.0) == pytest.approx(expected), (p, value)


def test_names_of_smpi() -> None:
    table = tomllib.loads((files("labkit.datasets") / "selectors" / "smpi_names.toml").read_text())
    missing, differs = table.pop("missing"), table.pop("differs")
    on_cores = table.pop("differs_on_cores")
    pairs = [(problem, name) for problem, names in table.items() for name in names.values()]
    assert all(registry.get(problem, name).schedule for problem, name in pairs)
    assert (len(pairs), len(missing)) == (115, 5)
    assert all(name in table[problem] for problem, name in (one.split("/") for one in (*differs, *on_cores)))
    assert len(pairs) - len(differs) >= 100


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("bruck:base=4", ("unknown-name", "'base'", "radix=2")),
        ("bruck:radix=zero", ("malformed-specification", "name=number")),
        ("bruck:radix=0", ("out-of-range", "1")),
        ("ring:radix=2", ("unknown-name",)),
    ],
)
def test_parameters_that_are_refused(name: str, wanted: tuple[str, ...]) -> None:
    with raises_code(ScheduleError, *wanted):
        registry.get("alltoall", name)


def test_a_parameter_is_a_run_s_choice() -> None:
    import labkit as lk

    def program(comm):
        mine, theirs = np.arange(comm.size), np.empty(comm.size, int)
        comm.Alltoall(mine, theirs)
        return theirs.tolist()

    runs = [lk.run(program, 16, "star", coll={"alltoall": f"bruck:radix={k}"}) for k in (2, 4, 16)]
    assert [run.messages for run in runs] == [16 * 4, 16 * 6, 16 * 15]
    assert all(run.results == runs[0].results for run in runs)
