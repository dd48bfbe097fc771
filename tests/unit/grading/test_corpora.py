"""Every generated submission, wrong or hostile, gets exactly the checks that it deserves."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.grading.folder import find_submissions, grade_folder
from tests.support.course import ASSIGNMENTS
from tests.support.submissions import GENERATED, OPEN, SUBMISSIONS, write
from tests.support.submissions_hostile_notebooks import escaped

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_a_sandbox")]


@pytest.mark.parametrize("name", GENERATED)
def test_no_false_pass_and_no_false_fail(name: str, tmp_path: Path) -> None:
    """The open ones are tried without a sandbox in test_checks.py, and within it in other styles below."""
    chosen = [s for s in SUBMISSIONS if s.assignment == name and s not in OPEN]
    expected = {Path(s.file_name).stem: s.missed for s in chosen}
    folder = write(tmp_path, chosen)[name]
    grades = grade_folder(find_submissions(folder), ASSIGNMENTS[name], jobs=2, secret="test")
    assert {g.student: g.message for g in grades if g.status != "graded"} == {}
    found = {g.student: {r.name for r in g.results if r.status != "passed"} for g in grades}
    assert found == {student: set(missed) for student, missed in expected.items()}
    assert escaped() == []
