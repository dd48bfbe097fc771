"""Notebooks of many megabytes: read in a child with limits, whatever fills them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.errors import DataError
from labkit.grading.nbgrader_prepare import _cells_of
from labkit.grading.submission import read_submission
from tests.support.refusals import raises_code

_HEAD = '{"cells": [{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": '
_HEAD += json.dumps("def f(comm):\n    return '[]{}\\\\\"'\n")

_MEASURED = """
import resource, sys
from labkit.grading.submission import read_submission
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = used()
try:
    print("def f(comm)" in read_submission(sys.argv[1], "f"))
except Exception as error:
    print(error.code)
print(used() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "count", "found"),
    [
        ("0.12345", 5 << 20, "True"),  # a plot of five million numbers
        ('"ab"', 4 << 20, "True"),
        ("[]", 20 << 20, "unreadable-file"),  # objects of more than a gigabyte
    ],
)
def test_a_large_output_costs_the_grader_no_memory(tmp_path: Path, item: str, count: int, found: str) -> None:
    path = tmp_path / "ada.ipynb"
    path.write_text(f'{_HEAD}, "outputs": [{",".join([item] * count)}]}}], "metadata": {{}}}}')
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(path)], capture_output=True, text=True, check=True
    )
    answer, megabytes = done.stdout.split()
    assert answer == found
    assert int(megabytes) < 30


NO_JSON = ["", "{", '{"cells": [', '{"cells": [{"source": "a', '{"cells" 7}', '{"cells": [{} {}]}', "[[]"]
NO_JSON += ['{"cells": [{"cell_type": "code", "source": "a\nb"}]}', '{"a": [}', '{"a": \x00}']
NO_JSON += ['{"cells": [{"cell_type": tru}]}']


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    with raises_code(DataError, "malformed-file"):
        read_submission(tmp_path / "a.ipynb", "f")
    with raises_code(DataError, "malformed-file"):
        _cells_of(tmp_path / "a.ipynb")


def test_too_much_code_is_refused(tmp_path: Path) -> None:
    lines = ",".join(['"ab"'] * (2 << 20))
    path = tmp_path / "a.ipynb"
    path.write_text(f'{{"cells": [{{"cell_type": "code", "source": [{lines}]}}]}}')
    with raises_code(DataError, "too-large"):
        read_submission(path, "f")
    code = '{"cell_type": "code", "source": "def f(): pass"}'
    path.write_text(f'{{"cells": [{{"source": [{lines}], "cell_type": "markdown"}}, {code}]}}')
    assert "def f" in read_submission(path, "f")
