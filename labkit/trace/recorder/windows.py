"""Windows of a real run: their calls with their times, and who synchronizes with whom in them.

What is accessed is not noted, only that it is. `labkit.trace.recorder.timeline` reads the notes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from labkit.comm.surface import METHODS, NAMED, WINDOW_CALLS
from labkit.trace.recorder.ledger import Known, Ledger, guarded
from labkit.trace.waiting.kinds import STARTS

__all__ = [
    "ACCESSES",
    "WindowCall",
    "refused_calls",
    "refused_classes",
    "stand_in",
    "timed_calls",
    "window_class",
]

#: by call what makes a window where its communicator stands among its arguments
MAKERS = {"Create": 3, "Allocate": 3, "Allocate_shared": 3, "Create_dynamic": 1}

#: by access where its target stands
ACCESSES = {
    "Put": 1,
    "Get": 1,
    "Rput": 1,
    "Rget": 1,
    "Accumulate": 1,
    "Raccumulate": 1,
    "Get_accumulate": 2,
    "Rget_accumulate": 2,
    "Fetch_and_op": 2,
    "Compare_and_swap": 3,
}

_TARGETED = {**ACCESSES, "Lock": 0, "Unlock": 0, "Flush": 0, "Flush_local": 0}

_WORDS = {**dict.fromkeys(ACCESSES, "target_rank"), **dict.fromkeys(("Lock", "Unlock"), "rank")}

_JOINED = ("Fence", "Free")


class WindowCall(NamedTuple):
    """A call on a window.

    `call`: Its number among the rank's calls.
    `window`: The number of the window.
    `ranks`: With whom, in the world: targets, or origins.
    `is_exclusive`: Of a lock.
    """

    call: int
    window: int
    ranks: tuple[int, ...] = ()
    is_exclusive: bool = False


# Calls that a time-independent trace cannot express: refused, by name, before they do anything.

_NONBLOCKING = "a time-independent trace has no nonblocking collectives"

_PERSISTENT = "a time-independent trace has no persistent collectives"

_GROUPS = "a time-independent trace has one world of ranks"

_BOTH = "its two messages are one request, which a time-independent trace cannot say"

_PARTS = "a time-independent trace has no partitioned messages"

_TYPES = "its blocks have a datatype each, which a time-independent trace cannot say"

_FAULTS = "a time-independent trace has no failures"

_FORMS = {"nonblocking": _NONBLOCKING, "persistent": _PERSISTENT}

_COMM: dict[str, str] = {
    **{
        row.name: _FORMS[row.form]
        for row in METHODS
        if row.kind in ("collective", "neighbor") and row.form in _FORMS
    },
    **dict.fromkeys(("Alltoallw", "Neighbor_alltoallw"), _TYPES),
    **dict.fromkeys(("Isendrecv", "Isendrecv_replace"), _BOTH),
    **dict.fromkeys(("Psend_init", "Precv_init"), _PARTS),
    **dict.fromkeys(("Idup", "Idup_with_info"), _NONBLOCKING),
    **dict.fromkeys(("Revoke", "Agree", "Iagree", "Shrink", "Ishrink"), _FAULTS),
    **dict.fromkeys(
        ("Create_intercomm", "Create_from_group", "Spawn", "Spawn_multiple", "Accept", "Connect", "Join"),
        _GROUPS,
    ),
}

#: calls that move data or make communicators, in addition to a communicator's own
_CLASSES: dict[str, tuple[tuple[str, ...], str]] = {
    "Win": (
        ("Create", "Allocate", "Allocate_shared", "Create_dynamic"),
        "a time-independent trace has no windows",
    ),
    "Intercomm": (("Create_from_groups",), _GROUPS),
    "Session": (("Init",), _GROUPS),
}


def refused_calls(ledger: Ledger, own: dict[str, object]) -> dict[str, Any]:
    """Return what stands for the calls of a communicator's class that cannot be recorded."""
    return {name: _refusal(ledger, f"Comm.{name}", reason) for name, reason in _COMM.items() if name in own}


def timed_calls(
    ledger: Ledger,
    own: dict[str, Any],
    operating: Callable[[Any, int | None], object],
    wrap: Callable[[Any], object],
) -> dict[str, Any]:
    """Return what stands for these calls where no lines are wanted: their times, and that of their ends."""
    return {name: _timed(ledger, own[name], operating, wrap) for name in _COMM if name in own}


def _timed(
    ledger: Ledger, original: Callable[..., object], operating: Any, wrap: Any
) -> Callable[..., object]:
    name = original.__name__
    reason = _COMM[name]
    is_persistent = reason == _PERSISTENT
    is_collective = is_persistent or reason in (_NONBLOCKING, _TYPES)
    is_neighbor = "neighbor" in name.lower()
    parameters = [one.name for one in NAMED[name].parameters] if name in NAMED else []
    at = parameters.index("root") if "root" in parameters else -1

    def noted(comm: Any, *arguments: Any, **named: Any) -> object:
        operation, known = None, None
        if is_collective and not comm.is_inter:
            known = ledger.known(comm)
            root = named.get("root", arguments[at] if len(arguments) > at else 0) if at >= 0 else None
            n_bytes = getattr(arguments[0], "nbytes", 0) if arguments else 0
            if is_persistent:  # each start is a collective, of all that are made of this one
                known = ledger.described(known)
            else:
                operation = ledger.joined(known, n_bytes, root)
            if is_neighbor:
                ledger.hears(known, comm.inoutedges[0])
        elif not is_collective:
            ledger.notes[f"what {name} moves is not in the trace"] = None
        result = original(comm, *arguments, **named)
        if is_persistent and known is not None:
            made = operating(result, None)
            made._joins = (f"{STARTS}{name.removesuffix('_init')})", known, n_bytes, root)
            return made
        if isinstance(result, tuple) and known is not None:  # Idup: a communicator and its request
            ledger.made(known, result[0])
            return wrap(result[0]), operating(result[1], operation)
        return operating(result, operation)

    return guarded(ledger, name, original, noted)


def refused_classes(ledger: Ledger, mpi: ModuleType) -> dict[str, object]:
    """Return classes of mpi4py whose constructors refuse, by name; where only times are wanted, they note."""
    made: dict[str, object] = {}
    for name, (calls, reason) in _CLASSES.items():
        native = getattr(mpi, name, None)
        if native is None:
            continue
        if name == "Win" and not ledger.has_lines:
            continue  # see `labkit.trace.recorder.windows`
        instead = {
            call: classmethod(
                _refusal(ledger, f"{name}.{call}", reason)
                if ledger.has_lines
                else _remark(ledger, name, getattr(native, call))
            )
            for call in calls
            if hasattr(native, call)
        }
        made[name] = stand_in(native, name, {"__module__": mpi.__name__, "__hash__": None, **instead})
    return made


def stand_in(native: Any, name: str, calls: dict[str, object]) -> Any:
    """Return a class with these calls, whose instances are those of mpi4py's own class."""
    kind = type("_Kind", (type(native),), {"__instancecheck__": lambda _, thing: isinstance(thing, native)})
    return kind(name, (native,), calls)


def _remark(ledger: Ledger, name: str, original: Callable[..., object]) -> Callable[..., object]:
    def call(_: object, *arguments: object, **named: object) -> object:
        ledger.notes[f"what MPI.{name} moves is not in the trace"] = None
        return original(*arguments, **named)

    return call


def _refusal(ledger: Ledger, call: str, reason: str) -> Callable[..., object]:
    def refuse(_: object, *arguments: object, **named: object) -> object:
        raise ledger.missing(call, reason)

    return refuse


def window_class(ledger: Ledger, mpi: ModuleType, operating: Callable[[Any, int | None], Any]) -> Any:
    """Return what stands for ``MPI.Win``: its windows note their calls."""
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


def _maker(
    ledger: Ledger, mpi: ModuleType, known: dict[int, Known], native: object, name: str
) -> tuple[Any, Any]:
    at = MAKERS[name]

    def original(cls: object, *arguments: object, **named: object) -> Any:
        return vars(native)[name].__get__(None, cls)(*arguments, **named)

    def make(cls: Any, *arguments: Any, **named: Any) -> object:
        ledger.notes["what MPI.Win moves is not in the trace"] = None
        comm = named.get("comm", arguments[at] if len(arguments) > at else mpi.COMM_SELF)
        parent = ledger.known(comm)
        window = original(cls, *arguments, **named)
        known[window.handle] = ledger.opened(parent)
        return window

    return original, make


def _noted(
    ledger: Ledger,
    mpi: ModuleType,
    known: dict[int, Known],
    original: Any,
    operating: Callable[[Any, Any], object],
) -> Callable[..., object]:
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

    def note(win: Any, *arguments: object, **named: object) -> object:
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
