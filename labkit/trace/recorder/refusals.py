"""Calls that a time-independent trace cannot express: refused, by name, before they do anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.trace.recorder.ledger import Ledger

__all__ = ["refused_calls", "refused_classes"]

_NONBLOCKING = "a time-independent trace has no nonblocking collectives"
_PERSISTENT = "a time-independent trace has no persistent collectives"
_GROUPS = "a time-independent trace has one world of ranks"
_BOTH = "its two messages are one request, which a time-independent trace cannot say"
_PARTS = "a time-independent trace has no partitioned messages"
_TYPES = "its blocks have a datatype each, which a time-independent trace cannot say"
_FAULTS = "a time-independent trace has no failures"

_BASES = (
    "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall",
    "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter_block", "Reduce_scatter", "Scan",
    "Exscan", "Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv",
    "Neighbor_alltoallw",
)  # fmt: skip

_COMM: dict[str, str] = {
    **{"I" + base.lower(): _NONBLOCKING for base in _BASES},
    **{base + "_init": _PERSISTENT for base in _BASES},
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


def refused_classes(ledger: Ledger, mpi: Any) -> dict[str, Any]:
    """Return classes of mpi4py whose constructors refuse, by name."""
    made: dict[str, Any] = {}
    for name, (calls, reason) in _CLASSES.items():
        native = getattr(mpi, name, None)
        if native is None:
            continue
        refusals = {
            call: classmethod(_refusal(ledger, f"{name}.{call}", reason))
            for call in calls
            if hasattr(native, call)
        }
        made[name] = type(name, (native,), {"__module__": mpi.__name__, "__hash__": None, **refusals})
    return made


def _refusal(ledger: Ledger, call: str, reason: str) -> Callable[..., Any]:
    def refuse(_: Any, *arguments: Any, **named: Any) -> Any:
        raise ledger.missing(call, reason)

    return refuse
