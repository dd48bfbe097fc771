"""Calls that a time-independent trace cannot express: refused, by name, before they do anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.surface import METHODS, NAMED
from labkit.trace.recorder.ledger import Ledger
from labkit.trace.recorder.methods import guarded
from labkit.trace.waiting.kinds import STARTS

__all__ = ["refused_calls", "refused_classes", "stand_in", "timed_calls"]

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

#: what moves data or makes communicators beside a communicator's own calls
_CLASSES: dict[str, tuple[tuple[str, ...], str]] = {
    "Win": (
        ("Create", "Allocate", "Allocate_shared", "Create_dynamic"),
        "a time-independent trace has no windows",
    ),
    "Intercomm": (("Create_from_groups",), _GROUPS),
    "Session": (("Init",), _GROUPS),
}  # fmt: skip


def refused_calls(ledger: Ledger, own: dict[str, Any]) -> dict[str, Any]:
    """Return what stands for the calls of a communicator's class that cannot be recorded."""
    return {name: _refusal(ledger, f"Comm.{name}", reason) for name, reason in _COMM.items() if name in own}


def timed_calls(
    ledger: Ledger,
    own: dict[str, Any],
    operating: Callable[[Any, int | None], Any],
    wrap: Callable[[Any], Any],
) -> dict[str, Any]:
    """Return what stands for these calls where no lines are wanted: their times, and that of their ends.

    Parameters
    ----------
    ledger : Ledger
    own : dict
        What a communicator's class defines, by name.
    operating : callable
        `labkit.trace.recorder.requests.Requests.operating`.
    wrap : callable
        Returns a communicator as one whose calls are noted.
    """
    return {name: _timed(ledger, own[name], operating, wrap) for name in _COMM if name in own}


def _timed(ledger: Ledger, original: Callable[..., Any], operating: Any, wrap: Any) -> Callable[..., Any]:
    name = original.__name__
    reason = _COMM[name]
    is_persistent = reason == _PERSISTENT
    is_collective = is_persistent or reason in (_NONBLOCKING, _TYPES)
    is_neighbor = "neighbor" in name.lower()
    parameters = [one.name for one in NAMED[name].parameters] if name in NAMED else []
    at = parameters.index("root") if "root" in parameters else -1

    def noted(comm: Any, *arguments: Any, **named: Any) -> Any:
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


def refused_classes(ledger: Ledger, mpi: Any) -> dict[str, Any]:
    """Return classes of mpi4py whose constructors refuse, by name; where only times are wanted, they note."""
    made: dict[str, Any] = {}
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


def stand_in(native: Any, name: str, calls: dict[str, Any]) -> Any:
    """Return a class with these calls, whose instances are those of mpi4py's own class."""
    kind = type("_Kind", (type(native),), {"__instancecheck__": lambda _, thing: isinstance(thing, native)})
    return kind(name, (native,), calls)


def _remark(ledger: Ledger, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(_: Any, *arguments: Any, **named: Any) -> Any:
        ledger.notes[f"what MPI.{name} moves is not in the trace"] = None
        return original(*arguments, **named)

    return call


def _refusal(ledger: Ledger, call: str, reason: str) -> Callable[..., Any]:
    def refuse(_: Any, *arguments: Any, **named: Any) -> Any:
        raise ledger.missing(call, reason)

    return refuse
