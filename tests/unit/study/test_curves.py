"""Several machines, algorithms and parameters in one study: filtered, grouped, drawn a line each."""

from __future__ import annotations

import pandas as pd
import pytest

import labkit as lk
from labkit.errors import DataError, MachineError, ScheduleError
from tests.support.refusals import raises_code


def made() -> lk.Study:
    rows = [
        {"on": on, "ranks": p, "coll": coll, "metric": "makespan_s", "value": 1e-6 * p * slope}
        for on, coll, slope in (("star", "ring", 1), ("star", "bruck", 2), ("torus", "ring", 3))
        for p in (2, 4, 8, 16, 32)
    ]
    return lk.Study(pd.DataFrame(rows))


def test_every_curve_has_the_name_of_what_tells_it_apart():
    curves = made().curves()
    assert list(curves) == ["on=star, coll=ring", "on=star, coll=bruck", "on=torus, coll=ring"]
    assert curves["on=torus, coll=ring"].samples.groups[0].tolist() == [6e-6]
    assert list(made().curves(where={"on": "star"})) == ["coll=ring", "coll=bruck"]
    assert list(made().filter(on="torus").curves()) == ["makespan_s"]


def test_weak_scaling_is_one_curve():
    rows = [{"ranks": p, "n": 1000 * p, "metric": "makespan_s", "value": 1e-6 * p} for p in (2, 4, 8, 16, 32)]
    assert list(lk.Study(pd.DataFrame(rows)).curves()) == ["makespan_s"]


def test_filter_and_group():
    study = made()
    assert len(study.filter(ranks=[2, 4], on="star")) == 4
    groups = study.group("on")
    assert {on: len(part) for on, part in groups.items()} == {"star": 10, "torus": 5}
    assert groups["torus"].expect("p").match == "exact"
    with raises_code(DataError, "unknown-name", "'machine'"):
        study.group("machine")
    with raises_code(DataError, "unknown-name", "'mpi'", "'star'", "'torus'"):
        study.filter(on="mpi")


def test_a_figure_has_a_line_each():
    figure = made().plot()
    assert len(figure.layout.legend[0].items) == 3
    assert "on=torus, coll=ring 6 µs to 96 µs" in figure.alt
    assert figure.reading == "Least at 32 ranks: on=star, coll=ring."
    with raises_code(DataError, "no-data"):
        lk.plot.lines({})


def program(comm, n=1):
    comm.allreduce(n)


def test_algorithms_are_one_more_dimension():
    choices = ["allreduce=ring", "allreduce=recursive_doubling", None]
    study = lk.sweep(program, [2, 4], coll=choices[:2], model=["lab", "smpi"], progress=False)
    assert study.data["coll"].unique().tolist() == choices[:2]
    assert study.data.groupby(["model", "coll", "ranks"]).ngroups == 8
    product = lk.sweep(
        program,
        4,
        coll={"allreduce": ["ring", "rabenseifner"], "bcast": ["binomial", "linear"]},
        progress=False,
    )
    assert product.data["coll"].nunique() == 4
    assert "coll" not in lk.sweep(program, 4, progress=False).data


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"coll": "allreduce=rign"}, ScheduleError, "no algorithm 'rign'"),
        ({"coll": ["allreduce=ring"], "on": ["star", "slurm"]}, MachineError, "those of its MPI library"),
        ({"coll": "allreduce=ring", "options": {"coll": {"bcast": "linear"}}}, DataError, "given twice"),
        ({"coll": []}, DataError, "at least one value"),
    ],
)
def test_algorithms_that_cannot_be_chosen_are_refused(how, error, words):
    with pytest.raises(error, match=words):
        lk.sweep(program, [2, 4], progress=False, **how)


@pytest.mark.slow
def test_a_bundle_runs_every_algorithm_again(tmp_path):
    study = lk.sweep(program, [4, 8], coll=["allreduce=ring", "allreduce=rabenseifner"], progress=False)
    written = study.bundle(tmp_path / "x.zip")
    found = lk.verify(written.path)
    assert (found.outcome, found.compared) == ("same", written.again)
