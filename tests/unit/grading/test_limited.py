"""Untrusted source is read in a child with limits: a breach costs that submission its points."""

from __future__ import annotations

import ast
import builtins
import json
import os
import signal
import symtable
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import DataError, MachineError
from labkit.grading.dashboard import similar
from labkit.grading.folder import find_submissions, grade_folder
from labkit.grading.needed import needed_source
from labkit.grading.submission import notebook_source, read_submission
from labkit.process.limited import ReadLimits, limited
from tests.support.course import ASSIGNMENTS
from tests.support.refusals import raises_code
from tests.support.submissions import SUBMISSIONS

PREFIX_SUM = ASSIGNMENTS["prefix_sum"]

RIGHT = next(s.source for s in SUBMISSIONS if s.name == "hillis")
QUICK = replace(PREFIX_SUM, checks=[replace(PREFIX_SUM.checks[0], ranks=(2,))])


def _doubling(depth: int) -> str:
    """A function that Python compiles to 2**depth copies of its last line."""
    lines = ["def g(x):"]
    for at in range(depth):
        indent = " " * (2 * at + 1)
        lines += [f"{indent}try:", f"{indent} return x", f"{indent}finally:"]
    return "\n".join([*lines, " " * (2 * depth) + "x(1)"]) + "\n"


def _notebook(*cells: str) -> str:
    rows = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _spin() -> None:
    while True:
        pass


def _fill() -> None:
    held = []
    while True:
        held.append(bytes(1 << 24))


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSYS)


def _raise(error: Exception) -> None:
    raise error


def _children() -> set[str]:
    """Processes that this one has started, also those of earlier tests that have not ended yet."""
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        found.update((thread / "children").read_text().split())
    return found


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_spin, "1 s"),
        (_fill, "MiB"),
        (_crash, "31"),
        (lambda: time.sleep(60), "2 s"),
        (lambda: "x" * 4096, "0 MiB"),
        (lambda: _raise(OverflowError("9e9")), "9e9"),
        (lambda: {1, 2}, ""),
    ],
)
def test_every_limit_is_an_error_of_the_text(function: Any, said: str) -> None:
    limits = ReadLimits(512 << 20, 1, 2.0 if "2 s" in said else 60.0, 1000 if "0 MiB" in said else 160 << 20)
    before = _children()
    with raises_code(DataError, "unreadable-file", said):
        limited(function, limits=limits)
    assert _children() <= before


def test_values_and_errors_come_through() -> None:
    assert limited(lambda a, b: [a, b, "\ud800", None], 1, "two") == [1, "two", "\ud800", None]
    with raises_code(DataError, "invalid-value", "line 3"):
        limited(lambda: _raise(DataError("line 3: no")))
    with raises_code(MachineError, "machine-failed", "IPython"):
        limited(lambda: _raise(MachineError("no IPython")))


@pytest.mark.parametrize("ending", [".py", ".ipynb"])
def test_code_that_doubles_itself_is_refused_and_others_are_graded(
    ending: str, tmp_path: Path, needs_a_sandbox: None
) -> None:
    bomb = f"{RIGHT}\n{_doubling(18)}"
    (tmp_path / f"bomb{ending}").write_text(bomb if ending == ".py" else _notebook(RIGHT, _doubling(18)))
    (tmp_path / "ada.py").write_text(RIGHT)
    grades = {grade.student: grade for grade in grade_folder(find_submissions(tmp_path), QUICK, jobs=2)}
    assert grades["ada"].is_full
    assert grades["bomb"].status == "graded"
    if ending == ".py":
        assert grades["bomb"].points == 0
        assert "parsing and compiling it takes more than" in grades["bomb"].results[0].feedback
    else:  # what the function does not need is left out before anything is compiled
        assert grades["bomb"].is_full


def test_nothing_of_a_submission_is_parsed_in_the_grader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_a_sandbox: None
) -> None:
    for place, name in ((ast, "parse"), (symtable, "symtable"), (builtins, "compile")):
        plain = getattr(place, name)

        def guarded(
            source: Any, *rest: Any, plain: Any = plain, grader: int = os.getpid(), **how: Any
        ) -> Any:
            assert os.getpid() != grader or "def rounds" not in str(source), "parsed in the grader"
            return plain(source, *rest, **how)

        monkeypatch.setattr(place, name, guarded)
    (tmp_path / "ada.ipynb").write_text(
        _notebook("%matplotlib inline\nimport numpy as np", f"%%time\n{RIGHT}")
    )
    source = read_submission(tmp_path / "ada.ipynb", QUICK.functions)
    assert QUICK.grade(source).is_full
    assert QUICK.grade(f"{source}\nraise ValueError").is_full, "loaded again without what fails"
    assert similar({"ada": source, "bob": source}).compared == 2


def _chain(n: int) -> Iterator[str]:
    yield from ("x0 = []", *(f"x{i} = x{i - 1}\nx{i}.append(x{i // 2})" for i in range(1, n)))
    yield f"def f(): return x{n - 1}"


def _hidden(n: int) -> Iterator[str]:
    yield "v0 = []"
    for i in range(1, n):
        yield f"def s{i}():\n    global v{i}\n    v{i} = v{i - 1}, s{i // 2}\ns{i}()"
    yield f"def f(): return v{n - 1}"


def _texts(n: int) -> Iterator[str]:
    yield from (f"def e{i}(): return eval('e{i // 2}')\nx{i} = eval('{i}')" for i in range(n))
    yield f"def f(): return {', '.join(f'e{i}' for i in range(n))}"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [_chain, _hidden, _texts])
def test_large_notebooks_are_sliced_within_the_limits(shape: Any) -> None:
    """Of 12,000 statements each needs the one before: followed one by one that took minutes."""
    cells = list(shape(6000))
    found = notebook_source(_notebook(*cells), "f")
    assert found.splitlines() == "\n".join(cells).splitlines()


def test_a_loop_keeps_what_it_does_if_that_turns_out_to_be_needed() -> None:
    cells = [
        "rows = []",
        "for k in range(3):\n    best = f(k)",
        "def f(n): return n + k",
        "def g(): return best",
    ]
    for order in (cells, cells[::-1]):
        assert "best = f(k)" in needed_source(order, ["g"])
    assert "best" not in needed_source(cells, ["f"])


def test_what_fills_another_name_of_a_table_is_kept() -> None:
    cells = ["rows = []", "table = rows if 1 else None", "table.append(5)", "n = 3\nm = n", "m.real", "g(m)"]
    found = needed_source([*cells, "def f(): return table, m"], ["f"])
    assert "table.append(5)" in found
    assert "g(m)" not in found
