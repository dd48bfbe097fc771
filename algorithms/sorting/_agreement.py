"""The agreement before every sort: the ranks settle what they sort, or all refuse it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.errors import DataError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Agreement", "agree", "agree_briefly"]

_TEXT_BYTES = 512
_SEPARATOR = ", "


@dataclass(frozen=True)
class Agreement:
    """What all ranks know about the input.

    Attributes
    ----------
    keys : ndarray, shape (lengths[rank],)
        This rank's keys, in native byte order.
    lengths : ndarray of int64, shape (p,)
        Every rank's number of keys.
    own : ndarray of int64, shape (p,)
        Every rank's `own` number.
    """

    keys: NDArray[Any]
    lengths: NDArray[np.int64]
    own: NDArray[np.int64]

    @property
    def total(self) -> int:
        """The number of keys on all ranks."""
        return int(self.lengths.sum())


def agree(comm: Intracomm, keys: ArrayLike, *, own: int = 0, **options: object) -> Agreement:
    """Compare every rank's input by one Allgather of 24 bytes per rank.

    Parameters
    ----------
    comm : communicator
    keys : array_like, shape (n_local,)
    own : int
        A number that may differ from rank to rank and that every rank is to know.
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
    mine, is_sortable, text = _introduce(keys, options)
    fingerprint = _fingerprint(text)
    everyone = np.empty((comm.size, 3), np.int64)
    comm.Allgather(np.array([mine.size, own, fingerprint], np.int64), everyone)

    if not is_sortable or (everyone[:, 2] != fingerprint).any():
        _refuse(comm, text, is_sortable)
    return Agreement(mine, everyone[:, 0].copy(), everyone[:, 1].copy())


def agree_briefly(
    comm: Intracomm,
    keys: ArrayLike,
    *,
    keys_per_rank: int | None = None,
    instead: str = "",
    **options: object,
) -> tuple[NDArray[Any], int]:
    """Agree as `agree` does, in log p start-ups and with memory that does not grow with p.

    Rank 0 broadcasts the fingerprint of its description; one Allreduce counts the ranks that differ, and
    the keys. Only if some do, `agree` finds out who.

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
    mine, is_sortable, text = _introduce(keys, options)
    first = np.array([_fingerprint(text)], np.int64)
    comm.Bcast(first, root=0)
    is_like_first = int(first[0]) == _fingerprint(text)
    is_odd = not (is_sortable and is_like_first and keys_per_rank in (None, mine.size))
    sums = np.empty(2, np.int64)
    comm.Allreduce(np.array([is_odd, mine.size], np.int64), sums)
    if sums[0]:
        lengths = agree(comm, keys, own=0, **options).lengths
        wrong = np.flatnonzero(lengths != keys_per_rank)
        raise DataError(
            f"{_listed(wrong)} passed {lengths[wrong[0]]} keys; {keys_per_rank} per rank is what is allowed; "
            f"{instead}",
            code="out-of-range",
        )
    return mine, int(sums[1])


def _refuse(comm: Intracomm, text: str, is_sortable: bool) -> None:
    """Gather the descriptions, and say who passed what.

    Every rank is here if one is: where descriptions are equal, they cannot be sorted anywhere.
    """
    line = bytes([is_sortable]) + text.encode("ascii", "replace")[: _TEXT_BYTES - 1].ljust(_TEXT_BYTES - 1)
    everyone = np.empty((comm.size, _TEXT_BYTES), np.uint8)
    comm.Allgather(np.frombuffer(line, np.uint8), everyone)

    texts = [row.tobytes().decode("ascii").rstrip() for row in everyone[:, 1:]]
    if not everyone[:, 0].all():
        bad = np.flatnonzero(everyone[:, 0] == 0)
        raise DataError(
            f"{_listed(bad)} passed keys that cannot be sorted ({_parts(texts[bad[0]])[0]}); allowed are "
            "one-dimensional arrays of bool, integers of 8 to 64 bits and floats of 16 to 64 bits",
            code="wrong-type",
        )
    texts = _differences(texts)
    ranks_of = {text: np.flatnonzero([t == text for t in texts]) for text in texts}
    passed = "; ".join(f"{_listed(ranks)} passed {text}" for text, ranks in ranks_of.items())
    raise DataError(
        f"the ranks disagree: {passed}; pass the same dtype and options on every rank",
        code="collective-mismatch",
    )


def _differences(texts: list[str]) -> list[str]:
    """Return of each description what is not the same in all: the dtype, or an option."""
    rows = [_parts(text) for text in texts]
    if len(set(map(len, rows))) > 1:  # an option's value has a comma of its own
        return texts
    differing = [i for i, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1]
    if not differing:  # only beyond what was sent of them
        return texts
    return [_SEPARATOR.join(row[i] for i in differing) for row in rows]


def _parts(text: str) -> list[str]:
    return text.split(_SEPARATOR)


def _introduce(keys: ArrayLike, options: Mapping[str, object]) -> tuple[NDArray[Any], bool, str]:
    """Return the keys in native byte order, whether they can be sorted, and a description."""
    mine = keys if isinstance(keys, local.StandIn) else np.asarray(keys)
    if mine.dtype.byteorder not in "=|":
        mine = mine.astype(mine.dtype.newbyteorder("="))
    text = _SEPARATOR.join([_describe(mine), *(f"{name}={value!r}" for name, value in options.items())])
    return mine, mine.ndim == 1 and local.is_sortable(mine.dtype), text


def _fingerprint(text: str) -> int:
    """Return eight bytes of a hash: descriptions are long, and nearly always alike on all ranks."""
    digest = blake2b(text.encode("ascii", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _describe(keys: NDArray[Any]) -> str:
    if local.is_stand_in(keys):
        return f"stand-in data of {keys.dtype.name}"
    kind = "text" if keys.dtype.kind in "US" else keys.dtype.name
    return kind if keys.ndim == 1 else f"{kind} of {keys.ndim} dimensions"


def _listed(ranks: NDArray[np.int64]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:4])
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
