"""Errors of Python's own on things of labkit: the hint below them."""

from __future__ import annotations

import collections as container
from types import SimpleNamespace

import pandas as pd
import pytest

import labkit as lk
from labkit.errors import MachineError, PlatformError, ProgramError, ScheduleError, UnknownNameError
from labkit.jupyter.hints import hint_of


def program(comm, n=1):
    return comm.rank


def a_run_of_somebody_else():
    class Run:
        pass

    return Run()[0]


def fit(x, y):
    return x, y


axes = SimpleNamespace(plot=lambda x: x)


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
        (lambda: lk.lecture(), 'lk.lecture("bcast")'),
        (lambda: pd.DataFrame(lk.sweep(program, [1, 2], progress=False)), "study.data"),
        (lambda: pd.DataFrame(object()), ""),
        (lambda: len(3), ""),
        (lambda: program(), ""),
        (lambda: container(axes.plot(3)), ""),  # of a module that is not labkit's
        (a_run_of_somebody_else, ""),
        (lambda: fit(3), ""),
    ],
)
def test_a_mistake_gets_its_hint_and_any_other_none(mistake, hint):
    with pytest.raises((TypeError, ValueError)) as caught:
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
        (lambda: lk.lecture("sorting"), ScheduleError, "has exact_splitting_sort, histogram_sort"),
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
    ("mistake", "said"),
    [
        (lambda: lk.compare, r"use labkit\.plot\.compare\(studies\)"),
        (lambda: lk.help, r"use help\(labkit\)"),
        (lambda: lk.rnu, "did you mean 'run'"),
        (lambda: lk.plot.timeline, r"use labkit\.plot\.gantt\(run\)"),
        (lambda: lk.plot.heatmap, "did you mean 'heat'"),
        (lambda: lk.sweep(program, [1, 2], progress=False).to_csv, r"use data\.to_csv"),
        (lambda: lk.plot.topology("star:4").savefig, r'use save\("figure\.png"\)'),
    ],
)
def test_another_name_for_a_thing_is_answered_with_its_own(mistake, said):
    with pytest.raises(UnknownNameError, match=said):
        mistake()


def test_a_number_in_the_place_of_a_machine_is_told_what_it_was_meant_for():
    with pytest.raises(
        PlatformError, match=r"parameters go by name, as in labkit\.run\(program, 4, n=1000\)$"
    ):
        lk.run(program, 4, 1000)
