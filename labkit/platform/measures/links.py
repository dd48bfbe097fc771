"""The links of a machine: counted by kind, and one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.errors import PlatformError
from labkit.platform.measures.link_names import kind_of
from labkit.platform.spec import ClusterSpec, DragonflySpec, FatTreeSpec, StarSpec, TorusSpec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LinkKind", "link_kinds", "link_table"]

#: A table of more links than this is refused: use the kinds.
MOST_ROWS = 2**21


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


def link_kinds(spec: Any, built: Any = None) -> list[LinkKind]:
    """Count the links of a sized machine by kind.

    Parameters
    ----------
    spec : MachineSpec
        A cluster is counted by its formulas, whatever its size; of anything else the links are looked at.
    built : labkit._kernels.Platform, optional
        The machine, where it is built already.
    """
    if not isinstance(spec, ClusterSpec):
        found = Counter(zip(*_columns(built or spec.build([0]))[1:], strict=True))
        return [LinkKind(kind, n, bw, lat, how) for (kind, bw, lat, how), n in found.items()]
    hosts = spec.hosts or 0
    how = "fatpipe" if spec.sharing == "fatpipe" else "shared"
    kinds = [
        LinkKind(name, count, spec.bw * width, spec.lat, how)
        for name, count, width in _of_cables(spec)
        if count
    ]
    nodes = hosts
    if isinstance(spec, FatTreeSpec):
        nodes = sum(spec.nodes(level) for level in range(len(spec.down or ()) + 1))
    if isinstance(spec, DragonflySpec):
        nodes += spec.all_routers
    if spec.limiter is not None:
        kinds.append(LinkKind("limiters", nodes, spec.limiter, 0.0, "shared"))
    if spec.loopback_bw is not None:
        kinds.append(LinkKind("loopbacks", hosts, spec.loopback_bw, spec.loopback_lat or 0.0, "fatpipe"))
    elif isinstance(spec, TorusSpec) and spec.limiter is None:
        kinds.append(LinkKind("loopbacks", 1, 10e9, 0.0, "fatpipe"))
    if isinstance(spec, StarSpec) and spec.bb_bw is not None:
        kinds.append(LinkKind("the backbone", 1, spec.bb_bw, spec.bb_lat or 0.0, spec.bb_sharing or "shared"))
    return kinds


def _of_cables(spec: ClusterSpec) -> list[tuple[str, int, int]]:
    """Kind, number and relative width of the links that cables consist of, named as `kind_of` names them."""
    hosts, ways = spec.hosts or 0, spec.links_per_cable
    own = [("links out of hosts", hosts, 1), ("links into hosts", hosts, 1)]
    if ways == 1:
        own = [("links of hosts, both ways", hosts, 1)]
    if isinstance(spec, TorusSpec):
        axes = ("xyz"[place] if place < 3 else f"d{place + 1}" for place in range(len(spec.sizes or ())))
        return [(f"torus links along {axis}", hosts * ways, 1) for axis in axes]
    if isinstance(spec, FatTreeSpec):
        per_host = spec.level_cables(0) // hosts
        found = [(kind, count * per_host, 1) for kind, count, _ in own]
        for level in range(1, len(spec.down or ())):
            count = spec.level_cables(level)
            found += (
                [
                    (f"links from level {level} up to level {level + 1}", count, 1),
                    (f"links from level {level + 1} down to level {level}", count, 1),
                ]
                if ways == 2
                else [(f"cables between levels {level} and {level + 1}", count, 1)]
            )
        return found
    if isinstance(spec, DragonflySpec):
        _, blue, _, black, _, green, _ = spec.counts
        cables = spec.cables()
        return [
            *own,
            ("green links, within a chassis", cables["green"] * ways, green),
            ("black links, between chassis", cables["black"] * ways, black),
            ("blue links, between groups", cables["blue"] * ways, blue),
        ]
    return own


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
