"""The name of what a job computes: the same in every process, another for another content."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from labkit.process.fingerprint import fingerprint

CELL = """
import dataclasses, functools
import numpy as np
import labkit as lk
from labkit import MPI

SCALE = {scale}

@dataclasses.dataclass
class Settings:
    size: int = 3
    words: frozenset = frozenset(["alpha", "beta", "gamma"])

def helper(x):
    return x * SCALE

def program(comm, n=1):
    with lk.phase("work"):
        if n in {{"one", "two", "three"}}:
            return helper(n)
    return comm.allreduce(n, op=MPI.SUM)

from labkit.process.fingerprint import fingerprint
print(fingerprint(program, Settings(), functools.partial(helper, 3), {{"b": 1, "a": np.arange(4)}},
                  np.random.default_rng(3), {{"x", "y", "z"}}))
"""


def in_new_process(text, seed):
    """The digest as another session has it: another hash seed, another name of the cell's file."""
    code = f"exec(compile({text!r}, '/tmp/ipykernel_{seed}/1.py', 'exec'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": str(seed), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout.strip()


def test_sessions_agree_and_content_matters():
    first = in_new_process(CELL.format(scale=2), 1)
    assert first == in_new_process("\n# a comment\n" + CELL.format(scale=2), 2)
    assert first != in_new_process(CELL.format(scale=3), 1)


def make(value):
    def inner(comm):
        return value

    return inner


def test_closures_and_recursion():
    assert fingerprint(make(1)) == fingerprint(make(1)) != fingerprint(make(2))

    def down(n):
        return 0 if n == 0 else down(n - 1)

    assert fingerprint(down) == fingerprint(down)
    loop = []
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), ("1", 1), ([1], (1,)), (None, "None"), (0.0, -0.0), ([[1], 2], [1, [2]]),
        (np.arange(3), np.arange(3.0)), (np.zeros((2, 3)), np.zeros((3, 2))), ({1: 2}, {2: 1}),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})), ("ab", ["a", "b"]),
        (np.float32(1), np.float64(1)),
        (lambda c: c.rank, lambda c: c.size), (b"a", "a"),
    ],
)  # fmt: skip
def test_different_things_differ(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_order_matters_only_where_it_means_something():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
