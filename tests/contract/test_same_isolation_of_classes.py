"""Classes and their instances are as separate as processes, and travel alike, on both machines.

Each case leaves state behind wherever a class can keep some, or sends an instance, and looks what is there.
"""

# ruff: noqa: RUF012, RUF023 - the traps are the point
from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import weakref

import numpy as np
import pytest

from labkit import MPI
from tests.support.same import Table, outcomes, values

pytestmark = pytest.mark.mpi

CASES = Table()
case = CASES.case


seen = []


# -- classes ----------------------------------------------------------------------------------------------


class Base:
    made = 0
    registry = []

    def __init__(self, x):
        type(self).made += 1
        Base.registry.append(x)
        self.x = x

    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        cls.options = options

    @classmethod
    def build(cls, x):
        return cls(x)

    @staticmethod
    def size():
        return len(Base.registry)

    @property
    def double(self):
        return 2 * self.x

    def __eq__(self, other):
        return isinstance(other, Base) and self.x == other.x

    def __hash__(self):
        return hash(self.x)


class Derived(Base, flavour="sweet"):
    def __init__(self, x):
        super().__init__(x)
        self.y = [x]

    @functools.cached_property
    def triple(self):
        return 3 * self.x

    @functools.cache  # noqa: B019
    def remembered(self):
        return self.x


class Slotted:
    __slots__ = ("a", "__weakref__")

    def __init__(self, a):
        self.a = a


class SlottedMore(Slotted):
    __slots__ = ("b",)

    def __init__(self, a, b):
        super().__init__(a)
        self.b = b


@dataclasses.dataclass
class Record:
    name: str
    values: list = dataclasses.field(default_factory=list)
    total: int = 0

    def __post_init__(self):
        self.total = len(self.values)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Frozen:
    key: int
    text: str = "x"


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Flag(enum.IntFlag):
    A = 1
    B = 2


Pair = collections.namedtuple("Pair", "first second", defaults=[5])


class Odd(ValueError):
    def __init__(self, value, reason="odd"):
        super().__init__(value, reason)
        self.value = value


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return 4


class Meta(type):
    created = []

    def __call__(cls, *arguments):
        Meta.created.append(cls.__name__)
        return super().__call__(*arguments)


class WithMeta(metaclass=Meta):
    pass


class Reduced:
    def __init__(self, x):
        self.x = x

    def __reduce__(self):
        return rebuild, (self.x + 1,)


def rebuild(x):
    seen.append("rebuilt")
    return Reduced(x)


class State:
    def __init__(self):
        self.kept, self.dropped = 1, 2

    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.kept, self.dropped = state["kept"], None


class Described:
    class Inner:
        values = []

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else f"{self.name} of {type(instance).__name__}"


class Host:
    field = Described()


shared = Derived(1)
shared_pair = (shared, shared)


@case
def class_attributes(comm):
    Base(comm.rank), Derived.build(comm.rank)
    Described.Inner.values.append(comm.rank)
    comm.barrier()
    return (
        Base.made,
        Derived.made,
        Base.registry,
        Base.size(),
        Derived.options,
        Described.Inner.values,
        Host().field,
    )


@case
def instances_of_the_module(comm):
    shared.y.append(comm.rank)
    shared.z = comm.rank
    comm.barrier()
    same = shared_pair[0] is shared_pair[1] is shared
    return (
        shared.y,
        shared.z,
        shared.double,
        shared.triple,
        shared.remembered(),
        same,
        type(shared) is Derived,
    )


def around(comm, value):
    return comm.sendrecv(value, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)


@case
def instances_travel(comm):
    got = around(comm, Derived(comm.rank))
    slotted = around(comm, SlottedMore(comm.rank, [1]))
    record = around(comm, Record("r", [comm.rank]))
    return (
        (type(got) is Derived, isinstance(got, Base), got.x, got.y, got == Base(got.x)),
        (type(slotted) is SlottedMore, slotted.a, slotted.b, hasattr(slotted, "__dict__")),
        (
            type(record) is Record,
            record == Record("r", [record.values[0]]),
            repr(record),
            dataclasses.asdict(record),
        ),
    )


@case
def enums_tuples_and_frozen_records_travel(comm):
    color = around(comm, Color.RED)
    flags = around(comm, Flag.A | Flag.B)
    pair = around(comm, Pair(comm.rank))
    frozen_ = around(comm, Frozen(comm.rank))
    return (
        (color is Color.RED, Color("b").name, color in {Color.RED}),
        (flags == Flag.A | Flag.B, type(flags) is Flag),
        (type(pair) is Pair, pair._asdict(), pair == (pair.first, 5)),
        (type(frozen_) is Frozen, frozen_ < Frozen(100), hash(frozen_) == hash(Frozen(frozen_.key))),
    )


@case
def exceptions_travel_and_are_caught(comm):
    found = []
    try:
        raise Odd(comm.rank)
    except ValueError as error:
        found.append((type(error) is Odd, error.args))
    got = around(comm, Odd(3))
    try:
        raise got
    except Odd as error:
        found.append(error.args)
    with contextlib.suppress(Odd):
        raise Odd(1)
    return found


@case
def classes_functions_and_modules_travel(comm):
    classes = around(comm, [Base, Derived, Color, Odd, Pair, Square])
    functions = around(comm, [rebuild, max_of, np.sum, len, MPI.SUM, MPI.INT])
    method = around(comm, Derived.build)
    return (
        [a is b for a, b in zip(classes, [Base, Derived, Color, Odd, Pair, Square], strict=True)],
        [
            a is b or a == b
            for a, b in zip(functions, [rebuild, max_of, np.sum, len, MPI.SUM, MPI.INT], strict=True)
        ],
        type(method(4)) is Derived,
    )


@case
def own_pickling(comm):
    got = around(comm, Reduced(comm.rank))
    state = around(comm, State())
    return got.x, (state.kept, state.dropped), seen.count("rebuilt")


@case
def abstract_and_meta(comm):
    WithMeta()
    comm.barrier()
    try:
        Shape()
        refused = None
    except TypeError as error:
        refused = str(error)
    return Meta.created, type(WithMeta) is Meta, refused, Square().area(), isinstance(Square(), Shape)


@case
def nested_messages(comm):
    mine = {"p": Pair(comm.rank, [Record("a")]), "e": {Color.RED: [shared]}, "t": (Base(1),) * 2}
    got = comm.allgather(mine)
    return [
        (type(one["p"]) is Pair, type(one["p"].second[0]) is Record, one["t"][0] is one["t"][1],
         type(next(iter(one["e"].values()))[0]) is Derived)
        for one in got
    ]  # fmt: skip


@case
def monkey_patching(comm):
    Base.patched = comm.rank
    Derived.double = property(lambda self: comm.rank)
    comm.barrier()
    return Base.patched, Derived(1).double, hasattr(Slotted, "patched")


@case
def weak_references(comm):
    thing = Slotted(comm.rank)
    link = weakref.ref(thing)
    comm.barrier()
    return link() is thing, link().a


@case
def operators_of_the_program(comm):
    merge = MPI.Op.Create(lambda a, b, t: seen.append("merged"), commute=True)
    best = comm.allreduce(Frozen(comm.rank), op=max_of)
    merge.Free()
    return best.key, type(best) is Frozen


def max_of(a, b):
    return max(a, b)


def every_case(comm):
    return values(comm, CASES)


outcome = outcomes(every_case)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_classes_are_as_separate_as_in_processes(name, ranks):
    real, simulated = ([result[name] for result in outcome(ranks, on)] for on in ("mpi", "star"))
    assert simulated == real


def test_the_caller_sees_nothing_of_it():
    outcome(3, "star")
    assert (Derived.made, shared.y, Meta.created, hasattr(Base, "patched")) == (1, [1], [], False)
