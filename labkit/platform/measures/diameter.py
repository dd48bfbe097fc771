"""The diameter of a machine, in links and in latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.platform import quantities as units
from labkit.platform.spec import DragonflySpec, FatTreeSpec, StarSpec, TorusSpec

__all__ = ["Diameter", "diameter"]

#: Routes asked for where there is no rule; with more pairs of hosts, evenly spaced sources.
MOST_ROUTES = 50_000


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


def diameter(spec: Any) -> Diameter | None:
    """Find the diameter of a sized machine; None for a single host.

    Parameters
    ----------
    spec : MachineSpec
        Any machine; of those without a rule the routes are asked for.
    """
    hosts = spec.hosts
    if hosts is None or hosts < 2:
        return None
    if isinstance(spec, StarSpec):
        backbone = spec.bb_bw is not None
        return Diameter(2 + backbone, 2 * spec.lat + (spec.bb_lat or 0.0) * backbone)
    if isinstance(spec, TorusSpec):
        return _of_cables(sum(size // 2 for size in spec.sizes or ()), spec.lat)
    if isinstance(spec, FatTreeSpec):
        return _of_cables(2 * (1 + max(i for i, n in enumerate(spec.down or ()) if n > 1)), spec.lat)
    if isinstance(spec, DragonflySpec):
        return _of_cables(_dragonfly_links(spec), spec.lat)
    return _of_routes(spec, hosts)


def _of_cables(links: int, lat: float) -> Diameter:
    return Diameter(links, links * lat)


def _dragonfly_links(spec: DragonflySpec) -> int:
    groups, _, chassis, _, routers, _, _ = spec.counts
    inside = (routers > 1) + (chassis > 1)
    if groups == 1:
        return 2 + inside
    if spec.routing in ("valiant", "adaptive") and groups > 2:
        return 2 + 3 * inside + 2
    return 2 + 2 * inside + 1


def _of_routes(spec: Any, hosts: int) -> Diameter:
    step = -(-hosts * hosts // MOST_ROUTES)
    route = spec.build([0]).route
    links, latency = 0, 0.0
    for src in range(0, hosts, step):
        for dst in range(hosts):
            if src != dst:
                try:
                    names, delay = route(src, dst)
                except ValueError:  # not every pair of hosts of a file need be joined
                    continue
                links, latency = max(links, len(names)), max(latency, delay)
    return Diameter(links, latency, step == 1)
