"""Errors of Python's own on things of labkit: the hint below them."""

from __future__ import annotations

import collections as container
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

import labkit as lk
from labkit.errors import (
    DataError,
    LabkitError,
    MachineError,
    PlatformError,
    ProgramError,
    RankError,
    ScheduleError,
    UnknownNameError,
)
from labkit.jupyter.hints import hint_of
from tests.support import mistakes
from tests.support.refusals import raises_code


def program(comm, n=1):
    return comm.rank


def a_run_of_somebody_else():
    class Run:
        pass

    return Run()[0]


def fit(x, y):
    return x, y


axes = SimpleNamespace(plot=lambda x: x, shape=3)
RUN, STUDY = lk.run(program, 2), lk.sweep(program, [1, 2], progress=False)
SIZES = lk.sweep(program, [1, 2], n=[10, 1000], progress=False)


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        (lambda: lk.plot(1), "lk.plot.gantt(run) draws a run"),
        (lambda: lk.explore("torus:4x4"), "lk.explore.topology() is one"),
        (lambda: lk.run(program, 2)[0], "run.results"),
        (lambda: lk.fit([1, 2]), "study.fit() a study"),
        (lambda: lk.judge([1, 2], "p"), 'study.expect("p log p") a study'),
        (lambda: lk.sweep(program), "lk.sweep(program, [2, 4, 8, 16, 32])"),
        (lambda: len(lk.run(program, 2)), "run.ranks"),
        (lambda: list(lk.algorithms), "dir(lk.algorithms)"),
        (lambda: STUDY.to_frame()["makespan_s"], "STUDY.to_frame(wide=True) has a column for each metric"),
        (lambda: STUDY.data["messages"], "STUDY.to_frame(wide=True)"),
        (lambda: STUDY.expect(), 'study.expect("p log p") judges a study'),
        (lambda: SIZES.expect("log p", n=10), "SIZES.expect(..., where={'n': 10})"),
        (lambda: SIZES.expect("log p", unheard=10), ""),
        (lambda: RUN.results(), "RUN.results is a value: write RUN.results, without parentheses"),
        (lambda: RUN.phases(), "write RUN.phases, without parentheses"),
        (lambda: axes.shape(), ""),  # not labkit's
        (lambda: lk.run(program(), 4), "hand over the function itself, uncalled: lk.run(program, 4)"),
        (lambda: lk.lecture(), 'lk.lecture("bcast")'),
        (lambda: pd.DataFrame(lk.sweep(program, [1, 2], progress=False)), "study.data"),
        (lambda: STUDY.data["nothing"], ""),
        (lambda: {}["messages"], ""),  # of a table that is no study's
        (lambda: pd.DataFrame(object()), ""),
        (lambda: len(3), ""),
        (lambda: program(), ""),
        (lambda: container(axes.plot(3)), ""),  # of a module that is not labkit's
        (a_run_of_somebody_else, ""),
        (lambda: fit(3), ""),
    ],
)
def test_a_mistake_gets_its_hint_and_any_other_none(mistake, hint):
    with pytest.raises((TypeError, ValueError, KeyError)) as caught:
        mistake()
    assert hint in hint_of(caught.value) if hint else hint_of(caught.value) == ""


@pytest.mark.parametrize(
    ("mistake", "kind", "said"),
    [
        (
            lambda: lk.run(program, [2, 4]),
            MachineError,
            r"are a sweep: labkit.sweep\(program, \[2, 4, 8\]\)$",
        ),
        (lambda: lk.run(program, "4"), MachineError, "; write 4, without quotes$"),
        (lambda: lk.run(program, 4.0), MachineError, r"; write 4, or int\(...\)$"),
        (lambda: lk.run(program, 4.5), MachineError, r"got 4.5 \(float\)$"),
        (lambda: lk.sweep(program, [2], N=[1], progress=False), ProgramError, "; did you mean 'n'"),
        (
            lambda: lk.lecture("sorting"),
            ScheduleError,
            "There are sorting/exact_splitting_sort, sorting/histogram_sort",
        ),
        (lambda: lk.lecture("broadcast"), ScheduleError, "did you mean 'bcast'"),
        (lambda: lk.lecture("bcast", "binomail"), ScheduleError, "did you mean 'binomial'"),
    ],
)
def test_a_word_or_number_that_is_meant_otherwise_is_answered_with_what_to_type(mistake, kind, said):
    with pytest.raises(kind, match=said):
        mistake()


def test_a_problem_with_one_readable_form_needs_no_name():
    assert lk.lecture("bcast").name == "binomial"


@pytest.mark.parametrize(
    ("mistake", "wanted"),
    [
        (lambda: lk.compare, ("unknown-name", "labkit.plot.compare")),
        (lambda: lk.help, ("unknown-name",)),
        (lambda: lk.rnu, ("unknown-name", "'run'")),
        (lambda: lk.plot.timeline, ("unknown-name", "labkit.plot.gantt")),
        (lambda: lk.plot.heatmap, ("unknown-name", "'heat'")),
        (lambda: lk.sweep(program, [1, 2], progress=False).to_csv, ("unknown-name", "data.to_csv")),
        (lambda: lk.plot.topology("star:4").savefig, ("unknown-name", '"figure.png"')),
    ],
)
def test_another_name_for_a_thing_is_answered_with_its_own(mistake, wanted: tuple[str, ...]):
    with raises_code(UnknownNameError, *wanted):
        mistake()


def test_a_number_in_the_place_of_a_machine_is_told_what_it_was_meant_for():
    with raises_code(PlatformError, "wrong-type", "labkit.run", "4", "n=1000"):
        lk.run(program, 4, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["star", pytest.param("mpi", marks=pytest.mark.mpi)])
@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        ("size_is_called", "comm.size is a number: write comm.size, without parentheses"),
        ("rank_is_called", "comm.rank is a number: write comm.rank, without parentheses"),
        ("size_is_not_called", "comm.Get_size is a method: write comm.Get_size(), or comm.size"),
        (
            "a_list_is_a_buffer",
            "comm.Send takes buffers, such as NumPy arrays of numbers: np.array([1, 2, 3])",
        ),
        ("a_number_is_a_buffer", "comm.bcast takes any object"),
        ("a_table_is_a_buffer", "comm.isend takes any object"),
        ("numpy_is_not_imported", "np is defined by 'import numpy as np': write that first"),
        ("another_name_is_unknown", None),
        ("letters_are_exchanged", "MPI.Intracomm has no 'Sned': did you mean 'Send'?"),
        ("a_letter_is_missing", "MPI.Intracomm has no 'bcst': did you mean 'bcast'?"),
        ("a_constant_is_misspelt", "has no 'COMM_WROLD': did you mean 'COMM_WORLD'?"),
        ("nothing_is_near", None),
        ("a_keyword_is_misspelt", "send has no 'dst': did you mean 'dest'?"),
        ("another_keyword_is_not_known", None),
        ("pythons_sum_is_the_operator", "Python's sum takes one list; the operator is op=MPI.SUM"),
        (
            "what_only_the_root_has",
            "data is None here: comm.gather gives its result to the root alone",
        ),
        ("what_only_the_root_has_is_added", "comm.allreduce gives it to every rank"),
        ("another_none", None),
        ("another_number_is_called", None),
        ("a_number_beside_it_is_called", None),
    ],
)
def test_a_mistake_on_a_rank_is_answered_with_what_to_type(mistake, hint, on):
    with pytest.raises(RankError) as caught:
        lk.run(getattr(mistakes, mistake), 2, on)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        notes = [one for one in getattr(error, "__notes__", []) if " had printed" not in one]
        assert len(notes) == (hint is not None)
        assert hint is None or hint in notes[0]


def test_the_command_line_says_it_as_well(tmp_path):
    script = tmp_path / "prog.py"
    script.write_text("from mpi4py import MPI\nprint(MPI.COMM_WORLD.size())\n")
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "run", "-n", "2", str(script)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "MPI.COMM_WORLD.size is a number: write MPI.COMM_WORLD.size, without parentheses" in done.stderr


def test_a_result_in_the_place_of_a_program_is_answered_with_the_function():
    with raises_code(ProgramError, "wrong-type", "labkit.run", "4"):
        lk.run(fit(3, 4), 4)


@pytest.mark.parametrize("how", [(), (4,), (4, "star"), (None, "star:4")])
def test_a_run_in_the_place_of_a_program_is_answered_with_its_program(how):
    with raises_code(ProgramError, "wrong-type", "labkit.run"):
        lk.run(RUN, *how)


@pytest.mark.mpi
def test_a_rank_that_is_none_is_answered_with_those_there_are():
    with pytest.raises(RankError) as caught:
        lk.run(lambda comm: comm.send(1, dest=comm.size), 2, "mpi")
    assert "from 0 to comm.size - 1" in caught.value.__notes__[0]


RESULTS = lk.run(program, 2).results


@pytest.mark.parametrize(
    ("mistake", "error", "sentence"),
    [
        (lambda: RESULTS[5], IndexError, "an entry for each rank, 0 to 1; got 5"),
        (lambda: RESULTS["x"], TypeError, "an entry for each rank, 0 to 1; got 'x'"),
        (lambda: RESULTS.mean(), AttributeError, r"use numpy.array\(run.results\).mean"),
        (lambda: lk.run(program, "mpi"), MachineError, r"labkit.run\(program, 4, on='mpi'\)"),
        (lambda: lk.run("program", 4), ProgramError, r"the function itself: labkit.run\(program, 4\)"),
        (lambda: lk.run(program, 2).expect("p"), UnknownNameError, "a growth needs several runs"),
        (lambda: lk.run(lambda comm, rank: 1, 4), ProgramError, "inside, comm.rank is the rank"),
        (lambda: lk.run(lambda comm, keys: 1, 4), ProgramError, r"labkit.run\(program, 4, keys=...\)"),
        (lambda: lk.sweep(program, [1, 2], reps=3), ProgramError, "did you mean 'repeats'"),
        (lambda: lk.sweep(program, [1, 2]).fit("time"), DataError, "did you mean 'makespan_s'"),
    ],
)
def test_a_sentence_says_what_to_type(mistake, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        mistake()
    assert isinstance(caught.value, LabkitError)
