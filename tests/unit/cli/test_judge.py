"""``labkit judge``: exit codes, the JSON object, and the options."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from labkit.cli import judge
from labkit.errors import LabkitError
from labkit.study import Study

P = [4, 8, 16, 32, 64]


def run(*words: object) -> int:
    """Parse and execute; errors give their exit code as the main command gives it."""
    parser = argparse.ArgumentParser(prog="labkit judge")
    judge.configure(parser)
    try:
        return judge.execute(parser.parse_args([str(w) for w in words]))
    except LabkitError:
        return judge.BAD_INPUT
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.fixture
def times(tmp_path: Path) -> Path:
    path = tmp_path / "times.csv"
    path.write_text("p,time_s\n" + "".join(f"{p},{2 + p * math.log2(p)}\n" for p in P))
    return path


def test_an_expectation_in_two_parameters_is_judged_over_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "grid.csv"
    rows = [(n, p, 1e-8 * n / p * math.log2(n / p) + 1e-5) for n in (2**k for k in range(14, 19)) for p in P]
    path.write_text("n,p,time_s\n" + "".join(f"{n},{p},{t}\n" for n, p, t in rows))
    both = ("--param", "n", "--param", "p")
    assert run(path, "--expect", "n/p log(n/p)", *both, "--html", tmp_path / "page.html", "--json") == 0
    assert json.loads(capsys.readouterr().out)["match"] == "exact"
    assert "n / p log(n/p)" in (tmp_path / "page.html").read_text()
    for expectation, match in (("n/p", "approximate"), ("n/p^2", "none")):  # log(n/p) is faster than 1
        run(path, "--expect", expectation, *both, "--json")
        assert json.loads(capsys.readouterr().out)["match"] == match
    assert run(path, "--expect", "n/p", *both, "--deviation", "strict") == judge.BAD_INPUT


@pytest.mark.parametrize(
    ("expectation", "match", "code"),
    [("p log p", "exact", 0), ("p", "approximate", 0), ("log p", "none", 1), ("p^3", "bound", 0)],
)
def test_exit_codes_follow_the_match(
    times: Path, expectation: str, match: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(times, "--expect", expectation, "--json") == code
    found = json.loads(capsys.readouterr().out)
    assert found["match"] == match
    assert found["exit"] == code
    assert found["term"] == {"exponential": 0, "polynomial": 1, "logarithmic": 1}
    assert found["model"] == "2 + 1 p log p"
    assert found["deviation"] == "sqrt(p)"
    assert found["r2_adjusted"] == pytest.approx(1)
    assert {"divergence", "plausible", "is_firm", "values"} <= set(found)


def test_text_says_it_in_words(times: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(times, "--expect", "log p") == 1
    assert "No match: it grows like p log p, faster than log p by p, beyond" in capsys.readouterr().out


def test_data_that_level_off_have_their_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "times.csv"
    path.write_text("p,time_s\n32,.1406\n64,.2032\n128,.2338\n256,.2490\n512,.2570\n")
    assert run(path, "--expect", "1") == 0
    assert "it levels off at 265 ms, of which 97 % is reached at p = 512" in capsys.readouterr().out
    assert run(path, "--expect", "p") == 0
    assert "The bound holds but is not tight" in capsys.readouterr().out


def test_undecided_is_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "few.csv"
    path.write_text("p,t\n1,1\n2,2\n4,4\n")
    assert run(path, "--expect", "p", "--json") == 2
    found = json.loads(capsys.readouterr().out)
    assert found["match"] == "undecided"
    assert found["term"] is None
    assert "at least 5" in found["reasons"][0]


@pytest.mark.parametrize(
    "words",
    [
        ["missing.csv", "--expect", "p"],
        ["{times}", "--expect", "plogp"],
        ["{times}", "--expect", "p", "--metric", "energy"],
        ["{times}", "--expect", "p", "--phase", "merge"],
        ["{times}", "--expect", "p", "--param", "q"],
        ["{times}", "--expect", "p", "--where", "p"],
        ["{times}", "--expect", "p", "--given", "=3"],
        ["{times}", "--expect", "p", "--deviation", "1/p"],
        ["{times}", "--expect", "p", "--space", "huge"],
        ["{times}"],
        [],
    ],
)
def test_bad_input_is_three(times: Path, words: list[str]) -> None:
    assert run(*(w.format(times=times) for w in words)) == 3


def test_options_choose_curve_limit_and_what_is_known(tmp_path: Path) -> None:
    rows = [
        {"ranks": p, "n": n, "metric": "phase_s", "phase": phase, "value": value}
        for p in P
        for n in (1000, 2000)
        for phase, value in (("sort", n / p * math.log2(n / p)), ("merge", n + p))
    ]
    path = Study(pd.DataFrame(rows)).save(tmp_path / "s.study")
    sort = [path, "--phase", "sort", "--where", "n=1000", "--expect", "n/p * log2(n/p)"]
    assert run(*sort) == 0
    assert run(path, "--phase", "merge", "--where", "n=1000", "--expect", "p") == 0
    assert run(path, "--phase", "merge", "--expect", "p") == 3
    tight = [path, "--phase", "merge", "--where", "n=1000", "--expect", "p/log p", "--deviation", "log^0.5 p"]
    assert run(*tight) == 1
    assert run(path, "--phase", "merge", "--where", "ranks=4", "--param", "n", "--expect", "n") == 2


def test_what_the_reader_left_out_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "times.jsonl"
    rows = [{"params": {"p": p}, "metrik": "time", "value": math.log2(p)} for p in P]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert run(path, "--expect", "log p") == 0
    assert "'metrik'" in capsys.readouterr().out
    assert run(path, "--expect", "log p", "--json") == 0
    assert ["metrik" in text for text in json.loads(capsys.readouterr().out)["remarks"]] == [True]
