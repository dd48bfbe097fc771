"""Figures and explorers that are handed something else: a sentence that says what they take."""

from __future__ import annotations

import functools

import pytest

import labkit as lk
from labkit.errors import DataError, LabkitError
from tests.support.refusals import raises_code


def program(comm):
    with lk.phase("all"):
        comm.barrier()


@functools.cache
def things():
    run = lk.run(program, 3)
    study = lk.sweep(program, [1, 2, 3], repeats=1, progress=False)
    return {"run": run, "study": study, "verdict": study.expect("log p"), "number": 4, "function": program,
            "frame": study.data, "none": None}  # fmt: skip


@pytest.mark.parametrize("room", [lk.plot, lk.explore], ids=["plot", "explore"])
def test_whatever_is_handed_over_ends_in_a_sentence(room):
    for name in dir(room):
        figure = getattr(room, name)
        for kind, thing in things().items():
            if room is lk.explore and kind in ("none", "study", "verdict"):
                continue  # drawn, or tried below: an explorer takes long
            said = ""
            try:
                figure(thing)
            except LabkitError as error:
                said = str(error)
            assert "has no '" not in said, f"{name}({kind}): {said}"
            assert len(said.splitlines()) <= 1, f"{name}({kind}): {said}"


@pytest.mark.parametrize(
    ("figure", "kind", "wanted"),
    [
        (lk.plot.gantt, "study", ("wrong-arguments", "labkit.plot.gantt", "study.plot")),
        (
            lk.plot.speedup,
            "run",
            ("wrong-arguments", "labkit.plot.speedup", "labkit.plot.gantt"),
        ),
        (lk.plot.topology, "run", ("wrong-arguments", '"torus:4x4"')),
        (lk.plot.delays, "function", ("wrong-arguments", "labkit.run", "8", "trace=True")),
        (lk.plot.lines, "study", ("wrong-arguments", "study.curves")),
        (lk.explore.messages, "study", ("wrong-arguments", "labkit.explore.messages")),
        (lk.explore.model, "run", ("wrong-arguments",)),
        (lk.plot.guess, "number", ("wrong-arguments",)),
        (lk.plot.compare, "study", ("wrong-arguments",)),
        (lk.plot.efficiency, "number", ("wrong-arguments",)),
    ],
)
def test_the_sentence_says_what_draws_the_thing(figure, kind, wanted: tuple[str, ...]):
    with raises_code(DataError, *wanted):
        figure(things()[kind])


def test_a_figure_without_its_subject_says_what_it_takes():
    with raises_code(DataError, "wrong-arguments", "labkit.plot.gantt"):
        lk.plot.gantt()
    assert lk.plot.gantt.__doc__.startswith("Draw what the ranks of a run did")


@pytest.mark.parametrize("room", [lk.plot, lk.explore], ids=["plot", "explore"])
def test_a_machine_may_be_a_list_of_edges(room):
    edges = [("a", "switch"), ("b", "switch")]
    assert room.topology(edges) is not None
    assert room.topology(tuple(edges)) is not None


def test_the_explanation_of_a_run_is_none_of_a_request():
    with raises_code(DataError, "wrong-type", "request.explain", "labkit.plot.heat"):
        lk.plot.tuning(lk.run(program, 3, trace=True).explain())


def test_measurements_alone_are_not_said_to_be_too_few():
    samples = lk.judge([1, 2, 4, 8, 16], [1.0, 2.0, 4.0, 8.0, 16.0], "p").samples
    assert lk.plot.scaling(None, samples).reading == "Measured; no model was given."


def test_a_study_of_few_values_is_drawn_without_a_model():
    assert "too few values for a model" in things()["study"].plot().reading
