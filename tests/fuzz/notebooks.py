"""Fuzzing target: notebooks and Python files of students, read for grading; what is read compiles."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path

from labkit.errors import DataError
from labkit.grading.nbgrader_prepare import _cells_of, _rebuilt
from labkit.grading.result import CheckResult
from labkit.grading.submission import read_submission
from tests.support.submissions_right import RIGHT

__all__ = ["SEEDS", "check"]

_TEACHERS = {"cells": [], "metadata": {}}
_MORE = [
    "%%time\nX = 1\n%time Y = 2\nz = !ls\nnp.sort?\n>>> a = 1\nf = lambda: X",
    "T = []\nfor i in range(3):\n    T.append(i)\n@d\ndef f(a, *b, **c):\n    global G\n    G = T[0]\n"
    "    return eval('T')",
]
SEEDS = [b"n" + right.content.encode() for right in RIGHT if right.file_name.endswith(".ipynb")][::13]
SEEDS += [b"p" + right.content.encode() for right in RIGHT if right.file_name.endswith(".py")][::13]
SEEDS += [b"c" + text.encode() for text in _MORE]


def check(data: bytes) -> None:
    """Read the bytes as a notebook (n), a Python file (p) or the text of one cell (c)."""
    kind, content = data[:1], data[1:]
    if kind == b"c":
        cell = {"cell_type": "code", "source": content.decode("utf-8", "surrogateescape")}
        content = json.dumps({"cells": [cell, {**cell, "source": "def f(): return X, T"}]}).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("a.py" if kind == b"p" else "a.ipynb")
        path.write_bytes(content)
        try:
            source = read_submission(path, "f")
        except DataError as error:
            CheckResult("a", "A", 0, 1, str(error)).feedback.encode()
            if len(str(error)) > 2000:
                raise AssertionError("an error of unbounded length") from error
        else:
            _compile(source)
        if kind != b"p":
            try:
                made = _rebuilt(_cells_of(path), _TEACHERS)
            except DataError:
                return
            json.dumps(made, ensure_ascii=False).encode()


def _compile(source: str) -> None:
    """What was taken from cells that are Python is Python; the compiler may know better (return outside)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "submission.py", "exec", dont_inherit=True)
        except (SyntaxError, RecursionError, MemoryError) as error:
            if any(word in str(error) for word in ("unindent", "unterminated", "from __future__")):
                raise AssertionError(source) from error
