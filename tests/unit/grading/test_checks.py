"""Checks tell right from wrong, with words that teach; seeds, sources and grades are what they say."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import DataError
from labkit.grading import Grade, Scaling, find_assignment, notebook_source, student_seed
from labkit.grading.assignment import FeedbackHistory
from labkit.grading.bench import OpenBench
from labkit.grading.counts import busiest_bytes, rounds_of
from labkit.grading.folder import write_csv
from labkit.grading.result import CheckResult, Verdict
from labkit.grading.sandbox.schedule_rows import rows_of, schedule_from
from labkit.grading.seeds import Seed
from labkit.grading.submission import read_submission
from labkit.grading.trial import Case, Fault, Trial
from labkit.schedule import count
from tests.support.course import ASSIGNMENTS
from tests.support.refusals import raises_code
from tests.support.submissions import OPEN, SUBMISSIONS, Submission, missed_here

BROADCAST = ASSIGNMENTS["broadcast"]
PREFIX_SUM = ASSIGNMENTS["prefix_sum"]
SORT = ASSIGNMENTS["sort"]

COURSE = Path(__file__).parents[3] / "course"
BY_NAME = {(s.kind, s.name): s for s in SUBMISSIONS}


def function_of(kind: str, name: str) -> Any:
    """The function of a submission that means no harm, in this process."""
    submission = BY_NAME[kind, name]
    scope: dict[str, Any] = {}
    exec(submission.source, scope)
    return scope[ASSIGNMENTS[submission.assignment].function]


OPEN_WRONG = ("flat", "chain", "deadlock", "collective", "wrong_side", "no_mask")
HERE = OPEN + [s for s in SUBMISSIONS if s.name in OPEN_WRONG]


@pytest.mark.parametrize("submission", HERE, ids=lambda submission: submission.name)
@pytest.mark.slow
def test_a_trial_in_this_process_finds_what_the_sandbox_finds(submission: Submission) -> None:
    assert missed_here(submission.assignment, submission.source) == submission.missed


def test_the_smallest_failing_case_is_told_with_what_arrived() -> None:
    grade = SORT.try_out(lambda comm, keys: np.sort(keys), only=["easy", "duplicates"])
    words = grade.results[0].feedback
    assert words.startswith("Smallest failing case: 2 ranks")
    assert "rank 0 returned [1, 3]" in words
    assert "rank 0 gets [3, 1]" in words
    assert grade.results[0].hint


def test_a_hint_is_given_once_also_as_a_part_of_others() -> None:
    told, hangs = FeedbackHistory(), Fault("it hangs: who waits?", "deadlock", "a cycle")
    hints = ["Follow it. Follow it. Who sends?", "Follow it. Who sends? Which step is last?"]
    verdicts = [
        told.once(f"check {i}", Verdict(0.0, hangs.words, hint), hangs) for i, hint in enumerate(hints)
    ]
    assert [one.hint for one in verdicts] == ["Follow it. Who sends?", "Which step is last?"]
    assert verdicts[1].feedback == "as in “check 0”"


def test_results_that_are_no_arrays_are_told() -> None:
    found = BROADCAST.try_out(lambda comm, data, root: 7, only=["powers"]).results[0].feedback
    assert "rank 0 returned 7, not an array" in found


@pytest.mark.mpi
@pytest.mark.slow
def test_the_same_checks_judge_results_on_real_mpi() -> None:
    good = BROADCAST.try_out(function_of("good", "binomial"), on="mpi", only=["powers", "any_data"])
    assert good.is_full, good.text()
    assert BROADCAST.try_out(function_of("good", "binomial"), on="mpi", only=["rounds"]).results == []


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("name", ["linear", "binomial"])
def test_rounds_are_those_of_the_literature(name: str, ranks: int) -> None:
    run = lk.run(
        lambda comm: comm.Bcast(np.zeros(8)), ranks, on=f"star:{ranks}", trace=True, coll={"bcast": name}
    )
    wanted = {"linear": ranks - 1, "binomial": math.ceil(math.log2(ranks))}
    assert rounds_of(run.trace, ranks) == wanted[name]
    assert busiest_bytes(run.trace, ranks, "received") == 64
    assert busiest_bytes(run.trace, ranks, "sent") == 64 * wanted[name]


@pytest.mark.parametrize("problem", ["allgather", "alltoall", "scan", "allreduce"])
def test_rounds_are_those_that_schedules_count(problem: str) -> None:
    """The trace's rounds and the schedule's own count agree where ranks go in step."""
    for name in registry.names(problem):
        algorithm = registry.get(problem, name)
        if "node" in algorithm.parameters:  # on a star a run would take single ranks for nodes
            algorithm = algorithm.tuned(node=4)
        if name in ("linear", "double_tree") or algorithm.requirements.unmet(8):
            continue  # one rank has them all; messages of two trees overtake each other
        rounds, _, _ = count(algorithm.build(8), 64.0)
        method = {"allgather": "Allgather", "alltoall": "Alltoall", "scan": "Scan", "allreduce": "Allreduce"}
        sizes = {"allgather": (8, 64), "alltoall": (64, 64)}.get(problem, (8, 8))

        def program(comm: Any, call: str = method[problem], sizes: tuple[int, int] = sizes) -> None:
            getattr(comm, call)(np.zeros(sizes[0]), np.zeros(sizes[1]))

        run = lk.run(program, 8, on="star:8", trace=True, coll={problem: algorithm.name})
        assert rounds_of(run.trace, 8) == rounds, name


def _scaling(expectation: str, ranks: tuple[int, ...]) -> Scaling:
    return Scaling("s", "s", 1, lambda p, seed: None, lambda case, results: None, expectation, ranks=ranks)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("expectation", "time", "passes"),
    [
        ("log p", lambda p: 1e-5 * math.log2(p), True),
        ("log p", lambda p: 1e-5 + 2e-5 * math.log2(p), True),
        ("log p", lambda p: 1e-5, True),
        ("log p", lambda p: 1e-5 * (p - 1), False),
        ("log p", lambda p: 1e-5 * p * math.log2(p), False),
        ("p", lambda p: 1e-5 * p * p, False),
        ("1/p", lambda p: (p - 1) / p**2, True),
        ("1/p", lambda p: 1.0, False),
        ("1/p", lambda p: 1 + 1 / p, False),
        ("1/p", lambda p: 1 + 0.1 * p, False),
        ("log p", lambda p: 0.0, False),
    ],
)
def test_the_promised_growth_and_a_faster_one_are_told_apart(
    expectation: str, time: Any, passes: bool
) -> None:
    ranks = (4, 8, 16, 32, 64)
    verdict = _scaling(expectation, ranks).verdict_of([time(p) for p in ranks])
    assert (verdict.score == 1.0) is passes, verdict.feedback


@pytest.mark.parametrize("seed", range(60))
def test_every_sentence_about_growth_is_true(seed: int) -> None:
    """Whatever the times: the words agree with their direction, and full points with the sentence."""
    rng, ranks = np.random.default_rng(seed), (2, 3, 4, 6, 8, 12, 16)
    p = np.array(ranks, dtype=float)
    shape = p ** rng.uniform(-1.2, 1.5) + rng.choice([0.0, 0.3, 3.0])
    times = (1e-5 * shape * np.exp(rng.choice([0.0, 0.02, 0.3]) * rng.standard_normal(p.size))).tolist()
    for expectation in ("1/p", "1", "log p", "p"):
        verdict = _scaling(expectation, ranks).verdict_of(times)
        text, ratio = verdict.feedback.split("\n")[0], times[-1] / times[0]
        if "the time grows to" in text:
            assert ratio > 1
        if "the time falls to" in text:
            assert ratio < 1
        if "it falls" in text.split("up to")[0]:
            assert min(times) < times[0]
        if "it stays constant" in text and "where" not in text and "Undecided" not in text:
            assert 0.8 < ratio < 1.25
        if "as good as asked for, or better" in text:
            assert verdict.score == 1.0
            assert ratio <= 1.1 * _scaling(expectation, ranks)._expected_ratio()
        if verdict.score == 1.0:
            assert not text.startswith("No match")
        else:
            assert not text.startswith(("Exact", "Approximate", "The bound"))


def test_seeds_are_the_students_own() -> None:
    names = [f"student{i}" for i in range(200)]
    seeds = {student_seed(name, "sort", "secret") for name in names}
    assert len(seeds) == 200
    assert student_seed("ada", "sort", "secret") == student_seed("ada", "sort", "secret")
    assert student_seed("ada", "sort", "secret") != student_seed("ada", "sort", "another")
    assert student_seed("ada", "sort") != student_seed("ada", "broadcast")
    cases = [[next(iter(c.cases(seed))) for c in SORT.checks[:1]] for seed in (1, 2)]
    assert str(cases[0][0]) == str(cases[1][0])
    later = [list(SORT.checks[0].cases(seed))[2].arguments[0][0] for seed in (1, 1, 2)]  # type: ignore[attr-defined]
    assert np.array_equal(later[0], later[1])
    assert not np.array_equal(later[0], later[2])


def test_a_notebook_gives_its_definitions_only() -> None:
    source = notebook_source(BY_NAME["good", "notebook"].source)
    assert "def parallel_sort" in source
    assert "KEYS = 100" in source
    for word in ("matplotlib", "lk.run", "SystemExit", "%%"):
        assert word not in source


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.py", "def f(:\n", ("not-python", "line 1")),
        ("a.py", "x = 1\n", ("missing-definition", "parallel_sort")),
        ("a.ipynb", "{", ("malformed-file",)),
        ("a.ipynb", '{"cells": 7}', ("malformed-file",)),
        ("a.py", "(" * 500, ("not-python",)),
    ],
)
def test_a_source_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, text: str, wanted: tuple[str, ...]
) -> None:
    (tmp_path / name).write_text(text)
    with raises_code(DataError, *wanted):
        read_submission(tmp_path / name, "parallel_sort")


def _grade() -> Grade:
    rows = [
        CheckResult("a", "A", 2, 2, "fine"),
        CheckResult("b", "B", 0.5, 2, "<script>alert(1)</script>\n\x1b[2J", "look <there>"),
        CheckResult("c", "C", 1, 1, "extra", is_bonus=True),
    ]
    return Grade("=ada", "sort", rows, containment="walls", seed=5, seconds=1.5)


def test_a_grade_adds_up_and_comes_back_from_json() -> None:
    grade = _grade()
    assert (grade.points, grade.max_points, grade.is_full) == (3.5, 4, False)
    assert [r.status for r in grade.results] == ["passed", "partial", "passed"]
    assert Grade.from_dict(json.loads(grade.to_json())) == grade


def test_what_a_submission_says_cannot_act_on_the_page_or_the_terminal(tmp_path: Path) -> None:
    grade = _grade()
    assert "<script" not in grade.html()
    assert "&lt;script&gt;" in grade.html()
    assert "\x1b" not in grade.html() + grade.text()
    write_csv([grade], tmp_path / "grades.csv")
    assert (tmp_path / "grades.csv").read_text().splitlines()[1].startswith("'=ada,sort,graded,3.5,4")


def test_assignments_are_found_by_name_and_by_file(tmp_path: Path) -> None:
    assert find_assignment("sort") is SORT
    file = tmp_path / "mine.py"
    file.write_text("from labkit.grading import find_assignment\nASSIGNMENT = find_assignment('sort')\n")
    assert find_assignment(file) == SORT
    file.write_text("x = 1\n")
    for bad, code in (("no_such", "unknown-name"), (file, "missing-definition"), ("no.py", "missing-file")):
        with raises_code(DataError, code):
            find_assignment(bad)


def test_a_schedule_comes_through_its_rows() -> None:
    algorithm = registry.get("scan", "recursive_doubling")
    names = [t if isinstance(t, str) else t.name for t in algorithm.temporaries]
    for size in (1, 3, 8):
        assert algorithm.schedule is not None
        rows = rows_of(algorithm.schedule, ["scan", size, 0, True, 1, names, None])
        again = schedule_from(rows, "scan", size, temporaries=tuple(names))
        assert [again.program(r) for r in range(size)] == [
            algorithm.build(size).program(r) for r in range(size)
        ]


@pytest.mark.parametrize("assignment", ASSIGNMENTS.values(), ids=lambda a: a.name)
@pytest.mark.slow
def test_the_courses_notebooks_have_the_assignments_checks_and_a_right_solution(assignment: Any) -> None:
    path = COURSE / "source" / assignment.name / f"{assignment.name}.ipynb"
    cells = json.loads(path.read_text())["cells"]
    marks = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    tests = {m["grade_id"]: m["points"] for m in marks if m.get("grade")}
    assert tests == {f"{assignment.name}_{c.name}": 0 if c.is_bonus else c.points for c in assignment.checks}
    ids = [m["grade_id"] for m in marks if m]
    assert len(set(ids)) == len(ids)
    assert {m["schema_version"] for m in marks if m} == {3}
    scope: dict[str, Any] = {}
    exec(read_submission(path, assignment.functions), scope)
    grade = assignment.try_out({name: scope[name] for name in assignment.functions})
    assert grade.is_full, grade.text()


def test_prefix_sum_gives_a_counterexample_in_words() -> None:
    feedback = PREFIX_SUM.try_out(function_of("wrong", "wrong_side"), only=["order"]).results[0].feedback
    assert feedback.startswith("Counterexample: scan/mine on 2 ranks: rank 1")


def test_the_teachers_page_shows_an_assignment_that_works(tmp_path: Path) -> None:
    page = (COURSE.parent / "docs" / "teaching.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(page.split("```python\n")[1].split("```")[0])
    assignment = find_assignment(file)

    def total(comm: Any, x: Any) -> Any:
        got = x
        for _ in range(comm.size - 1):
            x = comm.sendrecv(x, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
            got = got + x
        return got

    grade = assignment.try_out(total)
    assert {r.name: r.status for r in grade.results} == {
        "right": "passed", "messages": "failed", "scaling": "failed",
    }, grade.text()  # fmt: skip


@dataclass(frozen=True)
class _Lucky(Scaling):
    """Growth whose times are told: those of the nth inputs, the last for ever."""

    told: tuple[float, ...] = ()
    seeds: list[int] = field(default_factory=list)

    def _times(self, trial: Trial, seed: int) -> list[float]:
        power = self.told[min(len(self.seeds), len(self.told) - 1)]
        self.seeds.append(int(seed))
        return [1e-3 * p**power for p in self.ranks]


@pytest.mark.parametrize(
    ("powers", "score", "draws"),
    [((-1.0,), 1.0, 1), ((0.2, -1.0), 1.0, 2), ((0.2, 0.3, -1.0), 1.0, 3), ((0.2, 0.3, 0.4, -1.0), 0.0, 3),
     ((0.2, 0.2), 0.0, 2)],
)  # fmt: skip
def test_one_unlucky_draw_of_samples_costs_no_points(
    powers: tuple[float, ...], score: float, draws: int
) -> None:
    """A right sort may be unlucky with its random samples; one whose times stay the same is not asked on."""
    ranks = (2, 3, 4, 6, 8, 12, 16)
    growth = _Lucky("s", "s", 1, SORT.check_named("scaling").case, lambda case, results: None, "1/p",  # type: ignore[attr-defined]
                    ranks=ranks, slack=4.0, told=powers)  # fmt: skip
    trial = Trial(OpenBench(lambda comm, keys: keys, None, SORT.limits), Seed(7, 0))
    assert growth.judge(trial).score == score
    assert len(set(growth.seeds)) == len(growth.seeds) == draws
    assert growth.seeds[0] == 7


def test_what_all_ranks_have_is_kept_once_and_serves_all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.grading.trial._MOST_KEPT_BYTES", 100_000)
    runs: list[int] = []
    whole = OpenBench.run

    def counted(bench: OpenBench, ranks: int, arguments: Any, **how: Any) -> Any:
        runs.append(ranks)
        return whole(bench, ranks, arguments, **how)

    monkeypatch.setattr(OpenBench, "run", counted)

    def own(comm: Any, data: Any) -> Any:
        return comm.bcast(data)

    def different(comm: Any, data: Any) -> Any:
        return comm.bcast(data) + comm.rank

    for function, times in ((own, 1), (different, 2)):
        runs.clear()
        trial = Trial(OpenBench(function))
        case = Case(8, [(np.arange(5000.0) if rank == 0 else None,) for rank in range(8)], "40 kB")
        first, second = trial.run(case), trial.run(case)
        assert len(runs) == times
        assert all(map(np.array_equal, first.results, second.results))
