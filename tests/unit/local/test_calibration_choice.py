"""A run chooses what its node-local work costs, and leaves no trace of the choice."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import local
from labkit.cli import main
from labkit.errors import DataError, MachineError
from labkit.local.calibrate import to_toml
from tests.support.refusals import raises_code

ALL_SORTS = """\
import numpy as np
from mpi4py import MPI
from labkit import local
local.sort(np.arange(1000))
"""


def program(comm: Any) -> str:
    local.sort(np.arange(1000))
    return local.calibration().name


def slower(factor: float, name: str = "slower") -> local.KernelCosts:
    """The default, with a machine that takes `factor` times as long."""
    given = local.calibration()
    costs = {
        key: local.Cost(c.call_s * factor, c.item_s * factor, c.item_log_s * factor, c.entry_s * factor, 0.0)
        for key, c in given.costs.items()
    }
    return local.KernelCosts(name, {"cpu": "none"}, given.reference_flops_per_s, costs)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(slower(3.0)), encoding="utf-8")
    return path


def test_a_run_is_charged_by_the_calibration_it_chose() -> None:
    usual = lk.run(program, 2)
    chosen = lk.run(program, 2, calibration=slower(2.0))
    assert chosen.makespan_s == pytest.approx(2 * usual.makespan_s, rel=1e-12)
    assert chosen.results == ["slower"] * 2
    assert chosen.machine["calibration"] == "slower"
    assert "node-local costs slower" in repr(chosen)
    assert usual.machine["calibration"] == "default"
    assert "node-local" not in repr(usual)


def test_a_file_and_a_name_do_as_well(toml: Path) -> None:
    usual = lk.run(program, 1).makespan_s
    assert lk.run(program, 1, calibration="default").makespan_s == usual
    for path in (toml, str(toml)):
        run = lk.run(program, 1, calibration=path)
        assert run.machine["calibration"] == "mine"
        assert run.makespan_s == pytest.approx(3 * usual, rel=1e-3)  # the file has five digits


def test_a_choice_ends_with_its_run_however_it_ends() -> None:
    before = local.calibration()

    def fails(comm: Any) -> None:
        program(comm)
        raise ValueError("on purpose")

    with raises_code(lk.errors.RankError, "rank-failed"):
        lk.run(fails, 2, calibration=slower(2.0))
    assert local.calibration() is before
    assert lk.run(program, 1).machine["calibration"] == before.name


def test_runs_on_two_threads_keep_their_own() -> None:
    found: dict[int, float] = {}

    def run(factor: int) -> None:
        for _ in range(5):
            found[factor] = lk.run(program, 4, calibration=slower(factor)).makespan_s

    threads = [threading.Thread(target=run, args=(factor,)) for factor in (1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[2] == pytest.approx(2 * found[1], rel=1e-12)
    assert found[4] == pytest.approx(4 * found[1], rel=1e-12)


@pytest.mark.slow
def test_the_choice_of_the_process_holds_for_runs_and_scripts(tmp_path: Path) -> None:
    script = tmp_path / "sorts.py"
    script.write_text(ALL_SORTS)
    usual = lk.run(script, 1).makespan_s
    previous = local.use_calibration(slower(2.0))
    try:
        assert lk.run(program, 1).machine["calibration"] == "slower"
        assert lk.run(script, 1).makespan_s == pytest.approx(2 * usual, rel=1e-12)
        assert lk.run(script, 1, calibration=previous).makespan_s == usual
    finally:
        local.use_calibration(previous)


def test_sweeps_and_the_command_line_take_one(toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = lk.sweep(program, [1, 2], repeats=1, calibration=toml, progress=False)
    assert all(machine["calibration"] == "mine" for machine in study.notes["machines"].values())
    script = toml.parent / "sorts.py"
    script.write_text(ALL_SORTS)
    assert main(["run", "-n", "1", "--calibration", str(toml), "--json", str(script)]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["calibration"] == "mine"


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        (
            "nobody",
            ("unknown-name", "'nobody'"),
        ),
        ("nowhere/nothing.toml", ("missing-file",)),
        (3, ("wrong-type", "KernelCosts")),
    ],
)
def test_what_is_no_calibration_is_refused_before_anything_runs(wrong: Any, wanted: tuple[str, ...]) -> None:
    began = []
    with raises_code(DataError, *wanted):
        lk.run(lambda comm: began.append(comm.rank), 2, calibration=wrong, isolate=False)
    assert not began


def test_real_machines_and_a_program_of_the_same_parameter_refuse_it() -> None:
    with raises_code(MachineError, "conflicting-options"):
        lk.run(program, 1, on="mpi", calibration="default")
    with raises_code(MachineError, "conflicting-options"):
        lk.sweep(program, [1], on="mpi", calibration="default")
    with raises_code(DataError, "name-taken"):
        lk.sweep(lambda comm, calibration: None, [1], calibration="default")
