"""Names of algorithms whose parameters follow from the call: bytes of a segment, ranks of a node.

An algorithm is built for a number of segments. ``pipeline:segment_bytes=8192`` says how long they are at
most, as MPI libraries do; how many that makes is settled at the call, where the message is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil

from labkit import registry
from labkit.errors import DataError, ScheduleError
from labkit.nearest import nearest
from labkit.schedule.problem import PROBLEMS
from labkit.selector.situation import Situation

__all__ = ["candidates", "settled", "without_bytes"]

#: lengths of segments that are tried where an algorithm has segments
SEGMENT_BYTES = (8192, 65536)

_KEY = "segment_bytes="


def settled(at: Situation, name: str, node: int | None) -> str:
    """Return the name with the numbers that this call settles.

    Examples
    --------
    >>> settled(Situation("bcast", 4, 100_000), "pipeline:segment_bytes=8192", None)
    'pipeline:segments=13'
    """
    plain, segment_bytes = _parts(at.operation, name)
    if segment_bytes:
        one = registry.get(at.operation, plain).tuned(segments=1)
        plain += f":segments={max(1, ceil(at.n_bytes / (one.parts(at.ranks) * segment_bytes)))}"
    if node is not None and ":node=" not in plain and "node" in registry.get(at.operation, plain).parameters:
        plain += f":node={node}"
    return plain


def without_bytes(operation: str, name: str) -> str:
    """Return the name without the length of segments."""
    return _parts(operation, name)[0]


@cache
def _parts(operation: str, name: str) -> tuple[str, int]:
    words = name.split(":")
    lengths = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    plain = ":".join(word for word in words if not word.startswith(_KEY))
    if not lengths:
        return name, 0
    if len(lengths) > 1 or not lengths[0].isdecimal() or int(lengths[0]) < 1:
        raise ScheduleError(f"{operation}/{name}: segment_bytes must be at least 1 and given once")
    parameters = registry.get(operation, plain).parameters
    if "segments" not in parameters or ":segments=" in plain:
        known = ", ".join(parameters) or "none"
        raise ScheduleError(
            f"{operation}/{name}: segment_bytes is for an algorithm whose number of segments is left open; "
            f"parameters of {plain}: {known}"
        )
    return plain, int(lengths[0])


def candidates(
    operation: str, algorithms: Sequence[str] | None = None, has_network: bool = False
) -> list[str]:
    """Return the names that are tried: all of the registry, with some lengths of segments."""
    known = [name for name in registry.problems() if name in PROBLEMS]
    if operation not in known:
        hint = nearest(operation, known, 1)
        raise DataError(f"{operation!r} is not a collective{hint}; there are: {', '.join(known)}")
    if algorithms is not None:
        for name in algorithms:
            registry.get(operation, without_bytes(operation, name))
        return list(dict.fromkeys(algorithms))
    found = []
    for name in registry.names(operation):
        if name == registry.ON_NETWORK and not has_network:
            continue
        found.append(name)
        if "segments" in registry.get(operation, name).parameters:
            found += [f"{name}:segment_bytes={n}" for n in SEGMENT_BYTES]
    return found
