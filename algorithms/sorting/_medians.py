"""Approximate global medians of many windows at once, one window per splitter on every rank.

A window is a range of the rank's sorted keys; the window of a splitter is the union of all ranks' windows.
Whatever the method, its median is a key of the splitter's window.

weighted
    The median of all ranks' medians, each weighing as many keys as its window: one Alltoall brings those of
    splitter i to rank i, one Allgather tells the result. At least a quarter of the window's keys are not
    above the result, and at least a quarter are not below it, whatever the keys (Saukas and Song).
ternary
    The median of three medians of three medians ...: a tree over the ranks that passes on one key per
    window (Rousseeuw and Bassett).
binary
    A tree that passes on the two middle keys of the (up to) four that meet (Axtmann and Sanders).

The trees count ranks, not keys, and are lopsided where p is no power of their arity: of two groups that meet
at the root, the smaller one counts as much as the larger. Ranks with an empty window abstain. Where an even
number has two middles, a coin decides; it alternates from window to window, level to level and round to
round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from labkit import local
from labkit.algorithms.sorting._splitting import Counts, Keys

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["MEDIANS", "keys_at", "tree_medians", "weighted_medians"]

_TAG = 0x5EED
_ROOT = 0


def weighted_medians(comm: Intracomm, mine: Keys, begins: Counts, ends: Counts, turn: int) -> Keys:
    """Return the weighted medians of all ranks' medians; see `tree_medians` for the parameters."""
    windows = len(begins)
    to_send = np.zeros((comm.size, 2), np.int64)
    lengths = ends - begins
    to_send[:windows, 0] = keys_at(mine, begins + ((lengths - 1) >> 1))
    to_send[:windows, 1] = lengths
    received = np.empty_like(to_send)
    comm.Alltoall(to_send, received)

    median = np.zeros(1, np.int64)
    if comm.rank < windows:  # this rank serves one window
        medians = received[:, 0].astype(mine.dtype)
        order = local.merge_order(medians, np.ones(comm.size, np.int64))
        keys_up_to = np.cumsum(received[order, 1])
        median[:] = received[order[np.searchsorted(keys_up_to, (keys_up_to[-1] + 1) // 2)], 0]
    everyone = np.empty(comm.size, np.int64)
    comm.Allgather(median, everyone)
    return everyone[:windows].astype(mine.dtype, copy=False)


def tree_medians(
    comm: Intracomm, mine: Keys, begins: Counts, ends: Counts, turn: int, *, arity: int, kept: int
) -> Keys:
    """Return approximate medians by a tree in which `arity` ranks pass on their `kept` middle keys.

    Parameters
    ----------
    comm : communicator
    mine : ndarray, shape (n_local,)
        This rank's keys, sorted.
    begins, ends : ndarray of int64, shape (m,)
        This rank's windows; no window may be empty on all ranks.
    turn : int
        The number of this round, for the coins.
    arity, kept : int
        The tree's.

    Returns
    -------
    ndarray, shape (m,)
        One key of each window; the same on all ranks.
    """
    coins = np.arange(len(begins)) + turn
    chosen, counts = _middle_of_windows(mine, begins, ends, kept, coins)
    width = 1  # of the groups that are done
    while width < comm.size and comm.rank % width == 0:
        if comm.rank % (width * arity):
            comm.Send(
                np.vstack([chosen.astype(np.int64), counts]),
                comm.rank // (width * arity) * (width * arity),
                _TAG,
            )
            break
        heard = [(chosen, counts)]
        for child in range(comm.rank + width, min(comm.rank + width * arity, comm.size), width):
            message = np.empty((kept + 1, len(begins)), np.int64)
            comm.Recv(message, child, _TAG)
            heard.append((message[:-1].astype(mine.dtype), message[-1]))
        coins += 1
        chosen, counts = _middle_of_lists(heard, kept, coins)
        width *= arity
    pivots: Keys = _middle_of_lists([(chosen, counts)], 1, coins)[0][0].astype(np.int64)
    comm.Bcast(pivots, root=_ROOT)
    return pivots.astype(mine.dtype)


def _middle(counts: Counts, kept: int, coins: Counts) -> Counts:
    """Return where the `kept` middle ones of so many begin."""
    first: Counts = np.maximum(counts - kept + (coins & 1), 0) // 2
    return first


def _middle_of_windows(
    mine: Keys, begins: Counts, ends: Counts, kept: int, coins: Counts
) -> tuple[Keys, Counts]:
    first = begins + _middle(ends - begins, kept, coins)
    return keys_at(mine, first + np.arange(kept)[:, None]), np.minimum(ends - begins, kept)


def _middle_of_lists(heard: list[tuple[Keys, Counts]], kept: int, coins: Counts) -> tuple[Keys, Counts]:
    """Merge short sorted lists, one per window and sender, and keep the middle."""
    rows, lengths = zip(*heard, strict=True)
    largest = np.iinfo(rows[0].dtype).max
    # What a list does not have sorts to the end, where nobody looks.
    lists = [np.where(np.arange(len(r))[:, None] < n, r, largest) for r, n in zip(rows, lengths, strict=True)]
    merged = np.sort(np.concatenate(lists), axis=0)
    counts = np.sum(lengths, axis=0)
    first = _middle(counts, kept, coins)
    places = np.minimum(first + np.arange(kept)[:, None], len(merged) - 1)
    return np.take_along_axis(merged, places, axis=0), np.minimum(counts, kept)


def keys_at(mine: Keys, places: Counts) -> Keys:
    """Return the keys at these places, any key where there is none."""
    if len(mine) == 0:
        return np.zeros(places.shape, mine.dtype)
    return mine[np.minimum(places, len(mine) - 1)]


#: name -> function of (comm, mine, begins, ends, turn)
MEDIANS: dict[str, Callable[..., Keys]] = {
    "weighted": weighted_medians,
    "binary": partial(tree_medians, arity=2, kept=2),
    "ternary": partial(tree_medians, arity=3, kept=1),
}
