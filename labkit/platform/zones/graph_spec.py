"""Topologies given by their cables: messages take the fewest of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.platform.drawing import Layout
from labkit.platform.link_names import BETWEEN
from labkit.platform.measure import LinkKind, kinds_by_links
from labkit.platform.spec import ClusterSpec, LinksOfCables
from labkit.platform.zones.drawing import MOST_POINTS
from labkit.platform.zones.graph import graph_zone
from labkit.platform.zones.spec import ZonesSpec

__all__ = ["GraphSpec"]


@dataclass(frozen=True, kw_only=True)
class GraphSpec(ClusterSpec):
    """A topology that says which hosts a cable joins (`edges`): routes, links, XML and a drawing follow.

    Of equally short ways a message takes what SimGrid's zones with routing Floyd take. There are neither
    limiters nor loopbacks; a drawing places the hosts by their distances.
    """

    MOST_DRAWN: ClassVar[int] = MOST_POINTS

    def __post_init__(self) -> None:
        """Refuse what no graph has."""
        super().__post_init__()
        if self.limiter is not None or self.loopback_bw is not None:
            raise PlatformError(f"a {self.KIND} has neither limiters nor loopbacks; leave them out")
        if self.hosts is not None:
            self._check_size()

    @abstractmethod
    def edges(self) -> Iterable[tuple[int, int]]:
        """List the pairs of hosts of a sized machine that a cable joins, each once."""

    @cached_property
    def _zones(self) -> ZonesSpec:
        cables = [(self.host_name(a), self.host_name(b), {"name": f"{a} - {b}"}) for a, b in self.edges()]
        hosts = [self.host_name(number) for number in range(self.hosts or 0)]
        zone = graph_zone(
            cables, hosts, bw=self.bw, lat=self.lat, sharing=self.sharing, speed=self.speed, cores=self.cores,
            name=self.KIND,
        )  # fmt: skip
        return ZonesSpec(zone, str(self), self.model)

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile it for the engine."""
        return self._zones.build(rank_hosts)

    def cable_links(self) -> list[LinksOfCables]:
        """One kind of cables."""
        return [LinksOfCables(BETWEEN, sum(1 for _ in self.edges()) * self.links_per_cable)]

    def link_kinds(self, built: Any = None) -> list[LinkKind]:
        """Count the links by kind."""
        return kinds_by_links(built or self.build([0]))

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts and cables."""
        if self.hosts is None:
            return [("shape", f"a {self.KIND}"), ("hosts", "as many as the ranks need")]
        return [
            ("shape", f"a {self.KIND}"), ("hosts", f"{self.hosts:,}"), ("cables", f"{self.cable_count():,}"),
        ]  # fmt: skip

    def lay_out(self) -> Layout:
        """Place the hosts by their distances."""
        return self._zones.lay_out()

    def xml(self) -> str:
        """Write a zone with its hosts and cables."""
        return self._zones.xml()
