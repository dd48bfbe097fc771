"""Real times are measured in windows, repeated, and what was done is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.real.context import available_cores

pytestmark = pytest.mark.mpi


def program(comm: Any, n: int = 8) -> int:
    data = np.zeros(n)
    comm.Bcast(data)
    return int(comm.rank)


@pytest.mark.slow
def test_a_sweep_records_how_it_was_measured(tmp_path: Any) -> None:
    few = lk.Repeats(least=6, most=8, most_s=2.0)
    study = lk.sweep(program, [1, 2], "mpi", repeats=few, n=[8, 64], progress=False)
    times = study.data[study.data["metric"] == "makespan_s"]
    counts = times.groupby(["ranks", "n"]).size()
    assert len(counts) == 4
    assert counts.between(6, 8).all()
    assert [one["repeats"] for one in study.notes["conduct"]] == counts.tolist()
    expected = "window" if available_cores() >= 2 else "barrier"
    assert study.notes["conduct"][-1]["start"] == expected
    text = lk.load(study.save(tmp_path / "s.study")).methods()
    assert "1 warm-up run of each point did not count." in text
    assert "random order, each in its own launch" in text
    assert study.rules()[10].status == "met"
    assert (times["value"] > 0).all()


def test_a_number_of_repetitions_is_kept_and_results_are_those_of_the_last_runs() -> None:
    study = lk.sweep(program, 2, "mpi", repeats=3, warmup=2, progress=False)
    assert study.data["repetition"].max() == 2
    (conduct,) = study.notes["conduct"]
    assert (conduct["repeats"], conduct["warmup"], conduct["stopped"]) == (3, 2, "count")


def test_a_call_is_measured_inside_a_program() -> None:
    def timed(comm: Any) -> Any:
        data = np.zeros(100)
        return lk.measure(comm, lambda: comm.Bcast(data), repeats=lk.Repeats(least=6, most=10, most_s=2.0))

    first, second = lk.run(timed, 2, "mpi").results
    assert first.times_s == second.times_s
    assert 6 <= len(first.times_s) <= 10
    assert first.interval.low <= first.interval.value <= first.interval.high
    assert not first.is_simulated


@pytest.mark.slow
def test_guidelines_are_checked_in_several_launches() -> None:
    report = lk.guidelines("mpi", 2, 8, "allreduce <= reduce + bcast", launches=2, repeats=6)
    (one,) = report
    assert one.word in ("held", "violated", "undecided")
    assert one.places[0][1].left_s > 0
    assert "2 launches" in report.about
