"""A check of the speed-up where the grader itself does the work: nobody can compute for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.grading.checks import COUNTS_ONLY
from labkit.grading.result import Verdict
from labkit.grading.sandbox.outcome import Outcome
from labkit.grading.trial import Case, Oracle, Trial, headline

__all__ = ["Once", "SpeedUp"]


@dataclass(frozen=True)
class SpeedUp:
    """The speed-up, the tasks' times over the simulated time of the run, is at least a share of the ranks.

    What a submission charges itself, or sleeps, does not pass. A task takes its time whoever has it done, and
    as often as it is done (`labkit.grading.sandbox.outcome.Work`).

    `cases`: ``cases(seed)``: cases with `Work`, the smallest first.
    `levels`: An efficiency (speed-up over ranks), and which share of the points it is worth; the worst case
        counts.
    `against`: ``against(case, tasks)``: for the last case, and which tasks each rank has had done in it, one
        whose costs are bad for who deals them out so. No fixed pattern is good for that.
    """

    name: str
    title: str
    points: float
    cases: Callable[[int], Sequence[Case]]
    oracle: Oracle
    levels: Sequence[tuple[float, float]]
    hint: str = ""
    is_bonus: bool = False
    against: Callable[[Case, Sequence[Sequence[int]]], Case] | None = None
    needs_simulation = True

    def judge(self, trial: Trial) -> Verdict:
        """Measure the speed-up on every case; the smallest efficiency counts."""
        worst, said = float("inf"), ""
        waiting = list(self.cases(trial.seed))
        against = self.against
        while waiting:
            case = waiting.pop(0)
            wrong, hint, outcome = trial.fault(case, self.oracle, charges=False)
            if wrong:
                return Verdict(0.0, f"{case}: {COUNTS_ONLY}: {headline(wrong)}", hint)
            efficiency, words = _measured(case, outcome)
            if efficiency < worst:
                worst, said = efficiency, words
            if not waiting and against is not None:
                waiting, against = [against(case, outcome.tasks)], None
        wanted = max(level for level, _ in self.levels)
        share = max((share for level, share in self.levels if worst >= level), default=0.0)
        if share >= 1:
            return Verdict(1.0, f"{said}.")
        lower = ", ".join(f"{level:.0%} for {part:.0%} of them" for level, part in self.levels if part < 1)
        less = f" ({lower})" if lower else ""
        return Verdict(share, f"{said}; all points need an efficiency of {wanted:.0%}{less}.", self.hint)


def _measured(case: Case, outcome: Outcome) -> tuple[float, str]:
    """Return the efficiency, and its explanation as text."""
    assert case.work is not None
    alone_s = sum(case.work.seconds[task] for task in case.work.wanted())
    busy = [sum(case.work.seconds[task] for task in own) for own in outcome.tasks]
    speedup = alone_s / outcome.makespan_s if outcome.makespan_s > 0 else 0.0
    most = max(range(case.ranks), key=lambda rank: busy[rank])
    return speedup / case.ranks, (
        f"{case}: speed-up {speedup:.2f}, efficiency {speedup / case.ranks:.0%}; the busiest rank, {most}, "
        f"computes {busy[most]:.3g} s of {outcome.makespan_s:.3g} s: its share is "
        f"{alone_s / case.ranks:.3g} s"
    )


@dataclass(frozen=True)
class Once:
    """No task is done twice.

    `task`: What a task is, as students call it.
    """

    name: str
    title: str
    points: float
    cases: Callable[[int], Sequence[Case]]
    oracle: Oracle
    hint: str = ""
    task: str = "row"
    is_bonus: bool = False
    needs_simulation = False

    def judge(self, trial: Trial) -> Verdict:
        """Count on every case."""
        for case in self.cases(trial.seed):
            wrong, hint, outcome = trial.fault(case, self.oracle)
            if wrong:
                return Verdict(0.0, f"{case}: {COUNTS_ONLY}: {headline(wrong)}", hint)
            done: Counter[object] = Counter(task for own in outcome.tasks for task in own)
            task, times = max(done.items(), key=lambda item: item[1], default=(0, 1))
            if times > 1:
                more = sum(done.values()) - len(done)
                return Verdict(
                    0.0,
                    f"{case}: {self.task} {task} is computed {times} times; "
                    f"{f'{more} computations are' if more > 1 else '1 computation is'} too many.",
                    self.hint,
                )
        return Verdict(1.0, f"Each {self.task} is computed once.")
