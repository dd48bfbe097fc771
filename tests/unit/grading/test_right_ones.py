"""Right submissions of every style get what their algorithm deserves."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.grading.folder import find_submissions, grade_folder
from tests.support.course import ASSIGNMENTS
from tests.support.submissions import GENERATED
from tests.support.submissions_right import RIGHT, STYLES, write_right

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_a_sandbox")]


@pytest.mark.parametrize("name", GENERATED)
def test_right_submissions_of_every_style_get_what_their_algorithm_deserves(
    name: str, tmp_path: Path
) -> None:
    ours = [right for right in RIGHT if right.assignment == name]
    algorithms = len(ours) // len(STYLES)
    # every style once, and every algorithm: the next one in the next style
    chosen = [ours[at * algorithms + at % algorithms] for at in range(len(STYLES))]
    wanted = {Path(right.file_name).stem: set(right.missed) for right in chosen}
    folder = write_right(tmp_path, chosen)[name]  # all of them: benchmarks/grading_right.py
    grades = grade_folder(find_submissions(folder), ASSIGNMENTS[name], jobs=2, secret="test")
    assert {g.student: {r.name for r in g.results if r.status != "passed"} for g in grades} == wanted
