"""Predictions beside measurements: what is compared with what."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit import plot
from labkit.calibration.reality import Job, collect, compare, is_settled, predict, run_jobs
from labkit.datasets import measurements
from labkit.machines import models

JOBS = [Job("bcast", "binomial", 400_000), Job("alltoall", "pairwise", 100_000)]


def test_what_is_predicted_is_what_a_run_on_that_machine_measures() -> None:
    machine, model = lk.platform("star:4,bw=125MBps,lat=10us"), models.get("smpi")
    measured = collect(lk.run(run_jobs, 4, machine, args=(JOBS, 3), model=model).results, JOBS)
    assert len(measured) == 6
    table = compare(measured, predict(machine, model, 4, JOBS))
    assert table["rounds"].tolist() == [3, 3]
    np.testing.assert_allclose(table["error"], 0.0, atol=1e-9)
    np.testing.assert_allclose(table["spread"], 0.0, atol=1e-9)


def test_a_binomial_broadcast_takes_as_many_messages_as_the_tree_is_deep() -> None:
    machine, model = lk.platform("star:8,bw=125MBps,lat=10us"), models.get("raw")
    seconds = predict(machine, model, 8, JOBS[:1])["seconds"].iloc[0]
    clock = 2 * model.wtime_s  # its readings after the start and at the end
    assert seconds == pytest.approx(3 * (20e-6 + 400_016 / 125e6) + clock, rel=1e-9)


def test_the_statistic_stands_for_the_rounds() -> None:
    rows = [("bcast", "ring", 10, 2, number, seconds) for number, seconds in enumerate([3.0, 1.0, 2.0])]
    measured = pd.DataFrame(rows, columns=["problem", "algorithm", "bytes", "ranks", "round", "seconds"])
    predicted = measured.iloc[:1].assign(seconds=2.0)
    assert compare(measured, predicted)["error"].tolist() == [0.0]
    assert compare(measured, predicted, "min")["error"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("times", "settled"), [([1.0], False), ([1.0, 1.02, 5.0], False), ([5.0, 1.005, 1.0], True)]
)
def test_a_job_has_settled_when_its_two_quickest_rounds_agree(times, settled) -> None:
    rows = [("bcast", "ring", 10, 2, number, seconds) for number, seconds in enumerate(times)]
    data = pd.DataFrame(rows, columns=["problem", "algorithm", "bytes", "ranks", "round", "seconds"])
    assert is_settled(data, Job("bcast", "ring", 10)) is settled
    assert not is_settled(data, Job("bcast", "ring", 20))


def test_recorded_collectives_are_complete() -> None:
    data = measurements.collectives()
    assert set(data["network"]) == {"star of 4", "star of 8", "tree of 4 + 4"}
    assert data.groupby(["network", "congestion", "problem", "algorithm", "bytes"]).size().min() >= 5
    assert (data["seconds"] > 0).all()
    with pytest.raises(FileNotFoundError, match="no measurements 'moon'"):
        measurements.folder("moon")


def test_the_figure_shows_every_collective_and_says_the_errors() -> None:
    table = pd.DataFrame(
        {
            "network": ["a", "a", "b"], "problem": "bcast", "algorithm": ["ring", "linear", "ring"],
            "bytes": [100_000, 400_000, 400_000], "error": [0.02, -0.04, 0.09],
        }
    )  # fmt: skip
    figure = plot.predictions(table)
    assert "Median error 4.0 %, worst 9.0 %" in figure.reading
    points = [r for fig, *_ in figure.layout.children for r in fig.renderers]
    drawn = [float(y) for r in points for y in r.data_source.data["y"]]
    assert sorted(drawn) == [-0.04, 0.02, 0.09]
