"""A decision tree over ranks and bytes: which algorithm to take, and what that loses against the best one.

A leaf takes the algorithm with the least mean penalty over its points, t / t_best - 1. The leaf whose best
split saves most is split next, at a number of ranks or a size between two that were measured, until there are
enough leaves or nothing is saved any more.

Source: J. Pjesivac-Grbovic, G. Bosilca, G. E. Fagg, T. Angskun, J. J. Dongarra: Decision trees and MPI
collective algorithm selection problem. Euro-Par 2007. doi:10.1007/978-3-540-74466-5_13
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["Leaf", "grow"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Leaf:
    """A region of ranks and bytes, and what is taken there.

    Attributes
    ----------
    ranks, bytes : (float, float)
        From, and below.
    algorithm : str
    penalty : float
        Sum over the region's points of t / t_best - 1.
    points : int
    """

    ranks: tuple[float, float]
    bytes: tuple[float, float]
    algorithm: str
    penalty: float
    points: int

    def holds(self, ranks: float, n_bytes: float) -> bool:
        """Whether the region has the point."""
        return self.ranks[0] <= ranks < self.ranks[1] and self.bytes[0] <= n_bytes < self.bytes[1]


class _Grid:
    """The penalties as a matrix, points x algorithms: infinite where an algorithm cannot be used."""

    def __init__(self, times: pd.DataFrame) -> None:
        wide = times.pivot_table(index=["ranks", "bytes"], columns="algorithm", values="time_s", sort=False)
        wide = wide[
            sorted(wide.columns, key=lambda name: (":" in str(name), str(name)))
        ]  # of equals the simplest
        values = wide.to_numpy(np.float64)
        best = np.nanmin(values, axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            loss = np.where(best > 0, values / best - 1, 0.0)  # one rank: all take 0 s
        self.loss: Floats = np.where(np.isnan(values), inf, loss)
        self.names = [str(name) for name in wide.columns]
        points = np.array(wide.index.to_list(), np.float64).reshape(-1, 2)
        self.at: Floats = points

    def leaf(self, ranks: tuple[float, float], sizes: tuple[float, float]) -> Leaf | None:
        """Return the leaf of a region; None where it has no point, or no algorithm for all its points."""
        p, n = self.at.T
        inside = (ranks[0] <= p) & (p < ranks[1]) & (sizes[0] <= n) & (n < sizes[1])
        if not inside.any():
            return None
        sums = self.loss[inside].sum(axis=0)
        best = int(np.argmin(sums))
        if not np.isfinite(sums[best]):
            return None
        return Leaf(ranks, sizes, self.names[best], float(sums[best]), int(inside.sum()))

    def halves(self, leaf: Leaf) -> Iterator[tuple[Leaf, Leaf]]:
        """Yield the ways to split a leaf in two."""
        p, n = self.at.T
        for values, bounds, name in ((p, leaf.ranks, "ranks"), (n, leaf.bytes, "bytes")):
            known = np.unique(values[(bounds[0] <= values) & (values < bounds[1])])
            for below, above in itertools.pairwise(known):
                at = _between(below, above)
                sides = [(bounds[0], at), (at, bounds[1])]
                both = [
                    self.leaf(*((side, leaf.bytes) if name == "ranks" else (leaf.ranks, side)))
                    for side in sides
                ]
                if both[0] is not None and both[1] is not None:
                    yield both[0], both[1]


def grow(times: pd.DataFrame, leaves: int) -> list[Leaf]:
    """Return the leaves of a tree.

    Parameters
    ----------
    times : DataFrame
        With the columns ranks, bytes, algorithm and time_s.
    leaves : int
        Maximum number.
    """
    grid = _Grid(times)
    whole = grid.leaf((0, inf), (0, inf))
    if whole is None:  # no algorithm for all points: begin with the numbers of ranks apart
        starts = sorted({float(p) for p in grid.at[:, 0]})
        edges = [0, *(_between(a, b) for a, b in itertools.pairwise(starts)), inf]
        found = [grid.leaf((a, b), (0, inf)) for a, b in itertools.pairwise(edges)]
        tree = [leaf for leaf in found if leaf is not None]
    else:
        tree = [whole]
    splits = {leaf: _best_split(grid, leaf) for leaf in tree}
    while len(tree) < leaves:
        # what gains nothing by one split may gain by the next one, so the worst leaf is split even then
        worth = {
            leaf: (_gain(leaf, pair), leaf.penalty)
            for leaf, pair in splits.items()
            if pair and leaf.penalty > 0
        }
        chosen = max(worth, key=lambda leaf: worth[leaf], default=None)
        if chosen is None:
            break
        pair = splits.pop(chosen)
        assert pair is not None
        tree.remove(chosen)
        tree += pair
        splits |= {leaf: _best_split(grid, leaf) for leaf in pair}
    return _joined(_joined(tree, "bytes"), "ranks")


def _gain(leaf: Leaf, pair: tuple[Leaf, Leaf]) -> float:
    return leaf.penalty - pair[0].penalty - pair[1].penalty


def _best_split(grid: _Grid, leaf: Leaf) -> tuple[Leaf, Leaf] | None:
    return min(grid.halves(leaf), key=lambda pair: pair[0].penalty + pair[1].penalty, default=None)


def _joined(leaves: list[Leaf], along: str) -> list[Leaf]:
    """Join neighbours along ranks or bytes that take the same; sort by ranks, then bytes."""
    across = "ranks" if along == "bytes" else "bytes"
    found: list[Leaf] = []
    for leaf in sorted(leaves, key=lambda leaf: (getattr(leaf, across), getattr(leaf, along))):
        last = found[-1] if found else None
        low, high = getattr(leaf, along)
        if (
            last is not None
            and last.algorithm == leaf.algorithm
            and getattr(last, across) == getattr(leaf, across)
            and getattr(last, along)[1] == low
        ):
            whole = (getattr(last, along)[0], high)
            ranks, sizes = (whole, last.bytes) if along == "ranks" else (last.ranks, whole)
            penalty, points = last.penalty + leaf.penalty, last.points + leaf.points
            found[-1] = Leaf(ranks, sizes, leaf.algorithm, penalty, points)
        else:
            found.append(leaf)
    return sorted(found, key=lambda leaf: (leaf.ranks, leaf.bytes))


def _between(below: float, above: float) -> float:
    """Return the geometric mean, whole: the first value that belongs to the upper side."""
    return float(min(max(ceil(sqrt(max(below, 1) * above)), below + 1), above))
