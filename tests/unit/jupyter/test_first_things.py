"""What a student types first ends as meant, or with one sentence that helps."""

from __future__ import annotations

import linecache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit.errors import LabkitError
from labkit.jupyter.hints import hint_of

BEGIN = """
def total(comm):
    return comm.allreduce(1)


class Sort:
    def go(self, comm):
        return comm.rank
"""
F_OF_ARRAY = "def f(comm, m):\n    return int(m.sum())\n"


def outcome(code: str, folder: Path) -> tuple[object, object]:
    """Return what the last line is worth, or the error's code and its message with the hint below a cell."""
    *before, last = code.strip().splitlines()
    names = {"lk": lk, "np": np, "pd": pd, "Path": Path, "folder": folder}
    for number, (text, mode) in enumerate(((BEGIN, "exec"), ("\n".join(before), "exec"), (last, "eval"))):
        name = f"<first things {hash(code)} {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            value = eval(compile(text, name, mode), names)
        except LabkitError as error:
            return error.code, str(error)
        except Exception as error:  # Python's own
            return type(error).__name__, hint_of(error)
    return None, value


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("lk.run(lambda comm: comm.allreduce(comm.rank), 4).results", [6, 6, 6, 6]),
        ("lk.run(Sort().go, 3).results", [0, 1, 2]),
        ("def me(comm):\n    comm.send(1, comm.rank)\n    return comm.recv()\nlk.run(me, 2).results", [1, 1]),
        ("lk.run(total, 8, on='torus').results", [8] * 8),
        ("lk.run(total, 4, on=lk.platform('star:4')).results", [4] * 4),
        ("lk.run(total, 4, on='star:4').makespan_s == lk.run(total, 4, on='star:4').makespan_s", True),
        (F_OF_ARRAY + "lk.run(f, 2, args=[np.array([1, 2])]).results", [3, 3]),
        (F_OF_ARRAY + "lk.run(f, 2, m=np.ones((2, 2))).results", [4, 4]),
        ("def hi(comm):\n    print('hello', comm.rank)\nlk.run(hi, 2).output", ["hello 0\n", "hello 1\n"]),
        ("'total: 2 ranks on star' in f'{lk.run(total, 2)}'", True),
        ("s = lk.sweep(total, [2, 4], repeats=1)\nmax(pd.read_csv(s.export(folder / 's.csv')).ranks)", 4),
        ("(folder / 'p.py').write_text('print(1)')\nlk.run(folder / 'p.py', 2).output", ["1\n", "1\n"]),
        ("lk.run(total, 2) == lk.run(total, 3)", False),
        ("max(lk.run(total, 5).results)", 5),
    ],
)  # fmt: skip
def test_it_ends_as_meant(code: str, value: object, tmp_path: Path) -> None:
    assert outcome(code, tmp_path) == (None, value)


@pytest.mark.parametrize(
    ("code", "kind", "fact"),
    [
        ("def f():\n    print('hi')\nlk.run(f, 4)", "wrong-arguments", "def f(comm)"),
        ("lk.run(Sort.go, 4)", "wrong-arguments", "labkit.run(Sort().go, 4)"),
        ("def f(comm, n):\n    return n\nlk.run(f, 4)", "wrong-arguments", "labkit.run(f, 4, n=...)"),
        ("lk.run(total, 0)", "out-of-range", "at least 1, got 0"),
        ("lk.run(total, '4')", "wrong-type", "without quotes"),
        ("lk.run(total, [2, 4])", "wrong-type", "labkit.sweep(program, ["),
        ("lk.run(total, 4, on='tours:2x2')", "malformed-specification", "did you mean 'torus'"),
        ("lk.run(total, 4, args=np.ones((1, 3)))", "wrong-type", "args=[array]"),
        ("def f(comm):\n    yield comm.rank\nlk.run(f, 4)", "wrong-type", "take out yield or async"),
        ("async def f(comm):\n    return 1\nlk.run(f, 4)", "wrong-type", "take out yield or async"),
        ("def f(comm):\n    return input()\nlk.run(f, 4)", "not-on-ranks", "before the run"),
        ("def f(comm):\n    comm.Barrier\n    return 1\nlk.run(f, 4)", "not-a-program", "line 2"),
        ("from labkit.algorithms.sorting import sample_sort\nlk.run(sample_sort, 4)", "wrong-type",
         "from labkit.algorithms.sorting.sample_sort import sample_sort"),
        ("lk.sweep(total, [2, 4], progress=False).save(folder / 's.csv')", "unknown-format", "study.export"),
        ("lk.sorting", "unknown-name", "labkit.algorithms.sorting"),
        ("lk.torus", "unknown-name", 'labkit.platform("torus:4x4")'),
        ("lk.compare", "unknown-name", "labkit.contrast"),
        ("lk.run(total, 2).compare(1)", "unknown-name", "labkit.contrast"),
        ("lk.run(total, 2).plot()", "unknown-name", "labkit.plot.gantt(run)"),
        ("lk.run(total, 2).speedup()", "unknown-name", "labkit.plot.efficiency(study)"),
        ("lk.run(total, 2) - lk.run(total, 2)", "TypeError", "makespan_s"),
        ("lk.run(total, 2) < lk.run(total, 2)", "TypeError", "makespan_s"),
        ("f'{lk.run(total, 2):.3f}'", "TypeError", "run.makespan_s"),
        ("pd.DataFrame(lk.run(total, 2))", "ValueError", "run.phases"),
        ("lk.platform()", "TypeError", 'lk.platform("torus:4x4")'),
        ("lk.run(total(4), 4)", "AttributeError", "lk.run(total, ...)"),
        ("x = [1, 2, 4, 8, 16]\nlk.judge(x, x, 'p').plot()", "AttributeError", "lk.plot.scaling(verdict)"),
    ],
)  # fmt: skip
def test_it_ends_with_a_sentence_that_helps(code: str, kind: str, fact: str, tmp_path: Path) -> None:
    found, said = outcome(code, tmp_path)
    assert found == kind, said
    assert fact in str(said)
