"""What teachers are told holds: the solutions, the weeks' notebooks and assignments, the sums of minutes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from tests.support.course import ASSIGNMENTS

ROOT = Path(__file__).parents[3]
SOLUTIONS = (ROOT / "course" / "solutions.md").read_text(encoding="utf-8")
SYLLABUS = (ROOT / "docs" / "syllabus.md").read_text(encoding="utf-8")
CHAPTERS = re.findall(r"### (\d+)\. ([^\n]*)\n(.*?)(?=\n### |\Z)", SOLUTIONS, re.S)


def _notebook(number: int) -> Path | None:
    return next(iter((ROOT / "notebooks").glob(f"{number:02d}_*.ipynb")), None)


@pytest.mark.parametrize(("number", "title", "text"), CHAPTERS, ids=lambda value: str(value)[:20])
def test_the_solutions_of_exercises_are_right(number: str, title: str, text: str) -> None:
    notebook = _notebook(int(number))
    assert notebook is not None
    source = notebook.read_text(encoding="utf-8")
    assert title in source
    asked = set(re.findall(r'lk\.check\(\\"(\w+)\\"', source))
    found: dict[str, Any] = {}

    def check(name: str, answer: Any) -> None:
        found[name] = lk.check(name, answer)

    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block.replace("lk.check(", "check("), {"check": check})
    assert set(found) == asked
    assert {name: str(answer) for name, answer in found.items() if not str(answer).startswith("✓")} == {}


def _rows(heading: str) -> list[list[str]]:
    table = SYLLABUS.split(f"## {heading}")[1].split("Together")[0]
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("| ")
    ][1:]


@pytest.mark.parametrize(("heading", "weeks"), [("Twelve weeks", 12), ("Six weeks", 6)])
def test_the_weeks_name_what_there_is(heading: str, weeks: int) -> None:
    rows = _rows(heading)
    assert [int(row[0]) for row in rows] == list(range(1, weeks + 1))
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[4])]
    assert set(named) <= set(ASSIGNMENTS)
    if weeks == 12:
        assert sorted(named) == sorted(ASSIGNMENTS)
    notebooks = [int(word) for row in rows for word in re.findall(r"\b\d+\b", row[2])]
    assert all(_notebook(number) for number in notebooks)
    for column, said in ((3, "notebooks"), (5, "assignments")):
        minutes = sum(int(row[column]) for row in rows if row[column])
        assert f"{minutes} " in re.search(rf"Together.*{said}", SYLLABUS.split(f"## {heading}")[1])[0]  # type: ignore[index]
    assert all(row[6] == "-" or re.fullmatch(r"([GSP] \d+(, \d+)*(; )?)+", row[6]) for row in rows)


def test_every_assignment_has_its_line_for_students_and_for_teachers() -> None:
    teaching = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    for name in ASSIGNMENTS:
        assert f"| `{name}` |" in teaching
        assert f"| {name} |" in SOLUTIONS
