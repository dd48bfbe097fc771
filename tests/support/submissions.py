"""Writes submissions of all kinds, with what each must get: python -m tests.support.submissions FOLDER.

FOLDER gets a folder for each assignment, for `labkit grade FOLDER/sort --assignment sort`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.course import ASSIGNMENTS
from tests.support.submissions_good import GOOD, SAMPLE
from tests.support.submissions_hostile import HOSTILE
from tests.support.submissions_hostile_notebooks import HOSTILE_NOTEBOOKS
from tests.support.submissions_wrong import EVERY_CHECK, WRONG

__all__ = ["GENERATED", "OPEN", "SUBMISSIONS", "Submission", "missed_here", "write"]


@dataclass(frozen=True)
class Submission:
    """A submission with what grading must find.

    Attributes
    ----------
    name, assignment, source : str
    kind : str
        "good", "wrong" or "hostile".
    missed : frozenset of str
        Exactly the checks that it must not pass.
    """

    name: str
    assignment: str
    source: str
    kind: str
    missed: frozenset[str]

    @property
    def file_name(self) -> str:
        return f"{self.kind}_{self.name}" + (".ipynb" if self.source.startswith("{") else ".py")


def _notebook(source: str) -> str:
    """A notebook as students leave it: trials, pictures and magics around the solution."""
    cells = [
        "%matplotlib inline\nimport numpy as np\nimport labkit as lk\nfrom mpi4py import MPI",
        "%%spmd -n 4\nprint(rank)",
        source,
        "run = lk.run(parallel_sort, 4, args=(np.arange(5),))\nrun",
        "KEYS = 100\nresults = [lk.run(parallel_sort, p, args=(np.arange(KEYS),)) for p in (2, 4)]",
        "raise SystemExit",
    ]
    rows = [{"cell_type": "markdown", "metadata": {}, "source": "# My sort"}]
    rows += [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": cell}
        for cell in cells
    ]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _every() -> list[Submission]:
    found = [Submission(n, a, source, "good", frozenset(m)) for n, (a, source, m) in GOOD.items()]
    found.append(Submission("notebook", "sort", _notebook(SAMPLE), "good", frozenset({"equal_keys"})))
    found += [Submission(n, a, source, "wrong", frozenset(m)) for n, (a, source, m) in WRONG.items()]
    sort = frozenset(EVERY_CHECK["sort"])
    found.append(Submission("no_python", "sort", "def parallel_sort(comm, keys:\n", "wrong", sort))
    renamed = "def my_sort(comm, keys):\n    return keys\n"
    found.append(Submission("no_function", "sort", renamed, "wrong", sort))
    for name, (assignment, source) in HOSTILE.items():
        found.append(Submission(name, assignment, source, "hostile", frozenset(EVERY_CHECK[assignment])))
    found += [Submission(name, "sort", text, "hostile", sort) for name, text in HOSTILE_NOTEBOOKS.items()]
    return found


#: every submission
SUBMISSIONS = _every()
#: their assignments; submissions of the others are in submissions_taught.py
GENERATED = sorted({submission.assignment for submission in SUBMISSIONS})
#: right ones that do here what they do in the sandbox; the others need its mpi4py, clock or streams
OPEN = [
    s for s in SUBMISSIONS
    if s.kind == "good" and s.file_name.endswith(".py") and s.name not in ("halves", "objects", "noisy")
]  # fmt: skip


def missed_here(assignment: str, source: str) -> set[str]:
    """Return the checks that a submission misses in this process, without a sandbox."""
    scope: dict[str, Any] = {}
    exec(source, scope)
    asked = ASSIGNMENTS[assignment]
    grade = asked.try_out({name: scope.get(name) for name in asked.functions})  # type: ignore[misc]
    return {result.name for result in grade.results if result.status != "passed"}


def write(folder: Path, chosen: list[Submission] | None = None) -> dict[str, Path]:
    """Write some or all of them; the folder of each assignment."""
    folders = {}
    for submission in SUBMISSIONS if chosen is None else chosen:
        target = folders[submission.assignment] = folder / submission.assignment
        target.mkdir(parents=True, exist_ok=True)
        (target / submission.file_name).write_text(submission.source, encoding="utf-8")
    return folders


if __name__ == "__main__":
    print(f"{len(SUBMISSIONS)} submissions: {', '.join(map(str, write(Path(sys.argv[1])).values()))}")
