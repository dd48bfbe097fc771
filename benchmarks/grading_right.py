"""Grades right submissions, on the machine as it is and on a busy one: no false fail, the same points twice.

    python benchmarks/grading_right.py [JOBS] [LOAD] [EVERY]

LOAD processes that only compute run beside the second grading (default 10; 0: one grading). EVERY 5 takes
each fifth submission.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for tests.support, wherever it is started

from labkit.grading import find_assignment
from labkit.grading.folder import find_submissions, grade_folder
from tests.support.submissions_right import RIGHT, write_right


def main(jobs: int, load: int, every: int) -> int:
    chosen = RIGHT[::every]
    wanted = {Path(right.file_name).stem: right.missed for right in chosen}
    first = _graded(jobs, every, wanted)
    if not load:
        return int(first is None)
    busy = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(load)]
    for process in busy:
        process.start()
    try:
        second = _graded(jobs, every, wanted)
    finally:
        for process in busy:
            process.kill()
    print("the same points twice" if first == second else "OTHER POINTS", flush=True)
    return int(first is None or first != second)


def _graded(jobs: int, every: int, wanted: dict[str, frozenset[str]]) -> dict[str, float] | None:
    """Grade all; each one's points, None if one of them is wrong."""
    began, used = time.monotonic(), _used_s()
    points, is_right = {}, True
    with tempfile.TemporaryDirectory() as folder:
        for name, place in write_right(Path(folder), RIGHT[::every]).items():
            grades = grade_folder(find_submissions(place), find_assignment(name), jobs=jobs, secret="right")
            for grade in grades:
                points[grade.student] = grade.points
                missed = {result.name for result in grade.results if result.status != "passed"}
                if grade.status != "graded" or missed != wanted[grade.student]:
                    is_right = False
                    print(f"FALSE: {grade.student}: {sorted(missed)}\n{grade.text()}", flush=True)
    print(
        f"{len(points)} right submissions, {jobs} at a time, load {os.getloadavg()[0]:.1f}: "
        f"{time.monotonic() - began:.0f} s, {_used_s() - used:.0f} s of CPU time",
        flush=True,
    )
    return points if is_right else None


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compute() -> None:
    while True:
        pass


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(numbers + [2, 10, 1][len(numbers) :])))
