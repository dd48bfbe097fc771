"""Topologies given by their cables: messages take the fewest of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from labkit.errors import PlatformError
from labkit.machines.drawing import Layout
from labkit.machines.measure import BETWEEN, LinkKind, kinds_by_links
from labkit.machines.spec import ClusterSpec, LinksOfCables
from labkit.machines.zones.spec import MOST_POINTS, ZonesSpec
from labkit.machines.zones.zone import Quantity, Zone

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["GraphSpec", "graph_zone"]


# A machine from a graph: nodes are hosts or switches, edges are cables.

_OPTIONS = ("bw", "lat", "sharing", "name")

Edge = tuple[Hashable, Hashable, dict[str, Any]]


def graph_zone(
    edges: object,
    hosts: Iterable[Hashable] | None = None,
    *,
    bw: Quantity = "1.25GBps",
    lat: Quantity = "1us",
    sharing: str = "splitduplex",
    speed: Quantity = "1Gf",
    cores: int = 1,
    routing: str = "floyd",
    name: str = "graph",
) -> Zone:
    """Make a zone of a graph; every message takes a way of the fewest cables.

    Examples
    --------
    >>> zone = graph_zone([("a", "s"), ("b", "s"), ("c", "s", {"lat": "5us"})])
    >>> [member.name for member in zone.members]
    ['a', 'b', 'c', 's']
    """
    pairs, nodes, is_directed = _read(edges)
    chosen = _hosts(pairs, nodes, hosts)
    texts = {node: str(node) for node in nodes}
    if len(set(texts.values())) < len(texts):
        raise PlatformError(
            "two nodes of the graph have the same text; give them different names", code="duplicate-name"
        )
    zone = Zone(name, routing)
    for node in [*chosen, *(node for node in nodes if node not in chosen)]:
        if node in chosen:
            zone.host(texts[node], nodes[node].get("speed", speed), nodes[node].get("cores", cores))
        else:
            zone.router(texts[node])
    for u, v, options in pairs:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown and not _is_networkx(edges):
            raise PlatformError(
                f"edge {u!r} - {v!r} has the option {unknown[0]!r}; allowed: {', '.join(_OPTIONS)}",
                code="unknown-name",
            )
        link = str(options.get("name", f"{texts[u]} - {texts[v]}"))
        kind = options.get("sharing", "shared" if is_directed else sharing)
        zone.link(link, options.get("bw", bw), options.get("lat", lat), kind)
        way = (link, "up") if kind.lower() == "splitduplex" else link
        zone.route(texts[u], texts[v], [way], symmetrical=not is_directed)
    return zone


def _is_networkx(graph: object) -> bool:
    return (
        hasattr(graph, "edges") and hasattr(graph, "nodes") and callable(getattr(graph, "is_directed", None))
    )


def _read(graph: Any) -> tuple[list[Edge], dict[Hashable, dict[str, Any]], bool]:
    """Edges with their options, and nodes with theirs in order of first mention."""
    nodes: dict[Hashable, dict[str, object]] = {}
    pairs: list[Edge] = []
    if _is_networkx(graph):
        nodes.update((node, dict(options)) for node, options in graph.nodes(data=True))
        given: Iterable[object] = graph.edges(data=True)
    elif isinstance(graph, str | bytes | Mapping) or not isinstance(graph, Iterable):
        raise PlatformError(
            f"a graph is a list of edges (u, v) or a graph of NetworkX, got {graph!r:.100}", code="wrong-type"
        )
    else:
        given = graph
    seen: set[frozenset[Hashable] | tuple[Hashable, Hashable]] = set()
    is_directed = _is_networkx(graph) and bool(graph.is_directed())
    for edge in given:
        if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
            raise PlatformError(
                f"an edge is (u, v) or (u, v, options), got {edge!r:.100}; or text: 'star:64'",
                code="wrong-type",
            )
        u, v, options = (*edge, {}) if len(edge) == 2 else edge
        if not isinstance(options, Mapping):
            raise PlatformError(
                f"options of an edge are a mapping such as {{'bw': '10Gbps'}}, got {options!r:.100}",
                code="wrong-type",
            )
        key = (u, v) if is_directed else frozenset((u, v))
        if key in seen or u == v:
            what = (
                "leads from a node to itself" if u == v else "is there twice; give one the bandwidth of both"
            )
            raise PlatformError(
                f"edge {u!r} - {v!r} {what}", code="invalid-value" if u == v else "duplicate-name"
            )
        seen.add(key)
        nodes.setdefault(u, {})
        nodes.setdefault(v, {})
        pairs.append((u, v, dict(options)))
    if not nodes:
        raise PlatformError(
            "a graph without nodes is no machine; give at least one edge", code="not-enough-data"
        )
    return pairs, nodes, is_directed


def _hosts(
    pairs: list[Edge], nodes: dict[Hashable, dict[str, object]], hosts: Iterable[Hashable] | None
) -> dict[Hashable, None]:
    if hosts is not None:
        chosen = dict.fromkeys(hosts)
        for node in chosen:
            if node not in nodes:
                raise PlatformError(f"host {node!r} is not a node of the graph", code="unknown-name")
        return chosen
    if any("kind" in options for options in nodes.values()):
        return dict.fromkeys(node for node, options in nodes.items() if options.get("kind") == "host")
    degree = dict.fromkeys(nodes, 0)
    for u, v, _ in pairs:
        degree[u] += 1
        degree[v] += 1
    leaves = [node for node, count in degree.items() if count == 1]
    return dict.fromkeys(leaves if len(leaves) > 1 else nodes)


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
            raise PlatformError(
                f"a {self.KIND} has neither limiters nor loopbacks; leave them out",
                code="conflicting-options",
            )
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
            cables,
            hosts,
            bw=self.bw,
            lat=self.lat,
            sharing=self.sharing,
            speed=self.speed,
            cores=self.cores,
            name=self.KIND,
        )
        return ZonesSpec(zone, str(self), self.model)

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile it for the engine."""
        return self._zones.build(rank_hosts)

    def cable_links(self) -> list[LinksOfCables]:
        """One kind of cables."""
        return [LinksOfCables(BETWEEN, sum(1 for _ in self.edges()) * self.links_per_cable)]

    def link_kinds(self, built: _kernels.Platform | None = None) -> list[LinkKind]:
        """Count the links by kind."""
        return kinds_by_links(built or self.build([0]))

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts and cables."""
        if self.hosts is None:
            return [("shape", f"a {self.KIND}"), ("hosts", "as many as the ranks need")]
        return [
            ("shape", f"a {self.KIND}"),
            ("hosts", f"{self.hosts:,}"),
            ("cables", f"{self.cable_count():,}"),
        ]

    def lay_out(self) -> Layout:
        """Place the hosts by their distances."""
        return self._zones.lay_out()

    def xml(self) -> str:
        """Write a zone with its hosts and cables."""
        return self._zones.xml()
