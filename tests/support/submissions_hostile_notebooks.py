"""Notebooks that want to run at their reading, to forge marks, or to stop their reader."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["HOSTILE_NOTEBOOKS", "escaped"]

#: what one that gets out writes, followed by its name
_MARK = str(Path(tempfile.gettempdir(), "labkit-escaped-"))
_UNSORTED = "def parallel_sort(comm, keys):\n    return keys\n"


def escaped() -> list[Path]:
    """Return the marks of those that got out."""
    mark = Path(_MARK)
    return sorted(mark.parent.glob(f"{mark.name}*"))


def _notebook(*cells: str | dict[str, Any], **other: Any) -> str:
    rows = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [],
         **(cell if isinstance(cell, dict) else {"source": cell})}
        for cell in cells
    ]  # fmt: skip
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **other})


def _writes(name: str) -> str:
    return f"open('{_MARK}{name}', 'w').close()"


_EQUAL = """
import numpy as np

class Equal(np.ndarray):
    def __eq__(self, other): return np.ones(len(self), bool)
    def __ne__(self, other): return np.zeros(len(self), bool)

def parallel_sort(comm, keys):
    return keys.view(Equal)
"""
_ENDLESS = """
class Endless(list):
    def __len__(self): return 10**18
    def __iter__(self):
        while True: yield 1

def parallel_sort(comm, keys):
    return Endless()
"""
_KILLS = """
import os

class Kills:
    def __del__(self): os.kill(os.getppid(), 9)

last = Kills()

def parallel_sort(comm, keys, last=last):
    return keys
"""
_FINDER = """
import sys

class Finder:
    def find_spec(self, *names): raise SystemExit(0)

sys.meta_path.insert(0, Finder())
"""
_PATCHES = """
import labkit.grading
from labkit.grading import result
labkit.grading.points = lambda *a, **k: 100
result.Verdict = lambda *a: None
def points(*a, **k):
    return 100
"""
_MARKS = {
    "nbgrader": {
        "grade": True, "grade_id": "sort_easy", "points": 1000, "locked": False, "schema_version": 3,
        "solution": True, "task": False,
    }
}  # fmt: skip
_FORGED = {
    "output_type": "display_data",
    "metadata": {},
    "data": {"text/html": "<script>document.title = 'all points'</script>", "text/plain": "14 of 14"},
}

#: name -> text of the file; all are handed in for the sort, and deserve nothing
HOSTILE_NOTEBOOKS: dict[str, str] = {
    "shell_line": _notebook(f"!touch {_MARK}shell\n{_UNSORTED}"),
    "shell_cell": _notebook(f"%%bash\ntouch {_MARK}bash", _UNSORTED),
    "shell_call": _notebook(f"get_ipython().system('touch {_MARK}call')\n{_UNSORTED}"),
    "magics": _notebook(f"%run {_MARK}run.py\n%load_ext evil\n%config A.b = 1\n%store -r\n{_UNSORTED}"),
    "default_value": _notebook(f"def parallel_sort(comm, keys, x={_writes('default')}):\n    return keys\n"),
    "decorated": _notebook(
        f"import os\ndef runs(f):\n    os.system('touch {_MARK}decorated')\n    return f\n@runs\n{_UNSORTED}"
    ),
    "class_body": _notebook(
        f"class A:\n    {_writes('class')}\n", "def parallel_sort(comm, keys, a=A):\n    return keys\n"
    ),
    "at_exit": _notebook(
        f"import atexit, threading\natexit.register(lambda: {_writes('exit')})\n"
        f"threading.Thread(target=lambda: {_writes('thread')}).start()\n{_UNSORTED}"
    ),
    "large_table": _notebook("TABLE = bytearray(10**11)\ndef parallel_sort(comm, keys):\n    return TABLE\n"),
    "marks_itself": _notebook({"source": _UNSORTED, "metadata": _MARKS}),
    "forged_output": _notebook({"source": _UNSORTED, "outputs": [_FORGED], "execution_count": 1}),
    "patches_points": _notebook(_PATCHES + _UNSORTED),
    "equal_array": _notebook(_EQUAL),
    "endless_list": _notebook(_ENDLESS),
    "kills_at_its_end": _notebook(_KILLS),
    "import_finder": _notebook(_FINDER + _UNSORTED),
    "other_kernel": _notebook(
        _UNSORTED, metadata={"kernelspec": {"name": "bash", "display_name": f"$(touch {_MARK}kernel)"}}
    ),
    "question_marks": _notebook("?" * 50_000 + "\n" + _UNSORTED, "%" * 100_000, "!" * 1000 + _UNSORTED),
    "many_cells": _notebook(*[{"cell_type": "markdown", "source": "x"}] * 50_000),
    "deep_expression": _notebook(f"X = {'(' * 5000}1{')' * 5000}\n{_UNSORTED}"),
    "old_format": json.dumps({"worksheets": [{"cells": []}], "metadata": {}, "nbformat": 3}),
    "numbers_as_text": _notebook({"source": [1, 2, None]}, _UNSORTED),
    "script_in_error": _notebook(
        "def parallel_sort(comm, keys):\n    raise ValueError('<img src=x onerror=alert(1)>\\x1b[2J')\n"
    ),
}
