"""Ranks are as separate as processes: what leaks and what travels is the same on both machines.

Each case leaves state behind wherever a program can keep some, and looks what is there after a barrier.
"""

# ruff: noqa: UP033 - the traps are the point
from __future__ import annotations

import collections
import functools
import itertools
import threading
import types

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.support.same import Table, outcomes, values

pytestmark = pytest.mark.mpi

CASES = Table()
case = CASES.case


counter = 0
seen = []
nested = {"lists": [[0], (1, [2])], "sets": {1}}
alias = nested["lists"][0]
table = np.zeros(3)
window = table[1:]
frozen = np.arange(3)
frozen.flags.writeable = False
queue = collections.deque([1], maxlen=5)
tally = collections.Counter()
grouped = collections.defaultdict(list)
lock = threading.Lock()
again = threading.RLock()
numbers = itertools.count()
space = types.SimpleNamespace(x=[])


@case
def rebinding_a_global(comm):
    global counter
    counter += comm.rank + 1
    comm.barrier()
    return counter


@case
def containers(comm):
    alias.append(comm.rank)
    nested["lists"][1][1].append(comm.rank)
    nested["sets"].add(comm.rank)
    queue.append(comm.rank)
    tally[comm.rank] += 1
    grouped[comm.rank].append(1)
    space.x.append(comm.rank)
    comm.barrier()
    return nested, alias is nested["lists"][0], list(queue), queue.maxlen, dict(tally), dict(grouped), space.x


@case
def arrays_in_place(comm):
    np.add(table, comm.rank + 1, out=table)
    comm.barrier()
    return table.tolist(), frozen.tolist(), frozen.flags.writeable


@case
def a_view_and_its_base(comm):
    window[0] = comm.rank + 5
    comm.barrier()
    return window[0]


@case
def iterators(comm):
    next(numbers)
    comm.barrier()
    return next(numbers)


@case
def locks(comm):
    with lock, again:
        seen.append(comm.rank)
        comm.barrier()  # others take theirs meanwhile
    return seen, lock.locked()


def remembers(value, kept=[], *, named={}):  # noqa: B006 - the trap is the point
    kept.append(value)
    named[value] = len(kept)
    remembers.calls = getattr(remembers, "calls", 0) + 1
    return kept, named, remembers.calls


@case
def defaults_and_function_attributes(comm):
    remembers(comm.rank)
    comm.barrier()
    return remembers(comm.rank)


def make_counter():
    count = 0
    history = []

    def up(by):
        nonlocal count
        count += by
        history.append(count)
        return count, history

    def read():
        return count, history

    return up, read


count_up, count_read = make_counter()


@case
def closures_that_share_a_cell(comm):
    count_up(comm.rank + 1)
    comm.barrier()
    return count_up(1), count_read(), count_read.__closure__[0].cell_contents == count_read()[0]


@functools.lru_cache(maxsize=None)
def cached(k):
    seen.append(k)
    return [k]


twice = functools.partial(remembers, 7)


@functools.singledispatch
def kind(value):
    return "something"


@kind.register
def _(value: int):
    return "a number"


@functools.wraps(remembers)
def wrapped(value):
    return remembers(value)


@case
def functools_of_the_program(comm):
    cached(3).append(comm.rank)
    twice()
    comm.barrier()
    return cached(3), cached.cache_info().hits, twice()[2], kind(3), kind("x"), wrapped(1)[2]


def even(k):
    return True if k == 0 else odd(k - 1)


def odd(k):
    return False if k == 0 else even(k - 1)


def generator(k):
    for i in range(k):
        counted.append(i)
        yield i


counted = []
doubled = lambda x: [x, counted]  # noqa: E731


@case
def recursion_generators_lambdas(comm):
    list(generator(comm.rank + 1))
    comm.barrier()
    return even(10), odd(7), doubled(2), list(generator(2))


@case
def what_is_sent_may_change_afterwards(comm):
    mine, array = [comm.rank], np.full(4, comm.rank)
    requests = [comm.isend(mine, (comm.rank + 1) % comm.size), comm.isend(array, (comm.rank + 1) % comm.size)]
    mine.append("later")
    array[:] = -1
    got = comm.recv(source=(comm.rank - 1) % comm.size), comm.recv(source=(comm.rank - 1) % comm.size)
    MPI.Request.waitall(requests)
    got[1][0] = 9
    return got[0], got[1].tolist(), got[1].flags.writeable


@case
def dynamic_names(comm):
    globals()["fresh"] = comm.rank
    comm.barrier()
    return globals()["fresh"], "fresh" in globals(), eval("counter >= 0"), len(globals()["nested"])


def every_case(comm):
    return values(comm, CASES)


outcome = outcomes(every_case)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_as_separate_as_processes(name, ranks):
    real, simulated = ([result[name] for result in outcome(ranks, on)] for on in ("mpi", "star"))
    assert simulated == real


def test_the_caller_sees_nothing_of_it():
    outcome(3, "star")
    assert (counter, seen, nested["sets"], table.tolist()) == (0, [], {1}, [0, 0, 0])
    assert remembers.__defaults__ == ([],)
    assert cached.cache_info().currsize == 0


def test_shared_when_asked_for():
    def program(comm):
        box.append(comm.rank)
        comm.barrier()
        return len(box)

    box = []
    run = lk.run(program, 3, "star", isolate=False)
    assert run.results == [3, 3, 3]
    assert sorted(box) == [0, 1, 2]
    assert any("isolate=False" in note for note in run.notes)
