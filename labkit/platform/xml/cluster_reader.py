"""``<cluster>``, ``<cabinet>`` and their radicals, read."""

from __future__ import annotations

import re
from typing import Any

from labkit.errors import PlatformError
from labkit.platform import quantities as units
from labkit.platform.spec import MAX_HOSTS, ClusterSpec, kinds
from labkit.platform.xml.elements import sharing_of

__all__ = ["cluster_spec", "first_speed", "radical"]

_ZERO = re.compile(r"0+(\.0*)?([kMGTPEZY]?i?(f|flops))?")
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")


def radical(text: str) -> tuple[tuple[int, int], ...]:
    """Read host numbers, ``0-9,12,20-29``, as ranges with both ends; nothing is listed one by one.

    Raises
    ------
    PlatformError
        Malformed, a range that runs downwards, more than 2^20 numbers.

    Examples
    --------
    >>> radical("0-9,12")
    ((0, 9), (12, 12))
    """
    ranges = []
    count = 0
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise PlatformError(
                f"radical {part[:40]!r} is neither a number nor a range; write it like 0-9,12"
            )
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise PlatformError(f"radical {part[:40]!r} runs downwards; write the smaller number first")
        count += last - first + 1
        if count > MAX_HOSTS:
            raise PlatformError(
                f"radical {text[:40]!r} has more than 2^20 = {MAX_HOSTS:,} hosts; at most so many"
            )
        ranges.append((first, last))
    return tuple(ranges)


def first_speed(text: str, pstate: int = 0) -> float:
    """Read a speed; of several (one per pstate) the one that is chosen; the others may be 0."""
    parts = [part.strip() for part in text.split(",")]
    if pstate >= len(parts):
        raise PlatformError(f"pstate {pstate} is not there: {len(parts)} speed(s) are given")
    others = [part for number, part in enumerate(parts) if number != pstate and not _ZERO.fullmatch(part)]
    for part in others:
        units.parse_speed(part, True)
    return units.parse_speed(parts[pstate], True)


def cluster_spec(given: dict[str, str], hosts: int) -> ClusterSpec:
    """Make a labkit cluster of an element's attributes.

    Parameters
    ----------
    given : dict
        All attributes, defaults included.
    hosts : int
        Number of hosts its radical has.

    Raises
    ------
    PlatformError
        Unknown words, numbers that are none, a topology of another number of hosts.
    """
    common: dict[str, Any] = {
        "bw": units.parse_bandwidth(given["bw"], True),
        "lat": units.parse_time(given["lat"], True),
        "speed": first_speed(given["speed"]),
        "cores": units.parse_whole(given["core"], "core"),
        "sharing": sharing_of(given["sharing_policy"]),
    }
    if given["limiter_link"]:
        common["limiter"] = units.parse_bandwidth(given["limiter_link"], True)
    if given["loopback_bw"]:
        common["loopback_bw"] = units.parse_bandwidth(given["loopback_bw"], True)
    if given["loopback_lat"]:
        common["loopback_lat"] = units.parse_time(given["loopback_lat"], True) or None
    topology = given["topology"].upper()
    known = {str(kind.SIMGRID): kind for kind in kinds().values() if kind.SIMGRID}
    if topology not in known:
        raise PlatformError(f"topology={topology[:40]!r} is not known; allowed: {', '.join(known)}")
    if topology != "FLAT" and given["bb_bw"]:
        raise PlatformError(f"a {topology} cluster has no backbone; take bb_bw out")
    spec = known[topology](**known[topology].from_simgrid(given, hosts), **common)
    if spec.hosts != hosts:
        raise PlatformError(
            f"topo_parameters {given['topo_parameters'][:60]!r} make {spec.hosts:,} hosts, the radical has "
            f"{hosts:,}; they must agree"
        )
    return spec
