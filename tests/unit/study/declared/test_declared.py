"""A declared study: checked before anything runs, resumed after a kill, judged and reported."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.cli import main
from labkit.errors import LabkitError
from labkit.study.declared import read_declaration

PROGRAM = """\
import os, subprocess
import numpy as np
import labkit as lk


def program(comm, n=10):
    if comm.rank == 0:
        subprocess.run(["sleep", "0.1" if os.path.exists("slow") else "0"])  # the host's time, not the rank's
    if os.environ.get("FAILS") == str(comm.size):
        raise ValueError("oh")
    with lk.phase("sum"):
        comm.Allreduce(np.ones(n), np.empty(n))
"""
STUDY = """\
title = "Two ways to add"
program = "sums.py:program"

[parameters]
ranks = [4, 8, 16, 32, 64]
on = ["star", "torus:4x4x4"]
coll = { allreduce = ["ring", "recursive_doubling"] }

[[expect]]
growth = "log p"
metric = "rounds"
where = { coll = "allreduce=recursive_doubling" }

[[expect]]
growth = "p"
metric = "rank_messages"
phase = "sum"
where = { coll = "allreduce=ring", on = "star" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sums.py").write_text(PROGRAM)
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_it_runs_judges_and_reports(folder, capsys):
    assert main(["study", "study.toml", "--export", "all.extra-p"]) == 0
    out = capsys.readouterr().out
    assert out.count("✓ exact") == 3
    assert (folder / "study.results" / "table.txt").read_text() == out
    assert r"$O(\log p)$ & 1.000 & $O(1)$ & exact \\" in (folder / "study.results" / "table.tex").read_text()
    table = (folder / "study.results" / "table.csv").read_text().splitlines()
    assert '"on=star, coll=allreduce=recursive_doubling",rounds,log p,log p,1.000,1,exact' in table
    page = (folder / "study.results" / "report.html").read_text()
    assert "Two ways to add" in page
    if importlib.util.find_spec("matplotlib"):  # else the pictures are live ones
        assert page.count('src="data:image/png;base64,') == 7
        assert not re.search(r'(src|href)="https?:|<script', page)
    study = lk.load(folder / "study.results" / "data.study")
    assert study.data.equals(lk.load("all.extra-p").data)
    assert set(study.data["on"]) == {"star", "torus:4x4x4"}
    about = next(iter(study.notes["environments"].values()))
    assert {"python", "cpu", "labkit_sources_sha256"} <= about.keys()
    assert study.notes["sweep"]["labkit"] == lk.__version__
    assert main(["lint", "study.results/data.study"]) == 0
    assert "✗" not in capsys.readouterr().out
    assert main(["judge", "study.results/data.study", "--expect", "log p", "--metric", "rounds", "--where",
                 "on=star", "--where", "coll=allreduce=recursive_doubling"]) == 0  # fmt: skip


@pytest.mark.slow
def test_what_is_there_is_not_run_again(folder, capsys, monkeypatch):
    assert main(["study", "study.toml", "--dry-run"]) == 0
    assert "20 of 20 points to run" in capsys.readouterr().out
    assert not (folder / "study.results").exists()
    assert main(["study", "study.toml"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("labkit.study.declared.work.DeclaredWork.save", lambda *a: None)
    monkeypatch.setattr("labkit.study.measure.SweepJob.find", None)
    assert main(["study", "study.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["points"], found["missing"], found["exit"]) == (20, 0, 0)
    assert [one["match"] for one in found["judged"]][:3] == ["exact"] * 3
    (folder / "study.toml").write_text(
        STUDY.replace("64]", "64, 128]").replace('"torus:4x4x4"', '"star:128"')
    )
    assert main(["study", "study.toml", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 14
    (folder / "sums.py").write_text(PROGRAM + "# another program\n")
    (folder / "study.toml").write_text(STUDY)
    assert main(["study", "study.toml", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "20 of 20 points to run; changed since 20 points were measured: sums.py; 20" in said


@pytest.mark.slow
def test_alarms_and_failures_set_the_exit_code(folder, capsys, monkeypatch):
    study = STUDY.replace(', "torus:4x4x4"', "")
    (folder / "study.toml").write_text(study.replace('growth = "p"', 'growth = "1"'))
    assert main(["study", "study.toml"]) == 1
    assert "✗ none" in capsys.readouterr().out
    (folder / "study.toml").write_text(study)
    monkeypatch.setenv("FAILS", "16")
    assert main(["study", "study.toml", "--results", "other"]) == 2
    assert (
        "! failed at ranks=16, coll=allreduce=ring: rank 0 failed: ValueError: oh" in capsys.readouterr().out
    )
    monkeypatch.delenv("FAILS")
    assert main(["study", "study.toml", "--results", "other"]) == 0
    (folder / "study.toml").write_text(study.replace('phase = "sum"', 'phase = "add"'))
    assert main(["study", "study.toml"]) == 2
    assert "there is no phase 'add'" in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_study_goes_on(folder, capsys):
    assert main(["study", "study.toml", "--results", "whole"]) == 0
    log = folder / "study.results" / "points.jsonl"
    command = [sys.executable, "-m", "labkit", "study", "study.toml"]
    (folder / "slow").touch()
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and (not log.exists() or log.read_bytes().count(b"\n") < 4):
        time.sleep(0.02)
    capsys.readouterr()
    assert main(["study", "study.toml"]) == 3
    assert f"process {child.pid}" in capsys.readouterr().err
    child.send_signal(signal.SIGKILL)
    child.wait()
    (folder / "slow").unlink()
    done = log.read_bytes().count(b"\n") - 1
    assert 3 <= done < 20
    log.write_bytes(log.read_bytes() + b'{"key": "half a li')
    assert main(["study", "study.toml"]) == 0
    assert f"{20 - done} of 20 points to run" in capsys.readouterr().err
    one, other = (lk.load(folder / name / "data.study").data for name in ("whole", "study.results"))
    assert one.equals(other)
    assert log.read_bytes().count(b"\n") == 21  # the environment, and each point once
    assert [line for line in log.read_text().splitlines() if not json.loads(line)] == []


@pytest.mark.slow
def test_a_full_disk_keeps_what_was_measured(folder, capsys, monkeypatch):
    from labkit.study.declared.work import Results

    add, added = Results.add, []

    def refuse(_):
        raise OSError(28, "No space left on device")

    def full(self, key, entry):
        if len(added) == 3:
            monkeypatch.setattr(
                "os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device"))
            )
        added.append(key)
        add(self, key, entry)

    monkeypatch.setattr(Results, "add", full)
    assert main(["study", "study.toml"]) == 3
    assert "No space left on device; what was measured before is kept" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert main(["study", "study.toml"]) == 0
    assert "17 of 20 points to run" in capsys.readouterr().err


def test_a_damaged_log_is_not_guessed_at(folder, capsys):
    (folder / "study.results").mkdir()
    (folder / "study.results" / "points.jsonl").write_text('{"key": "a"}\n{"nothing": 1}\n')
    assert main(["study", "study.toml"]) == 3
    assert "line 2: it is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title =", "titel =", "'titel' is not known here; did you mean 'title'?"),
        ("growth", "growht", r"\[\[expect\]\] number 1: 'growht' is not known here; did you mean 'growth'?"),
        ("ranks = [4, 8, 16, 32, 64]", "", "needs ranks"),
        ("sums.py", "sum.py", "sum.py' cannot be read: No such file"),
        (":program", ":progam", "has no function 'progam'; did you mean 'program'?"),
        ("[parameters]", "[parameters]\nm = 3", "unexpected keyword argument 'm'"),
        ("[parameters]", "[parameters]\nseed = 3", "'seed' is an option of sweeps"),
        ("torus:4x4x4", "tours:4x4x4", "did you mean 'torus'?"),
        ("torus:4x4x4", "torus:2x2", "do not fit on torus:2x2"),
        ('"ring"', '"rign"', "allreduce has no algorithm 'rign'"),
        ('"log p"', '"log q"', "'q' is not a parameter of this study; known: p"),
        ('"log p"', '"p p log"', "number 1"),
        ('"log p"', "3", "growth is a text, got 3"),
        ('"log p"', '"log p"\ngiven = { m = 3 }', "given names 'm', which is not in the growth"),
        ('"log p"', '"log p"\ntolerance = "small"', "number 1|tolerance"),
        ('on = "star" }', 'on = "tsar" }', "on is never 'tsar'; its values: star, torus:4x4x4"),
        ("[parameters]", "[run]\nrepeats = 0\n[parameters]", "repeats is a whole number of at least 1"),
        ("[parameters]", "[run]\nwarmup = -1\n[parameters]", "warmup is a whole number >= 0"),
        ("[parameters]", "[run]\nrepeats = {leats = 3}\n[parameters]", "did you mean 'least'?"),
        ("[parameters]", "[run]\nnoise = 'none'\n[parameters]\nnoise = ['none']", "noise is given in"),
        ("[parameters]", "[parameters]\nnoise = ['none', 'jiter=5us']", "'jiter=5us' is not an option"),
        ("16, 32", "16, 'a'", "ranks must be whole numbers >= 1; got 'a'"),
        ("[4, 8, 16, 32, 64]", '"64..4"', "the range '64..4' needs 1 <= first <= last"),
        ("16, 32", "16, [32]", "ranks is a value or a list of values"),
        ('title = "', 'title = "\n', "is no TOML file"),
    ],
)
def test_nothing_runs_where_something_is_wrong(folder, capsys, old, new, words):
    (folder / "study.toml").write_text(STUDY.replace(old, new, 1))
    assert main(["study", "study.toml"]) == 3
    error = capsys.readouterr().err
    assert re.search(words, error)
    assert "Traceback" not in error
    assert not (folder / "study.results").exists()


def test_a_file_that_cannot_be_imported_gets_a_sentence(folder, capsys):
    (folder / "sums.py").write_text("import nothing_of_that_name\n")
    assert main(["study", "study.toml"]) == 3
    assert "sums.py cannot be read: ModuleNotFoundError: No module named" in capsys.readouterr().err


def test_too_few_values_are_said_beforehand(folder, capsys):
    (folder / "study.toml").write_text(STUDY.replace("16, 32, 64]", "16]"))
    assert main(["study", "study.toml", "--dry-run"]) == 0
    assert (
        "expectation 1 (log p): a verdict needs at least 5 values of ranks, and it has 3"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_two_parameters_are_judged_together(folder, capsys):
    (folder / "study.toml").write_text(
        'program = "sums.py:program"\n[parameters]\nranks = [4, 8, 16, 32, 64]\n'
        "n = [64, 128, 256, 512, 1024]\n"
        'coll = "allreduce=recursive_doubling"\n[[expect]]\nmetric = "bytes"\ngrowth = "n p log p"\n'
    )
    assert main(["study", "study.toml"]) == 0
    assert re.search(r"bytes +n p log p .*exact", capsys.readouterr().out)


NAMES = ["ranks", "on", "coll", "n", "growth", "metric", "where", "repeats", "least", "allreduce", "x"]
TABLES = ["title", "program", "args", "parameters", "run", "metrics", "expect", "other"]
LEAVES = st.one_of(
    st.integers(-5, 5000), st.floats(allow_nan=False), st.booleans(), st.text(max_size=8)
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def written(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else repr(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(table=st.dictionaries(st.sampled_from(TABLES), VALUES, max_size=4), keeps=st.booleans())
def test_any_file_gets_a_sentence_or_is_a_study(folder, table, keeps):
    base = {"program": "sums.py:program", "parameters": {"ranks": [2, 4]}} if keeps else {}
    text = "".join(f"{key} = {written(value)}\n" for key, value in (base | table).items())
    (folder / "any.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    said = ""
    try:
        read_declaration(folder / "any.toml")
    except LabkitError as error:
        said = str(error)
    assert said == "" or "any.toml" in said


def test_points_whose_seeds_agreed_get_all_seeds_once_a_later_point_shows_that_they_matter(folder):
    (folder / "draws.py").write_text(
        "import numpy as np\n\n\ndef program(comm):\n"
        "    n = np.random.randint(9000)\n"
        "    comm.bcast(bytes(n if comm.size > 2 else 10), root=0)\n"
    )
    text = 'program = "draws.py:program"\n[parameters]\nranks = {}\n'
    for ranks, repetitions in (("[1, 2]", [1, 1]), ("[1, 2, 4]", [5, 5, 5])):
        (folder / "draws.toml").write_text(text.format(ranks))
        assert main(["study", "draws.toml"]) == 0
        times = lk.load(folder / "draws.results" / "data.study").data.query("metric == 'makespan_s'")
        assert times.groupby("ranks")["seed"].count().tolist() == repetitions
    assert main(["study", "draws.toml", "--dry-run"]) == 0
