"""A fat tree of any number of levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.platform.spec.cluster import MAX_HOSTS, ClusterSpec
from labkit.platform.spec.options import Misplaced, parse_counts

__all__ = ["FatTreeSpec", "grown_tree"]

Counts = tuple[int, ...]


def grown_tree(hosts: int) -> tuple[Counts, Counts, Counts]:
    """Find the shape of an unsized fat tree: full bisection, equal switches, arities that are powers of two.

    Two levels up to 1024 hosts, three up to 32,768, four up to 2^20, so that no switch needs more than 64
    ports. All levels have the same arity a, the smallest power of two with a ** levels >= hosts; the top
    level has only as many children as the hosts need. Every switch has as many cables up as down. Powers of
    two are met exactly.

    Returns
    -------
    down, up, cables : tuple of int
        From the hosts upwards.

    Examples
    --------
    >>> grown_tree(64), grown_tree(100)
    (((8, 8), (1, 8), (1, 1)), ((16, 7), (1, 16), (1, 1)))
    >>> grown_tree(2048)
    ((16, 16, 8), (1, 16, 16), (1, 1, 1))
    """
    bits = (hosts - 1).bit_length()
    levels = max(2, -(-bits // 5))
    arity = 2 ** -(-bits // levels)
    lower = (arity,) * (levels - 1)
    return (*lower, -(-hosts // arity ** (levels - 1))), (1, *lower), (1,) * levels


@dataclass(frozen=True, kw_only=True)
class FatTreeSpec(ClusterSpec):
    """A fat tree: hosts below, levels of switches above, parallel cables between levels.

    Counted from the hosts upwards: a switch of level l has ``down[l-1]`` children, a node of level l has
    ``up[l]`` parents, and ``cables[l]`` parallel cables lead to each. Messages go up towards a switch that
    the destination chooses, then down; exact rules stand in ``labkit/topology/fat_tree.hpp`` of the kernels.
    Unsized, it grows with the ranks (`grown_tree`). Without a loopback, a message within a host goes up to
    its first switch and down again. The other attributes are those of `ClusterSpec`; a limiter stands in
    every switch, too.

    Attributes
    ----------
    down, up, cables : tuple of int or None
        Equally long; all three or none.
    """

    KIND: ClassVar[str] = "fattree"
    FORM: ClassVar[str] = "fattree or fattree:4x4:1x2:1x2 (down : up : cables, from the hosts upwards)"

    down: Counts | None = None
    up: Counts | None = None
    cables: Counts | None = None

    def __post_init__(self) -> None:
        """Refuse what no fat tree can be."""
        super().__post_init__()
        if self.down is None and self.up is None and self.cables is None:
            return
        lists = (self.down or (), self.up or (), self.cables or ())
        if not lists[0] or len({len(part) for part in lists}) > 1:
            raise PlatformError(
                "fattree needs as many numbers up and cables as down, at least one of each, got "
                + ":".join("x".join(map(str, part)) for part in lists)
            )
        if min(map(min, lists)) < 1:
            raise PlatformError(f"fattree needs numbers from 1 on, got {self.size}")
        hosts = math.prod(lists[0])
        switches = sum(self.nodes(level) for level in range(1, len(lists[0]) + 1))
        links = sum(self.level_cables(level) for level in range(len(lists[0]))) * self.links_per_cable
        links += (hosts + switches) * (self.limiter is not None) + hosts * (self.loopback_bw is not None)
        self._check_size(hosts, max(links, switches))

    @property
    def size(self) -> str | None:
        """The three lists, ``4x4:1x2:1x2``."""
        if self.down is None or self.up is None or self.cables is None:
            return None
        return ":".join("x".join(map(str, part)) for part in (self.down, self.up, self.cables))

    @classmethod
    def parse_size(cls, text: str) -> dict[str, Any]:
        """Read the three lists."""
        parts = text.split(":")
        form = "down:up:cables with one number a level and x between them, for example 4x4:1x2:1x2"
        if len(parts) != 3:
            raise Misplaced(0, f"{len(parts)} of 3 lists; write {form}, or leave ':' out to let it grow")
        lists: list[Counts] = []
        offset = 0
        for name, part in zip(("down", "up", "cables"), parts, strict=True):
            try:
                lists.append(parse_counts(part, offset))
            except Misplaced as error:
                raise Misplaced(error.offset, f"{name}: {error}; write {form}") from None
            if len(lists[-1]) != len(lists[0]):
                raise Misplaced(
                    offset, f"{name} has {len(lists[-1])} levels, down has {len(lists[0])}; write {form}"
                )
            offset += len(part) + 1
        return dict(zip(("down", "up", "cables"), lists, strict=True))

    @property
    def hosts(self) -> int | None:
        """The product of `down`."""
        return None if self.down is None else math.prod(self.down)

    def sized(self, hosts: int) -> FatTreeSpec:
        """Return the tree itself, or the grown one of at least so many hosts."""
        if self.down is not None:
            return self
        self._check_size(hosts, 0)
        down, up, cables = grown_tree(hosts)
        return replace(self, down=down, up=up, cables=cables)

    def nodes(self, level: int) -> int:
        """Count the hosts (level 0) or the switches of a level."""
        assert self.down is not None
        assert self.up is not None
        return math.prod(self.up[:level]) * math.prod(self.down[level:])

    def level_cables(self, level: int) -> int:
        """Count the cables from a level to the next one."""
        assert self.up is not None
        assert self.cables is not None
        return self.nodes(level) * self.up[level] * self.cables[level]

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile it for the engine."""
        from labkit import _kernels

        assert self.down is not None
        assert self.up is not None
        assert self.cables is not None
        return _kernels.fat_tree(
            list(self.down), list(self.up), list(self.cables), list(rank_hosts), **self.common()
        )

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts, switches and cables by level."""
        if self.down is None:
            return [
                ("shape", "a fat tree of full bisection, two levels up to 1024 hosts"),
                ("hosts", f"as many as the ranks need, at most {MAX_HOSTS:,}"),
            ]
        levels = len(self.down)
        switches = " + ".join(f"{self.nodes(level):,}" for level in range(1, levels + 1))
        cables = " + ".join(f"{self.level_cables(level):,}" for level in range(levels))
        return [
            ("shape", f"a fat tree of {levels} level{'s' if levels > 1 else ''} of switches"),
            (
                "hosts",
                f"{'x'.join(map(str, self.down))} = {self.hosts:,}" if levels > 1 else f"{self.hosts:,}",
            ),
            ("switches", f"{switches} (from the hosts upwards)" if levels > 1 else switches),
            ("cables", f"{cables} (from the hosts upwards)" if levels > 1 else cables),
        ]

    def xml_attributes(self) -> dict[str, str]:
        """SimGrid's words for it."""
        lists = (self.down or (), self.up or (), self.cables or ())
        text = ";".join([str(len(lists[0])), *(",".join(map(str, part)) for part in lists)])
        return {"topology": "FAT_TREE", "topo_parameters": text}
