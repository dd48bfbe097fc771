"""Shared parts of N-body algorithms: checked bodies, the pull of one set of bodies on another, a quadtree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.algorithms.partition._cuts import BITS, curve_keys
from labkit.errors import DataError
from labkit.program.context import compute

__all__ = ["Floats", "Pull", "Quadtree", "attract_all", "require_bodies"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

#: operations of one interaction, of one look at a cell, and of putting a body one level down
_PER_PAIR, _PER_CELL, _PER_LEVEL = 20, 10, 10


class Pull(NamedTuple):
    """What a rank's bodies feel.

    Attributes
    ----------
    acceleration : ndarray of float64, shape (m, 2)
    interactions : ndarray of int64, shape (m,)
        With bodies and cells, for each body: the measure of its cost.
    """

    acceleration: Floats
    interactions: Places


def require_bodies(positions: ArrayLike, masses: ArrayLike, softening: float) -> tuple[Floats, Floats]:
    """Return positions and masses as arrays; refuse what does not fit together."""
    places, weights = np.asarray(positions, np.float64), np.asarray(masses, np.float64)
    if places.ndim != 2 or places.shape[1] != 2 or not np.isfinite(places).all():
        raise DataError(
            f"positions must be finite numbers of shape (m, 2), got shape {places.shape}", code="not-finite"
        )
    if weights.shape != (len(places),) or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError(
            f"masses must be {len(places)} numbers of at least 0, got shape {weights.shape}",
            code="out-of-range",
        )
    if not softening >= 0:
        raise DataError(f"softening must be at least 0, got {softening}", code="out-of-range")
    return places, weights


def _strength(squared: Floats, masses: Floats, softening: float) -> Floats:
    """Return mass / distance^3; a body at the same place does not pull."""
    soft = squared + softening**2
    return np.divide(masses, soft**1.5, out=np.zeros_like(soft), where=squared > 0)


def attract_all(targets: Floats, sources: Floats, masses: Floats, softening: float) -> Floats:
    """Return the acceleration of targets by all sources."""
    compute(flops=float(_PER_PAIR) * len(targets) * len(sources))
    away = sources[None] - targets[:, None]
    strength = _strength((away**2).sum(2), np.broadcast_to(masses, away.shape[:2]), softening)
    found: Floats = np.einsum("ts,tsd->td", strength, away)
    return found


class Quadtree:
    """Bodies in nested squares: a cell of more than `leaf` bodies has up to four children.

    Cells are numbered level by level; a cell's bodies are next to each other in the order of the tree.
    """

    def __init__(self, positions: Floats, masses: Floats, leaf: int) -> None:
        box = np.array([positions.min(0), positions.max(0)]) if len(positions) else np.zeros((2, 2))
        keys = curve_keys(positions, box)
        order = np.argsort(keys, kind="stable")
        self.positions, self.masses = positions[order], masses[order]
        begin, self.end, self.children, self.first_child = _cells(keys[order], leaf)
        self.begin = begin
        compute(flops=float(_PER_LEVEL) * float((self.end - begin).sum()))
        pairs = np.column_stack([begin, self.end]).ravel()
        padded = np.vstack([self.positions, self.positions[-1:]])
        heavy = np.append(self.masses, 0.0)
        self.low = np.minimum.reduceat(padded, pairs)[::2]
        self.high = np.maximum.reduceat(padded, pairs)[::2]
        self.mass = np.add.reduceat(heavy, pairs)[::2]
        moment = np.add.reduceat(heavy[:, None] * padded, pairs)[::2]
        middle = (self.low + self.high) / 2
        has_mass = self.mass[:, None] > 0
        self.center = np.divide(moment, self.mass[:, None], out=middle, where=has_mass)

    def seen_from(self, low: Floats, high: Floats, theta: float) -> tuple[Places, Places, Places, Places]:
        """Return which cells and which bodies represent all others, seen from each of some boxes.

        A cell is one body for a box if its extent is less than theta times its distance. Of a leaf that is
        too near the bodies are taken. Returns boxes and cells, then boxes and bodies, pair by pair.
        """
        boxes, cells = np.arange(len(low)), np.zeros(len(low), np.int64)
        far: list[tuple[Places, Places]] = []
        near: list[tuple[Places, Places]] = []
        looks = 0
        while len(boxes):
            looks += len(boxes)
            gap = np.maximum(0, np.maximum(self.low[cells] - high[boxes], low[boxes] - self.high[cells]))
            extent = (self.high[cells] - self.low[cells]).max(1)
            is_far = extent**2 < theta**2 * (gap**2).sum(1)
            far.append((boxes[is_far], cells[is_far]))
            boxes, cells = boxes[~is_far], cells[~is_far]
            is_leaf = self.children[cells] == 0
            leaves = cells[is_leaf]
            near.append(_spread(boxes[is_leaf], self.begin[leaves], self.end[leaves] - self.begin[leaves]))
            opened = cells[~is_leaf]
            boxes, cells = _spread(boxes[~is_leaf], self.first_child[opened], self.children[opened])
        compute(flops=float(_PER_CELL) * looks)
        none = np.empty(0, np.int64)
        box, cell = (np.concatenate([none, *(pair[k] for pair in far)]) for k in (0, 1))
        other, body = (np.concatenate([none, *(pair[k] for pair in near)]) for k in (0, 1))
        return box, cell, other, body

    def attract(self, targets: Floats, theta: float, softening: float) -> Pull:
        """Return the acceleration of targets by all bodies of the tree, with far cells as one body each."""
        box, cell, other, body = self.seen_from(targets, targets, theta)
        who = np.concatenate([box, other])
        compute(flops=float(_PER_PAIR) * len(who))
        sources = np.concatenate([self.center[cell], self.positions[body]])
        away = sources - targets[who]
        masses = np.concatenate([self.mass[cell], self.masses[body]])
        strength = _strength((away**2).sum(1), masses, softening)
        sums = [np.bincount(who, strength * away[:, axis], len(targets)) for axis in (0, 1)]
        return Pull(np.column_stack(sums), np.bincount(who, minlength=len(targets)))


def _cells(keys: Places, leaf: int) -> tuple[Places, Places, Places, Places]:
    """Return where the cells of sorted keys begin and end, how many children each has, and its first one."""
    level = (
        np.array([0] if len(keys) else [], np.int64),
        np.array([len(keys)] if len(keys) else [], np.int64),
    )
    begins: list[Places] = []
    ends: list[Places] = []
    children: list[Places] = []
    firsts: list[Places] = []
    count = len(level[0])
    for depth in range(BITS + 1):
        begin, end = level
        opens = (end - begin > leaf) & (depth < BITS)
        shift = 2 * (BITS - depth - 1)
        prefix = keys[begin[opens]] >> (shift + 2) if depth < BITS else np.empty(0, np.int64)
        edges = (4 * prefix[:, None] + np.arange(5)) << max(shift, 0)
        bounds = np.searchsorted(keys, edges)
        is_there = bounds[:, 1:] > bounds[:, :-1]
        number = np.zeros(len(begin), np.int64)
        number[opens] = is_there.sum(1)
        begins, ends, children = [*begins, begin], [*ends, end], [*children, number]
        firsts.append(count + np.cumsum(number) - number)
        level = bounds[:, :-1][is_there], bounds[:, 1:][is_there]
        count += len(level[0])
        if not len(level[0]):
            break
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(children), np.concatenate(firsts)


def _spread(owners: Places, firsts: Places, counts: Places) -> tuple[Places, Places]:
    """Return each owner once for each of its `counts` numbers from `firsts` on, and these numbers."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(owners, counts), np.repeat(firsts, counts) + within
