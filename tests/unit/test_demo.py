"""The demo's judgement and words, without running its halves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labkit.cli import main
from labkit.demo import Demo, RealSort, SimulatedSort, job
from labkit.demo.simulated import Extrapolation
from labkit.errors import MachineError
from labkit.study import Study

PHASES = {
    "agree": lambda p: 1e-6 * p,
    "local sort": lambda p: 5e-6,
    "splitters": lambda p: 1e-8 * p * p,
    "exchange": lambda p: 2e-6 * p,
    "merge": lambda p: 1e-6 * p**0.01,
}


def simulated(*arguments: Any, **options: Any) -> SimulatedSort:
    """A sweep whose times are made up."""
    rows = []
    for p in (16, 32, 64, 128, 256):
        fixed = {"program": "sort", "on": "star", "model": "lab", "ranks": p, "repetition": 0, "unit": "s"}
        times = {name: time(p) for name, time in PHASES.items()}
        for name, value in times.items():
            rows.append(fixed | {"metric": "phase_s", "phase": name, "value": value, "is_valid": True})
        total = sum(times.values())
        rows.append(fixed | {"metric": "makespan_s", "phase": "", "value": total, "is_valid": True})
    study = Study(pd.DataFrame(rows))
    ranks = dict.fromkeys((16, 32, 64, 128, 256), 1.05)
    return SimulatedSort(study, study.table({"splitters": "p^2"}, "p^2"), 1000, ranks, ranks)


def real(ranks: int = 2, **changes: Any) -> RealSort:
    facts: dict[str, Any] = {
        "column": "distance", "ranks": ranks, "keys": 10, "distinct": 3, "missing": 0, "report": "sorted",
        "is_sorted": True, "equals_numpy": True, "imbalance": 1.0, "sort_s": 1e-3, "is_valid": True,
    }  # fmt: skip
    return RealSort(**(facts | changes))


def beyond(*arguments: Any, error: float = 0.5) -> list[Extrapolation]:
    return [
        Extrapolation("splitters", 1024, 2e-3, 2e-3 * (1 + error), 2e-3),
        Extrapolation("merge", 1024, 1e-3, 1e-3, float("nan")),
    ]


def demo(results: list[RealSort], trouble: str = "", error: float = 0.5) -> Demo:
    return Demo({"host": "here"}, "extract", simulated(), beyond(error=error), results, trouble)


def test_all_well() -> None:
    outcome = demo([real(1), real(2)])
    assert outcome.exit_code == 0
    assert "2 sorts of real data on real MPI: all correct by both oracles." in outcome.closing()
    assert not any("cores" in line for line in outcome.closing())


@pytest.mark.parametrize("change", [{"is_sorted": False}, {"equals_numpy": False}])
def test_a_wrong_sort_is_said_and_fails(change: dict[str, bool]) -> None:
    outcome = demo([real(1), real(2, **change)])
    assert outcome.exit_code == 1
    assert "1 of them WRONG" in outcome.closing()[0]


def test_times_of_shared_cores_are_not_passed_off() -> None:
    assert any("shown, never judged" in line for line in demo([real(is_valid=False)]).closing())


def test_the_slowest_phase_is_named() -> None:
    assert any("'splitters' with 46%" in line for line in demo([real()]).closing())


@pytest.mark.parametrize(
    ("error", "words"), [(-0.5, "'splitters' is off by -50%"), (0.01, "predict every phase within 1%")]
)
def test_extrapolation_is_owned_up_to(error: float, words: str) -> None:
    assert any(words in line for line in demo([real()], error=error).closing())


def test_everything_is_plain_data() -> None:
    record = json.loads(json.dumps(demo([real()]).to_dict()))
    assert record["exit"] == 0
    assert record["mpi"]["sorts"][0]["is_correct"] is True
    assert record["simulated"]["verdicts"]["splitters"]["match"] == "exact"
    assert set(record["simulated"]["makespan_s"]) == {"16", "32", "64", "128", "256"}


@pytest.fixture
def without_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> list[RealSort]:
        raise MachineError("no MPI here;\n install one")

    monkeypatch.setattr(job, "sort_on_real_mpi", broken)
    monkeypatch.setattr(job, "sort_on_simulated_cluster", simulated)
    monkeypatch.setattr(job, "extrapolate", beyond)


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


@pytest.mark.usefixtures("without_mpi")
def test_json_is_one_object_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--out", str(tmp_path / "page.html")]) == 3
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record["exit"] == 3
    assert record["mpi"] == {"works": False, "trouble": "no MPI here; install one", "sorts": []}
    assert "Simulated cluster" in captured.err


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "nowhere" / "page.html")]) == 3
    assert "cannot be written" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path)]) == 3
