"""The course's exercises: the right answer passes, the likely wrong ones get a hint that keeps the secret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.jupyter.exercises import EXERCISES, check

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
WORDS = {"p log p": "exact", "p": "approximate", "p^0.25": "bound", "p^2": "none"}


def dissemination(comm, x):
    step = 1
    while step < comm.size:
        right, left = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        x = max(x, comm.sendrecv(x, dest=right, source=left))
        step *= 2
    return x


def through_the_root(comm, x):
    if comm.rank > 0:
        comm.send(x, dest=0)
        return comm.recv(source=0)
    x = max([x] + [comm.recv(source=other) for other in range(1, comm.size)])
    for other in range(1, comm.size):
        comm.send(x, dest=other)
    return x


def hypercube(comm, x):
    step = 1
    while step < comm.size:
        x = max(x, comm.sendrecv(x, dest=comm.rank ^ step, source=comm.rank ^ step))
        step *= 2
    return x


def only_the_root(comm, x):
    step = 1
    while step < comm.size:
        if comm.rank % (2 * step) == step:
            comm.send(x, dest=comm.rank - step)
            return x
        if comm.rank + step < comm.size:
            x = max(x, comm.recv(source=comm.rank + step))
        step *= 2
    return x


def borrowed(comm, x):
    return comm.allreduce(x, op=lk.MPI.MAX)


#: exercise -> right answers, wrong answers that are likely, each with a word of its own hint, and others
ANSWERS: dict[str, tuple[list[Any], list[tuple[Any, str]], list[Any]]] = {
    "matches": (
        [WORDS, {growth: f" {word.upper()}" for growth, word in WORDS.items()}],
        [
            (WORDS | {"p": "bound"}, "By how much"),
            (WORDS | {"p^0.25": "none"}, "upper bound"),
            (WORDS | {"p^2": "approximate"}, "divide p²"),
        ],
        [WORDS | {"p log p": "bound"}],
    ),
    "growth": (
        ["p", " P".lower(), "p + log p"],
        [("p^2", "same time"), ("log p", "last line"), ("p log p", "come after")],
        ["1", "p^3"],
    ),
    "plan": (["C", "c"], [("A", "at 128"), ("B", "drift"), ("D", "two points")], []),
    "takeover": (
        [316, "316", 320.0, np.float64(310)],
        [(1e5, "quotient"), (120, "the first"), (10, "microsecond")],
        [1024],
    ),
    "largest": (
        [dissemination],
        [
            (through_the_root, "only waits"),
            (hypercube, "partner"),
            (only_the_root, "Everybody"),
            (borrowed, "collective"),
        ],
        [lambda comm, x: x],
    ),
    "offset": (
        [7.30001, "7.300010"],
        [(7.30004, "no time at all"), (7.29998, "was back"), (-7.30001, "shows more")],
        [7.3],
    ),
    "rate": ([1.5, "1.5"], [(2, "arithmetic"), (1.732, "geometric"), (0.667, "seconds for each")], [3]),
    "least": ([6, "6"], [(5, "or all below"), (2, "of a mean"), (30, "rule of thumb")], [7]),
    "judged": (["B"], [("A", "luckiest"), ("C", "between 1 and 4"), ("D", "so evenly")], []),
    "monday": (["B"], [("A", "protect"), ("C", "still fail"), ("D", "flaky")], []),
}


def test_every_exercise_is_tried_here():
    assert set(ANSWERS) == set(EXERCISES)


@pytest.mark.parametrize("name", ANSWERS)
def test_right_answers_pass(name):
    for answer in ANSWERS[name][0]:
        said = check(name, answer)
        assert said, (answer, said)
        assert str(said).startswith("✓ right: ")


@pytest.mark.parametrize("name", ANSWERS)
def test_likely_wrong_answers_are_told_apart(name):
    likely = ANSWERS[name][1]
    assert len(likely) >= 3
    texts = []
    for answer, word in likely:
        said = check(name, answer)
        assert said.state == "wrong", (answer, said)
        assert word in said.text
        texts.append(said.text)
    assert len(set(texts)) == len(likely)
    for answer in ANSWERS[name][2]:
        assert check(name, answer).state == "wrong", answer


@pytest.mark.parametrize("name", ANSWERS)
def test_no_hint_holds_the_answer(name):
    right = [answer for answer in ANSWERS[name][0] if isinstance(answer, str | int | float)]
    one = EXERCISES[name]
    for hint in [one.hint, *(trap.hint for trap in one.traps)]:
        words = re.findall(r"[\w.^²]+", hint)
        told = [answer for answer in right if str(answer) in words and len(str(answer)) > 1]
        assert not told, hint


@pytest.mark.parametrize("name", ANSWERS)
def test_nothing_written_yet_is_no_mistake(name):
    for empty in ("?", None, " ", {"p": "?"}):
        assert check(name, empty).state == "open"
    assert "cannot be read" in check(name, object()).text


def test_an_unknown_exercise_suggests_one():
    with pytest.raises(DataError, match="did you mean 'takeover'"):
        check("takeoff", 3)


def test_the_notebooks_ask_every_exercise_and_no_other():
    asked = []
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        asked += re.findall(r'lk\.check\("([^"]+)"', code)
    assert sorted(asked) == sorted(EXERCISES)


def test_the_plans_are_as_good_as_the_exercise_says():
    """Of programs that grow as p² and promised p, only plan C convicts most."""
    plans = {
        "A": ([64], 25),
        "B": ([64, 80, 96, 112, 128], 5),
        "C": ([16, 32, 64, 128, 256], 5),
        "D": ([16, 256], 12),
    }
    found = {}
    for name, (ranks, repeats) in plans.items():
        exact = (100e-6 + 10e-9 * np.array(ranks, float) ** 2)[:, None]
        scattered = (np.random.default_rng(k).standard_normal((len(ranks), repeats)) for k in range(20))
        found[name] = sum(lk.judge(ranks, exact * (1 + 0.05 * e), "p").match == "none" for e in scattered)
    assert found["C"] >= 16, found
    assert max(found[name] for name in "ABD") <= 6, found
