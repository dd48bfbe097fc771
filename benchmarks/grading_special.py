"""Grades submissions that know the cases, and right ones in many styles: no false pass, no false fail.

    python benchmarks/grading_special.py [JOBS] [ASSIGNMENT ...]

Each cheat must miss the check that it is after; each right one must miss what its algorithm misses, and
nothing else. Prints every one that does not, what could not be graded, and the CPU time of a submission.
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
from tests.support.submissions_everywhere import EVERYWHERE, HABITS
from tests.support.submissions_special import SPECIAL
from tests.support.submissions_styles import STYLED
from tests.support.submissions_ways import WAYS


def main(jobs: int, names: list[str]) -> int:
    wrong, count, began = 0, 0, time.monotonic()
    for name in names or sorted({one.assignment for one in (*SPECIAL, *EVERYWHERE)}):
        cheats = {
            f"cheat-{n}": one for n, one in enumerate((*SPECIAL, *EVERYWHERE)) if one.assignment == name
        }
        every = {**STYLED, **WAYS, **HABITS}.items()
        right = {f"right-{key.replace(' ', '_')}": one for key, one in every if one[0] == name}
        with tempfile.TemporaryDirectory() as folder:
            for student, one in cheats.items():
                Path(folder, f"{student}.py").write_text(one.source, encoding="utf-8")
            for student, (_, source, _) in right.items():
                ending = ".ipynb" if source.startswith("{") else ".py"
                Path(folder, f"{student}{ending}").write_text(source, encoding="utf-8")
            grades = grade_folder(find_submissions(folder), find_assignment(name), jobs=jobs)
        for grade in grades:
            student = grade.student
            said = (
                _of_cheat(grade, cheats[student].check)
                if student in cheats
                else _of_right(grade, right[student][2])
            )
            about = cheats[student].name if student in cheats else student
            print(f"{name}: {about}: {grade.points:g} points, {grade.seconds:.1f} s {said}", flush=True)
            wrong, count = wrong + bool(said), count + 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s, cpu_s = time.monotonic() - began, used.ru_utime + used.ru_stime
    print(f"{count} submissions, {jobs} at a time, load {os.getloadavg()[0]:.1f}: {took_s:.0f} s")
    print(f"{cpu_s:.0f} s of CPU time, {cpu_s / max(count, 1):.1f} s each; {wrong} are judged wrong")
    return int(wrong > 0)


def _of_cheat(grade: Grade, check: str) -> str:
    if grade.status != "graded":
        return f"NOT GRADED: {grade.message}"
    found = next(result for result in grade.results if result.name == check)
    return f"FALSE PASS: {check}: {found.feedback}" if found.status == "passed" else ""


def _of_right(grade: Grade, wanted: set[str]) -> str:
    if grade.status != "graded":
        return f"NOT GRADED: {grade.message}"
    missed = {result.name: result.feedback for result in grade.results if result.status != "passed"}
    return "".join(
        f"\n  FALSE FAIL: {name}: {missed[name]}" for name in missed if name not in wanted
    ) + "".join(f"\n  FALSE PASS: {name}" for name in wanted if name not in missed)


if __name__ == "__main__":
    words = sys.argv[1:]
    jobs = int(words.pop(0)) if words and words[0].isdigit() else 2
    sys.exit(main(jobs, words))
