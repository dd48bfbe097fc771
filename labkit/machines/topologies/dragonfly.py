"""A dragonfly: groups of chassis of routers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.machines.drawing import Layout, Point
from labkit.machines.measure import Bisection
from labkit.machines.spec.cluster import MAX_HOSTS, ClusterSpec, LinksOfCables
from labkit.machines.spec.options import (
    Misplaced,
    Option,
    choice,
    one_of,
    parse_counts,
    parse_seed,
)

__all__ = ["DragonflySpec", "grown_dragonfly"]

#: counts in the order of a specification: groups x blue : chassis x black : routers x green : nodes
COUNTS = ("groups", "blue", "chassis", "black", "routers", "green", "nodes")
ROUTINGS = ("minimal", "shortest", "valiant", "adaptive")
#: half of a group's name, in shares of half the picture
_WORD = 0.2
#: between the rows of a group, and from a router outwards to its hosts
_ROW, _STEM = 2.0, 0.8
_TINTS = {"green": "#009E73", "black": "#222222", "blue": "#0072B2"}
_WAYS = {
    "minimal": "Messages take SimGrid's minimal ways.",
    "shortest": "Messages take the shortest ways.",
    "valiant": "Messages go by a third group, drawn for each; the direct route is shown here.",
    "adaptive": "Messages may make a detour by a third group, depending on the loads; this is the route "
    "without a detour.",
}
_FORM = "groups x blue : chassis x black : routers x green : nodes, for example 4x4:3x4:5x1:2"


def grown_dragonfly(hosts: int) -> tuple[int, int, int, int, int, int, int]:
    """Find the shape of an unsized dragonfly: one chassis a group, powers of two, blue cables for all.

    With h = 2^b hosts (rounded up): 2^(b // 3) groups of at least as many routers, and of at least as many
    nodes at each, as even as b allows. A blue cable is as wide as half a group's hosts need when all of
    them talk to the other groups evenly, and at least 1.

    Examples
    --------
    >>> grown_dragonfly(64), grown_dragonfly(1024)
    ((4, 2, 1, 1, 4, 1, 4), (8, 8, 1, 1, 16, 1, 8))
    """
    bits = (hosts - 1).bit_length()
    groups, nodes = 2 ** (bits // 3), 2 ** ((bits + 1) // 3)
    routers = 2**bits // groups // nodes
    return groups, max(1, routers * nodes // (2 * groups)), 1, 1, routers, 1, nodes


@dataclass(frozen=True, kw_only=True)
class DragonflySpec(ClusterSpec):
    """A dragonfly: hosts at routers, routers in chassis, chassis in groups.

    Green cables join the routers of a chassis, black ones the routers at the same place of a group's chassis,
    each pair; a blue cable joins each pair of groups; exact rules: ``labkit/topology/dragonfly.hpp`` of the
    kernels. Unsized, it grows with the ranks (`grown_dragonfly`). Without a loopback, a message within a host
    goes to its router and back. The other attributes are those of `ClusterSpec`; every router has a limiter.

    Attributes
    ----------
    groups, chassis, routers, nodes : int or None
        Of the machine, of a group, of a chassis, of a router; all or none.
    blue, black, green : int or None
        How many times the bandwidth of a host's cable theirs is.
    routing : str
        "minimal" (SimGrid 3.32's ways) or an extension of labkit: "shortest", "valiant" (by a group drawn
        for each message), "adaptive" (shortest or Valiant's, by the loads when the message starts).
    seed : int
        Of the groups drawn.
    """

    KIND: ClassVar[str] = "dragonfly"
    FORM: ClassVar[str] = (
        "dragonfly or dragonfly:4x4:3x4:5x1:2 (groups x blue, chassis x black, routers x green, nodes)"
    )
    EXAMPLE: ClassVar[tuple[str, str]] = (
        "4x2:3x1:4x1:2",
        "groups x blue : chassis x black : routers x green : nodes",
    )
    OWN_OPTIONS: ClassVar[dict[str, Option]] = {
        "routing": choice("routing", ROUTINGS, "choice of routes"),
        "seed": Option(parse_seed, str, "choice of routes"),
    }
    SIMGRID: ClassVar[str | None] = "DRAGONFLY"
    SIMGRID_SIZE: ClassVar[str] = "groups,blue;chassis,black;routers,green;nodes, for example 4,4;3,4;5,1;2"
    LIMITED: ClassVar[str] = "limiter per node"

    groups: int | None = None
    blue: int | None = None
    chassis: int | None = None
    black: int | None = None
    routers: int | None = None
    green: int | None = None
    nodes: int | None = None
    routing: str = "minimal"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no dragonfly can be."""
        super().__post_init__()
        one_of("routing", self.routing, ROUTINGS)
        if not 0 <= self.seed < 2**63:
            raise PlatformError(
                f"dragonfly needs a seed from 0 on, below 2^63, got {self.seed}", code="out-of-range"
            )
        if self.seed and self.routing not in ("valiant", "adaptive"):
            raise PlatformError(
                f"routing={self.routing} draws nothing, so it takes no seed; leave seed={self.seed} out",
                code="conflicting-options",
            )
        given = [getattr(self, name) for name in COUNTS]
        if all(count is None for count in given):
            return
        if None in given:
            missing = ", ".join(name for name in COUNTS if getattr(self, name) is None)
            raise PlatformError(
                f"dragonfly needs all of {', '.join(COUNTS)} or none; missing: {missing}", code="missing-key"
            )
        if min(given) < 1:
            raise PlatformError(f"dragonfly needs numbers from 1 on, got {self.size}", code="out-of-range")
        self._check_size()

    @property
    def counts(self) -> tuple[int, ...]:
        """The seven counts of a sized machine."""
        found = tuple(getattr(self, name) for name in COUNTS)
        assert None not in found
        return found

    @property
    def size(self) -> str | None:
        """The counts, ``4x4:3x4:5x1:2``."""
        if self.groups is None:
            return None
        return (
            f"{self.groups}x{self.blue}:{self.chassis}x{self.black}:{self.routers}x{self.green}:{self.nodes}"
        )

    @classmethod
    def parse_size(cls, text: str) -> dict[str, Any]:
        """Read the counts."""
        parts = text.split(":")
        if len(parts) != 4:
            raise Misplaced(0, f"{len(parts)} of 4 parts; write {_FORM}, or leave ':' out to let it grow")
        counts: list[int] = []
        offset = 0
        for part, needed in zip(parts, (2, 2, 2, 1), strict=True):
            names = COUNTS[len(counts) : len(counts) + needed]
            try:
                found = parse_counts(part, offset)
            except Misplaced as error:
                raise Misplaced(error.offset, f"{' x '.join(names)}: {error}; write {_FORM}") from None
            if len(found) != needed:
                raise Misplaced(offset, f"{part!r} is not {' x '.join(names)}; write {_FORM}")
            counts += found
            offset += len(part) + 1
        return dict(zip(COUNTS, counts, strict=True))

    @property
    def all_routers(self) -> int:
        """Routers of a sized machine."""
        groups, _, chassis, _, routers, _, _ = self.counts
        return groups * chassis * routers

    @property
    def hosts(self) -> int | None:
        """Nodes of all routers."""
        return None if self.groups is None else self.all_routers * self.counts[-1]

    @classmethod
    def grown(cls, hosts: int) -> dict[str, Any]:
        """Groups of one chassis."""
        return dict(zip(COUNTS, grown_dragonfly(hosts), strict=True))

    def cables(self) -> dict[str, int]:
        """Count the cables of a sized machine by kind: host, green, black, blue."""
        groups, _, chassis, _, routers, _, nodes = self.counts
        return {
            "host": groups * chassis * routers * nodes,
            "green": groups * chassis * math.comb(routers, 2),
            "black": groups * routers * math.comb(chassis, 2),
            "blue": math.comb(groups, 2),
        }

    def engine_size(self) -> dict[str, Any]:
        """The counts, and how messages find their way."""
        return {"counts": self.counts, "routing": self.routing, "seed": self.seed}

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts, routers and cables by color, and how messages find their way."""
        if self.groups is None:
            return [
                ("shape", "a dragonfly, groups of one chassis"),
                ("hosts", f"as many as the ranks need, at most {MAX_HOSTS:,}"),
                ("routing", self._routing_text),
            ]
        groups, blue, chassis, black, routers, green, nodes = self.counts
        kinds = self.cables()
        widths = {"host": 1, "green": green, "black": black, "blue": blue}
        cables = ", ".join(
            f"{count:,} {kind}{f' ({widths[kind]} x bw)' if widths[kind] > 1 else ''}"
            for kind, count in kinds.items()
            if count
        )
        return [
            ("shape", "a dragonfly"),
            ("hosts", f"{groups} groups x {chassis} chassis x {routers} routers x {nodes} = {self.hosts:,}"),
            ("routers", f"{self.all_routers:,}"),
            ("cables", cables),
            ("routing", self._routing_text),
        ]

    @property
    def _routing_text(self) -> str:
        return {
            "minimal": "minimal, as SimGrid 3.32",
            "shortest": "shortest (an extension of labkit)",
            "valiant": f"Valiant, seed {self.seed} (an extension of labkit)",
            "adaptive": f"adaptive, seed {self.seed} (an extension of labkit)",
        }[self.routing]

    def cable_links(self) -> list[LinksOfCables]:
        """The hosts' links and the colored ones."""
        _, blue, _, black, _, green, _ = self.counts
        cables, ways = self.cables(), self.links_per_cable
        return [
            *self.host_cables(),
            LinksOfCables("green links, within a chassis", cables["green"] * ways, green),
            LinksOfCables("black links, between chassis", cables["black"] * ways, black),
            LinksOfCables("blue links, between groups", cables["blue"] * ways, blue),
        ]

    def limited_nodes(self) -> int:
        """Hosts and routers."""
        return (self.hosts or 0) + self.all_routers

    def longest_route(self) -> int:
        """A green and a black cable in each group that it passes, blue ones between them."""
        groups, _, chassis, _, routers, _, _ = self.counts
        inside = (routers > 1) + (chassis > 1)
        if groups == 1:
            return 2 + inside
        if self.routing in ("valiant", "adaptive") and groups > 2:
            return 2 + 3 * inside + 2
        return 2 + 2 * inside + 1

    def narrowest_cut(self) -> Bisection:
        """The best of some cuts, an upper bound.

        Groups apart; for an odd number of them, the last one halved by places, chassis or hosts.
        """
        groups, blue, chassis, black, routers, green, nodes = self.counts
        cuts: list[tuple[float, str]] = [((self.hosts or 0) // 2, "the hosts' cables")]
        inside: list[tuple[float, str]] = []
        own = chassis * routers * nodes
        if routers % 2 == 0:
            inside.append((chassis * green * (routers // 2) ** 2, "green"))
        if chassis % 2 == 0:
            inside.append((routers * black * (chassis // 2) ** 2, "black"))
        inside.append((own // 2, "hosts'"))
        narrow, color = min(inside)
        if groups % 2 == 0:
            cuts.append((blue * (groups // 2) ** 2, "blue cables between half of the groups"))
        else:
            # The blue cables of the halved group end in either half of it: at most all of them are cut.
            cut = blue * ((groups // 2) ** 2 + groups // 2 * 2) + narrow if groups > 1 else narrow
            cuts.append((cut, f"{'blue and ' if groups > 1 else ''}{color} cables, a group halved"))
        count, what = min(cuts)
        return Bisection(count * self.bw, False, f"{count:,.6g} x bw, {what}", self.links_per_cable == 2)

    def halved(self) -> DragonflySpec:
        """Half the largest count."""
        by_size = {name: getattr(self, name) for name in ("groups", "routers", "chassis", "nodes")}
        largest = max(by_size, key=by_size.__getitem__)
        return replace(self, **{largest: -(-by_size[largest] // 2)})

    def lay_out(self) -> Layout:
        """Groups on a circle, a chassis a row of routers, hosts outwards from theirs."""
        groups, _, chassis, _, routers, _, _ = self.counts
        layout = Layout(
            said=f"Groups stand on a circle, the rows of a group are its chassis. {_WAYS[self.routing]}"
        )
        radius = groups * (routers + 1.0) / (2 * math.pi) if groups > 1 else 0.0
        for g in range(groups):
            frame = _Frame(max(radius, 1.5) if groups > 1 else 0.0, math.pi / 2 - 2 * math.pi * g / groups)
            for c, r in itertools.product(range(chassis), range(routers)):
                _place_router(layout, self, frame, (g, c, r))
            _join_group(layout, self, frame, g)
            if groups > 1:
                away = chassis * _ROW - _ROW + _STEM + 0.6
                away += _WORD * (radius + away) * abs(math.cos(frame.angle))  # next to it, not across it
                layout.notes.append((*frame.at(0.0, away), f"group {g}"))
        size = chassis * routers
        for i, j in itertools.combinations(range(groups), 2):
            ends = [f"router {g}.{o % size // routers}.{o % size % routers}" for g, o in ((i, j), (j, i))]
            layout.bend(ends[0], ends[1], (0.0, 0.0), _TINTS["blue"])
        return layout

    def simgrid_size(self) -> dict[str, str]:
        """SimGrid's form of it.

        Raises
        ------
        PlatformError
            SimGrid has no such machine.
        """
        groups, routers = self.counts[0], self.counts[4]
        if self.routing != "minimal":
            raise PlatformError(
                f"SimGrid has no routing={self.routing}; it has minimal", code="no-counterpart"
            )
        if groups > routers:
            raise PlatformError(
                "SimGrid's dragonflies have at most as many groups as routers in a chassis; this one has "
                f"{groups} groups and {routers} routers",
                code="out-of-range",
            )
        return super().simgrid_size()


@dataclass(frozen=True)
class _Frame:
    """A group's own axes: `u` along the circle, `v` outwards from its inner row."""

    radius: float
    angle: float

    def at(self, u: float, v: float) -> Point:
        x, y = self.turned(u, self.radius + v)
        return x, y

    def turned(self, u: float, v: float) -> Point:
        out = (math.cos(self.angle), math.sin(self.angle))
        return out[1] * u + out[0] * v, -out[0] * u + out[1] * v


def _place_router(layout: Layout, spec: DragonflySpec, frame: _Frame, router: tuple[int, int, int]) -> None:
    _, _, chassis, _, routers, _, nodes = spec.counts
    g, c, r = router
    u, v = r - (routers - 1) / 2, c * _ROW
    name = f"router {g}.{c}.{r}"
    layout.switches[name] = frame.at(u, v)
    first = ((g * chassis + c) * routers + r) * nodes
    for n in range(nodes):
        host = f"host {first + n}"
        layout.hosts[host] = frame.at(u + (n - (nodes - 1) / 2) * 0.7 / nodes, v + _STEM)
        layout.join(host, name)


def _join_group(layout: Layout, spec: DragonflySpec, frame: _Frame, g: int) -> None:
    """Green along a row and black across the rows; curved where they would run over a router."""
    _, _, chassis, _, routers, _, _ = spec.counts
    for c in range(chassis):
        for a, b in itertools.combinations(range(routers), 2):
            sag = frame.turned(0.0, -0.12 * (b - a - 1))
            layout.bend(f"router {g}.{c}.{a}", f"router {g}.{c}.{b}", sag, _TINTS["green"])
    for r in range(routers):
        for a, b in itertools.combinations(range(chassis), 2):
            sag = frame.turned(0.18 * (b - a - 1), 0.0)
            layout.bend(f"router {g}.{a}.{r}", f"router {g}.{b}.{r}", sag, _TINTS["black"])
