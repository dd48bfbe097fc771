"""The pytest plugin, run as an outside project would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labkit.errors import DataError
from labkit.testing.baseline import read_baseline

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
@pytest.mark.parametrize("is_strict", [False, True])
def test_too_few(scaling, is_strict):
    import pandas as pd
    from labkit.study import Study
    rows = [{"ranks": p, "metric": "makespan_s", "value": p} for p in (1, 2, 4)]
    scaling(Study(pd.DataFrame(rows)), is_strict=is_strict)

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
    result.assert_outcomes(passed=1, failed=4, skipped=1)
    text = result.stdout.str()
    assert "No match: it grows as p, faster than log p by p/log p" in text
    assert "allowed: what the expectation would grow by" in text
    assert "no baseline yet. It grows as log p" in text
    assert "a scaling test needs ranks" in text
    figure = next(line for line in text.splitlines() if line.startswith("figure: "))
    assert "<html" in Path(figure.removeprefix("figure: ")).read_text().lower()
    assert 'name="scaling_growth" value="p"' in (project.path / "out.xml").read_text()

    run(project, "-k", "status", "--scaling-update").assert_outcomes(passed=1)
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
        with pytest.raises(DataError, match="is not a baseline of scaling tests"):
            read_baseline(path)
