"""Common steps of splitter-based sorts: cutting by probes whose ties are broken, and the one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit import local
from labkit.errors import DataError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Counts", "Keys", "cuts_after", "exchange", "require_check", "require_keys", "share"]

Keys = NDArray[Any]
Counts = NDArray[np.int64]


def cuts_after(mine: Keys, keys: Keys, owners: Counts, own_places: Counts, rank: int) -> Counts:
    """Return, for every probe, how many of my sorted keys do not come after it.

    A probe is a key of some rank. All keys are ordered by (key, rank, place in the rank's sorted keys), so
    that no two are equal and duplicates can be cut as any other keys. Only probes carry their origin: of my
    keys that are equal to another rank's probe, all or none come before it.

    Parameters
    ----------
    mine : ndarray, shape (n_local,)
        This rank's keys, sorted.
    keys, owners : ndarray, shape (m,)
        The probes, and the ranks that hold them.
    own_places : ndarray, shape (m_own,)
        The places in `mine` of the probes that this rank holds, in the order of the probes.
    rank : int
        This rank.
    """
    cuts = local.count_up_to(mine, keys, including=owners > rank)
    cuts[owners == rank] = own_places + 1
    return cuts


def exchange(comm: Intracomm, mine: Keys, cuts: Counts) -> tuple[Keys, Counts]:
    """Send the keys between two cuts to each rank; return the pieces received, in rank order, and lengths."""
    to_send = np.diff(cuts, prepend=0, append=len(mine))
    to_receive = np.empty_like(to_send)
    comm.Alltoall(to_send, to_receive)
    pieces = local.room_like(mine, int(to_receive.sum()))
    comm.Alltoallv([mine, to_send], [pieces, to_receive])
    return pieces, to_receive


def share(comm: Intracomm, own: Keys, is_mine: NDArray[np.bool_]) -> Keys:
    """Tell everyone the probes: each rank writes its own into a vector of zeros, and these are added up.

    The ranks hold different numbers of probes. An Allgatherv would need p start-ups where this sum takes
    2 log p, and twice the volume.
    """
    words = np.zeros(len(is_mine), np.int64)
    words[is_mine] = own.astype(np.int64)
    everyone = np.empty_like(words)
    comm.Allreduce(words, everyone)
    return everyone.astype(own.dtype)


def require_keys(keys: object, why: str) -> None:
    """Refuse stand-in data, for a sorter that looks at every key."""
    if local.is_stand_in(keys):
        raise DataError(
            f"stand-in data cannot be sorted here: {why}; use sample_sort, histogram_sort, "
            "exact_splitting_sort or radix_sort",
            code="unsupported",
        )


def require_check(check: str, keys: Keys | None = None) -> None:
    """Refuse an unknown value of the option `check`, and checks of keys that are not there."""
    if check != "off" and local.is_stand_in(keys):
        raise DataError(
            f'stand-in data holds no keys to check: pass check="off", not {check!r}', code="unsupported"
        )
    if check not in ("off", "local", "global"):
        raise DataError(f'check must be "off", "local" or "global", got {check!r}', code="out-of-range")
