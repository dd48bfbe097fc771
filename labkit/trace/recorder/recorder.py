"""Putting the recorder into a rank: mpi4py's names are replaced before the program sees them.

As MPI's profiling interface would, it stands between the program and the library: `from mpi4py import MPI`
gives classes of the same names, derived from mpi4py's own, whose calls do what they did and note it. What the
program does inside one of them (mpi4py's own messages, an operator's code) is not noted again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any

from labkit.comm.collective.actions import phase_line
from labkit.errors import MachineError
from labkit.trace.recorder.collectives import Collectives
from labkit.trace.recorder.communicators import Communicators
from labkit.trace.recorder.ledger import Ledger
from labkit.trace.recorder.messages import Messages
from labkit.trace.recorder.objects import Objects
from labkit.trace.recorder.refusals import refused_calls, refused_classes, stand_in, timed_calls
from labkit.trace.recorder.requests import Requests
from labkit.trace.recorder.sizes import Sizes
from labkit.trace.recorder.windows import window_class

__all__ = ["Recorder", "write_notes"]


_TIMES, _TRIES = 100, 3


def call_cost_s(comm: Any) -> float:
    """Return the CPU time by which a recorded call takes longer than the library's own.

    Parameters
    ----------
    comm : Comm
        A recorded communicator of this rank alone; what it notes here must not be read any more.

    Returns
    -------
    float
        Seconds: the least of three means over 100 barriers of one rank, in which no rank waits. Calls that
        post messages cost somewhat more.
    """
    own = [vars(kind)["Barrier"] for kind in type(comm).__mro__ if "Barrier" in vars(kind)]
    native = next(method for method in own if not isinstance(method, FunctionType))
    return max(_least_s(comm.Barrier) - _least_s(lambda: native(comm)), 0.0)


def _least_s(call: Any) -> float:
    found = []
    for _ in range(_TRIES):
        began = time.thread_time()
        for _ in range(_TIMES):
            call()
        found.append((time.thread_time() - began) / _TIMES)
    return min(found)


#: what a second of charged or measured computation counts for: the speed of labkit's hosts by default
FLOPS_PER_S = 1e9
_COMMUNICATORS = ("Comm", "Intracomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm")


class Recorder:
    """Records what one rank's program calls, from its making on.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    computation : str
        ``"measured"``, ``"charged"`` or ``"none"``.
    scale : float
        Factor of measured computation.
    instead : dict, optional
        Classes that the program gets instead of mpi4py's own, by these: each is derived from the one it
        stands for.
    disown : callable, optional
        Is given a request of which the program gets a copy.
    has_lines, has_times, is_summed : bool
        As of `labkit.trace.recorder.ledger.Ledger`.
    leave_out : sequence of str
        Phases (``*`` stands for anything) in which nothing is recorded: calls go straight to mpi4py.
    counters : sequence of str
        As of `labkit.trace.recorder.ledger.Ledger`.
    """

    def __init__(
        self, mpi: Any, computation: str = "measured", scale: float = 1.0,
        instead: dict[Any, Any] | None = None, disown: Callable[[Any], None] | None = None,
        has_lines: bool = True, has_times: bool = False, leave_out: Sequence[str] = (),
        is_summed: bool = False, counters: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._mpi, self._disown = mpi, disown
        self._instead = instead or {}
        self._is_charged = computation == "charged" or not has_lines
        speed = FLOPS_PER_S * (scale if computation == "measured" else 1.0)
        self.ledger = Ledger(mpi, speed, computation == "measured", has_lines, has_times, is_summed, counters)
        self._classes: dict[Any, Any] = {}
        self._before: dict[str, Any] = {}
        #: the communicator of this rank alone, recorded
        self._alone: Any = None
        self._leave_out = tuple(leave_out)
        #: phases that are left out, and how many of those that the rank is in
        self._is_left_out: dict[str, bool] = {}
        self._depth = 0

    @property
    def is_measured(self) -> bool:
        """Whether kernels that charge their cost must not, as their work is measured."""
        return not self._is_charged

    def install(self, dumps: Any = None, loads: Any = None) -> None:
        """Replace mpi4py's names; the program must not have seen them.

        Parameters
        ----------
        dumps, loads : callable, optional
            How mpi4py pickles here; default: as it does by itself.
        """
        mpi, ledger = self._mpi, self.ledger
        sizes = Sizes(mpi)
        requests = Requests(ledger, mpi, self._instead.get(mpi.Message), self._disown)
        naive = not getattr(__import__("mpi4py").rc, "fast_reduce", True)
        makers = [
            Messages(ledger, sizes, requests, mpi.Status).calls,
            Collectives(ledger, sizes).calls,
            Objects(ledger, naive).calls,
            Communicators(ledger, sizes, self._recorded).calls,
            lambda own: (
                refused_calls(ledger, own)
                if ledger.has_lines
                else timed_calls(ledger, own, requests.operating, self._recorded)
            ),
        ]
        names = self._communicators(makers) | refused_classes(ledger, mpi)
        if not ledger.has_lines:
            names["Win"] = window_class(ledger, mpi, requests.operating)
        names |= {
            "Request": requests.request,
            "Prequest": requests.persistent,
            "Message": requests.message_type,
        }
        names |= {"File": self._file(), "pickle": self._watched_pickling(dumps, loads)}
        for constant, kind in (
            ("COMM_WORLD", "Intracomm"), ("COMM_SELF", "Intracomm"), ("COMM_NULL", "Comm"),
            ("REQUEST_NULL", "Request"), ("MESSAGE_NULL", "Message"), ("MESSAGE_NO_PROC", "Message"),
        ):  # fmt: skip
            names[constant] = names[kind](getattr(mpi, constant))
        self._alone = names["COMM_SELF"]
        self._before = {name: getattr(mpi, name) for name in names}
        mpi.__dict__.update(names)
        ledger.log.resume()

    def _communicators(self, makers: list[Callable[[dict[str, Any]], dict[str, Any]]]) -> dict[str, Any]:
        """Return classes of communicators whose calls are noted, related as mpi4py's are."""
        mpi = self._mpi
        made: dict[str, Any] = {}
        for name in _COMMUNICATORS:
            native = getattr(mpi, name)
            base = self._instead.get(native, native)
            # what stands in for a class has its own calls for what that inherits
            names = vars(native) if base is native else dir(base)
            own = {key: getattr(base, key) for key in names if not key.startswith("__")}
            calls: dict[str, Any] = {"__module__": mpi.__name__, "__hash__": None}
            for make in makers:
                calls |= make(own)
            above = [made[base.__name__] for base in native.__mro__[1:] if base.__name__ in made][:1]
            # communicators that mpi4py itself makes, such as merged groups, are of its own class
            kind = type(
                "_Kind",
                (type(above[0] if above else base),),
                {"__instancecheck__": lambda _, thing, native=native: isinstance(thing, native)},
            )
            made[name] = self._classes[base] = kind(name, (*above, base), calls)
        return made

    def _recorded(self, comm: Any) -> Any:
        """Return a communicator of mpi4py's as one whose calls are noted; of ours, as it is."""
        made = self._classes.get(type(comm))
        return comm if made is None or comm == self.ledger.null else made(comm)

    def _watched_pickling(self, dumps: Any, loads: Any) -> Any:
        """Return what stands for ``MPI.pickle``: mpi4py's own then tells the sizes of what it handles."""
        ledger, native = self.ledger, self._mpi.pickle
        pickling: Any = self._mpi.Pickle

        def watch(self_: Any, *arguments: Any, **named: Any) -> None:
            """Do as `Pickle.__init__` does, and be watched."""
            pickling.__init__(self_, *arguments, **named)

            def noted_dumps(obj: Any) -> bytes:
                data: bytes = pickling.dumps(self_, obj)
                ledger.dumped.append(len(data))
                return data

            def noted_loads(data: Any) -> Any:
                ledger.loaded.append(memoryview(data).nbytes)
                return pickling.loads(self_, data)

            native.__init__(noted_dumps, noted_loads)

        kind = type("Pickle", (pickling,), {"__module__": self._mpi.__name__, "__init__": watch})
        return kind(dumps, loads, native.PROTOCOL)

    def _file(self) -> Any:
        """Return mpi4py's class of files, which leaves a note when one is opened."""
        native, notes = self._mpi.File, self.ledger.notes

        def opened(cls: Any, *arguments: Any, **named: Any) -> Any:
            notes["MPI.File: what files take and move is not in the trace"] = None
            return native.Open(*arguments, **named)

        return stand_in(native, "File", {"__module__": self._mpi.__name__, "Open": classmethod(opened)})

    def uninstall(self) -> None:
        """Put mpi4py's names back, for processes that outlive the run."""
        self._mpi.__dict__.update(self._before)
        self._before = {}

    # -- the machine's context ------------------------------------------------------------------------------

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Note computation that the program charges, where that is what counts."""
        if self._is_charged and self.ledger.has_lines:
            self.ledger.log.compute(seconds if seconds is not None else (flops or 0.0) / FLOPS_PER_S)

    def mark(self, rank: int, name: str, is_begin: bool) -> None:
        """Note where a phase begins or ends; in one that is left out nothing is noted."""
        if self.ledger.summary is not None:
            self.ledger.summary.mark(name, is_begin, self.ledger.is_busy)
        self.ledger.mark(phase_line(rank, name, is_begin))
        if not self._leave_out:
            return
        known = self._is_left_out.get(name)
        if known is None:
            known = any(fnmatchcase(name, pattern) for pattern in self._leave_out)
            self._is_left_out[name] = known
            if known:
                self.ledger.notes[f"phase {name} is left out: what is called in it counts as computation"] = (
                    None
                )
        if known:
            self._depth += 1 if is_begin else -1
            self.ledger.is_busy = self._depth > 0

    # -- the end --------------------------------------------------------------------------------------------

    def call_cost_s(self) -> float | None:
        """Measure what a call takes longer for being noted; nothing of this recorder may be read any more.

        None where that cannot be measured: the program has ended MPI itself, or lines are written.
        """
        if self.ledger.has_lines or self._mpi.Is_finalized():
            return None
        self.ledger.is_busy = False
        try:
            return call_cost_s(self._alone)
        finally:
            self.ledger.is_busy = True  # stopped, as it was

    def finish(self) -> None:
        """Note the computation after the last call; what follows is not the program's."""
        self.ledger.is_busy = True
        self.ledger.log.pause()
        if self.ledger.summary is not None:
            self.ledger.summary.finish()

    def begin(self) -> None:
        """Note that the program begins: what came before is not its own."""
        self._depth = 0
        self.ledger.is_busy = False
        self.ledger.log.restart()
        self.ledger.blocks.clear()
        if self.ledger.windows:
            self.ledger.windows.clear()
        self.ledger.log.resume()
        if self.ledger.summary is not None:
            self.ledger.summary.begin()

    def record(self) -> dict[str, Any]:
        """Return what the lines mean to other ranks, as plain data."""
        log = self.ledger.log
        return {
            "communicators": self.ledger.identities(), "remarks": self.ledger.remarks(),
            "calls": log.calls, "measured_s": log.measured_s,
        }  # fmt: skip

    def write(self, path: str, about: str) -> None:
        """Write the lines, and beside them what they mean to other ranks.

        Parameters
        ----------
        path : str
            Of the lines.
        about : str
            Of the rest, as JSON; it comes into being when all is written.
        """
        write_notes(path, about, self.ledger.log.lines(), self.record())


def write_notes(path: str, about: str, lines: bytes, record: dict[str, Any]) -> None:
    """Write what a rank has noted: see `Recorder.write`."""
    try:
        with open(path, "wb") as file:
            file.write(lines)
        with open(f"{about}.part", "w", encoding="utf-8") as text:
            json.dump(record, text)
        os.replace(f"{about}.part", about)
    except OSError as error:
        raise MachineError(f"the trace of a rank cannot be written: {error}") from None
