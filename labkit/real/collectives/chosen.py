"""Standing between the program and mpi4py: collective calls on buffers take the algorithm that was chosen.

mpi4py's names of communicators are replaced before the program sees them, by classes derived from its own.
A call on buffers of a communicator of several ranks, blocking or not, asks the selector; where that has no
opinion, and for persistent calls, Alltoallw, neighbors and two groups, the library does what it does. A
program that could not call mpi4py so gets mpi4py's own error.
The messages of labkit's algorithms travel on a private duplicate of the communicator, which its first such
call makes. A nonblocking call goes on in a thread, which needs MPI's THREAD_MULTIPLE: without it, it is the
library's, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labkit import registry
from labkit.comm.collective.objects import ObjectCollectives
from labkit.comm.surface import MAKERS, METHODS, Method, made
from labkit.errors import DataError
from labkit.real.collectives.messages import CallBuffers, read_call
from labkit.schedule import PROBLEMS, Problem
from labkit.schedule.execute import Prepared
from labkit.selector import Selector, Situation
from labkit.selector.situation import settled

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Carried", "Chosen", "NonblockingCalls", "situation_of"]


_Call = Callable[..., Any]

#: classes of communicators, each after the one that it is derived from, and that one
_CLASSES = {
    "Intracomm": "",
    "Topocomm": "Intracomm",
    "Cartcomm": "Topocomm",
    "Graphcomm": "Topocomm",
    "Distgraphcomm": "Topocomm",
    "Intercomm": "",
}

#: the forms that a schedule can stand for, and the one method that none can
_FORMS, _TYPES_OF_ALL = ("blocking", "nonblocking"), "Alltoallw"

#: what a selector sees as the machine
_MACHINE = "mpi"


# Nonblocking collectives by labkit's algorithms: carried on by threads, as MPI's generalized requests.

#: tags of calls under way at the same time, of one private communicator; the first one is of blocking calls
_FIRST, _TAGS = 12, 20_000


class NonblockingCalls:
    """The nonblocking calls of one private communicator.

    A thread for each goes through the waits of its schedule, as MPI's rule of progress wants: a rank that
    computes, or waits for something else, holds nobody up. The program has a request of MPI's own.

    `mpi`: ``mpi4py.MPI``.
    """

    def __init__(self, mpi: ModuleType) -> None:
        self._mpi = mpi
        self._calls = 0
        self._threads: list[threading.Thread] = []

    def tag(self) -> int:
        """Return the tag of the next call; all ranks start the same ones in the same order."""
        self._calls += 1
        return _FIRST + self._calls % _TAGS

    def go_on(self, finish: Callable[[], None]) -> Any:
        """Return a request that is complete once `finish`, called in a thread, has returned."""
        failed: list[BaseException] = []

        def query(status: object) -> None:
            if failed:
                raise failed[0]

        request = self._mpi.Grequest.Start(query)

        def work() -> None:
            try:
                finish()
            except BaseException as error:  # the rank that waits gets it
                failed.append(error)
            finally:
                request.Complete()

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=work, name="labkit collective", daemon=True))
        self._threads[-1].start()
        return request

    def finish(self) -> None:
        """Wait until all calls are through: the communicator goes away."""
        for thread in self._threads:
            thread.join()


@dataclass
class _Private:
    """A private communicator: what carries out each collective on it, and how many ranks share a host."""

    comm: Intracomm
    beside: NonblockingCalls
    node: int | None
    carried: dict[str, Carried] = field(default_factory=dict)


# Lower-case collectives on real MPI: sizes, then pickles, by the collectives on buffers that were chosen.
#
# mpi4py moves objects in the same way, by the library's own collectives. Its reductions of objects are
# trees of
# messages and no collective of the library, on every machine: they stay its own.

#: lower-case method -> the collectives on buffers that it is made of
_MADE_OF = {
    "barrier": ("barrier",),
    "bcast": ("bcast",),
    "gather": ("gather", "gatherv"),
    "scatter": ("scatter", "scatterv"),
    "allgather": ("allgather", "allgatherv"),
    "alltoall": ("alltoall", "alltoallv"),
}


def methods_of_objects(
    mpi: ModuleType, native: object, named: Mapping[str, str]
) -> dict[str, Callable[..., Any]]:
    """Return the lower-case methods that stand for those of one of mpi4py's classes."""
    made = {
        name: _method(getattr(native, name), getattr(ObjectCollectives, name))
        for name, parts in _MADE_OF.items()
        if not named or not named.keys().isdisjoint(parts)
    }
    return {"_pickle": mpi.pickle, **made} if made else {}


def _method(original: Callable[..., object], ours: Callable[..., object]) -> Callable[..., object]:
    def method(comm: Intracomm, *arguments: object, **named: object) -> object:
        ranks = int(comm.Get_size())
        root = named.get("root", arguments[1] if len(arguments) > 1 else 0)
        is_right = isinstance(root, int) and 0 <= root < ranks  # else mpi4py says what is wrong with it
        return (ours if ranks > 1 and is_right else original)(comm, *arguments, **named)

    method.__name__ = method.__qualname__ = original.__name__
    method.__doc__ = original.__doc__
    return method


class Chosen:
    """The collectives of one rank on real MPI.

    `mpi`: ``mpi4py.MPI``.
    `taken`: Is given what labkit's algorithms carry out: situation to name.
    `note`: Called with lines for the run's notes.
    """

    def __init__(
        self, mpi: ModuleType, selector: Selector, taken: dict[Situation, str], note: Callable[[str], None]
    ) -> None:
        self._mpi, self._selector, self._taken, self._note = mpi, selector, taken, note
        self._asks_nodes = selector.asks_nodes
        self._may_go_on: bool | None = None
        self._choices: dict[Situation, str | None] = {}
        self._private: dict[int, _Private] = {}  # by handle
        self._classes: dict[type, Any] = {}

    def install(self) -> None:
        """Replace mpi4py's names; the program must not have seen them."""
        for name, above in _CLASSES.items():
            native = getattr(self._mpi, name)
            bases = (*([self._classes[getattr(self._mpi, above)]] if above else []), native)
            self._classes[native] = type(name, bases, self._methods(native))
        names = {native.__name__: chosen for native, chosen in self._classes.items()}
        for constant in ("COMM_WORLD", "COMM_SELF"):
            names[constant] = names["Intracomm"](getattr(self._mpi, constant))
        self._plain = self._mpi.Intracomm
        self._mpi.__dict__.update(names)

    def _methods(self, native: object) -> dict[str, object]:
        methods: dict[str, object] = {"__module__": self._mpi.__name__, "__hash__": None}
        for row in METHODS if native is not self._mpi.Intercomm else ():
            if row.kind == "collective" and row.form in _FORMS and row.problem and row.base != _TYPES_OF_ALL:
                space = {"SUM": self._mpi.SUM, "call": self._call(row, getattr(native, row.name))}
                methods[row.name] = made(row, "call(self, {args})", space)
        if native is self._mpi.Intracomm:
            methods |= methods_of_objects(self._mpi, native, self._selector.named())
        for name in MAKERS:
            if hasattr(native, name):
                methods[name] = self._making(getattr(native, name))
        for name in ("Free", "Disconnect"):
            methods[name] = self._freeing(getattr(native, name))
        return methods

    def _call(self, row: Method, original: _Call) -> _Call:
        problem, is_blocking = PROBLEMS[row.problem], row.form == "blocking"

        def call(comm: Intracomm, *arguments: Any) -> object:
            ranks = int(comm.Get_size())
            if ranks == 1 or not (is_blocking or self._goes_on()):
                return original(comm, *arguments)
            try:
                at = situation_of(problem, ranks, arguments, {})
                op = arguments[problem.arguments.index("op")] if problem.is_reduction else None
                at = at._replace(machine=_MACHINE, is_cuttable=op is None or bool(op.is_predefined))
            except Exception:  # whatever is wrong with the arguments, mpi4py says it
                return original(comm, *arguments)
            if self._asks_nodes:
                at = at._replace(ranks_per_node=self._private_of(comm).node or 1)
            name = self._choose(at)
            if name is None:
                return original(comm, *arguments)
            private = self._private_of(comm)
            at = at._replace(ranks_per_node=private.node or 1)
            if problem.name not in private.carried:
                private.carried[problem.name] = Carried(problem, private.node)
            carried = private.carried[problem.name]
            message = _read(carried, private.comm, arguments)
            if message is None or not 0 <= message.root < ranks or not message.fits(problem, ranks):
                if message is not None and problem.at_root and problem.layout == "uniform":
                    raise DataError(_misfit(problem, message))  # the others do not come to the library's
                return original(comm, *arguments)
            self._taken[at] = name = settled(at, name, private.node)
            if is_blocking:
                carried.begin(private.comm, name, at, message, is_at_once=True)()
                return None
            tag = private.beside.tag()
            return private.beside.go_on(carried.begin(private.comm, name, at, message, tag=tag))

        return call

    def _choose(self, at: Situation) -> str | None:
        if at not in self._choices:
            self._choices[at] = self._selector.choose(at)
        return self._choices[at]

    def _goes_on(self) -> bool:
        """Whether threads may carry calls on: all ranks have asked MPI for the same."""
        if self._may_go_on is None:
            self._may_go_on = bool(self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE)
            if not self._may_go_on:
                self._note(
                    "nonblocking collectives are the library's: labkit's algorithms go on in threads, which "
                    "need MPI initialized with THREAD_MULTIPLE"
                )
        return self._may_go_on

    def _private_of(self, comm: Intracomm) -> _Private:
        """Return the private duplicate of a communicator; all its ranks make it in the same call."""
        known = self._private.get(comm.handle)
        if known is None:
            private = self._plain(comm).Dup()
            hosts = private.allgather(self._mpi.Get_processor_name())
            known = _Private(private, NonblockingCalls(self._mpi), _ranks_in_a_row(hosts))
            self._private[comm.handle] = known
        return known

    def _making(self, original: _Call) -> _Call:
        """Return what makes a communicator, as one of ours."""

        @wraps(original)
        def make(comm: Intracomm, *arguments: object, **named: object) -> object:
            return self._ours(original(comm, *arguments, **named))

        return make

    def _ours(self, comm: Intracomm) -> object:
        chosen = self._classes.get(type(comm))
        return comm if chosen is None or comm == self._mpi.COMM_NULL else chosen(comm)

    def _freeing(self, original: _Call) -> _Call:
        @wraps(original)
        def free(comm: Intracomm) -> object:
            known = self._private.pop(comm.handle, None)
            if known is not None:
                known.beside.finish()
                known.comm.Free()
            return original(comm)

        return free


def _read(carried: Carried, comm: Intracomm, arguments: object) -> CallBuffers | None:
    """Return a call's message; None if something is wrong with it, which mpi4py then says."""
    try:
        return carried.read(comm, arguments, {})
    except DataError:
        raise
    except Exception:
        return None


def _misfit(problem: Problem, message: CallBuffers) -> str:
    have = " and ".join(
        f"{name} {array.size} elements of {array.dtype}" for name, array in message.buffers.items()
    )
    return (
        f"{problem.method}: at the root {have}; labkit's algorithms over real messages take elements of one "
        "type, and one block for each rank where there are several"
    )


def _ranks_in_a_row(hosts: list[str]) -> int | None:
    """Return how many consecutive ranks share a host, where it is everywhere as many; else 1."""
    changes = [rank for rank in range(1, len(hosts)) if hosts[rank] != hosts[rank - 1]]
    node = changes[0] if changes else len(hosts)
    return node if changes == list(range(node, len(hosts), node)) else 1


# Calls of a collective carried out by labkit's schedules over mpi4py's messages.


#: a tag that only private communicators see
_TAG = 11


def situation_of(problem: Problem, ranks: int, args: Any, kwargs: Any) -> Situation:
    """Return what a choice may depend on: bytes (0 where ranks may differ in them), and the operator.

    Of blocks of any sizes whose table all ranks have, their mean counts.
    """
    given = dict(zip(problem.arguments, args, strict=False)) | kwargs
    unknown = [name for name in given if name not in problem.arguments] or args[len(problem.arguments) :]
    if unknown:
        raise DataError(
            f"{problem.method} takes {', '.join(problem.arguments)}; got {unknown[0]!r} as well",
            code="unknown-name",
        )
    op = given.get("op")
    commutes = True if op is None or not problem.is_reduction else bool(op.Is_commutative())
    is_known_to_all = not problem.is_rooted and problem.shapes.get("send") != problem.shapes.get("recv")
    if problem.layout == "table" and is_known_to_all:
        table = given.get("sendbuf") if problem.is_reduction else given.get("recvbuf")
        size = CallBuffers.bytes_of(table, ranks)
        if size is None:  # all blocks lie in the receive buffer
            size = CallBuffers.bytes_of(given.get("recvbuf"), ranks)
        return Situation(problem.name, ranks, size or 0, commutes)
    if problem.layout == "table" or not problem.shapes:
        return Situation(problem.name, ranks, 0, commutes)
    blocks = {"all": ranks}
    sizes = (
        CallBuffers.bytes_of(given.get(argument), blocks.get(problem.shapes[buffer], 1))
        for buffer, argument in zip(problem.shapes, problem.arguments, strict=False)
    )
    return Situation(problem.name, ranks, next((size for size in sizes if size is not None), 0), commutes)


class Carried:
    """The calls of one collective on one communicator, by whichever algorithm.

    `node`: How many consecutive ranks share a host.
    """

    def __init__(self, problem: Problem, node: int | None) -> None:
        self._problem, self._node = problem, node
        self._prepared: dict[tuple[str, int, bool], Prepared] = {}

    def read(self, comm: Intracomm, args: object, kwargs: object) -> CallBuffers:
        """Return a call's message.

        Raises DataError: For a message that is not contiguous, or of a datatype that is not predefined.
        """
        return read_call(comm, self._problem, args, kwargs)

    def begin(
        self,
        comm: Intracomm,
        name: str,
        at: Situation,
        message: CallBuffers,
        is_at_once: bool = False,
        tag: int = _TAG,
    ) -> Callable[[], None]:
        """Carry out this rank's part up to the first wait; the function returned does the rest.

        `comm`: A private one, always the same: its messages are nobody else's.
        `name`: An algorithm's, whose open numbers this call settles.
        `message`: What was `read`.
        `is_at_once`: Do all of it now.
        `tag`: Of its messages: another one than those of calls under way.
        """
        name = settled(at, name, self._node)
        key = (name, message.root, at.is_commutative)
        run = self._prepared.get(key)
        if run is None:
            schedule = registry.get(self._problem.name, name).build(at.ranks, message.root, at.is_commutative)
            run = self._prepared[key] = Prepared(comm, schedule, _TAG)
        given = {**message.run_arguments(), "tag": tag}
        if is_at_once:
            run(**given)
            return message.restore
        finish = run.begin(**given)

        def rest() -> None:
            finish()
            message.restore()

        return rest
