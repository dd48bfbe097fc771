"""What all ranks may share: programs that reach nothing that can change."""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from random import random as draw

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.sim.isolation.isolation import Isolation, is_constant, is_plain_data

LIMIT = 7
NAMES = ("a", "b")
FROZEN = np.arange(4)
FROZEN.setflags(write=False)
WRITABLE = np.arange(4)
ITEMS: list[int] = []
COUNT = 0
GENERATOR = np.random.default_rng(1)


@dataclass
class Own:
    x: int = 0


def helper(n):
    return n + LIMIT + len(NAMES) + int(FROZEN.sum())


def constant(comm):
    return helper(comm.rank) + int(np.stack([FROZEN]).sum()) + math.floor(1.5) + MPI.SUM(1, 2)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def inner_state(comm):
    total = 0

    def add(x):
        nonlocal total
        total += x

    add(comm.rank)
    return total


@functools.wraps(helper)
def wrapped(comm):
    return helper(comm)


def writes_global(comm):
    global COUNT
    COUNT += 1
    return COUNT


def calls_writer(comm):
    return writes_global(comm)


def writes_attribute(comm):
    helper.calls = 1


def names_attribute(comm):
    setattr(helper, "calls", 1)  # noqa: B010


def appends(comm):
    ITEMS.append(comm.rank)


def keeps_method(comm, add=ITEMS.append):
    add(comm.rank)


def default_list(comm, seen=[]):  # noqa: B006
    seen.append(comm.rank)
    return seen


def keyword_list(comm, *, seen=[]):  # noqa: B006
    return seen


def reads_array(comm):
    return WRITABLE.sum()


def makes_own(comm):
    return Own(1)


def draws(comm):
    return draw()


def generates(comm):
    return GENERATOR.integers(5)


def reaches_all(comm):
    return globals()["LIMIT"]


@functools.lru_cache
def cached(comm):
    return 1


def counter():
    count = 0

    def count_up(comm):
        nonlocal count
        count += 1
        return count

    return count_up


def reader(value):
    return lambda comm: value


@pytest.mark.parametrize(
    "program",
    [constant, even, inner_state, wrapped, reader(3), reader((1, "a")), lambda comm: helper(1), len],
)
def test_what_cannot_change_is_shared(program) -> None:
    assert is_constant(program)


@pytest.mark.parametrize(
    "program",
    [
        *(
            writes_global,
            calls_writer,
            writes_attribute,
            names_attribute,
            appends,
            keeps_method,
            default_list,
        ),
        *(keyword_list, reads_array, makes_own, draws, generates, reaches_all, cached, counter()),
        *(reader([1]), reader(WRITABLE), reader(ITEMS.append), lambda comm: appends(comm)),
    ],
)
def test_what_can_change_is_not(program) -> None:
    assert not is_constant(program)


def test_a_function_attribute_that_can_change_is_not_shared() -> None:
    def marked(comm):
        return marked.seen

    marked.seen = []
    assert not is_constant(marked)
    marked.seen = 3
    assert is_constant(marked)


def test_plain_data_holds_no_code() -> None:
    assert is_plain_data([1, {"a": (2.0, {3})}, np.zeros(2)], bytearray(3), np.float64(1))
    loop: list[object] = []
    loop.append(loop)
    assert is_plain_data(loop)
    assert not is_plain_data([len])
    assert not is_plain_data({"a": Own()})
    assert not is_plain_data(np.array([[], None], dtype=object))


def test_only_a_program_that_can_change_is_copied() -> None:
    assert Isolation(even).program(0).args[0] is even
    assert Isolation(appends).program(0).args[0] is not appends


def test_a_shared_program_has_arguments_of_its_own() -> None:
    given: list[int] = []

    def program(comm, items, count):
        items.append(comm.rank)
        return items

    assert is_constant(program)
    assert lk.run(program, 3, args=(given,), kwargs={"count": 1}).results == [[0], [1], [2]]
    assert given == []


def test_functions_among_the_arguments_see_the_same_globals_as_the_program() -> None:
    """A callback that assigns a global: the program must read what it assigned."""

    def program(comm, callback):
        callback(comm)
        return COUNT

    assert is_constant(program)
    assert lk.run(program, 3, args=(writes_global,)).results == [1, 1, 1]
    assert COUNT == 0


def test_generators_named_by_the_program_are_each_rank_s_own() -> None:
    def program(comm):
        return draw()

    first = lk.run(program, 3, seed=1).results
    assert len(set(first)) == 3
    assert first == lk.run(lambda comm: random.random(), 3, seed=1).results
