"""Blocks of equal length on some of the ranks: where sorting networks and hypercubes begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import agree
from labkit.algorithms.sorting._splitting import Counts, Keys, require_check, require_keys
from labkit.program.context import phase

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "block_sizes",
    "compare_split",
    "even_bounds",
    "full_bounds",
    "largest_block",
    "move_to",
    "sort_by_network",
    "swap",
]

_MOVE_TAG = 32011
_SWAP_TAG = 32012


def full_bounds(n: int, ranks: int, of: int) -> Counts:
    """Return the bounds of blocks on `ranks` of `of` ranks: n/ranks rounded up, and what is left."""
    length = -(-n // ranks)
    bounds: Counts = np.minimum(np.minimum(np.arange(of + 1, dtype=np.int64), ranks) * length, n)
    return bounds


def even_bounds(n: int, ranks: int) -> Counts:
    """Return the bounds of blocks that are equal but for one key."""
    return np.arange(ranks + 1, dtype=np.int64) * n // ranks


def block_sizes(n: int, p: int) -> Counts:
    """Return how many keys each rank ends with, whatever the keys."""
    return np.diff(even_bounds(n, p))


def largest_block(n: int, p: int) -> int:
    """Return the number of keys that no rank's result exceeds, whatever the keys."""
    return -(-n // p)


def move_to(comm: Intracomm, mine: Keys, held: Counts, wanted: Counts) -> Keys:
    """Move keys so that each rank has the places from `wanted` instead of `held`, both bounds by rank.

    Everybody knows both, so nobody has to announce how much comes: only ranks whose blocks overlap exchange
    a message, and nothing is sent where the two are equal.
    """
    if (held == wanted).all():
        return mine
    rank = comm.rank
    room = np.empty(int(wanted[rank + 1] - wanted[rank]), mine.dtype)
    requests = []
    for begin, end, source in _overlaps(wanted[rank], wanted[rank + 1], held):
        piece = room[begin - wanted[rank] : end - wanted[rank]]
        if source == rank:
            piece[:] = mine[begin - held[rank] : end - held[rank]]
        else:
            requests.append(comm.Irecv(piece, source=source, tag=_MOVE_TAG))
    for begin, end, target in _overlaps(held[rank], held[rank + 1], wanted):
        if target != rank:
            piece = mine[begin - held[rank] : end - held[rank]]
            requests.append(comm.Isend(piece, dest=target, tag=_MOVE_TAG))
    for request in requests:
        request.Wait()
    return room


def _overlaps(begin: int, end: int, bounds: Counts) -> list[tuple[int, int, int]]:
    """Return the parts of the places from `begin` to `end` that lie in each block, and the block's rank."""
    if begin >= end:
        return []
    first = int(np.searchsorted(bounds, begin, side="right")) - 1
    last = int(np.searchsorted(bounds, end, side="left"))
    parts = [(max(begin, bounds[r]), min(end, bounds[r + 1]), r) for r in range(first, last)]
    return [(int(a), int(b), r) for a, b, r in parts if a < b]


def swap(comm: Intracomm, mine: Keys, partner: int, most: int) -> Keys:
    """Send my keys to the partner, and return those that it sends me, at most `most`."""
    from labkit import MPI

    room, status = np.empty(most, mine.dtype), MPI.Status()
    comm.Sendrecv(mine, partner, _SWAP_TAG, room, partner, _SWAP_TAG, status)
    return room[: status.Get_count(MPI.BYTE) // mine.itemsize]


def compare_split(mine: Keys, others: Keys, length: int, keeps_low: bool) -> Keys:
    """Merge two sorted blocks, and keep the lower or the upper half of 2 `length` keys.

    What a block lacks of its `length` keys counts as infinity, so it is the upper half that lacks keys.
    """
    merged = local.merge(np.concatenate([mine, others]), np.array([len(mine), len(others)]))
    return merged[:length] if keeps_low else merged[length:]


def sort_by_network(
    comm: Intracomm,
    keys: ArrayLike,
    check: Literal["off", "local", "global"],
    ranks: int,
    steps: Iterable[tuple[int | None, bool]],
) -> NDArray[Any]:
    """Sort blocks on the first `ranks` ranks by a network; return this rank's block of the sorted sequence.

    A step names this rank's partner, None where it has none, and whether it keeps the lower half.
    """
    require_keys(keys, "a sorting network exchanges keys that memory holds")
    with phase("agree"):
        given = agree(comm, keys, check=check)
        require_check(check, given.keys)
        held = np.concatenate([[0], np.cumsum(given.lengths)])
        blocks = full_bounds(given.total, ranks, comm.size)
        length = int(blocks[1])

    with phase("balance"):
        mine = move_to(comm, local.to_codes(given.keys), held, blocks)
    with phase("local sort"):
        mine = local.sort(mine)
    for partner, keeps_low in steps:
        with phase("exchange"):
            others = mine if partner is None else swap(comm, mine, partner, length)
        with phase("merge"):
            mine = mine if partner is None else compare_split(mine, others, length, keeps_low)
    with phase("balance"):
        mine = move_to(comm, mine, blocks, even_bounds(given.total, comm.size))
        result = local.from_codes(mine, given.keys.dtype)

    if check != "off":
        sizes = block_sizes(given.total, comm.size).tolist()
        check_sorted(comm, given.keys, result, scope=check, sizes=sizes).require()
    return result
