"""Measures of a machine: diameter, bisection bandwidth, kinds of links."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.errors import PlatformError
from labkit.machines import quantities as units

if TYPE_CHECKING:
    import pandas as pd

    from labkit import _kernels

__all__ = [
    "BETWEEN",
    "BOTH",
    "HOST_KINDS",
    "INTO",
    "OUT",
    "Bisection",
    "Diameter",
    "LinkKind",
    "diameter_by_routes",
    "kind_of",
    "kinds_by_links",
    "link_table",
]


#: Routes asked for where there is no rule; with more pairs of hosts, evenly spaced sources.
MOST_ROUTES = 50_000
#: A table of more links than this is refused: use the kinds.
MOST_ROWS = 2**21


@dataclass(frozen=True)
class Diameter:
    """The longest route between two hosts, and the largest latency of any route.

    `links`: Cables, and the backbone of a star; not limiters.
    `latency_s`: Sum of the latencies of its links; factors of a network model come on top.
    `is_exact`: Otherwise it was found on some of the routes: a lower bound.
    """

    links: int
    latency_s: float
    is_exact: bool = True

    def __str__(self) -> str:
        latency = units.format_time(float(f"{self.latency_s:.6g}"))
        most = f"{self.links} link{'s' if self.links != 1 else ''}"
        return f"{'' if self.is_exact else 'at least '}{most}, {latency}"


@dataclass(frozen=True)
class Bisection:
    """The least bandwidth between two halves of the hosts, whatever the halves.

    `bytes_per_s`: Each way where cables have two links, else both ways together.
    `is_exact`: Otherwise it is an upper bound: a cut that is there, but perhaps not the narrowest.
    `cut`: Which cut it is.
    `is_each_way`: Whether both directions have it.
    """

    bytes_per_s: float
    is_exact: bool
    cut: str
    is_each_way: bool

    def __str__(self) -> str:
        rate = units.format_bandwidth(float(f"{self.bytes_per_s:.6g}"))
        ways = "each way" if self.is_each_way else "both ways together"
        return f"{'' if self.is_exact else 'at most '}{rate} {ways} ({self.cut})"


@dataclass(frozen=True)
class LinkKind:
    """Links that are alike.

    `kind`: What they are for, as explanations of runs call it: ``links out of hosts``, ``limiters``, ...
    `count`: How many.
    `bytes_per_s`, `latency_s`: Of each.
    `sharing`: ``shared`` or ``fatpipe``.
    """

    kind: str
    count: int
    bytes_per_s: float
    latency_s: float
    sharing: str


def diameter_by_routes(built: _kernels.Platform) -> Diameter:
    """Find the diameter of a compiled machine by asking for routes: of many hosts, for some of them."""
    hosts = built.host_count
    step = -(-hosts * hosts // MOST_ROUTES)
    links, latency = 0, 0.0
    for src in range(0, hosts, step):
        for dst in range(hosts):
            if src != dst:
                try:
                    names, delay = built.route(src, dst)
                except ValueError:  # not every pair of hosts of a file need be joined
                    continue
                links, latency = max(links, len(names)), max(latency, delay)
    return Diameter(links, latency, step == 1)


def kinds_by_links(built: _kernels.Platform) -> list[LinkKind]:
    """Count the links of a compiled machine by kind, looking at each."""
    found = Counter(zip(*_columns(built)[1:], strict=True))
    return [LinkKind(kind, n, bw, lat, how) for (kind, bw, lat, how), n in found.items()]


def _columns(built: _kernels.Platform) -> tuple[list[str], list[str], list[float], list[float], list[str]]:
    """Names, kinds, bandwidths, latencies and sharings of all links."""
    names, rates, delays, policies = zip(*map(built.link, range(built.link_count)), strict=True)
    return list(names), [kind_of(name) for name in names], list(rates), list(delays), list(policies)


def link_table(built: _kernels.Platform) -> pd.DataFrame:
    """Tabulate the links of a machine.

    Returns: A row per link: link (its name), kind, bytes_per_s, latency_s, sharing.
    Raises PlatformError: There are more than 2^21.
    """
    import pandas as pd

    if built.link_count > MOST_ROWS:
        raise PlatformError(
            f"{built!r} has {built.link_count:,} links; a table has at most {MOST_ROWS:,}: see link_kinds()",
            code="out-of-range",
        )
    names, kinds, rates, delays, sharings = _columns(built)
    return pd.DataFrame(
        {"link": names, "kind": kinds, "bytes_per_s": rates, "latency_s": delays, "sharing": sharings}
    )


# Kinds of links from their names: links that do the same work on different machines get one kind.


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
