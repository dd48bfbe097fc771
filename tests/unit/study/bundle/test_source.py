"""A notebook's function written down as a module of its own is the same function."""

from __future__ import annotations

import functools
import linecache
import types

import pytest

from labkit.study.bundle.source import difference, executed, same_code, source_of

CELLS = '''
import math
import numpy as np
import labkit as lk
from labkit import MPI
from labkit.algorithms.sorting.sample_sort import sample_sort as sort

N, NAMES, TABLE = 5, {"a": (1, 2.5)}, np.arange(4)
square = lambda x: x * x

class Base:
    size = N

class Box(Base):
    def get(self):
        return self.size + int(TABLE.sum())

def odd(n):
    return n > 0 and even(n - 1)

def even(n):
    return n == 0 or odd(n - 1)

def traced(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs)
    return inner

@traced
def helper(x, k=N):
    """Text with
    lines."""
    return square(x) + Box().get() + k + math.floor(NAMES["a"][1])

def program(comm: MPI.Comm, n: int = 3):
    with lk.phase("x"):
        total = comm.allreduce(helper(n), op=MPI.SUM)
    unused = [even(i) for i in range(n)]
    return total, unused, len(sort(comm, np.arange(n, dtype=float)))

def make(q, table):
    def inner(comm):
        return q * int(table.sum()) + N
    return inner

closed = make(2, TABLE)
pair = (lambda comm: comm.rank + N, lambda comm: comm.rank - N)
'''


@pytest.fixture
def cells():
    """Execute a notebook's cells, known to linecache as a kernel's cells are."""
    name = "/tmp/ipykernel_1/1.py"
    linecache.cache[name] = (len(CELLS), None, CELLS.splitlines(keepends=True), name)
    names = {"__name__": "__main__", "functools": functools}
    exec(compile(CELLS, name, "exec", dont_inherit=True), names)
    yield names
    del linecache.cache[name]


@pytest.mark.parametrize("name", ["program", "helper", "closed", "odd", "square"])
def test_the_text_alone_gives_the_same_functions(cells, name):
    found = source_of(cells[name])
    assert found is not None
    assert found.missing == []
    assert difference(found.text, found.values, found.originals) is None
    assert "ipykernel" not in found.text


def test_what_the_function_does_not_use_stays_out(cells):
    text = source_of(cells["odd"]).text
    assert "even" in text
    assert "numpy" not in text
    assert "Box" not in text


def test_it_computes_the_same(cells):
    found = source_of(cells["helper"])
    made = executed(found.text, found.values)["helper"]
    assert [made(i) for i in range(5)] == [cells["helper"](i) for i in range(5)]


def test_each_of_two_lambdas_on_a_line_is_found(cells):
    texts = [source_of(one).text for one in cells["pair"]]
    assert "comm.rank + N" in texts[0]
    assert "comm.rank - N" in texts[1]


def test_values_that_are_no_literals_are_kept_beside_it(cells):
    assert list(source_of(cells["program"]).values) == ["TABLE"]


def test_a_function_without_source_is_none():
    names: dict[str, object] = {}
    exec("def made(comm):\n    return 1\n", names)
    assert source_of(names["made"]) is None


def test_another_text_is_not_taken_for_the_same(cells):
    found = source_of(cells["helper"])
    changed = found.text.replace("+ k +", "- k +")
    assert "another code" in difference(changed, found.values, found.originals)
    other_default = found.text.replace("N, NAMES", "N, NAMES").replace("k=N", "k=4")
    assert "another code" in difference(other_default, found.values, found.originals)


def test_same_code_sees_nested_constants():
    one = compile("def f():\n    return [x for x in (1, 2)]", "a", "exec")
    two = compile("\n\ndef f():\n    return [x for x in (1, 2)]", "b", "exec")
    three = compile("def f():\n    return [x for x in (1, 3)]", "a", "exec")
    assert same_code(one, two)
    assert not same_code(one, three)
    assert isinstance(one, types.CodeType)
