"""A dragonfly: groups of chassis of routers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.platform.spec.cluster import MAX_HOSTS, ClusterSpec
from labkit.platform.spec.options import ROUTINGS, Misplaced, one_of, parse_counts

__all__ = ["DragonflySpec", "grown_dragonfly"]

#: counts in the order of a specification: groups x blue : chassis x black : routers x green : nodes
COUNTS = ("groups", "blue", "chassis", "black", "routers", "green", "nodes")
_FORM = "groups x blue : chassis x black : routers x green : nodes, for example 4x4:3x4:5x1:2"


def grown_dragonfly(hosts: int) -> tuple[int, int, int, int, int, int, int]:
    """Find the shape of an unsized dragonfly: one chassis a group, powers of two, blue cables for all.

    With h = 2^b hosts (rounded up): 2^(b // 3) groups of at least as many routers, and of at least as many
    nodes at each, as even as b allows. A blue cable is as wide as half a group's hosts need when all of
    them talk to the other groups evenly, and at least 1.

    Returns
    -------
    tuple of int
        groups, blue, chassis, black, routers, green, nodes.

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
            raise PlatformError(f"dragonfly needs a seed from 0 on, below 2^63, got {self.seed}")
        if self.seed and self.routing not in ("valiant", "adaptive"):
            raise PlatformError(
                f"routing={self.routing} draws nothing, so it takes no seed; leave seed={self.seed} out"
            )
        given = [getattr(self, name) for name in COUNTS]
        if all(count is None for count in given):
            return
        if None in given:
            missing = ", ".join(name for name in COUNTS if getattr(self, name) is None)
            raise PlatformError(f"dragonfly needs all of {', '.join(COUNTS)} or none; missing: {missing}")
        if min(given) < 1:
            raise PlatformError(f"dragonfly needs numbers from 1 on, got {self.size}")
        hosts, switches = self.hosts or 0, self.all_routers
        links = sum(self.cables().values()) * self.links_per_cable
        links += (hosts + switches) * (self.limiter is not None) + hosts * (self.loopback_bw is not None)
        self._check_size(hosts, links)

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

    def sized(self, hosts: int) -> DragonflySpec:
        """Return the dragonfly itself, or the grown one of at least so many hosts."""
        if self.groups is not None:
            return self
        self._check_size(hosts, 0)
        groups, blue, chassis, black, routers, green, nodes = grown_dragonfly(hosts)
        return replace(
            self,
            groups=groups,
            blue=blue,
            chassis=chassis,
            black=black,
            routers=routers,
            green=green,
            nodes=nodes,
        )

    def cables(self) -> dict[str, int]:
        """Count the cables of a sized machine by kind: host, green, black, blue."""
        groups, _, chassis, _, routers, _, nodes = self.counts
        return {
            "host": groups * chassis * routers * nodes,
            "green": groups * chassis * math.comb(routers, 2),
            "black": groups * routers * math.comb(chassis, 2),
            "blue": math.comb(groups, 2),
        }

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile it for the engine."""
        from labkit import _kernels

        return _kernels.dragonfly(
            list(self.counts), list(rank_hosts), routing=self.routing, seed=self.seed, **self.common()
        )

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts, routers and cables by colour, and how messages find their way."""
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

    def xml_attributes(self) -> dict[str, str]:
        """SimGrid's words for it.

        Raises
        ------
        PlatformError
            SimGrid has no such machine.
        """
        groups, blue, chassis, black, routers, green, nodes = self.counts
        if self.routing != "minimal":
            raise PlatformError(f"SimGrid has no routing={self.routing}; it has minimal")
        if groups > routers:
            raise PlatformError(
                "SimGrid's dragonflies have at most as many groups as routers in a chassis; this one has "
                f"{groups} groups and {routers} routers"
            )
        text = f"{groups},{blue};{chassis},{black};{routers},{green};{nodes}"
        return {"topology": "DRAGONFLY", "topo_parameters": text}
