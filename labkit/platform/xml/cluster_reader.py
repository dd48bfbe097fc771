"""``<cluster>``, ``<cabinet>`` and their radicals, read."""

from __future__ import annotations

import re
from typing import Any

from labkit.errors import PlatformError
from labkit.platform.spec import MAX_HOSTS, ClusterSpec, FatTreeSpec, StarSpec, TorusSpec, parse_spec
from labkit.platform.xml import units as xml_units

__all__ = ["cluster_spec", "first_speed", "radical"]

_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")
_SHARINGS = {
    "SHARED": "shared",
    "SPLITDUPLEX": "splitduplex",
    "FULLDUPLEX": "splitduplex",
    "FATPIPE": "fatpipe",
}


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
    """Read a speed; of several (one per pstate) the one that is chosen."""
    parts = text.split(",")
    if pstate >= len(parts):
        raise PlatformError(f"pstate {pstate} is not there: {len(parts)} speed(s) are given")
    return [xml_units.speed(part) for part in parts][pstate]


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
        "bw": xml_units.bandwidth(given["bw"]),
        "lat": xml_units.latency(given["lat"]),
        "speed": first_speed(given["speed"]),
        "cores": xml_units.whole(given["core"], "core"),
        "sharing": _word(_SHARINGS, "sharing_policy", given["sharing_policy"]),
    }
    if given["limiter_link"]:
        common["limiter"] = xml_units.bandwidth(given["limiter_link"])
    if given["loopback_bw"]:
        common["loopback_bw"] = xml_units.bandwidth(given["loopback_bw"])
    if given["loopback_lat"]:
        common["loopback_lat"] = xml_units.latency(given["loopback_lat"]) or None
    topology, parameters = given["topology"].upper(), given["topo_parameters"]
    if topology == "FLAT":
        return StarSpec(hosts=hosts, **_backbone(given), **common)
    if given["bb_bw"]:
        raise PlatformError(f"a {topology} cluster has no backbone; take bb_bw out")
    spec = _shaped(topology, parameters, common)
    if spec.hosts != hosts:
        raise PlatformError(
            f"topo_parameters {parameters[:60]!r} make {spec.hosts:,} hosts, the radical has {hosts:,}; they "
            "must agree"
        )
    return spec


def _word(known: dict[str, str], what: str, word: str) -> str:
    if word not in known:
        raise PlatformError(f"{what}={word[:40]!r} is not supported; allowed: {', '.join(known)}")
    return known[word]


def _backbone(given: dict[str, str]) -> dict[str, Any]:
    if not given["bb_bw"]:
        if given["bb_lat"] and xml_units.latency(given["bb_lat"]) > 0:
            raise PlatformError("bb_lat without bb_bw: a backbone needs a bandwidth, too")
        return {}
    sharing = _word(
        {"SHARED": "shared", "FATPIPE": "fatpipe"}, "bb_sharing_policy", given["bb_sharing_policy"]
    )
    # "shared" and 0 are what the backbone of a star is when it says nothing.
    found: dict[str, Any] = {"bb_bw": xml_units.bandwidth(given["bb_bw"])}
    found["bb_lat"] = xml_units.latency(given["bb_lat"] or "0") or None
    found["bb_sharing"] = None if sharing == "shared" else sharing
    return found


def _counts(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) > 64:
        raise PlatformError(f"topo_parameters have {len(parts)} numbers in a row; at most 64")
    return tuple(xml_units.whole(part.strip(), "topo_parameters", 10**9) for part in parts)


def _shaped(topology: str, text: str, common: dict[str, Any]) -> ClusterSpec:
    if topology == "TORUS":
        return TorusSpec(sizes=_counts(text), **common)
    if topology not in ("FAT_TREE", "DRAGONFLY"):
        raise PlatformError(
            f"topology={topology[:40]!r} is not known; allowed: FLAT, TORUS, FAT_TREE, DRAGONFLY"
        )
    groups = [_counts(part) for part in text.split(";")]
    if topology == "FAT_TREE":
        if len(groups) != 4 or len(groups[0]) != 1 or any(len(one) != groups[0][0] for one in groups[1:]):
            raise PlatformError(
                f"topo_parameters {text[:60]!r} of a FAT_TREE are levels;down,..;up,..;cables,.. with one "
                "number a level, for example 2;4,4;1,2;1,2"
            )
        return FatTreeSpec(down=groups[1], up=groups[2], cables=groups[3], **common)
    if [len(one) for one in groups] != [2, 2, 2, 1]:
        raise PlatformError(
            f"topo_parameters {text[:60]!r} of a DRAGONFLY are groups,blue;chassis,black;routers,green;"
            "nodes, for example 4,4;3,4;5,1;2"
        )
    shape = parse_spec("dragonfly:" + ":".join("x".join(map(str, one)) for one in groups))
    return type(shape)(**{**_size_of(shape), **common})


def _size_of(shape: ClusterSpec) -> dict[str, Any]:
    """Keep the fields that only this topology has."""
    from dataclasses import fields

    common = {field.name for field in fields(ClusterSpec)}
    return {field.name: getattr(shape, field.name) for field in fields(shape) if field.name not in common}
