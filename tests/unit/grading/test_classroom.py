"""The page about a class: what fails, what was asked for, and what is alike, said as far as it is known."""

from __future__ import annotations

import random
import re
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from labkit.cli import main
from labkit.grading import CheckResult, Grade
from labkit.grading.bench import SandboxBench
from labkit.grading.dashboard import _cause, _longest, dashboard, similar
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.sandbox.notes import named_in
from tests.support.course import ASSIGNMENTS
from tests.support.submissions_deadlock import RIGHT as SMOOTHS
from tests.support.submissions_good import BINOMIAL

BROADCAST = ASSIGNMENTS["broadcast"]
DEADLOCK = ASSIGNMENTS["deadlock"]

LIMITS = Limits(cpu_s=2, idle_s=2)
LOOPED = """
def broadcast(comm, data, root):
    shifted = (comm.rank + comm.size - root) % comm.size
    holders = 1
    while holders < comm.size:
        if shifted < holders and shifted + holders < comm.size:
            comm.isend(data, dest=(shifted + holders + root) % comm.size, tag=3).wait()
        if holders <= shifted < 2 * holders:
            data = comm.irecv(source=(shifted - holders + root) % comm.size, tag=3).wait()
        holders += holders
    return data
"""


def _disguised(source: str) -> str:
    """The same with other names, numbers and comments."""
    renamed = re.sub(r"\b(mask|me|p)\b", lambda found: f"my_{found[1]}", source)
    return '"""All my own work."""\n\n\n' + renamed.replace("\n", "  # mine\n", 3).replace(
        "mask = 1", "mask = 0x1"
    )


def test_a_renamed_copy_is_found_and_another_solution_is_not() -> None:
    found = similar({"ada": BINOMIAL, "bob": LOOPED, "eve": _disguised(BINOMIAL)})
    assert [pair.students for pair in found.pairs] == [("ada", "eve")]
    assert found.pairs[0].share > 0.9
    assert found.pairs[0].longest > 60
    assert found.usual < 0.3


def _table(name: str) -> str:
    """Thousands of tokens that are nearly all the same: one's own table of numbers."""
    rows = "".join(f"    t{n} = [{', '.join(['1'] * (1 + n * n % 89))}]\n" for n in range(200))
    return f"def {name}():\n{rows}"


def test_two_long_tables_do_not_hold_up_the_class() -> None:
    (pair,) = similar({"ada": _table("f"), "eve": f"x = 1\n{_table('g')}"}).pairs
    assert pair.longest > 10_000
    assert pair.lines == ((1, 202), (2, 203))


def test_the_longest_passage_is_that_of_a_plain_search() -> None:
    chance = random.Random(13)
    for _ in range(300):
        one, other = (
            [(chance.choice("abc"), nth + 1) for nth in range(chance.randrange(20))] for _ in range(2)
        )
        kinds = [[kind for kind, _ in own] for own in (one, other)]
        wanted = SequenceMatcher(None, *kinds, autojunk=False).find_longest_match()
        size, ((begin, end), (there, last)) = _longest(one, other)
        assert size == wanted.size
        if size:
            assert (begin - 1, there - 1) == (wanted.a, wanted.b)
            assert (end - begin, last - there) == (size - 1, size - 1)


def test_what_was_given_out_and_what_most_have_does_not_count() -> None:
    head = SMOOTHS["sendrecv"]
    tail = "\n\ndef own(x):\n    return [{} for y in range(x) if y % 3 and y not in (1, 2) or not y]\n"
    made = {f"s{n}": head + tail.format("y" + " * x" * n) for n in range(3)}
    alone, given = similar(made), similar(made, given=[head])
    assert len(alone.pairs) == 3
    assert all(pair.passages < 12 for pair in given.pairs), "of the tails alone"
    assert all(pair.passages > 50 for pair in alone.pairs)
    class_ = {f"s{n}": head + tail.format("y" + " * x" * n) for n in range(12)}
    assert similar(class_).compared == 0, "the same for everybody is what the task brings with it"


@pytest.mark.parametrize(
    "text", ["", "def f(:\n", "x = '", "\x00", "é" * 50, "(" * 500, "if x:\n\ty\n        z\n"]
)
def test_what_is_no_python_is_compared_as_far_as_it_goes(text: str) -> None:
    assert similar({"ada": text, "eve": text}).compared == 0


def _grade(student: str, *status: str, attempts: tuple[str, ...] = ()) -> Grade:
    points = {"passed": 1.0, "partial": 0.5, "failed": 0.0}
    words = {"passed": "Right.", "partial": "Half.", "failed": f"rank {len(student)} <b>failed</b>"}
    rows = [
        CheckResult(check.name, check.title, points[one] * check.points, check.points, words[one])
        for check, one in zip(BROADCAST.checks, status, strict=False)
    ]
    return Grade(student, "broadcast", rows, attempts=list(attempts))


def test_the_page_says_what_fails_most_and_who_asked_for_what() -> None:
    grades = [
        _grade("ada", "passed", "passed", "failed"),
        _grade("bob", "passed", "failed", "failed", attempts=("opens log.txt",)),
        _grade(
            "<eve>",
            "failed",
            "failed",
            "failed",
            attempts=("opens /proc/1/mem", "imports labkit.grading.seeds"),
        ),
        Grade("dan", "broadcast", status="ungraded", message="two files"),
    ]
    page = dashboard(grades, BROADCAST)
    order = [page.index(f"<td>{check.title}") for check in (BROADCAST.checks[n] for n in (2, 1, 0))]
    assert order == sorted(order)
    assert "3 (100%)" in page
    assert "2 (67%)" in page
    assert "<eve>" not in page
    assert "<b>failed" not in page
    assert page.index("opens /proc/1/mem; imports labkit.grading.seeds") < page.index("opens log.txt")
    assert "no\nproof of an intention" in page
    assert "dan: two files" in page
    assert "<script" not in page
    assert "rank # &lt;b&gt;failed&lt;/b&gt;" in page, "numbers are left out of causes"


def test_a_cause_is_the_sentence_without_case_and_numbers() -> None:
    for feedback, cause in (
        ("2 ranks: the program hangs: a deadlock:\ndeadlock: 2 of 2 ranks wait\n  rank 0: send to rank 1\n"
         "  rank 1: recv from rank 0, tag 1\n  cycle: rank 0 waits",
         "# ranks: the program hangs: a deadlock: ranks wait in recv, send"),
        ("Smallest failing case: 3 ranks, x (1 smaller one was right): the program hangs: a deadlock:\n",
         "the program hangs: a deadlock"),
        ("Smallest failing case: 3 ranks, x: the program raised an exception (rank 1 of 3):\nTraceback\n"
         "  File 1\nKeyError: 12\nprinted by the program:\nError?",
         "the program raised an exception: KeyError: #"),
        ("Right in all 8 cases, for 25% of the points: a call that this assignment excludes (rank 0 of 1):",
         "a call that this assignment excludes"),
        ("a call that this assignment excludes (rank 0 of 2):\nf.py:2 in f calls Bcast. Build it from: send,"
         "\nrecv are allowed\n  f.py:2: comm.bcast(x)",
         "a call that this assignment excludes: f.py:# in f calls Bcast"),
        ("a call that this assignment excludes (rank 0 of 2):\nf.py:2 in f calls Bcast, which\n"
         "is not allowed",
         "a call that this assignment excludes: f.py:# in f calls Bcast, which is not allowed"),
        ("Smallest failing case: 2 ranks: the program does not end (rank 0 of 2):\n"
         "Traceback (most recent call last):\n  File 1",
         "the program does not end"),
        ("5 ranks: 12 messages in all; at most 2 (p - 1) = 8 are allowed.",
         "# ranks: # messages in all; at most # (p - #) = # are allowed."),
    ):  # fmt: skip
        assert _cause(feedback) == cause


def test_attempts_are_noted_and_ordinary_work_is_not(sandbox: Sandbox) -> None:
    tries = """
import gc, sys
def f(comm):
    for act in (
        lambda: open("/proc/self/maps"), lambda: open("notes.txt", "w"), lambda: sys._getframe(1),
        lambda: gc.get_objects(), lambda: __import__("labkit.grading.no"),
        lambda: __import__("os").listdir("/etc"),
        lambda: __import__("labkit.algorithms.bcast"), lambda: __import__("subprocess").run(["ls"]),
    ):
        try:
            act()
        except BaseException:
            pass
"""
    found = SandboxBench(sandbox, tries, "f").run(1, [()])
    assert found.is_finished, found.message
    assert set(found.attempts) >= {
        "opens /proc/self/maps", "opens notes.txt", "looks at the frames of its callers",
        "looks through the objects of the interpreter", "imports labkit.grading.no", "lists /etc",
        "imports labkit.algorithms.bcast", "starts a program",
    }  # fmt: skip
    named = "def f():\n    from labkit.grading import seeds\n"
    named += "    import labkit.grading.notebook, labkit.algorithms.bcast\n"
    assert named_in(named) == ["imports labkit.grading.seeds", "imports labkit.algorithms.bcast"]
    assert named_in("def (") == []
    works = """
import collections, dataclasses, functools, logging, math, os, random, re, warnings
import numpy as np, scipy.sparse, pandas as pd
from labkit import MPI
from labkit.local import sort
from labkit.grading.notebook import points
Point = collections.namedtuple("Point", "x y")
@dataclasses.dataclass
class A:
    x: int = 0
def f(comm):
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.warn("slow"); logging.getLogger("me").warning("x")
    try:
        raise ValueError("x")
    except ValueError:
        logging.exception("y")
    assert len(pd.DataFrame({"x": [1]})) == 1 and A() == A() and Point(1, 2).x
    sort(np.arange(5)[::-1].copy())
    return float(np.linalg.norm(np.random.default_rng(1).random(3)) + scipy.sparse.eye(2).sum())
"""
    found = SandboxBench(sandbox, works, "f").run(2, [()] * 2)
    assert found.is_finished, found.message
    assert found.attempts == []


@pytest.mark.slow
def test_the_command_writes_the_page(
    tmp_path: Path, needs_a_sandbox: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ada.py").write_text("x = 1\n")
    (folder / "bob.py").write_text("def other(\n")
    page = tmp_path / "class.html"
    assert main(["grade", str(folder), "--assignment", "deadlock", "--dashboard", str(page), "--fresh"]) == 0
    text = page.read_text()
    assert DEADLOCK.title in text
    assert "does not define smooth" in text
    assert (
        main(["grade", str(folder), "--assignment", "deadlock", "--dashboard", str(tmp_path / "no" / "p")])
        == 3
    )
    assert "--dashboard FILE" in capsys.readouterr().err
