"""Kinds of links from their names: links that do the same work on different machines get one kind."""

from __future__ import annotations

import re

__all__ = ["BETWEEN", "BOTH", "HOST_KINDS", "INTO", "OUT", "kind_of"]

OUT = "links out of hosts"
INTO = "links into hosts"
BOTH = "links of hosts, both ways"
BETWEEN = "links between hosts"
#: the kinds that belong to one host: what every topology has
HOST_KINDS = (OUT, INTO, BOTH, "limiters", "loopbacks")

_STAR = {"up": OUT, "down": INTO, "link": BOTH, "limiter": "limiters", "loopback": "loopbacks"}
_NODE = r"host \S+|switch [\d.]+|router [\d.]+|\d+"
_ENDS = re.compile(rf"(?P<a>{_NODE}) (?P<way>->|-) (?P<b>{_NODE})")
_COLORS = {
    "green": "green links, within a chassis",
    "black": "black links, between chassis",
    "blue": "blue links, between groups",
}


def kind_of(name: str) -> str:
    """Return the kind of a link.

    Examples
    --------
    >>> kind_of("up 3"), kind_of("switch 1.0 -> switch 2.1"), kind_of("4 -> 0 (-y)")
    ('links out of hosts', 'links from level 1 up to level 2', 'torus links along y')
    """
    first = name.split(" ", 1)[0]
    if first in _STAR:
        return _STAR[first]
    if name == "backbone":
        return "the backbone"
    found = _ENDS.match(name)
    if found is None:
        return re.sub(r"[\d.]+", "#", name)
    if axis := re.search(r"\(([+-]?)(\w+)\)", name):
        return f"torus links along {axis.group(2)}"
    if color := _COLORS.get(name.rpartition(", ")[2]):
        return color
    low, high = (_level(found.group(end)) for end in "ab")
    if low == high == 0:
        return BETWEEN
    if found.group("way") == "-":
        return BOTH if 0 in (low, high) else f"cables between levels {min(low, high)} and {max(low, high)}"
    if low == 0:
        return OUT
    if high == 0:
        return INTO
    return f"links from level {low} {'up' if high > low else 'down'} to level {high}"


def _level(end: str) -> int:
    """Return the level of an end of a cable: 0 for a host."""
    if end.startswith("router"):
        return 1
    return int(end.split()[1].split(".")[0]) if end.startswith("switch") else 0
