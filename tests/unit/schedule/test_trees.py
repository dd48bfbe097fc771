"""Trees cover their numbers once; their costs are the textbook's where it has a formula."""

from __future__ import annotations

from math import ceil, log2

import numpy as np
import pytest

from labkit.schedule.trees import Tree, bine, chains, flat, in_order, kary, knomial, two_level

TREES = {
    "bine": bine,
    "in_order": in_order,
    "flat": flat,
    **{f"chains {c}": lambda size, c=c: chains(size, c) for c in (1, 2, 5)},
    **{f"kary {k}": lambda size, k=k: kary(size, k) for k in (1, 2, 3)},
    **{f"knomial {k}": lambda size, k=k: knomial(size, k) for k in (2, 3, 4)},
    "two levels": lambda size: two_level(size, 4, flat, flat, size // 2),
}


@pytest.mark.parametrize("name", TREES)
def test_parents_and_children_agree(name: str) -> None:
    for size in range(1, 34):
        tree: Tree = TREES[name](size)
        children = tree.children[tree.children >= 0]
        assert sorted([tree.top, *children.tolist()]) == list(range(size))
        for slot in tree.children:
            above = np.flatnonzero(slot >= 0)
            assert (tree.parent[slot[above]] == above).all()


@pytest.mark.parametrize("name", ["flat", "kary 2", "kary 3", "knomial 2", "knomial 4"])
def test_these_grow(name: str) -> None:
    for size in range(1, 33):
        assert (TREES[name](size).parent == TREES[name](size + 1).parent[:size]).all()


def test_textbook_costs() -> None:
    for p in range(2, 40):
        for m in (1, 4):
            assert chains(p, 1).down(m) == chains(p, 1).up(m) == p + m - 2
            assert flat(p).down(m) == flat(p).up(m) == m * (p - 1)
        assert knomial(p, 2).down() == knomial(p, 2).up() == bine(p).down() == ceil(log2(p))
    for depth in (2, 3, 4):
        assert kary(2**depth - 1, 2).down(5) == 2 * (depth + 5 - 2)
