"""Symmetries of a small machine: ways to rename its ranks that leave all links as they are."""

from __future__ import annotations

from itertools import product

from labkit.synthesis.fabric import Fabric

__all__ = ["regular_group"]

Renaming = tuple[int, ...]


def regular_group(fabric: Fabric) -> list[Renaming]:
    """Return renamings, a group of which exactly one takes rank 0 to each rank; else the trivial one.

    Schedules that look the same from every rank are found among far fewer.
    """
    p = fabric.size
    found = [one for one in _renamings(fabric) if all(one[i] != i for i in range(p))]
    alone: list[Renaming] = [tuple(range(p))]
    for count in (1, 2, 3):
        for generators in product(found, repeat=count):
            group = _closure(generators, p)
            if group is not None and len(group) == p and len({one[0] for one in group}) == p:
                return sorted(group)
        if len(found) ** (count + 1) > 200_000:
            break
    return alone


def _closure(generators: tuple[Renaming, ...], p: int) -> set[Renaming] | None:
    group = {tuple(range(p))}
    frontier = list(group)
    while frontier:
        one = frontier.pop()
        for g in generators:
            other = tuple(g[i] for i in one)
            if other not in group:
                if len(group) == p:
                    return None
                group.add(other)
                frontier.append(other)
    return group


def _renamings(fabric: Fabric) -> list[Renaming]:
    """Return all renamings that keep direct neighbours, bandwidths, and which ways share a link."""
    p = fabric.size
    kind = [[_kind(fabric, u, v) for v in range(p)] for u in range(p)]
    found: list[Renaming] = []

    def extend(images: list[int]) -> None:
        u = len(images)
        if u == p:
            found.append(tuple(images))
            return
        for image in range(p):
            if image in images:
                continue
            if all(
                kind[u][v] == kind[image][images[v]] and kind[v][u] == kind[images[v]][image]
                for v in range(u)
            ):
                extend([*images, image])

    extend([])
    return found


def _kind(fabric: Fabric, u: int, v: int) -> tuple[float, int, bool]:
    way = fabric.ways[u][v]
    if way is None or u == v:
        return (0.0, 0, False)
    return (way.bytes_per_s, len(way.links), v in fabric.beside[u])
