"""Notebooks of many megabytes: read as others are, and never built as a whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import DataError
from labkit.grading import submission
from labkit.grading.nbgrader_prepare import _cells_of
from labkit.grading.submission import read_notebook, read_submission
from tests.support.refusals import raises_code
from tests.support.submissions_right import RIGHT

_FUNCTION = "def f(comm):\n    return '[]{}\\\\\"'\n"
_HEAD = '{"cells": [{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": '
_HEAD += json.dumps(_FUNCTION)
#: name -> what a notebook of 20 MB is full of
FILLINGS = {
    "lists in an output": ("outputs", "[]", 7 << 20),
    "objects in an output": ("outputs", "{}", 7 << 20),
    "texts in an output": ("outputs", '"ab"', 4 << 20),
    "lists in lists": ("attachments", "[[]]", 1 << 20),
}

_MEASURED = """
import resource, sys
from labkit.grading.submission import read_submission
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = used()
source = read_submission(sys.argv[1], "f")
print(used() - before, "def f(comm)" in source)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FILLINGS)
def test_what_is_not_needed_costs_no_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ada.ipynb"
    key, item, count = FILLINGS[name]
    path.write_text(f'{_HEAD}, "{key}": [{",".join([item] * count)}]}}], "metadata": {{}}}}')
    size = path.stat().st_size >> 20
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(path)], capture_output=True, text=True, check=True
    )
    megabytes, is_found = done.stdout.split()
    assert is_found == "True"
    assert int(megabytes) < 3 * size + 30


def _thinned(notebook: Any) -> Any:
    kept = []
    for cell in notebook["cells"]:
        mine = {name: cell[name] for name in ("cell_type", "source") if name in cell}
        if "nbgrader" in cell.get("metadata", {}):
            mine["metadata"] = {"nbgrader": cell["metadata"]["nbgrader"]}
        kept.append(mine)
    return {"cells": kept}


def test_it_reads_what_json_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "_SMALL", 0)
    course = Path(__file__).parents[3] / "course" / "source"
    texts = [path.read_text() for path in sorted(course.glob("*/*.ipynb"))]
    texts += [right.content for right in RIGHT if right.file_name.endswith(".ipynb")][::7]
    texts += ['{"cells": []}', ' {"cells" : [ { } , {"source":["a\\n","b"],"cell_type":"code"} ] } ']
    texts += [json.dumps(json.loads(texts[0]), indent=3), '{"cells": [], "cells": [{"cell_type": "raw"}]}']
    for text in texts:
        assert read_notebook(text) == _thinned(json.loads(text))
    assert read_notebook("{}") == {}
    assert read_notebook('{"cells": 7}') == {"cells": None}
    assert read_notebook("[" * 100 + "]" * 100) == {}


NO_JSON = ["", "{", '{"cells": [', '{"cells": [{"source": "a', '{"cells" 7}', '{"cells": [{} {}]}', "[[]"]
NO_JSON += ['{"cells": [{"cell_type": "code", "source": "a\nb"}]}', '{"a": [}', '{"a": \x00}']
NO_JSON += ['{"cells": [{"cell_type": tru}]}']


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(submission, "_SMALL", -1)
    (tmp_path / "a.ipynb").write_text(text)
    with raises_code(DataError, "malformed-file"):
        read_submission(tmp_path / "a.ipynb", "f")
    with raises_code(DataError, "malformed-file"):
        _cells_of(tmp_path / "a.ipynb")


def test_cells_that_are_too_long_are_told(tmp_path: Path) -> None:
    lines = ",".join(['"ab"'] * (2 << 20))
    path = tmp_path / "a.ipynb"
    path.write_text(f'{{"cells": [{{"cell_type": "code", "source": [{lines}]}}]}}')
    with raises_code(DataError, "too-large", "8 MiB"):
        read_submission(path, "f")
    code = '{"cell_type": "code", "source": "def f(): pass"}'
    path.write_text(f'{{"cells": [{{"source": [{lines}], "cell_type": "markdown"}}, {code}]}}')
    assert "def f" in read_submission(path, "f")
    assert [cell["text"] for cell in _cells_of(path)] == ["", "def f(): pass"]
