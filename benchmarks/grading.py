"""Grades the generated submissions, good, wrong and hostile, and compares with what each must get.

    python benchmarks/grading.py [JOBS] [NAME ...]

Prints every submission that got a check it must not pass, or missed one it must pass, and the time.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for tests.support, wherever it is started

from labkit.grading import find_assignment
from labkit.grading.folder import find_submissions, grade_folder
from labkit.grading.page import Grade
from tests.support.submissions import SUBMISSIONS, write
from tests.support.submissions_hostile_notebooks import escaped


def main(jobs: int, names: list[str]) -> int:
    expected = {Path(s.file_name).stem: s for s in SUBMISSIONS if not names or s.name in names}
    found: dict[str, list[str]] = {"false passes": [], "false fails": [], "not graded": []}
    walls, began = set(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name, place in write(Path(folder)).items():
            chosen = {k: v for k, v in find_submissions(place).items() if k in expected}
            grades = grade_folder(chosen, find_assignment(name), jobs=jobs, secret="benchmark", progress=_say)
            for grade in grades:
                walls.add(grade.containment)
                _compare(grade, expected[grade.student].missed, found)
    took, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    kinds = {kind: sum(s.kind == kind for s in expected.values()) for kind in ("good", "wrong", "hostile")}
    print(f"{len(expected)} submissions: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}")
    cpu_s = used.ru_utime + used.ru_stime
    print(f"{jobs} at a time: {took:.0f} s, {cpu_s:.0f} s of CPU time, load {os.getloadavg()[0]:.1f}")
    for title, rows in found.items():
        print(f"{title}: {len(rows)}", *(f"  {row}" for row in rows), sep="\n")
    print(*sorted(walls - {""}), sep="\n")
    found["got out"] = [str(mark) for mark in escaped()]
    print(f"got out: {len(found['got out'])}", *found["got out"])
    return int(any(found.values()))


def _compare(grade: Grade, wanted: frozenset[str], found: dict[str, list[str]]) -> None:
    if grade.status != "graded":
        found["not graded"].append(f"{grade.student}: {grade.message}")
    for result in grade.results:
        is_passed = result.status == "passed"
        if is_passed and result.name in wanted:
            found["false passes"].append(f"{grade.student}: {result.name}: {result.feedback}")
        if not is_passed and result.name not in wanted:
            found["false fails"].append(f"{grade.student}: {result.name}: {result.feedback}")


def _say(grade: Grade, done: int, every: int) -> None:
    print(f"  [{done}/{every}] {grade.student}: {grade.points:g}, {grade.seconds:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2:]))
