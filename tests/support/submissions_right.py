"""More than a hundred right submissions: every good solution in the styles in which students hand in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.submissions_good import GOOD

__all__ = ["RIGHT", "Right", "write_right"]

_FUNCTIONS = {"broadcast": "broadcast", "sort": "parallel_sort", "prefix_sum": "rounds"}


@dataclass(frozen=True)
class Right:
    """A right submission, and the checks that its algorithm does not pass.

    Attributes
    ----------
    file_name, assignment, content : str
    missed : frozenset of str
    """

    file_name: str
    assignment: str
    content: str
    missed: frozenset[str]


def _notebook(*cells: str) -> str:
    rows = [{"cell_type": "markdown", "metadata": {}, "source": "# My solution\n\n<script>alert(1)</script>"}]
    rows += [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": cell}
        for cell in cells
    ]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _parts(source: str) -> list[str]:
    """Split a source where something begins in the first column."""
    return [part for part in re.split(r"\n(?=def |class |import |from )", source.strip("\n")) if part.strip()]


def _renamed(source: str, function: str) -> str:
    return re.sub(rf"\b{function}\b", f"my_{function}", source)


def _script(source: str, function: str) -> str:
    head = '"""My solution."""\n\nfrom __future__ import annotations\n'
    tail = 'if __name__ == "__main__":\n    from mpi4py import MPI\n\n    '
    return f"{head}{source}\n\n{tail}print({function}(MPI.COMM_WORLD))\n"


def _imports(source: str, function: str) -> str:
    head = "import sys, os, time, heapq, logging\nimport matplotlib.pyplot as plt\nimport pandas as pd\n"
    head += "from scipy import stats\nfrom tqdm import tqdm\nfrom IPython.display import display\n"
    return f"{head}sys.setrecursionlimit(10_000)\nplt.style.use('ggplot')\n{source}"


def _typed(source: str, function: str) -> str:
    text = re.sub(rf"def {function}\((comm|group)", rf"def {function}(\1: Any", source)
    return f'# -*- coding: utf-8 -*-\n"""Größe: ≤ p, naïve."""\nfrom typing import Any\n{text}'.replace(
        "\n", "\r\n"
    )


def _partial(source: str, function: str) -> str:
    return f"import functools\n{_renamed(source, function)}\n{function} = functools.partial(my_{function})\n"


def _method(source: str, function: str) -> str:
    body = f"    def solve(self, *given):\n        return my_{function}(*given)\n"
    solver = f"class Solver:\n    tries = 0\n\n{body}\n\n{function} = Solver().solve\n"
    return f"{_renamed(source, function)}\n\n{solver}"


def _one_cell(source: str, function: str) -> str:
    return _notebook(f"%%time\n{source}", f"{function}?", "x = !ls\nprint(x)")


def _many_cells(source: str, function: str) -> str:
    cells = ["%matplotlib inline\n%load_ext labkit\nimport labkit as lk, matplotlib.pyplot as plt"]
    cells += _parts(source)
    trial = (
        f"for p in (2, 4):\n    runs.append(lk.run({function}, p))\nplt.plot([r.makespan_s for r in runs])"
    )
    cells += ["runs = []", trial, f"r = %timeit -o {function}(None)", f"{function}(1, 2", "raise SystemExit"]
    return _notebook(*cells)


def _tables(source: str, function: str) -> str:
    numbers = "import math\nINF = float('inf')\nMASK = int(2**6)\n"
    tables = "TABLE = []\nfor i in range(8):\n    TABLE.append((i\n% 3))"
    check = "    assert START == 7 and MASK == 64 and INF > 1 and TABLE[5] == 2\n"
    timed = "%time START = sum(TABLE)\n\n"
    return _notebook(
        numbers + tables,
        "try:\n    import numba\nexcept ImportError:\n    numba = None",
        f"from __future__ import annotations\n{_renamed(source, function)}",
        f"{timed}def {function}(*given: Unknown):\n{check}    return my_{function}(*given)",
        f"%%capture out\nprint(lk.run({function}, 4))",
        "%%bash\nls\n",
    )


def _twice(source: str, function: str) -> str:
    first = f"def {function}(*given):\n    raise NotImplementedError"
    prompts = "\n".join(
        f"{'...' if at else '>>>'} {line}" for at, line in enumerate(["def unused():", "    pass"])
    )
    return _notebook(first, prompts, source, f"import pandas as pd\npd.DataFrame([{function}.__name__])")


STYLES: dict[str, tuple[str, Callable[[str, str], str]]] = {
    "script": (".py", _script),
    "imports": (".py", _imports),
    "typed": (".py", _typed),
    "partial": (".py", _partial),
    "method": (".py", _method),
    "one_cell": (".ipynb", _one_cell),
    "many_cells": (".ipynb", _many_cells),
    "tables": (".ipynb", _tables),
    "twice": (".ipynb", _twice),
}

#: every one of them
RIGHT = [
    Right(f"{name}_{style}{ending}", assignment, made(source, _FUNCTIONS[assignment]), frozenset(missed))
    for style, (ending, made) in STYLES.items()
    for name, (assignment, source, missed) in GOOD.items()
]


def write_right(folder: Path, chosen: list[Right] | None = None) -> dict[str, Path]:
    """Write them, each under its assignment; the folder of each assignment."""
    folders = {}
    for right in RIGHT if chosen is None else chosen:
        target = folders[right.assignment] = folder / right.assignment
        target.mkdir(parents=True, exist_ok=True)
        (target / right.file_name).write_text(right.content, encoding="utf-8", newline="")
    return folders
