"""The pytest plugin, run as an outside project would."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labkit.errors import DataError, StudyWarning
from labkit.study import Study
from labkit.testing.plugin import ScalingFixture, read_baseline
from tests.support.refusals import raises_code

pytest_plugins = ["pytester"]

PROJECT = '''
import pytest

def linear(comm):
    """8 bytes from rank 0 to everybody, one after the other."""
    if comm.rank == 0:
        for r in range(1, comm.size):
            comm.send(b"8 bytes.", r)
    else:
        comm.recv(source=0)

def binomial(comm):
    step = 1
    while step < comm.size:
        if comm.rank < step and comm.rank + step < comm.size:
            comm.send(b"8 bytes.", comm.rank + step)
        elif step <= comm.rank < 2 * step:
            comm.recv(source=comm.rank - step)
        step *= 2

@pytest.mark.scaling(expect="log p", ranks=[4, 8, 16, 32, 64, 128], on="star:128", deviation="log^0.5 p")
@pytest.mark.parametrize("program", [binomial, linear])
def test_promise(scaling, program):
    scaling(program)

@pytest.mark.scaling(ranks=[4, 8, 16, 32, 64, 128], on="star:128")
def test_status_quo(scaling):
    import os
    scaling(linear if os.environ.get("SLOW") else binomial)

@pytest.mark.scaling(expect="p")
@pytest.mark.parametrize("how", [{}, {"undecided": "xfail"}])
def test_too_few(scaling, how):
    import pandas as pd
    from labkit.study import Study
    rows = [{"ranks": p, "metric": "makespan_s", "value": p} for p in (1, 2, 4)]
    scaling(Study(pd.DataFrame(rows)), **how)

@pytest.mark.scaling(expect="p")
def test_no_ranks(scaling):
    scaling(binomial)
'''


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_bcast=PROJECT)
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:nbval", *words)


@pytest.mark.slow
def test_promises_and_baselines(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(project, "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=4, xfailed=1)
    text = result.stdout.str()
    assert "No match: it grows like p, faster than log p by p/log p" in text
    assert "allowed: what the expectation would grow by" in text
    assert "no baseline yet. It grows as log p" in text
    assert "a scaling test needs ranks" in text
    figure = next(line for line in text.splitlines() if line.startswith("figure: "))
    assert "<html" in Path(figure.removeprefix("figure: ")).read_text().lower()
    assert 'name="scaling_growth" value="p"' in (project.path / "out.xml").read_text()

    configured = run(project, "-k", "few", "-o", "scaling_undecided=xfail", "-rx")
    configured.assert_outcomes(xfailed=2)
    assert "Undecided" in configured.stdout.str()

    run(project, "-k", "status", "--scaling-update").assert_outcomes(passed=1)
    run(project, "-k", "status", "--scaling-slower=1").assert_outcomes(passed=1)
    path = project.path / "scaling" / "test_bcast.test_status_quo.json"
    kept = json.loads(path.read_text())
    assert kept["growth"] == "log p"
    (content,) = [name for name in kept["made_with"] if name.startswith("the content of ")]
    assert set(kept["made_with"]) == {"labkit", "on", "network model", "engine with model lab", content}

    monkeypatch.setenv("SLOW", "1")
    kept["made_with"] |= {"labkit": "0.0.1", "engine with model lab": "7 ranks on torus:3x3 in 1.0 s"}
    kept["made_with"][content] = "0123"
    path.write_text(json.dumps(kept))
    slow = run(project, "-k", "status")
    slow.assert_outcomes(failed=1)
    assert "the baseline is log p" in slow.stdout.str()
    assert "labkit was '0.0.1' and is" in slow.stdout.str()
    assert f"{content} was '0123' and is" in slow.stdout.str()
    assert "engine with model lab was '7 ranks on torus:3x3 in 1.0 s' and is '7 ranks" in slow.stdout.str()


def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert read_baseline(path) is None
    for text in ("[]", "{", '{"growth": 3}'):
        path.write_text(text)
        with raises_code(DataError, "malformed-file"):
            read_baseline(path)


def study_of(
    factor: float = 1.0, model: str = "lab", first: int = 2, points: int = 6, **more: float
) -> Study:
    """Simulated times of log p, or of a real machine where the model has no name."""
    ranks = [2**k for k in range(first, first + points)]
    rows = [
        {"ranks": p, "metric": "makespan_s", "model": model, "value": 1e-4 * factor * math.log2(p)}
        for p in ranks
    ]
    for name, at in more.items():
        next(row for row in rows if row["ranks"] == int(name[1:]))["value"] *= at
    return Study(pd.DataFrame(rows))


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., ScalingFixture]:
    """A test with a baseline, by its settings."""
    path = tmp_path / "scaling" / "test.json"
    ScalingFixture({}, path, "test_it", True, None, [])(study_of())

    def make(**settings: Any) -> ScalingFixture:
        return ScalingFixture(settings, path, "test_it", False, None, [])

    return make


@pytest.mark.parametrize("factor", [1.0, 1.4, 0.3])
def test_a_run_that_is_about_as_fast_as_its_baseline_passes(kept, factor) -> None:
    assert kept()(study_of(factor))


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (study_of(3.0), "makespan_s is 3 times the baseline's at p = 128; at most 1.5 times is allowed"),
        (study_of(2.0, first=4), "is 2 times the baseline's at p = 128"),
        (study_of(1.7, p128=1 / 1.7), "is 1.7 times the baseline's in the median of 6 values of p"),
        (study_of(first=20), "the baseline has no value at p = 1048576, 2097152"),
    ],
)
def test_a_run_that_keeps_its_growth_and_is_slower_than_its_baseline_fails(kept, study, words) -> None:
    with pytest.raises(pytest.fail.Exception, match=re.escape(words)) as failed:
        kept(deviation="p")(study)
    assert "the baseline is log p" in str(failed.value)


def test_how_much_slower_is_allowed_can_be_chosen(kept) -> None:
    for limit in (3.5, "4", None, "none"):
        assert kept(slower=limit)(study_of(3.0))
    with pytest.raises(pytest.fail.Exception, match=re.escape("is 1.2 times")):
        kept()(study_of(1.2), slower=1.1)
    for wrong in (0.5, "fast", float("nan")):
        with pytest.raises(pytest.fail.Exception, match="slower must be a factor of at least 1"):
            kept(slower=wrong)(study_of())


def test_times_of_a_real_machine_warn_unless_a_factor_was_chosen(kept) -> None:
    with pytest.warns(StudyWarning, match="is 3 times the baseline's"):
        kept()(study_of(3.0, model=""))
    with pytest.raises(pytest.fail.Exception, match="is 3 times"):
        kept(slower=2)(study_of(3.0, model=""))


def test_an_undecided_test_fails_or_is_an_expected_failure_and_never_skipped(kept) -> None:
    few = study_of(points=3)
    for how in ({}, {"undecided": "fail"}):
        with pytest.raises(pytest.fail.Exception, match="Undecided"):
            kept(expect="log p", **how)(few)
    with pytest.raises(pytest.xfail.Exception, match="Undecided"):
        kept(expect="log p", undecided="xfail")(few)
    with pytest.raises(pytest.fail.Exception, match="undecided must be one of: fail, xfail; got 'skip'"):
        kept(undecided="skip")(few)
    with pytest.raises(pytest.fail.Exception, match="is 3 times"):
        kept(undecided="xfail")(study_of(3.0, points=3))


def test_tracebacks_end_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_sum="""
        import labkit as lk

        def wrong(comm):
            assert comm.allreduce(1) == 5, "wrong sum"

        def test_sum():
            lk.run(wrong, 4, on="star")
        """
    )
    words = ("-p", "no:cacheprovider", "-p", "no:nbval", "--tb=short")
    shown = pytester.runpytest_subprocess(*words).stdout.str()
    assert "simulation.py" not in shown
    assert "rank 0 failed: AssertionError: wrong sum" in shown
    assert 'lk.run(wrong, 4, on="star")' in shown
    assert "simulation.py" in pytester.runpytest_subprocess(*words, "--full-trace").stdout.str()
