"""A name that an object or a package does not have is answered with the one that was meant."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

import labkit as lk
from labkit.errors import UnknownNameError
from tests.support.refusals import raises_code

FIVE = [2, 4, 8, 16, 32]


def program(comm):
    return comm.rank


def barriers():
    return lk.sweep(lambda comm: comm.barrier(), [2, 4], progress=False)


@pytest.fixture(scope="module")
def run():
    return lk.run(program, 2)


@pytest.fixture(scope="module")
def study():
    return lk.sweep(program, [1, 2], progress=False)


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (lambda run, study: run.makespan, ("unknown-name", "'makespan'", "'makespan_s'")),
        (lambda run, study: run.time, ("unknown-name", "makespan_s")),
        (lambda run, study: run.plot(), ("unknown-name", "labkit.plot.gantt")),
        (lambda run, study: study.judge("p"), ("unknown-name", "'judge'", '"p log p"')),
        (lambda run, study: study.speedup, ("unknown-name", "labkit.plot.speedup")),
        (lambda run, study: study.datta, ("unknown-name", "'data'")),
        (lambda run, study: lk.fit(FIVE, FIVE).plot(), ("unknown-name", "labkit.plot.scaling")),
        (lambda run, study: lk.fit(FIVE, FIVE).predikt(64), ("unknown-name", "'predict'")),
        (lambda run, study: lk.judge(FIVE, FIVE, "p").predict(64), ("unknown-name", "model.predict")),
        (lambda run, study: lk.platform("star:4").draw(), ("unknown-name", "labkit.plot.topology")),
        (lambda run, study: lk.algorithms.sortin, ("unknown-name", "'sorting'")),
        (lambda run, study: lk.algorithms.sorting.samplesort, ("unknown-name", "'sample_sort'")),
        (lambda run, study: lk.datasets.input, ("unknown-name", "'inputs'")),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(run, study, what, wanted: tuple[str, ...]):
    with raises_code(UnknownNameError, *wanted):
        what(run, study)


def test_whoever_only_asks_whether_it_is_there_gets_no_for_an_answer(run, study):
    assert not any(hasattr(one, name) for one in (run, study) for name in ("foo", "_repr_png_", "__array__"))
    assert pickle.loads(pickle.dumps(run)).results == copy.deepcopy(run).results == [0, 1]
    assert len(copy.copy(study)) == len(study)


def test_algorithms_and_inputs_are_reached_by_dots():
    from labkit.algorithms.sorting.sample_sort import sample_sort

    assert lk.algorithms.sorting.sample_sort.sample_sort is sample_sort
    assert "sample_sort" in dir(lk.algorithms.sorting)
    assert {"bcast", "sorting"} <= set(dir(lk.algorithms))
    assert lk.datasets.inputs.keys("uniform", 0, 2, 3).size == 3


def test_points_that_fail_alike_are_told_once():
    def odd(comm):
        raise ValueError("oh")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study = lk.sweep(lambda comm: odd(comm) if comm.size > 1 else 0, [1, 2, 4], progress=False)
    assert [str(one.message)[:36] for one in caught] == ["the point ranks=2 and 1 more failed:"]
    assert repr(study).count("failed at") == 1
    assert "failed at ranks=2; ranks=4" in repr(study)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"machine": "star"}, ("unknown-name", "'on'")),
        ({"np": 4}, ("unknown-name", "'ranks'")),
        ({"coll": {"allreduce": "rng"}}, ("unknown-name", "'ring'")),
        ({"model": "labb"}, ("unknown-name", "'lab'")),
        ({"coll": "binomail"}, ("wrong-type", "'bcast=binomial'")),
        ({"coll": "allreduce:ring"}, ("wrong-type", "'allreduce=ring'")),
        ({"compute": "mesured"}, ("unknown-name", "'measured'")),
        ({"calibration": "packng"}, ("unknown-name", "'packing'")),
        ({"mapping": "blck"}, ("unknown-name", "'block'")),
        ({"on": "star:4,bandwith=10Gbps"}, ("unknown-name", "'bandwith'", "'bw'")),
        ({"on": "star:4,core=2"}, ("unknown-name", "'core'", "'cores'")),
    ],
)
def test_options_and_values_near_to_known_ones_are_named(options, wanted: tuple[str, ...]):
    with raises_code(lk.errors.LabkitError, *wanted):
        lk.run(program, 2, **options)


@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        (lambda study: study.expect("p", metric="makespan"), ("unknown-name", "'makespan_s'")),
        (lambda study: study.expect("p", where={"rank": 2}), ("unknown-name", "'ranks'")),
        (lambda study: barriers().expect("p lgo p"), ("malformed-expression", "'lgo'", "'log'")),
        (
            lambda study: lk.judge([1, 2, 4], [1, 2, 4], "p lgo(p)"),
            ("malformed-expression", "'lgo'", "'log'"),
        ),
        (lambda study: lk.predict("n lgo n"), ("malformed-expression", "'log'")),
        (
            lambda study: lk.synthesize("bcst", on="star:4"),
            ("malformed-schedule", "'bcast'"),
        ),
    ],
)
def test_words_near_to_those_of_studies_and_growths_are_named(study, ask, wanted: tuple[str, ...]):
    with raises_code(lk.errors.LabkitError, *wanted):
        ask(study)


def test_a_verdict_notes_that_a_fixed_parameter_resembles_a_function():
    p = [2, 4, 8, 16, 32]
    assert "lgo is taken as fixed; did you mean 'log'?" in str(lk.judge(p, p, "p lgo p"))
    assert "k is taken as fixed" in (text := str(lk.judge(p, p, "k p")))
    assert "did you mean" not in text


def test_what_is_no_study_is_not_drawn_as_one(run, study):
    for draw, said in [
        (lambda: lk.plot.scaling(study), "study.expect"),
        (lambda: lk.plot.phases(run), "labkit.plot.gantt"),
        (lambda: lk.plot.compare(run), "machine: {program: study}"),
    ]:
        with raises_code(lk.errors.DataError, "wrong-arguments", said):
            draw()


counter = 0


@lk.phase("work")
def bump(comm, by=1):
    global counter
    counter += by
    return counter


def test_a_function_can_be_a_phase_and_each_rank_has_its_own():
    def program(comm):
        bump(comm)
        return bump(comm, by=2)

    run = lk.run(program, 3)
    assert (run.results, counter) == ([3, 3, 3], 0)
    assert list(run.phases["phase"]) == ["work"] * 6


def test_guidelines_ask_for_as_many_ranks_as_there_are():
    report = lk.guidelines("star:4", sizes=8, only="allreduce <= reduce + bcast")
    assert "1 of 1 place" in str(report)
