"""The demo's judgment and words, without running its halves."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labkit.cli import demo as job
from labkit.cli import main
from labkit.cli.demo import PLANS, Demo, Extent, Seconds
from labkit.errors import MachineError
from labkit.study import Study

P = (16, 32, 64, 128, 256)
PHASES: dict[str, Callable[[float], float]] = {
    "agree": lambda p: 1e-6 * p,
    "local sort": lambda p: 5e-6,
    "splitters": lambda p: 1e-8 * p * p,
    "exchange": lambda p: 2e-6 * p,
    "merge": lambda p: 1e-6 * p**0.01,
}
MACHINES = {"star": 1.0, "torus": 3.0}


def swept(on: str = "star", scale: float = 1.0) -> Study:
    """A sweep whose times are made up."""
    rows = []
    for p in P:
        fixed = {"program": "sort", "on": on, "model": "lab", "ranks": p, "repetition": 0, "unit": "s"}
        times = {name: scale * time(p) for name, time in PHASES.items()}
        for name, value in times.items():
            rows.append(fixed | {"metric": "phase_s", "phase": name, "value": value, "is_valid": True})
        total = sum(times.values())
        rows.append(fixed | {"metric": "makespan_s", "phase": "", "value": total, "is_valid": True})
    return Study(pd.DataFrame(rows))


def simulate(demo: Demo, sorter: str, machine: str) -> dict[str, Any]:
    scale = MACHINES[machine] if sorter == "sample sort" else 1.5
    study = demo.studies[sorter][machine] = swept(machine, scale)
    table = study.table({"splitters": "p^2", "agree": "1", "exchange": "p^3"}, "p^2")
    demo.tables[sorter][machine] = table
    return {
        "sorter": sorter, "machine": machine, "keys": 256_000, "p = 16": Seconds(scale * 1e-4),
        "p = 256": Seconds(scale * 1e-3), "messages": 7, "largest / mean block": 1.05,
    }  # fmt: skip


def real(**changes: Any) -> dict[str, Any]:
    row = {
        "ranks": 2,
        "sorter": "sample sort",
        "column": "distance",
        "keys": 10,
        "distinct": 3,
        "cores": "own",
    }
    row["cores"] = "own"
    return row | {"sound check": "passed", "numpy.sort": "equal", "time": Seconds(1e-3)} | changes


def beyond(demo: Demo, sorter: str) -> dict[str, Any]:
    predicted = Seconds(1e-3) if sorter == "sample sort" else Seconds("nan")
    row = {"ranks": demo.plan.larger, "sorter": sorter, "machine": "star", "simulated": Seconds(2e-3)}
    error = "-50%" if sorter == "sample sort" else ""
    return row | {"best model": predicted, "best model off by": error, "expectation": Seconds("nan")}


@pytest.fixture(autouse=True)
def two_sorters_and_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SORTERS", ("sample sort", "radix sort"))
    monkeypatch.setattr(job, "MACHINES", {name: name for name in MACHINES})


def demo(*results: dict[str, Any], trouble: str = "") -> Demo:
    found = Demo(Extent((1, 2), P, 512), {"host": "here"})
    found.rows["real"], found.trouble = list(results), trouble
    found.rows["simulated"] = [simulate(found, s, m) for s in job.SORTERS for m in MACHINES]
    found.rows["beyond"] = [beyond(found, sorter) for sorter in job.SORTERS]
    return found


def line(outcome: Demo, beginning: str) -> str:
    return next((one for one in outcome.closing().splitlines() if one.startswith(beginning)), "")


def test_all_well() -> None:
    outcome = demo(real(ranks=1), real())
    assert outcome.exit_code == 0
    assert line(outcome, "2 sorts of real data").endswith("all correct by both oracles.")
    assert not line(outcome, "Real times")


@pytest.mark.parametrize("change", [{"sound check": "2 keys are lost"}, {"numpy.sort": "DIFFERENT"}])
def test_a_wrong_sort_is_said_and_fails(change: dict[str, str]) -> None:
    outcome = demo(real(ranks=1), real(**change))
    assert outcome.exit_code == 1
    assert "1 of them WRONG" in line(outcome, "2 sorts")


def test_times_of_shared_cores_are_not_passed_off() -> None:
    assert "never judged" in line(demo(real(cores="shared")), "Real times")


def test_the_fastest_sorter_is_named_for_each_machine() -> None:
    fastest = line(demo(real()), "Fastest at 256 ranks")
    assert "sample sort (1 ms) on the star" in fastest
    assert "radix sort (1.5 ms) on the torus" in fastest


def test_verdicts_are_counted_and_misses_named_in_their_direction() -> None:
    outcome = demo(real())
    assert line(outcome, "16 expectations judged: ")
    faster = line(outcome, "Faster growth")
    assert "sample sort: agree (star, torus); radix sort: agree (star, torus)" in faster
    assert "exchange (star, torus)" in line(outcome, "Slower growth")
    assert "splitters" not in faster


def test_the_worst_prediction_is_owned_up_to() -> None:
    assert "sample sort is off by -50%" in line(demo(real()), "At 512 ranks")


def test_everything_is_plain_data() -> None:
    record = json.loads(json.dumps(demo(real()).to_dict()))
    assert record["exit"] == 0
    assert record["real"][0]["time"] == 1e-3
    assert {(row["sorter"], row["machine"]) for row in record["simulated"]} == {
        (sorter, machine) for sorter in job.SORTERS for machine in MACHINES
    }
    matches = {row["phase"]: row["match"] for row in record["verdicts"] if row["machine"] == "star"}
    assert matches["splitters"] == "exact"
    assert sum(record["matches"].values()) == 16


def test_a_table_is_aligned() -> None:
    outcome = demo(real(keys=123_456), real())
    head, *rows = outcome.text("real").splitlines()
    assert len(rows) == 2
    assert {row[head.index("column") :].split()[0] for row in rows} == {"distance"}


@pytest.fixture
def without_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise MachineError("no MPI here;\n install one")

    for name, larger in (("quick", 512), ("large", 2048)):
        monkeypatch.setitem(job.PLANS, name, Extent((1,), P, larger, ("distance",)))
    monkeypatch.setattr(job, "sort_on_real_mpi", broken)
    monkeypatch.setattr(job, "simulate", simulate)
    monkeypatch.setattr(job, "extrapolate", beyond)


@pytest.mark.slow
@pytest.mark.usefixtures("without_mpi")
def test_without_mpi_the_simulation_goes_on_and_the_exit_code_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["demo", "--quick", "--out", str(out)]) == 3
    said = capsys.readouterr().out
    assert "There is no MPI that works here: no MPI here; install one" in said
    assert "Nothing was run on real MPI" in said
    assert "How each phase grows" in said
    text = out.read_text()
    assert "Not run:" in text
    assert "no MPI here; install one" in text


@pytest.mark.slow
@pytest.mark.usefixtures("without_mpi")
def test_the_large_demo_goes_further(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PLANS["large"].simulated) >= 5, "a verdict needs five"
    assert main(["demo", "--large", "--out", str(tmp_path / "page.html")]) == 3
    said = capsys.readouterr().out
    assert "2048 ranks" in said
    assert main(["demo", "--large", "--quick"]) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("without_mpi")
def test_json_is_one_object_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--out", str(tmp_path / "page.html")]) == 3
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record["exit"] == 3
    assert record["trouble"] == "no MPI here; install one"
    assert record["real"] == []
    assert "Simulated machines" in captured.err


@pytest.mark.usefixtures("without_mpi")
def test_a_disk_that_fills_up_meanwhile_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("labkit.plot.page", full)
    assert main(["demo", "--quick", "--out", str(tmp_path / "page.html")]) == 3
    assert "page.html cannot be written: No space left on device; free some space" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "nowhere" / "page.html")]) == 3
    assert "cannot be written" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path)]) == 3
