"""A corpus of submissions that cheat: not one passes the check that it is after."""

from __future__ import annotations

import pytest

from labkit.grading import find_assignment
from labkit.grading.bench import SandboxBench
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial
from tests.support.submissions_cheating import CHEATING, Cheating
from tests.support.submissions_clever import CLEVER
from tests.support.submissions_everywhere import EVERYWHERE
from tests.support.submissions_special import QUICK, SPECIAL
from tests.support.submissions_unread import UNREAD

LIMITS = Limits(cpu_s=2, idle_s=2)


def _points(sandbox: Sandbox, cheating: Cheating) -> tuple[float, str]:
    assignment = find_assignment(cheating.assignment)
    bench = SandboxBench(sandbox, cheating.source, assignment.function, assignment.also)
    trial = Trial(bench, Seed(7, None), assignment.only_messages)
    verdict = assignment.check_named(cheating.check).judge(trial)
    return verdict.score, verdict.feedback


EVERY = [*CHEATING, *CLEVER, *UNREAD, *SPECIAL, *EVERYWHERE]


def test_there_are_enough_and_no_two_are_the_same() -> None:
    assert len(EVERY) >= 370
    assert len({cheating.source for cheating in EVERY}) == len({c.name for c in EVERY}) == len(EVERY)


@pytest.mark.slow
def test_not_one_of_them_passes(sandbox: Sandbox) -> None:
    """Of those that know the cases a few: benchmarks/grading_special.py tries all of them."""
    many = (*SPECIAL, *EVERYWHERE)
    chosen = [one for one in EVERY if one not in many or one.name in QUICK]
    found = {cheating.name: _points(sandbox, cheating) for cheating in chosen}
    assert {name: feedback for name, (score, feedback) in found.items() if score} == {}
    broken = [name for name, (_, feedback) in found.items() if "SyntaxError" in feedback]
    assert broken == [], "a submission that cannot run tries nothing"
