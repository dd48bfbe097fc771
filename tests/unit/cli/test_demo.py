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
from labkit.cli.demo import PLANS, Demo, Extent, Extrapolation, RealSort, Rows, SimulatedSort, closing
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


def swept(sorter: str = "sample_sort", machine: str = "star", scale: float = 1.0) -> SimulatedSort:
    """A sweep whose times are made up."""
    rows = []
    for p in P:
        fixed = {"program": "sort", "on": machine, "model": "lab", "ranks": p, "repetition": 0, "unit": "s"}
        times = {name: scale * time(p) for name, time in PHASES.items()}
        for name, value in times.items():
            rows.append(fixed | {"metric": "phase_s", "phase": name, "value": value, "is_valid": True})
        total = sum(times.values())
        rows.append(fixed | {"metric": "makespan_s", "phase": "", "value": total, "is_valid": True})
    study = Study(pd.DataFrame(rows))
    per_ranks = dict.fromkeys(P, 1.05)
    table = study.table({"splitters": "p^2", "agree": "1", "exchange": "p^3"}, "p^2")
    return SimulatedSort(
        sorter, machine, study, table, 1000, per_ranks, dict.fromkeys(P, 7), dict.fromkeys(P, 0.1)
    )


def simulated(*arguments: Any) -> list[SimulatedSort]:
    return [swept(), swept(machine="torus", scale=3), swept("radix_sort"), swept("radix_sort", "torus")]


def real(ranks: int = 2, **changes: Any) -> RealSort:
    facts: dict[str, Any] = {
        "sorter": "sample_sort", "column": "distance", "ranks": ranks, "keys": 10, "distinct": 3,
        "missing": 0, "report": "sorted", "is_sorted": True, "equals_numpy": True, "imbalance": 1.0,
        "sort_s": 1e-3, "is_valid": True,
    }  # fmt: skip
    return RealSort(**(facts | changes))


def beyond(*arguments: Any, error: float = 0.5) -> list[Extrapolation]:
    return [
        Extrapolation("sample_sort", "star", 1024, 2e-3, 2e-3 * (1 + error), 2e-3),
        Extrapolation("radix_sort", "star", 1024, 1e-3, 1e-3, float("nan")),
    ]


def demo(results: list[RealSort], trouble: str = "", error: float = 0.5) -> Demo:
    return Demo(
        PLANS["quick"], {"host": "here"}, "extract", simulated(), beyond(error=error), results, trouble
    )


def said(outcome: Demo) -> str:
    return "\n".join(closing(outcome))


def test_all_well() -> None:
    outcome = demo([real(1), real(2)])
    assert outcome.exit_code == 0
    assert "2 sorts of real data on real MPI: all correct by both oracles." in closing(outcome)
    assert "cores" not in said(outcome)


@pytest.mark.parametrize("change", [{"is_sorted": False}, {"equals_numpy": False}])
def test_a_wrong_sort_is_said_and_fails(change: dict[str, bool]) -> None:
    outcome = demo([real(1), real(2, **change)])
    assert outcome.exit_code == 1
    assert "1 of them WRONG" in closing(outcome)[0]


def test_times_of_shared_cores_are_not_passed_off() -> None:
    assert "shown, never judged" in said(demo([real(is_valid=False)]))


def test_the_fastest_sorter_is_named_for_each_machine() -> None:
    assert "sample sort on the star (1.43 ms); radix sort on the torus (1.43 ms)" in said(demo([real()]))


def test_the_slowest_phase_is_named() -> None:
    assert "sample sort in 'splitters' (46%), radix sort in 'splitters' (46%)" in said(demo([real()]))


def test_verdicts_are_counted_and_misses_named_in_their_direction() -> None:
    text = said(demo([real()]))
    assert "16 expectations judged: " in text
    faster = next(line for line in text.splitlines() if line.startswith("Faster growth"))
    slower = next(line for line in text.splitlines() if line.startswith("Slower growth"))
    assert "sample sort: agree (star, torus); radix sort: agree (star, torus)" in faster
    assert "exchange (star, torus)" in slower
    assert "splitters" not in faster


@pytest.mark.parametrize(
    ("error", "words"), [(-0.5, "sample sort is off by -50%"), (0.01, "predict every makespan within 1%")]
)
def test_extrapolation_is_owned_up_to(error: float, words: str) -> None:
    assert words in said(demo([real()], error=error))


def test_everything_is_plain_data() -> None:
    record = json.loads(json.dumps(demo([real()]).to_dict()))
    assert record["exit"] == 0
    assert record["mpi"]["sorts"][0]["is_correct"] is True
    first = record["simulated"][0]
    assert (first["sorter"], first["machine"]) == ("sample_sort", "star")
    assert first["verdicts"]["splitters"]["match"] == "exact"
    assert set(first["makespan_s"]) == {"16", "32", "64", "128", "256"}
    assert sum(record["matches"].values()) == 16


@pytest.fixture
def without_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> list[RealSort]:
        raise MachineError("no MPI here;\n install one")

    def simulate(plan: Extent, rows: object) -> list[SimulatedSort]:
        assert len(plan.simulated) >= 5, "a verdict needs five"
        sweeps = simulated()
        for p in plan.simulated:
            for one in sweeps:
                one.messages[p] = 7
                one.study = swept().study
        return sweeps

    for name, larger in (("quick", 512), ("large", 2048)):
        monkeypatch.setitem(job.PLANS, name, Extent((1,), P, larger, ("distance",), ("sample_sort",)))
    monkeypatch.setattr(job, "sort_on_real_mpi", broken)
    monkeypatch.setattr(job, "simulate_sorts", simulate)
    monkeypatch.setattr(job, "extrapolate", lambda one, ranks, limit_s: beyond()[0])


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
    assert record["mpi"] == {"works": False, "trouble": "no MPI here; install one", "sorts": []}
    assert "Simulated machines" in captured.err


@pytest.mark.usefixtures("without_mpi")
def test_a_disk_that_fills_up_meanwhile_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("labkit.cli.demo.write_page", full)
    assert main(["demo", "--quick", "--out", str(tmp_path / "page.html")]) == 3
    assert "page.html cannot be written: No space left on device; free some space" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "nowhere" / "page.html")]) == 3
    assert "cannot be written" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path)]) == 3


def test_rows_stand_below_their_heads() -> None:
    lines: list[str] = []
    rows = Rows(lines.append, "   sorter      |  keys")
    rows.add("radix sort", "12")
    assert lines == ["   sorter          keys", "   radix sort        12"]
    assert rows.frame().to_dict("list") == {"sorter": ["radix\N{NO-BREAK SPACE}sort"], "keys": ["12"]}
