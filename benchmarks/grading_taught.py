"""Grades submissions to most assignments, as scripts and as notebooks: no false pass, no false fail.

    python benchmarks/grading_taught.py [--jobs N] [--load N] [--every N] [--kind KIND] [ASSIGNMENT ...]

The assignments: all but broadcast, prefix_sum and sort. `--load 10` has ten processes beside it that only
compute. Prints every submission that got a check it must not pass, or missed one it must pass, and
the time.
"""

from __future__ import annotations

import argparse
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
from labkit.grading.page import Grade
from tests.support.submissions_taught import CORPORA, TAUGHT, Taught, write_taught


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help=", ".join(CORPORA))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--kind", choices=["right", "wrong", "hostile"])
    asked = parser.parse_args()
    names = asked.assignments or list(CORPORA)
    chosen = [one for one in TAUGHT if one.assignment in names and asked.kind in (None, one.kind)][
        :: asked.every
    ]
    busy = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(asked.load)]
    for process in busy:
        process.start()
    began, wrong = time.monotonic(), 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, place in write_taught(Path(folder), chosen).items():
                wanted = {Path(one.file_name).stem: one for one in chosen if one.assignment == name}

                def say(grade: Grade, done: int, every: int, wanted: dict[str, Taught] = wanted) -> None:
                    nonlocal wrong
                    words = _compared(grade, wanted[grade.student])
                    wrong += bool(words)
                    print(
                        f"[{done}/{every}] {grade.student}: {grade.points:g}, {grade.seconds:.1f} s {words}",
                        flush=True,
                    )

                grade_folder(
                    find_submissions(place),
                    find_assignment(name),
                    jobs=asked.jobs,
                    secret="taught",
                    progress=say,
                )
    finally:
        for process in busy:
            process.kill()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{len(chosen)} submissions, {asked.jobs} at a time, load {os.getloadavg()[0]:.1f}: "
        f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time; "
        f"{wrong} are judged wrong"
    )
    return int(wrong > 0)


def _compared(grade: Grade, wanted: Taught) -> str:
    if grade.status != "graded":
        return f"NOT GRADED: {grade.message}"
    missed = {result.name for result in grade.results if result.status != "passed"}
    passes, fails = map(sorted, wanted.wronged(missed))
    said = {result.name: result.feedback[:300] for result in grade.results}
    return "".join(f"\n  FALSE {kind}: {name}: {said[name]}"
                   for kind, names in (("PASS", passes), ("FAIL", fails)) for name in names)  # fmt: skip


def _compute() -> None:
    while True:
        pass


if __name__ == "__main__":
    sys.exit(main())
