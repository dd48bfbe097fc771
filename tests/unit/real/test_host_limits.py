"""Binder's limits: few real ranks, no verdict over wall-clock times, simulation as everywhere."""

from __future__ import annotations

import pandas as pd
import pytest

import labkit as lk
from labkit.errors import MachineError
from labkit.real.host_limits import PLACE_VARIABLE, check_place, describe_place, find_place, place_doubt
from labkit.study import Study
from tests.support.refusals import raises_code


@pytest.fixture
def binder(monkeypatch):
    monkeypatch.setenv(PLACE_VARIABLE, "binder")


def ranks_squared(comm):
    return comm.rank**2


@pytest.mark.parametrize(
    ("environment", "is_binder"),
    [
        ({}, False),
        ({PLACE_VARIABLE: "binder"}, True),
        ({PLACE_VARIABLE: " Binder "}, True),
        ({"BINDER_SERVICE_HOST": "10.0.0.1"}, True),
        ({"BINDER_LAUNCH_HOST": "https://example.org"}, True),
        ({"BINDER_SERVICE_HOST": "10.0.0.1", PLACE_VARIABLE: "none"}, False),
        ({PLACE_VARIABLE: "laptop"}, False),
    ],
)
def test_the_place_is_known_by_variables(environment, is_binder):
    assert (find_place(environment) is not None) == is_binder


def test_elsewhere_nothing_is_limited(monkeypatch):
    monkeypatch.setenv(PLACE_VARIABLE, "none")
    check_place(10_000)
    assert place_doubt() is None
    assert describe_place() == {}


def test_more_real_ranks_than_it_bears_are_refused_with_what_to_do(binder):
    check_place(4)
    with raises_code(MachineError, "too-many-ranks", "4", "5", "save_work"):
        lk.run(ranks_squared, 5, "mpi")
    with raises_code(MachineError, "too-many-ranks", "MPI"):
        lk.cluster(5)


def test_simulation_is_not_hindered(binder):
    run = lk.run(ranks_squared, 64, "star:64")
    assert run.is_valid
    assert run.results[63] == 63**2


def study(machine, is_valid):
    rows = [
        {"ranks": p, "metric": "makespan_s", "value": 1e-3 * p, "is_valid": is_valid} for p in range(1, 9)
    ]
    return Study(pd.DataFrame(rows), {"machines": {"mpi": machine}})


def test_wall_clock_times_of_a_binder_session_are_undecided_with_a_sentence():
    verdict = study({"place": "Binder"}, False).expect("p")
    assert verdict.match == "undecided"
    assert "Binder" in verdict.reasons[0]
    assert "no verdict" in verdict.reasons[0]


def test_the_sentence_survives_saving_and_reading_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv(PLACE_VARIABLE, "none")
    path = study({"place": "Binder"}, False).save(tmp_path / "binder.zip")
    assert "Binder" in lk.load(path).expect("p").reasons[0]


def test_valid_times_of_the_same_study_are_judged(binder):
    assert study({"place": "Binder"}, True).expect("p").match == "exact"


def test_other_invalid_times_do_not_blame_binder():
    verdict = study({}, False).expect("p")
    assert verdict.match == "undecided"
    assert "Binder" not in " ".join(verdict.reasons)


@pytest.mark.mpi
def test_a_real_run_says_where_it_was_measured(binder):
    pytest.importorskip("mpi4py")
    run = lk.run(ranks_squared, 2, "mpi")
    assert not run.is_valid
    assert run.machine["place"] == "Binder"
    assert any("Binder" in note for note in run.notes)
