"""Functions that are phases by their names, on both machines, in programs that mark nothing."""

from __future__ import annotations

import cProfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError
from tests.support.refusals import raises_code


def merge(comm: Any, depth: int) -> None:
    if depth:
        merge(comm, depth - 1)
    lk.compute(seconds=1e-3 * comm.rank)
    comm.Barrier()


class Grid:
    def smooth(self, comm: Any) -> None:
        comm.Sendrecv(np.zeros(4), comm.rank ^ 1, 0, np.zeros(4), comm.rank ^ 1, 0)

    def rough(self) -> None:
        pass


def lines(count: int) -> Iterator[int]:
    yield from range(count)


def program(comm: Any) -> None:
    def inner() -> None:
        merge(comm, 2)

    for _ in lines(2):
        inner()
        Grid().rough()
        Grid().smooth(comm)
    with pytest.raises(ZeroDivisionError):
        fails()


def fails() -> None:
    raise ZeroDivisionError


def entered(run: Any) -> dict[str, int]:
    table = run.phases[run.phases["rank"] == 1]
    return {str(name): int(n) for name, n in table["phase"].value_counts().items()}


NAMES = ["merge", "Grid.*", "!Grid.rough", "program.inner", "fails", "lines"]
#: a generator runs until each of its values, and to its end
EXPECTED = {"merge": 2, "Grid.smooth": 2, "program.inner": 2, "fails": 1, "lines": 3}


def test_functions_are_phases_in_which_waits_are_found() -> None:
    plain = lk.run(program, 4, "star:4", trace=True)
    run = lk.run(program, 4, "star:4", trace=True, regions=NAMES)
    assert run.makespan_s == plain.makespan_s
    assert entered(run) == EXPECTED
    assert not [note for note in run.notes if note.startswith("regions")]
    cause = run.waits().causes("rank", "phase").iloc[0]
    assert (cause["rank"], cause["phase"]) == (3, "program.inner > merge")
    halved = run.what_if("merge", 0.5)
    assert halved.won_s == pytest.approx(halved.predicted_s, rel=0.05)
    assert entered(halved.after) == EXPECTED


@pytest.mark.mpi
def test_of_a_real_run_too() -> None:
    run = lk.run(program, 2, "mpi", trace=True, regions="merge, Grid.smooth")
    assert entered(run) == {"merge": 2, "Grid.smooth": 2}
    assert set(run.trace.calls["phase"]) == {"merge", "Grid.smooth"}


@pytest.mark.parametrize("on", ["star:2", pytest.param("mpi", marks=pytest.mark.mpi)])
def test_of_a_script_by_the_module_of_the_function(on: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def merge():\n    pass\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from mpi4py import MPI\nimport helper\n\ndef merge():\n    MPI.COMM_WORLD.Barrier()\n\n"
        "merge()\nhelper.merge()\nhelper.merge()\n"
    )
    run = lk.run(script, 2, on, regions=["helper.merge", "mrge"])
    assert entered(run) == {"merge": 2}
    assert "regions: no function called mrge was seen" in run.notes


def test_labkits_own_functions_need_their_module() -> None:
    def calls(comm: Any) -> None:
        lk.compute(seconds=1e-3)

    run = lk.run(calls, 2, "star:2", regions=["compute"])
    assert run.phases.empty
    assert "regions: no function called compute was seen" in run.notes
    assert entered(lk.run(calls, 2, "star:2", regions=["labkit.program.context.compute"])) == {"compute": 1}


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in ([""], [1], 5):
        with raises_code(DataError, "wrong-type"):
            lk.run(program, 2, "star:2", regions=wrong)
    with cProfile.Profile(), raises_code(DataError, "in-use"):
        lk.run(program, 2, "star:2", regions="merge")
