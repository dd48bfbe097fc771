"""What every sorter does first: the ranks agree on what they sort, or all refuse it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.errors import DataError

__all__ = ["Agreement", "agree", "agree_briefly"]

_TEXT_BYTES = 80


@dataclass(frozen=True)
class Agreement:
    """What all ranks know about the input.

    Attributes
    ----------
    keys : ndarray, shape (lengths[rank],)
        This rank's keys, in native byte order.
    lengths : ndarray of int64, shape (p,)
        Every rank's number of keys.
    """

    keys: NDArray[Any]
    lengths: NDArray[np.int64]

    @property
    def total(self) -> int:
        """The number of keys on all ranks."""
        return int(self.lengths.sum())


def agree(comm: Any, keys: ArrayLike, **options: object) -> Agreement:
    """Compare every rank's input by one Allgather of 96 bytes per rank.

    Parameters
    ----------
    comm : communicator
    keys : array_like, shape (n_local,)
    **options
        The caller's options that have to be the same on all ranks.

    Returns
    -------
    Agreement

    Raises
    ------
    DataError
        On every rank alike, if some rank passed what cannot be sorted, or if the ranks differ in the
        dtype or in an option. The message names the ranks. No rank is left waiting.
    """
    mine, words = _introduce(keys, options)
    everyone = np.empty((comm.size, len(words)), np.int64)
    comm.Allgather(words, everyone)

    texts = [row.tobytes().decode("ascii").rstrip() for row in np.ascontiguousarray(everyone[:, 2:])]
    if not everyone[:, 1].all():
        bad = np.flatnonzero(everyone[:, 1] == 0)
        raise DataError(
            f"{_listed(bad)} passed keys that cannot be sorted ({texts[bad[0]]}); allowed are "
            "one-dimensional arrays of bool, integers of 8 to 64 bits and floats of 16 to 64 bits"
        )
    if len(set(texts)) > 1:
        ranks_of = {text: np.flatnonzero([t == text for t in texts]) for text in texts}
        passed = "; ".join(f"{_listed(ranks)} passed {text}" for text, ranks in ranks_of.items())
        raise DataError(f"the ranks disagree: {passed}; pass the same dtype and options on every rank")
    return Agreement(mine, np.ascontiguousarray(everyone[:, 0]))


def agree_briefly(
    comm: Any, keys: ArrayLike, *, keys_per_rank: int | None = None, instead: str = "", **options: object
) -> tuple[NDArray[Any], int]:
    """Agree as `agree` does, in log p start-ups and with memory that does not grow with p.

    Rank 0 broadcasts how it describes its input; one Allreduce counts the ranks that differ, and the keys.
    Only if some do, `agree` finds out who.

    Parameters
    ----------
    comm : communicator
    keys : array_like, shape (n_local,)
    keys_per_rank : int, optional
        The number of keys that every rank has to pass.
    instead : str
        What to do with another number of keys: the end of the sentence that refuses it.
    **options
        The caller's options that have to be the same on all ranks.

    Returns
    -------
    keys : ndarray, shape (n_local,)
        This rank's keys, in native byte order.
    total : int
        The number of keys on all ranks.

    Raises
    ------
    DataError
        On every rank alike, as `agree`, and if some rank passed another number of keys.
    """
    mine, words = _introduce(keys, options)
    first = words[1:].copy()
    comm.Bcast(first, root=0)
    is_odd = not words[1] or bool((words[1:] != first).any()) or keys_per_rank not in (None, mine.size)
    sums = np.empty(2, np.int64)
    comm.Allreduce(np.array([is_odd, mine.size], np.int64), sums)
    if sums[0]:
        lengths = agree(comm, keys, **options).lengths
        wrong = np.flatnonzero(lengths != keys_per_rank)
        raise DataError(
            f"{_listed(wrong)} passed {lengths[wrong[0]]} keys; {keys_per_rank} per rank is what is allowed; "
            f"{instead}"
        )
    return mine, int(sums[1])


def _introduce(keys: ArrayLike, options: Mapping[str, object]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the keys in native byte order, and words: their number, whether they can be sorted, a text."""
    mine = np.asarray(keys)
    if mine.dtype.byteorder not in "=|":
        mine = mine.astype(mine.dtype.newbyteorder("="))
    words = np.zeros(2 + _TEXT_BYTES // 8, np.int64)
    words[:2] = mine.size, mine.ndim == 1 and local.is_sortable(mine.dtype)
    text = ", ".join([_describe(mine), *(f"{name}={value!r}" for name, value in options.items())])
    words[2:] = np.frombuffer(text.encode("ascii", "replace")[:_TEXT_BYTES].ljust(_TEXT_BYTES), np.int64)
    return mine, words


def _describe(keys: NDArray[Any]) -> str:
    return keys.dtype.name if keys.ndim == 1 else f"{keys.dtype.name} of {keys.ndim} dimensions"


def _listed(ranks: NDArray[np.int64]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:4])
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
