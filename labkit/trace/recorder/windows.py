"""Windows of a real run: their calls with their times, and who synchronises with whom in them.

What is accessed is not noted, only that it is. `labkit.trace.recorder.timeline` reads the notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.comm.surface import WINDOW_CALLS
from labkit.trace.recorder.ledger import Known, Ledger
from labkit.trace.recorder.methods import guarded
from labkit.trace.recorder.refusals import stand_in

__all__ = ["ACCESSES", "WindowCall", "window_class"]

#: by call what makes a window where its communicator stands among its arguments
MAKERS = {"Create": 3, "Allocate": 3, "Allocate_shared": 3, "Create_dynamic": 1}
#: by access where its target stands
ACCESSES = {
    "Put": 1, "Get": 1, "Rput": 1, "Rget": 1, "Accumulate": 1, "Raccumulate": 1, "Get_accumulate": 2,
    "Rget_accumulate": 2, "Fetch_and_op": 2, "Compare_and_swap": 3,
}  # fmt: skip
_TARGETED = {**ACCESSES, "Lock": 0, "Unlock": 0, "Flush": 0, "Flush_local": 0}
_WORDS = {**dict.fromkeys(ACCESSES, "target_rank"), **dict.fromkeys(("Lock", "Unlock"), "rank")}
_JOINED = ("Fence", "Free")


class WindowCall(NamedTuple):
    """A call on a window.

    Attributes
    ----------
    call : int
        Its number among the rank's calls.
    window : int
        The number of the window.
    ranks : tuple of int
        With whom, in the world: targets, or origins.
    is_exclusive : bool
        Of a lock.
    """

    call: int
    window: int
    ranks: tuple[int, ...] = ()
    is_exclusive: bool = False


def window_class(ledger: Ledger, mpi: Any, operating: Callable[[Any, int | None], Any]) -> Any:
    """Return what stands for ``MPI.Win``: its windows note their calls.

    Parameters
    ----------
    ledger : Ledger
        Of times.
    mpi : module
        ``mpi4py.MPI``.
    operating : callable
        `labkit.trace.recorder.requests.Requests.operating`.
    """
    native = mpi.Win
    known: dict[int, Known] = {}
    calls: dict[str, Any] = {"__module__": mpi.__name__, "__hash__": None}
    for name in WINDOW_CALLS:
        original = getattr(native, name, None)
        if original is None:
            continue
        if name in MAKERS:
            calls[name] = classmethod(guarded(ledger, name, *_maker(ledger, mpi, known, native, name)))
        else:
            noted = _noted(ledger, mpi, known, original, operating)
            calls[name] = guarded(ledger, name, original, noted)
    return stand_in(native, "Win", calls)


def _maker(ledger: Ledger, mpi: Any, known: dict[int, Known], native: Any, name: str) -> tuple[Any, Any]:
    at = MAKERS[name]

    def original(cls: Any, *arguments: Any, **named: Any) -> Any:
        return vars(native)[name].__get__(None, cls)(*arguments, **named)

    def make(cls: Any, *arguments: Any, **named: Any) -> Any:
        ledger.notes["what MPI.Win moves is not in the trace"] = None
        comm = named.get("comm", arguments[at] if len(arguments) > at else mpi.COMM_SELF)
        parent = ledger.known(comm)
        window = original(cls, *arguments, **named)
        known[window.handle] = ledger.opened(parent)
        return window

    return original, make


def _noted(
    ledger: Ledger, mpi: Any, known: dict[int, Known], original: Any, operating: Callable[[Any, Any], Any]
) -> Any:
    name = original.__name__
    at, word = _TARGETED.get(name), _WORDS.get(name, "rank")
    exclusive = mpi.LOCK_EXCLUSIVE

    def ranks_of(window: Known, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
        if at is not None:
            target = arguments[at] if len(arguments) > at else named[word]
            return (window.ranks[target],) if target != ledger.no_proc else ()
        if name in ("Post", "Start"):
            return tuple(ledger.world_ranks(arguments[0] if arguments else named["group"]))
        return tuple(window.ranks) if name == "Lock_all" else ()

    def note(win: Any, *arguments: Any, **named: Any) -> Any:
        window = known.get(win.handle)
        if window is None:  # made where nothing is noted
            return operating(original(win, *arguments, **named), None)
        if name in _JOINED:
            ledger.joined(window, 0)
        if ledger.windows is not None:
            lock = arguments[1] if len(arguments) > 1 else named.get("lock_type", exclusive)
            is_exclusive = name == "Lock" and lock == exclusive
            ranks = ranks_of(window, arguments, named)
            ledger.windows.append((ledger.log.present, window.number, ranks, is_exclusive))
        if name == "Free":
            known.pop(win.handle)
        result = original(win, *arguments, **named)
        if name == "Test" and not result:
            if ledger.windows is not None:
                ledger.windows.pop()
            ledger.polled()
        return operating(result, None)

    return note
