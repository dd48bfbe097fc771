"""A fat tree of any number of levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError
from labkit.machines.drawing import Layout
from labkit.machines.measure import Bisection
from labkit.machines.spec.cluster import MAX_HOSTS, ClusterSpec, LinksOfCables
from labkit.machines.spec.options import Misplaced, parse_counts

__all__ = ["FatTreeSpec", "grown_tree"]

Counts = tuple[int, ...]
Costs = NDArray[np.float64]
#: Number of hosts above which the exact split of a tree is not searched for.
MOST_TREE_HOSTS = 2048


def grown_tree(hosts: int) -> tuple[Counts, Counts, Counts]:
    """Find the shape of an unsized fat tree: full bisection, equal switches, arities that are powers of two.

    Two levels up to 1024 hosts, three up to 32,768, four up to 2^20, so that no switch needs more than 64
    ports. All levels have the same arity a, the smallest power of two with a ** levels >= hosts; the top
    level has only as many children as the hosts need. Every switch has as many cables up as down. Powers of
    two are met exactly.

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
    EXAMPLE: ClassVar[tuple[str, str]] = ("4x4:1x2:1x2", "down : up : cables, from the hosts upwards")
    SIMGRID: ClassVar[str | None] = "FAT_TREE"
    SIMGRID_SIZE: ClassVar[str] = (
        "levels;down,..;up,..;cables,.. with one number a level, for example 2;4,4;1,2;1,2"
    )
    LIMITED: ClassVar[str] = "limiter per node"

    down: Counts | None = None
    up: Counts | None = None
    cables: Counts | None = None

    def __post_init__(self) -> None:
        """Refuse what no fat tree can be."""
        super().__post_init__()
        if self.down is None and self.up is None and self.cables is None:
            return
        lists = self.lists
        if not lists[0] or len({len(part) for part in lists}) > 1:
            raise PlatformError(
                "fattree needs as many numbers up and cables as down, at least one of each, got "
                + ":".join("x".join(map(str, part)) for part in lists),
                code="count-mismatch",
            )
        if min(map(min, lists)) < 1:
            raise PlatformError(f"fattree needs numbers from 1 on, got {self.size}", code="out-of-range")
        self._check_size()

    @property
    def size(self) -> str | None:
        """The three lists, ``4x4:1x2:1x2``."""
        return ":".join("x".join(map(str, part)) for part in self.lists) if self.down else None

    @property
    def lists(self) -> tuple[Counts, Counts, Counts]:
        """All three; empty while it grows."""
        return self.down or (), self.up or (), self.cables or ()

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

    @classmethod
    def grown(cls, hosts: int) -> dict[str, Any]:
        """Full bisection, equal switches."""
        return dict(zip(("down", "up", "cables"), grown_tree(hosts), strict=True))

    def nodes(self, level: int) -> int:
        """Count the hosts (level 0) or the switches of a level."""
        down, up, _ = self.lists
        return math.prod(up[:level]) * math.prod(down[level:])

    def level_cables(self, level: int) -> int:
        """Count the cables from a level to the next one."""
        _, up, cables = self.lists
        return self.nodes(level) * up[level] * cables[level]

    def engine_size(self) -> dict[str, Any]:
        """The three lists."""
        return {"down": self.down, "up": self.up, "cables": self.cables}

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

    def cable_links(self) -> list[LinksOfCables]:
        """The hosts' links, then those between each two levels."""
        found = self.host_cables(self.level_cables(0) // (self.hosts or 1))
        for level in range(1, len(self.down or ())):
            kinds = [f"cables between levels {level} and {level + 1}"]
            if self.links_per_cable == 2:
                kinds = [
                    f"links from level {level} up to level {level + 1}",
                    f"links from level {level + 1} down to level {level}",
                ]
            found += [LinksOfCables(kind, self.level_cables(level)) for kind in kinds]
        return found

    def limited_nodes(self) -> int:
        """Hosts and switches."""
        return sum(self.nodes(level) for level in range(len(self.down or ()) + 1))

    def longest_route(self) -> int:
        """Up to the highest level with several children, and down."""
        return 2 * (1 + max(i for i, n in enumerate(self.down or ()) if n > 1))

    def narrowest_cut(self) -> Bisection:
        """The least cut of the tree in which all switches of one subtree are one node.

        Cables are alike, so that moving switches of a subtree to different sides gains nothing; up to 2048
        hosts every number of hosts of a half in every subtree is searched.
        """
        hosts, down = self.hosts or 1, self.down or ()
        if hosts <= MOST_TREE_HOSTS:
            return self.cut(self._least_cut())
        widest = max(level for level, children in enumerate(down) if children > 1)
        subtrees = down[widest]
        if subtrees % 2:
            rate = hosts // 2 * self.level_cables(0) / hosts * self.bw
            return Bisection(rate, False, "the hosts' cables", self.links_per_cable == 2)
        through = min(self.level_cables(level) for level in range(widest + 1)) / subtrees
        return self.cut(through * (subtrees // 2), " of half the subtrees", is_exact=False)

    def _least_cut(self) -> float:
        """Count the cables of the narrowest halving.

        Level by level, `cost[k]` is the least cut below a switch that stands in the second half while k of
        its hosts stand in the first; in the first half it is that of the others.
        """
        cost = np.array([0.0, np.inf])
        below = 1
        for level, children in enumerate(self.down or ()):
            # A child may stand in the other half than its parent, at the price of its cables.
            price = self.level_cables(level) * below / (self.hosts or 1)
            child = np.minimum(cost, cost[::-1] + price)
            cost = np.array([0.0])
            for _ in range(children):
                cost = _least_sums(cost, child)
            below *= children
        return float(min(cost[below // 2], cost[below - below // 2]))

    def halved(self) -> FatTreeSpec:
        """Half the largest numbers."""
        largest = max(map(max, self.lists))
        down, up, cables = (tuple(-(-n // 2) if n == largest else n for n in part) for part in self.lists)
        return replace(self, down=down, up=up, cables=cables)

    def lay_out(self) -> Layout:
        """Levels as rows, from the hosts upwards."""
        down, up, cables = self.lists
        levels, hosts = len(down), self.hosts or 1
        width = max(float(hosts), 4.0)
        layout = Layout(
            said="Messages go up to a switch that the destination chooses, then down.", is_tree=True
        )

        def name(level: int, number: int) -> str:
            return f"switch {level}.{number}" if level else f"host {number}"

        for level in range(levels + 1):
            count = self.nodes(level)
            row = layout.switches if level else layout.hosts
            for i in range(count):
                row[name(level, i)] = ((i + 0.5) * width / count, level * 0.22 * width)
            one, several = ("switch", "switches") if level else ("host", "hosts")
            what = f"{count:,} {several if count > 1 else one}"
            if level and cables[level - 1] > 1:
                what += f", {cables[level - 1]} cables to each below"
            layout.notes.append((0.0, level * 0.22 * width, what))
        for level in range(levels):
            low = math.prod(up[:level])
            for child in range(self.nodes(level)):
                for parent in range(up[level]):
                    above = child % low + low * (parent + up[level] * (child // low // down[level]))
                    layout.join(name(level, child), name(level + 1, above))
        return layout

    def simgrid_size(self) -> dict[str, str]:
        """The number of levels, then the lists."""
        found = super().simgrid_size()
        return found | {"topo_parameters": f"{len(self.down or ())};{found['topo_parameters']}"}

    @classmethod
    def from_simgrid(cls, given: dict[str, str], hosts: int) -> dict[str, Any]:
        """Read the number of levels, then the lists."""
        levels, _, lists = given["topo_parameters"].partition(";")
        found = super().from_simgrid({**given, "topo_parameters": lists}, hosts)
        if levels.strip() != str(len(found["down"])):
            text = given["topo_parameters"]
            raise PlatformError(f"topo_parameters {text[:60]!r} of a FAT_TREE are {cls.SIMGRID_SIZE}")
        return found


def _least_sums(a: Costs, b: Costs) -> Costs:
    """The least a[i] + b[k - i] for every k."""
    out = np.full(len(a) + len(b) - 1, np.inf)
    short, long = (a, b) if len(a) < len(b) else (b, a)
    for i, value in enumerate(short):
        if value < np.inf:
            np.minimum(out[i : i + len(long)], long + value, out=out[i : i + len(long)])
    return out
