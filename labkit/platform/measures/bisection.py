"""Bisection bandwidth: the capacity between two halves of a machine, at their worst."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.platform import quantities as units
from labkit.platform.spec import DragonflySpec, FatTreeSpec, StarSpec, TorusSpec

__all__ = ["Bisection", "bisection"]

#: Above so many hosts the exact split of a tree is not searched for.
MOST_TREE_HOSTS = 2048

Costs = NDArray[np.float64]


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


def bisection(spec: Any) -> Bisection | None:
    """Find the bisection bandwidth of a sized machine.

    Hosts are halved (one more in the second half, if they are odd); limiters are left out.

    Parameters
    ----------
    spec : MachineSpec
        Any machine.

    Returns
    -------
    Bisection or None
        None for a single host, for links that never fill, and for machines without a rule.

    Notes
    -----
    Star: half of the hosts' cables, or a shared backbone. Torus: the cut across the longest dimension and,
    where that is odd, the halving of its middle slice across the next one, and so on [1]_. Fat tree: the
    least cut of the tree in which all switches of one subtree are one node (cables are alike, so that moving
    switches of a subtree to different sides gains nothing), searched over every number of hosts of a half in
    every subtree. Dragonfly: the best of some cuts, an upper bound.

    References
    ----------
    .. [1] J. Aroca, A. Fernandez Anta, "Bisection (band)width of product networks with application to data
       centers", IEEE TPDS 25(3), 2014, doi:10.1109/TPDS.2013.95.
    """
    hosts = spec.hosts
    if hosts is None or hosts < 2 or getattr(spec, "sharing", None) == "fatpipe":
        return None
    if isinstance(spec, StarSpec):
        return _star(spec, hosts)
    if isinstance(spec, TorusSpec):
        return _torus(spec)
    if isinstance(spec, FatTreeSpec):
        return _tree(spec, hosts)
    if isinstance(spec, DragonflySpec):
        return _dragonfly(spec, hosts)
    return None


def _cables(count: float) -> str:
    return f"{count:,.6g} cable{'s' if count != 1 else ''}"


def _star(spec: StarSpec, hosts: int) -> Bisection:
    rate, is_split = hosts // 2 * spec.bw, spec.sharing == "splitduplex"
    # All messages of both directions share a backbone, unless it is a fat pipe.
    if spec.bb_bw is not None and spec.bb_sharing != "fatpipe" and spec.bb_bw < rate * (2 if is_split else 1):
        return Bisection(spec.bb_bw, True, "the backbone", False)
    return Bisection(rate, True, _cables(hosts // 2) + " of the hosts", is_split)


def torus_cut(sizes: tuple[int, ...]) -> tuple[int, bool]:
    """Count the cables of a torus' narrowest halving; a dimension of two hosts has one cable a pair.

    Examples
    --------
    >>> torus_cut((4, 4, 4)), torus_cut((5, 4)), torus_cut((3, 3))
    ((32, True), (10, True), (8, True))
    """
    rings = [size for size in sizes if size > 1]
    orders = itertools.permutations(rings) if len(rings) < 7 else [tuple(sorted(rings, reverse=True))]
    count = min(_halving(order) for order in set(orders))
    # Proved for rings, and for cubes of pairs; a mixture was compared with all halvings of up to 20 hosts.
    return count, 2 not in rings or set(rings) == {2} or math.prod(rings) <= 20


def _halving(order: tuple[int, ...]) -> int:
    """Cut the first dimension; if it is odd, its middle slice by the next one; and so on."""
    count = 0
    for place, size in enumerate(order):
        count += (1 if size == 2 else 2) * math.prod(order[place + 1 :])
        if size % 2 == 0:
            break
    return count


def _torus(spec: TorusSpec) -> Bisection:
    assert spec.sizes is not None
    count, is_exact = torus_cut(spec.sizes)
    what = f"{_cables(count)} across a slice"
    return Bisection(count * spec.bw, is_exact, what, spec.sharing == "splitduplex")


def _tree(spec: FatTreeSpec, hosts: int) -> Bisection:
    assert spec.down is not None
    is_split = spec.sharing == "splitduplex"
    if hosts <= MOST_TREE_HOSTS:
        count = tree_cut(spec)
        return Bisection(count * spec.bw, True, _cables(count), is_split)
    widest = max(level for level in range(len(spec.down)) if spec.down[level] > 1)
    subtrees = spec.down[widest]
    through = min(spec.level_cables(level) for level in range(widest + 1)) / subtrees
    if subtrees % 2:
        return Bisection(
            hosts // 2 * spec.level_cables(0) / hosts * spec.bw, False, "the hosts' cables", is_split
        )
    count = through * (subtrees // 2)
    return Bisection(count * spec.bw, False, f"{_cables(count)} of half the subtrees", is_split)


def tree_cut(spec: FatTreeSpec) -> float:
    """Count the cables of a fat tree's narrowest halving.

    All switches over the same hosts count as one, with all of their cables. Level by level, `cost[k]` is the
    least cut below one of them that stands in the second half while k of its hosts stand in the first; in the
    first half it is that of the others.
    """
    assert spec.down is not None
    cost = np.array([0.0, np.inf])
    below = 1
    for level, children in enumerate(spec.down):
        # A child may stand in the other half than its parent, at the price of its cables.
        price = spec.level_cables(level) * below / (spec.hosts or 1)
        child = np.minimum(cost, cost[::-1] + price)
        cost = np.array([0.0])
        for _ in range(children):
            cost = _least_sums(cost, child)
        below *= children
    return float(min(cost[below // 2], cost[below - below // 2]))


def _least_sums(a: Costs, b: Costs) -> Costs:
    """The least a[i] + b[k - i] for every k."""
    out = np.full(len(a) + len(b) - 1, np.inf)
    short, long = (a, b) if len(a) < len(b) else (b, a)
    for i, value in enumerate(short):
        if value < np.inf:
            np.minimum(out[i : i + len(long)], long + value, out=out[i : i + len(long)])
    return out


def _dragonfly(spec: DragonflySpec, hosts: int) -> Bisection:
    """Groups apart; for an odd number of them, the last one halved by places, chassis or hosts."""
    groups, blue, chassis, black, routers, green, nodes = spec.counts
    cuts: list[tuple[float, str]] = [(hosts // 2, "the hosts' cables")]
    inside: list[tuple[float, str]] = []
    own = chassis * routers * nodes
    if routers % 2 == 0:
        inside.append((chassis * green * (routers // 2) ** 2, "green"))
    if chassis % 2 == 0:
        inside.append((routers * black * (chassis // 2) ** 2, "black"))
    inside.append((own // 2, "hosts'"))
    narrow, colour = min(inside)
    if groups % 2 == 0:
        cuts.append((blue * (groups // 2) ** 2, "blue cables between half of the groups"))
    else:
        # The blue cables of the halved group end in either half of it: at most all of them are cut.
        cut = blue * ((groups // 2) ** 2 + groups // 2 * 2) + narrow if groups > 1 else narrow
        cuts.append((cut, f"{'blue and ' if groups > 1 else ''}{colour} cables, a group halved"))
    count, what = min(cuts)
    return Bisection(count * spec.bw, False, f"{count:,.6g} x bw, {what}", spec.sharing == "splitduplex")
