"""Simulated ranks share nothing that a process would not share."""

from __future__ import annotations

import abc
import dataclasses
import functools
import random

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.sim.isolation.isolation import Isolation

counter = 0
items: list[int] = []
table = {"key": [0]}
read_only = np.arange(1000)
read_only.flags.writeable = False
writable = np.zeros(3)
MISSING = object()


def bump() -> int:
    global counter
    counter += 1
    items.append(counter)
    table["key"].append(counter)
    writable[0] += 1
    return counter


def test_a_program_that_leaks_through_a_global_behaves_as_on_processes() -> None:
    def program(comm):
        bump()
        comm.barrier()
        bump()
        return counter, list(items), table["key"], writable[0]

    assert lk.run(program, 4).results == [(2, [1, 2], [0, 1, 2], 2.0)] * 4
    assert (counter, items, table, writable[0]) == (0, [], {"key": [0]}, 0.0)


def test_without_isolation_ranks_share_and_the_run_says_so() -> None:
    shared = []
    run = lk.run(lambda comm: shared.append(comm.rank), 3, isolate=False)
    assert shared == [0, 1, 2]
    assert any("isolate=False" in note for note in run.notes)


def test_closures_arguments_and_defaults_are_copied() -> None:
    closure = [0]

    def program(comm, argument, default=[], *, keyword={}):  # noqa: B006
        for one in (closure, argument, default):
            one.append(comm.rank)
        keyword[comm.rank] = 1
        return closure, argument, default, keyword

    argument = [9]
    run = lk.run(program, 3, args=(argument,))
    assert run.results == [([0, r], [9, r], [r], {r: 1}) for r in range(3)]
    assert (closure, argument) == ([0], [9])


def test_identity_within_a_rank_is_kept() -> None:
    def program(comm):
        return table is alias[0], alias[0]["key"] is table["key"], marks[0] is MISSING

    alias, marks = [table], [MISSING]
    assert lk.run(program, 2).results == [(True, True, True)] * 2


def test_read_only_arrays_are_shared_and_writable_ones_are_not() -> None:
    def program(comm):
        return read_only, writable

    (shared, own), (shared_too, own_too) = lk.run(program, 2).results
    assert shared is shared_too is read_only
    assert len({id(own), id(own_too), id(writable)}) == 3


class Base(abc.ABC):
    made = 0

    def __init__(self, value: int = 0) -> None:
        Base.made += 1
        self.value = value

    @abc.abstractmethod
    def double(self) -> int: ...


class Derived(Base):
    __slots__ = ("extra",)

    def __init__(self, value: int = 0) -> None:
        super().__init__(value)
        self.extra = bump()

    def double(self) -> int:
        return 2 * self.value

    @property
    def shown(self) -> str:
        return f"{type(self).__name__}:{self.value}"

    @classmethod
    def count(cls) -> int:
        return cls.made

    @staticmethod
    def helper() -> int:
        return bump()


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


def test_classes_are_the_ranks_own_and_come_back_as_the_programs() -> None:
    def program(comm):
        first, second = Derived(comm.rank), Derived(5)
        assert isinstance(first, Base)
        assert second.double() == 10
        with pytest.raises(TypeError, match="abstract"):
            Base()
        point = dataclasses.replace(Point(1), tags=["a"])
        assert dataclasses.asdict(point) == {"x": 1, "tags": ["a"]}
        return first, Derived.count(), first.shown, Derived.helper(), point

    for rank, (one, made, shown, bumped, point) in enumerate(lk.run(program, 3).results):
        assert type(one) is Derived
        assert (one.value, one.extra, made, shown, bumped) == (rank, 1, 2, f"Derived:{rank}", 3)
        assert point == Point(1, ["a"])
    assert Base.made == 0


def test_objects_of_the_programs_classes_travel_between_ranks() -> None:
    def program(comm):
        got = comm.sendrecv([Point(comm.rank), Point], (comm.rank + 1) % comm.size)
        assert got[1] is Point
        assert isinstance(got[0], Point)
        everybody = comm.allgather(Point(comm.rank))
        assert all(type(one) is Point for one in everybody)
        return got[0].x

    assert lk.run(program, 3).results == [2, 0, 1]


@functools.cache
def cached(n: int) -> int:
    return bump()


def test_wrapped_cached_and_bound_functions_are_the_ranks_own() -> None:
    bound = items.append
    part = functools.partial(bump)

    def program(comm):
        bound(7)
        return cached(1), cached(1), part(), list(items)

    assert lk.run(program, 3).results == [(1, 1, 2, [7, 1, 2])] * 3
    assert items == []


def test_random_state_is_the_ranks_own_and_repeats() -> None:
    def program(comm):
        random.seed(comm.rank)
        first = random.random()
        comm.barrier()
        second = random.random()
        reference = random.Random(comm.rank)
        assert (first, second) == (reference.random(), reference.random())
        values = [1, 2, 3, 4, 5, 6]
        np.random.shuffle(values)
        return values, np.random.rand(), np.random.default_rng().random()

    state, numpy_state = random.getstate(), np.random.get_state()[1].tolist()
    first, second, third = (lk.run(program, 4, seed=seed).results for seed in (1, 1, 2))
    assert first == second != third
    assert len({row[1] for row in first}) == len({row[2] for row in first}) == 4
    assert random.getstate() == state
    assert np.random.get_state()[1].tolist() == numpy_state


def test_what_cannot_be_copied_is_shared_and_noted() -> None:
    generator = (number for number in range(2))

    def program(comm):
        return next(generator)

    run = lk.run(program, 2)
    assert run.results == [0, 1]
    assert any("generator" in note and "share" in note for note in run.notes)


def test_mpi_itself_is_shared() -> None:
    operator, datatype = MPI.SUM, MPI.DOUBLE

    def program(comm):
        assert comm is MPI.COMM_WORLD
        return operator is MPI.SUM, datatype is MPI.DOUBLE, comm.allreduce(1, operator)

    assert lk.run(program, 2).results == [(True, True, 2)] * 2


def test_code_that_reaches_globals_by_name() -> None:
    def program(comm):
        globals()["items"].append(1)
        return eval("len(items)")

    assert lk.run(program, 3).results == [1, 1, 1]
    assert items == []


class Forwarding:
    """What it does not have it asks of its target, which its state has yet to bring."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        return getattr(self.target, name)


def test_an_object_that_forwards_what_it_does_not_have() -> None:
    forwarding = Forwarding([1, 2, 3])
    assert lk.run(lambda comm: forwarding.index(3), 2).results == [2, 2]


def test_recursion_and_functions_that_call_each_other() -> None:
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    assert lk.run(lambda comm: even(10), 2).results == [True, True]
    copies = [Isolation(even).program(rank) for rank in range(2)]
    assert copies[0] is not copies[1]


def test_phases_compute_and_output_belong_to_their_rank() -> None:
    def program(comm):
        print("begin", comm.rank)
        with lk.phase("work"):
            lk.compute(seconds=1.0 + comm.rank)
        with lk.phase("work"), lk.phase("inner"):
            lk.compute(flops=1e9)
        print("end", comm.rank)

    run = lk.run(program, 2, on="star:2,speed=2Gf")
    assert run.output == ["begin 0\nend 0\n", "begin 1\nend 1\n"]
    rows = run.phases.sort_values(["rank", "begin_s", "phase"]).to_records(index=False).tolist()
    assert [row[:2] for row in rows] == [
        (rank, name) for rank in (0, 1) for name in ("work", "inner", "work")
    ]
    assert rows[0][2:] == (0.0, 1.0, 0)
    assert rows[5][2:] == (2.0, 2.5, 0)
    assert run.makespan_s == 2.5


def test_objects_of_the_notebook_are_left_alone() -> None:
    """`exit` of IPython, by its name alone: what it leads to cannot be copied, and no rank uses it."""
    autocall = pytest.importorskip("IPython.core.autocall")
    names = {"__name__": "__main__", "exit": autocall.ExitAutocall(line for line in ())}
    exec("import sys\ndef program(comm):\n    return comm.rank if comm.size < 9 else sys.exit(1)\n", names)
    run = lk.run(names["program"], 3, on="star")
    assert run.results == [0, 1, 2]
    assert not any("cannot be copied" in note for note in run.notes)
