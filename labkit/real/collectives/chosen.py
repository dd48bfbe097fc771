"""Standing between the program and mpi4py: collective calls on buffers take the algorithm that was chosen.

mpi4py's names of communicators are replaced before the program sees them, by classes derived from its own.
A blocking call on buffers of a communicator of several ranks asks the selector; where that has no opinion,
and for blocks of any sizes, nonblocking and persistent calls, objects, neighbours and two groups, the library
does what it does. A program that could not call mpi4py so gets mpi4py's own error.
The messages of labkit's algorithms travel on a private duplicate of the communicator, which its first such
call makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from labkit.comm.surface import MAKERS, METHODS, Method, made
from labkit.errors import DataError
from labkit.real.collectives.carried import Carried, situation_of
from labkit.real.collectives.messages import Message
from labkit.schedule import PROBLEMS, Problem
from labkit.selector import Selector, Situation
from labkit.selector.settled import settled

__all__ = ["Chosen"]

_Call = Callable[..., Any]

#: classes of communicators, each after the one that it is derived from, and that one
_CLASSES = {
    "Intracomm": "", "Topocomm": "Intracomm", "Cartcomm": "Topocomm", "Graphcomm": "Topocomm",
    "Distgraphcomm": "Topocomm", "Intercomm": "",
}  # fmt: skip
#: the methods that a schedule can stand for
_OWN = frozenset(problem.method for problem in PROBLEMS.values() if problem.layout != "table")
#: what a selector sees as the machine
_MACHINE = "mpi"


class Chosen:
    """The collectives of one rank on real MPI.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    selector : Selector
    taken : dict
        Is given what labkit's algorithms carry out: situation to name.
    """

    def __init__(self, mpi: Any, selector: Selector, taken: dict[Situation, str]) -> None:
        self._mpi, self._selector, self._taken = mpi, selector, taken
        self._choices: dict[Situation, str | None] = {}
        #: by handle: a private communicator, and what carries out each collective on it
        self._private: dict[int, tuple[Any, dict[str, Carried], int | None]] = {}
        self._classes: dict[Any, Any] = {}

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

    def _methods(self, native: Any) -> dict[str, Any]:
        methods: dict[str, Any] = {"__module__": self._mpi.__name__, "__hash__": None}
        for row in METHODS if native is not self._mpi.Intercomm else ():
            if row.kind == "collective" and row.form == "blocking" and row.is_buffer and row.name in _OWN:
                space = {"SUM": self._mpi.SUM, "call": self._call(row, getattr(native, row.name))}
                methods[row.name] = made(row, "call(self, {args})", space)
        for name in MAKERS:
            if hasattr(native, name):
                methods[name] = self._making(getattr(native, name))
        for name in ("Free", "Disconnect"):
            methods[name] = self._freeing(getattr(native, name))
        return methods

    def _call(self, row: Method, original: _Call) -> _Call:
        problem = PROBLEMS[row.problem]

        def call(comm: Any, *arguments: Any) -> Any:
            ranks = int(comm.Get_size())
            if ranks == 1:
                return original(comm, *arguments)
            try:
                at = situation_of(problem, ranks, arguments, {})
                op = arguments[problem.arguments.index("op")] if problem.is_reduction else None
                at = at._replace(machine=_MACHINE, is_cuttable=op is None or bool(op.is_predefined))
            except Exception:  # whatever is wrong with the arguments, mpi4py says it
                return original(comm, *arguments)
            name = self._choose(at)
            if name is None:
                return original(comm, *arguments)
            private, carried, node = self._private_of(comm)
            if problem.name not in carried:
                carried[problem.name] = Carried(problem, node)
            message = _read(carried[problem.name], private, arguments)
            if message is None or not message.fits(problem, ranks):
                if message is not None and problem.at_root and not problem.is_reduction:
                    raise DataError(_misfit(problem, message))  # the others do not come to the library's
                return original(comm, *arguments)
            self._taken[at] = name = settled(at, name, node)
            carried[problem.name].begin(private, name, at, message, is_at_once=True)()
            return None

        return call

    def _choose(self, at: Situation) -> str | None:
        if at not in self._choices:
            self._choices[at] = self._selector.choose(at)
        return self._choices[at]

    def _private_of(self, comm: Any) -> tuple[Any, dict[str, Carried], int | None]:
        """Return the private duplicate of a communicator; all its ranks make it in the same call."""
        known = self._private.get(comm.handle)
        if known is None:
            private = self._plain(comm).Dup()
            hosts = private.allgather(self._mpi.Get_processor_name())
            known = self._private[comm.handle] = private, {}, _ranks_in_a_row(hosts)
        return known

    def _making(self, original: _Call) -> _Call:
        """Return what makes a communicator, as one of ours."""

        @wraps(original)
        def make(comm: Any, *arguments: Any, **named: Any) -> Any:
            return self._ours(original(comm, *arguments, **named))

        return make

    def _ours(self, comm: Any) -> Any:
        chosen = self._classes.get(type(comm))
        return comm if chosen is None or comm == self._mpi.COMM_NULL else chosen(comm)

    def _freeing(self, original: _Call) -> _Call:
        @wraps(original)
        def free(comm: Any) -> Any:
            known = self._private.pop(comm.handle, None)
            if known is not None:
                known[0].Free()
            return original(comm)

        return free


def _read(carried: Carried, comm: Any, arguments: Any) -> Message | None:
    """Return a call's message; None if something is wrong with it, which mpi4py then says."""
    try:
        return carried.read(comm, arguments, {})
    except DataError:
        raise
    except Exception:
        return None


def _misfit(problem: Problem, message: Message) -> str:
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
