"""`labkit lab` finds the course; `labkit doctor` says what is wrong and how to fix it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from labkit.cli import doctor
from labkit.cli.main import main


@pytest.fixture
def course(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("02_second.ipynb", "01_first.ipynb", "drafts.ipynb"):
        (folder / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_lab_opens_the_first_notebook_from_anywhere_below(course, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    deeper = course / "a" / "b"
    deeper.mkdir(parents=True)
    monkeypatch.chdir(deeper)
    assert main(["lab", "--dry-run", "--", "--no-browser"]) == 0
    line = capsys.readouterr().out
    assert line.startswith(f"cd {course.resolve()}/work && ")
    assert "--LabApp.default_url=/lab/tree/01_first.ipynb" in line
    assert line.rstrip().endswith("--no-browser")
    assert not (course / "work").exists()


def test_lab_for_teachers_opens_the_course_itself(course, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert main(["lab", "--dry-run", "--teacher"]) == 0
    line = capsys.readouterr().out
    assert line.startswith(f"cd {course.resolve()} && ")
    assert "--LabApp.default_url=/lab/tree/notebooks/01_first.ipynb" in line
    assert main(["lab", "--dry-run", "--teacher", "--refresh"]) == 3
    assert main(["lab", "--dry-run", "--work", "notebooks"]) == 3
    assert "name a folder of your own" in capsys.readouterr().err


def test_lab_without_jupyterlab_says_what_to_install(course, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["lab"]) == 3
    assert "python -m pip install 'labkit[lab]'" in capsys.readouterr().err


def test_lab_without_notebooks(tmp_path, capsys):
    assert main(["lab", "--notebooks", str(tmp_path)]) == 3
    assert "no course notebook" in capsys.readouterr().err


def _set_checks(monkeypatch, **some):
    monkeypatch.setattr(doctor, "CHECKS", some)


def _fine(limit_s):
    return "good"


def _broken(limit_s):
    raise doctor.Trouble("it rattles", "oil it")


def _absent(limit_s):
    raise doctor.Trouble("not there", "get it", is_optional=True)


def _crash(limit_s):
    raise RuntimeError("two\nlines")


@pytest.mark.parametrize(
    ("some", "code"),
    [
        ({"a": _fine}, 0),
        ({"a": _fine, "b": _absent}, 0),
        ({"a": _broken, "b": _fine}, 1),
        ({"a": _crash}, 1),
    ],
)
def test_doctor_fails_only_for_what_is_broken(some, code, monkeypatch, capsys):
    _set_checks(monkeypatch, **some)
    assert main(["doctor", "--json"]) == code
    output = capsys.readouterr()
    record = json.loads(output.out)
    assert record["exit"] == code
    assert record["ok"] == (code == 0)
    assert [check["name"] for check in record["checks"]] == list(some)
    assert main(["doctor"]) == code


def test_doctor_says_how_to_mend(monkeypatch, capsys):
    _set_checks(monkeypatch, oil=_broken, part=_absent, crash=_crash)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "!!  oil            it rattles" in text
    assert "fix: oil it" in text
    assert "--  part           not there" in text
    assert "RuntimeError: two lines" in text
    assert text.endswith("something is broken; not installed: part\n")


def test_quick_checks_find_something_out():
    for name in ("python", "packages", "greenlet", "cores", "memory", "disk"):
        finding = doctor.examine(name, doctor.CHECKS[name], 10.0)
        assert finding.status == "ok", finding
        assert finding.found


def test_the_server_starts_without_a_grammar_that_it_never_uses():
    pytest.importorskip("jupyterlab")
    command = [sys.executable, "-X", "importtime", "-m", "labkit.cli.lab_server", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip()
    assert "jupyter_events" in done.stderr, "the server that starts has another shape: look again"
    assert "lark" not in done.stderr


@pytest.mark.parametrize("word", ["2", "02", "02_second", "02_second.ipynb"])
def test_lab_opens_the_notebook_that_is_named(word, course, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert main(["lab", "--dry-run", word, "--", "--no-browser"]) == 0
    line = capsys.readouterr().out
    assert "--LabApp.default_url=/lab/tree/02_second.ipynb" in line
    assert f" {word} " not in line
    assert line.rstrip().endswith("--no-browser")


def test_lab_has_no_other_notebooks(course, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert main(["lab", "--dry-run", "24"]) == 3
    assert "'24' in the course; there are 01 to 02" in capsys.readouterr().err
