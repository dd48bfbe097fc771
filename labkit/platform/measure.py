"""Measures of a machine: diameter, bisection bandwidth, kinds of links."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.errors import PlatformError
from labkit.platform import quantities as units
from labkit.platform.link_names import kind_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bisection", "Diameter", "LinkKind", "diameter_by_routes", "kinds_by_links", "link_table"]

#: Routes asked for where there is no rule; with more pairs of hosts, evenly spaced sources.
MOST_ROUTES = 50_000
#: A table of more links than this is refused: use the kinds.
MOST_ROWS = 2**21


@dataclass(frozen=True)
class Diameter:
    """The longest route between two hosts, and the largest latency of any route.

    Attributes
    ----------
    links : int
        Cables, and the backbone of a star; not limiters.
    latency_s : float
        Sum of the latencies of its links; factors of a network model come on top.
    is_exact : bool
        Otherwise it was found on some of the routes: a lower bound.
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

    Attributes
    ----------
    bytes_per_s : float
        Each way where cables have two links, else both ways together.
    is_exact : bool
        Otherwise it is an upper bound: a cut that is there, but perhaps not the narrowest.
    cut : str
        Which cut it is.
    is_each_way : bool
        Whether both directions have it.
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

    Attributes
    ----------
    kind : str
        What they are for, as explanations of runs call it: ``links out of hosts``, ``limiters``, ...
    count : int
        How many.
    bytes_per_s, latency_s : float
        Of each.
    sharing : str
        ``shared`` or ``fatpipe``.
    """

    kind: str
    count: int
    bytes_per_s: float
    latency_s: float
    sharing: str


def diameter_by_routes(built: Any) -> Diameter:
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


def kinds_by_links(built: Any) -> list[LinkKind]:
    """Count the links of a compiled machine by kind, looking at each."""
    found = Counter(zip(*_columns(built)[1:], strict=True))
    return [LinkKind(kind, n, bw, lat, how) for (kind, bw, lat, how), n in found.items()]


def _columns(built: Any) -> tuple[list[str], list[str], list[float], list[float], list[str]]:
    """Names, kinds, bandwidths, latencies and sharings of all links."""
    names, rates, delays, policies = zip(*map(built.link, range(built.link_count)), strict=True)
    return list(names), [kind_of(name) for name in names], list(rates), list(delays), list(policies)


def link_table(built: Any) -> pd.DataFrame:
    """Tabulate the links of a machine.

    Parameters
    ----------
    built : labkit._kernels.Platform

    Returns
    -------
    pandas.DataFrame
        A row per link: link (its name), kind, bytes_per_s, latency_s, sharing.

    Raises
    ------
    PlatformError
        There are more than 2^21.
    """
    import pandas as pd

    if built.link_count > MOST_ROWS:
        raise PlatformError(
            f"{built!r} has {built.link_count:,} links; a table has at most {MOST_ROWS:,}: see link_kinds()"
        )
    names, kinds, rates, delays, sharings = _columns(built)
    return pd.DataFrame(
        {"link": names, "kind": kinds, "bytes_per_s": rates, "latency_s": delays, "sharing": sharings}
    )
