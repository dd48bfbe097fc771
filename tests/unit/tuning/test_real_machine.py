"""Off-line tuning on a real machine: what is refused, and what a table of measurements decides."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import labkit as lk
from labkit.errors import DataError, MachineError
from labkit.timing import Repeats
from labkit.tuning.real_machine import COLUMNS, RealMachine, gain
from labkit.tuning.tuned import Tuned


def tuned_of(rows: list[tuple[Any, ...]], library: str = "ompi") -> Tuned:
    return Tuned("bcast", RealMachine("mpi", library), pd.DataFrame(rows, columns=COLUMNS))


ROWS = [
    ("bcast", 2, 8, "binomial", 1.0e-6, 0.9e-6, 1.1e-6),
    ("bcast", 2, 8, "linear", 1.05e-6, 1.0e-6, 1.2e-6),
    ("bcast", 2, 8, "pipeline", 3.0e-6, 2.9e-6, 3.1e-6),
    ("bcast", 2, 10**6, "binomial", 9.0e-4, 8.9e-4, 9.1e-4),
    ("bcast", 2, 10**6, "linear", 8.0e-4, 7.9e-4, 8.1e-4),
    ("bcast", 2, 10**6, "pipeline", 4.0e-4, 3.9e-4, 4.1e-4),
]


def test_the_fastest_by_the_median_and_its_equals_by_the_intervals() -> None:
    tuned = tuned_of(ROWS)
    assert tuned.best["algorithm"].tolist() == ["binomial", "pipeline"]
    assert tuned.equals["algorithms"].tolist() == [["binomial", "linear"], ["pipeline"]]
    assert [leaf.algorithm for leaf in tuned.tree] == ["binomial", "pipeline"]
    assert list(tuned.compare().index) == ["tree"]
    assert "measured" in str(tuned)
    assert tuned.to_dict()["on"] == "mpi (Open MPI)"


def test_what_was_not_measured_is_not_known() -> None:
    tuned = tuned_of(ROWS)
    with pytest.raises(DataError):
        tuned.penalty({"bcast": "knomial"})
    with pytest.raises(MachineError):
        gain(tuned_of(ROWS, "mpich"))


@pytest.mark.parametrize(
    "given",
    [
        {"operation": "alltoallw"},
        {"operation": "nothing"},
        {"algorithms": ["bruck"]},
        {"library": "smpi"},
        {"ranks": [0]},
        {"sizes": []},
    ],
)
def test_bad_input_is_refused_before_anything_starts(given: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        lk.tune(**{"operation": "allreduce", "on": "mpi", "ranks": [2]} | given)


def test_mappings_of_simulated_machines() -> None:
    dense, spread = (
        lk.tune("bcast", "star:8,cores=4", [8], [1024], algorithms=["binomial"], mapping=m, progress=False)
        for m in ("block", "block:1")
    )
    assert dense.times["time_s"][0] != spread.times["time_s"][0]
    card = lk.card("bcast", "star:8,cores=4", p=8, bytes=[1024], algorithms=["binomial"], mapping="block:1")
    assert card.data["simulated_s"][0] == pytest.approx(spread.times["time_s"][0])


@pytest.mark.mpi
def test_on_real_mpi_rules_are_measured_given_back_and_compared() -> None:
    machine = RealMachine("mpi", repeats=Repeats(within=0, least=8, most=8))
    times = machine.measure("bcast", [2], [8, 65536], ["linear", "binomial"], progress=False)
    assert len(times) == 4
    assert (times["low_s"] <= times["time_s"]).all()
    assert (times["time_s"] <= times["high_s"]).all()
    found = gain(Tuned("bcast", machine, times))
    assert found["bytes"].tolist() == [8, 65536]
    assert set(found["algorithm"]) <= {"linear", "binomial"}
    assert set(found["verdict"]) <= {"faster", "slower", "undecided"}
    assert (found["gain"] > 0).all()
