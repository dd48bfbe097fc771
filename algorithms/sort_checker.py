"""A sound check of a distributed sort: what it accepts is the sorted sequence of what was given.

Sorted output proves nothing by itself (a constant array is sorted), and comparing sorted copies of both
sides proves nothing about order. So the check is: every rank's block is sorted; blocks follow each other
across empty ranks; as many keys came out as went in; and they are the same keys, by two independent 64-bit
hashes of the multiset. A wrong result passes with probability about 2**-128, whatever went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.errors import CheckError, DataError
from labkit.local.codes import decode, encode, is_sortable

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Finding", "SortReport", "check_sorted"]

_TEXT_BYTES = 120
#: columns of a rank's row
_BEFORE, _AFTER, _FIRST, _LAST, _HASHES_BEFORE, _HASHES_AFTER, _WORDS = 0, 1, 2, 3, 4, 6, 8
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes
    ----------
    rank : int or None
        The rank it was found on; None if it concerns all ranks together.
    reason : str
    """

    rank: int | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.rank is None else f"rank {self.rank}: {self.reason}"


@dataclass(frozen=True)
class SortReport:
    """What a check of a sort found; the same on all ranks unless the scope was local.

    Attributes
    ----------
    scope : {"local", "global"}
        A local report speaks of one rank's block only.
    findings : tuple of Finding
        Empty if nothing is wrong.
    lengths : tuple of int
        Number of keys per rank after the sort (one rank's for a local report).
    """

    scope: str
    findings: tuple[Finding, ...]
    lengths: tuple[int, ...]

    @property
    def is_sorted(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.findings

    @property
    def keys(self) -> int:
        """The number of keys after the sort."""
        return sum(self.lengths)

    @property
    def imbalance(self) -> float:
        """Largest block divided by the mean block; 1 if there are no keys."""
        return max(self.lengths) * len(self.lengths) / self.keys if self.keys else 1.0

    def require(self) -> SortReport:
        """Return the report itself, or raise if anything is wrong.

        Raises
        ------
        CheckError
            Naming ranks and reasons.
        """
        if self.findings:
            raise CheckError(str(self))
        return self

    def __str__(self) -> str:
        if not self.findings:
            ranks = f"on {len(self.lengths)} ranks" if self.scope == "global" else "on this rank"
            return f"sorted: {self.keys} keys {ranks}, imbalance {self.imbalance:.3f}"
        shown = "; ".join(str(finding) for finding in self.findings[:_SHOWN])
        more = len(self.findings) - _SHOWN
        return f"not a correct sort: {shown}" + (f"; and {more} more findings" if more > 0 else "")


def check_sorted(
    comm: Intracomm,
    before: ArrayLike,
    after: ArrayLike,
    *,
    scope: Literal["local", "global"] = "global",
    largest: int | None = None,
    imbalance: float | None = None,
    sizes: Sequence[int] | Literal["even"] | None = None,
) -> SortReport:
    """Check that `after`, over all ranks, is `before` sorted. Collective unless the scope is local.

    Keys are compared as NumPy compares them: NaNs are last and alike, -0.0 equals 0.0. One Allgather of
    184 bytes per rank; simulated ranks are charged for that alone.

    Parameters
    ----------
    comm : communicator
    before : array_like, shape (n_before,)
        This rank's keys as they were given (pass a copy if the sorter works in place).
    after : array_like, shape (n_after,)
        This rank's block of the result.
    scope : {"global", "local"}
        ``"local"`` looks at this rank's dtype, shape and order only and sends nothing.
    largest : int, optional
        The number of keys that no rank may exceed.
    imbalance : float, optional
        The largest permitted ratio of the largest block to the mean block.
    sizes : sequence of int or "even", optional
        Claimed block sizes, one per rank; ``"even"`` means that sizes differ by at most one key.

    Returns
    -------
    SortReport
        The same on every rank (global scope).

    Raises
    ------
    DataError
        If `scope` is unknown or `sizes` has not one number per rank.

    Examples
    --------
    >>> import labkit as lk, numpy as np
    >>> def program(comm):
    ...     keys = np.array([3 - comm.rank])
    ...     return check_sorted(comm, keys, keys)
    >>> print(lk.run(program, 2, on="star:2").results[0])
    not a correct sort: rank 1: its first key 2 is below 3, the last key of rank 0
    """
    if scope not in ("local", "global"):
        raise DataError(f'scope must be "local" or "global", got {scope!r}', code="unknown-name")
    if sizes is not None and sizes != "even" and len(sizes) != comm.size:
        raise DataError(
            f"sizes must hold one number for each of {comm.size} ranks, got {len(sizes)}",
            code="count-mismatch",
        )
    given, result = np.asarray(before), np.asarray(after)
    fault = _local_fault(given, result)
    if scope == "local":
        findings = (Finding(comm.rank, fault),) if fault else ()
        return SortReport(scope, findings, (result.size,))
    rows, faults, dtypes = _exchange(comm, given, result, fault)
    lengths = rows[:, _AFTER].astype(np.int64)
    found = [Finding(rank, text) for rank, text in enumerate(faults) if text]
    found += _dtype_findings(dtypes)
    if not found:
        found += _boundary_findings(rows, lengths, np.dtype(dtypes[0]))
    found += _multiset_findings(rows)
    found += _size_findings(lengths, largest, imbalance, sizes)
    return SortReport(scope, tuple(found), tuple(lengths.tolist()))


def _canonical_codes(keys: NDArray[Any]) -> NDArray[Any]:
    """Codes that are equal exactly where NumPy's sort sees equal keys."""
    if keys.dtype.kind != "f":
        return encode(keys)
    # On the bits: arithmetic on signalling NaNs raises floating-point exceptions.
    bits = keys.view(f"u{keys.itemsize}")
    bits = np.where(bits << 1 == 0, bits.dtype.type(0), bits)
    bits[np.isnan(keys)] = np.array(np.nan, keys.dtype).view(bits.dtype)
    return encode(bits.view(keys.dtype))


def _local_fault(before: NDArray[Any], after: NDArray[Any]) -> str:
    """Return what is wrong with one rank's block by itself, or an empty string."""
    if after.ndim != 1:
        return f"its result has {after.ndim} dimensions, not 1"
    if not is_sortable(after.dtype):
        return f"its result has dtype {after.dtype}, which is no key type"
    if after.dtype != before.dtype:
        return f"its keys were {before.dtype}, its result is {after.dtype}"
    codes = _canonical_codes(after)
    wrong = np.flatnonzero(codes[1:] < codes[:-1])
    if len(wrong) == 0:
        return ""
    i = int(wrong[0]) + 1
    return f"its block is not sorted: key {i} is {after[i]}, but key {i - 1} is {after[i - 1]}"


def _hashes(keys: NDArray[Any]) -> tuple[np.uint64, np.uint64]:
    """Return the sum and the exclusive or of two different mixes of the keys, each modulo 2**64."""
    if keys.size == 0 or not is_sortable(keys.dtype):
        return np.uint64(0), np.uint64(0)
    words = _canonical_codes(keys.ravel()).astype(np.uint64)
    summed = np.add.reduce(_mix(words + np.uint64(0x9E3779B97F4A7C15)))
    crossed = np.bitwise_xor.reduce(_mix(words ^ np.uint64(0xD1B54A32D192ED03)))
    return summed, crossed


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer: a bijection of 64-bit words in which every bit moves every other."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _exchange(
    comm: Intracomm, before: NDArray[Any], after: NDArray[Any], fault: str
) -> tuple[NDArray[np.uint64], list[str], list[str]]:
    """Share one row per rank: (p, _WORDS) numbers, local faults, dtype names."""
    row = np.zeros(_WORDS + _TEXT_BYTES // 8, np.uint64)
    row[_BEFORE], row[_AFTER] = before.size, after.size
    if not fault and after.size:
        ends = _canonical_codes(after[[0, -1]])
        row[_FIRST : _LAST + 1] = ends.astype(np.int64 if ends.dtype.kind == "i" else np.uint64).view(
            np.uint64
        )
    row[_HASHES_BEFORE:_HASHES_AFTER] = _hashes(before)
    row[_HASHES_AFTER:_WORDS] = _hashes(after)
    text = f"{before.dtype.name}|{fault}".encode("ascii", "replace")[:_TEXT_BYTES].ljust(_TEXT_BYTES)
    row[_WORDS:] = np.frombuffer(text, np.uint64)
    rows = np.empty((comm.size, len(row)), np.uint64)
    comm.Allgather(row, rows)
    texts = [
        r.tobytes().decode("ascii").rstrip().partition("|") for r in np.ascontiguousarray(rows[:, _WORDS:])
    ]
    return rows, [text[2] for text in texts], [text[0] for text in texts]


def _dtype_findings(dtypes: list[str]) -> list[Finding]:
    return [
        Finding(rank, f"its keys are {name}, those of rank 0 are {dtypes[0]}")
        for rank, name in enumerate(dtypes)
        if name != dtypes[0]
    ]


def _boundary_findings(
    rows: NDArray[np.uint64], lengths: NDArray[np.int64], dtype: np.dtype[Any]
) -> list[Finding]:
    """Find ranks whose first key is below the last key of the nearest non-empty rank before them."""
    holders = np.flatnonzero(lengths)
    code_dtype = encode(np.empty(0, dtype)).dtype
    wide = np.int64 if code_dtype.kind == "i" else np.uint64
    first, last = (
        np.ascontiguousarray(rows[holders, column]).view(wide).astype(code_dtype)
        for column in (_FIRST, _LAST)
    )
    return [
        Finding(
            int(holders[i + 1]),
            f"its first key {decode(first[i + 1 : i + 2], dtype)[0]} is below "
            f"{decode(last[i : i + 1], dtype)[0]}, the last key of rank {holders[i]}",
        )
        for i in np.flatnonzero(first[1:] < last[:-1])
    ]


def _multiset_findings(rows: NDArray[np.uint64]) -> list[Finding]:
    given, returned = (int(rows[:, column].sum()) for column in (_BEFORE, _AFTER))
    if given != returned:
        change = f"{given - returned} lost" if given > returned else f"{returned - given} too many"
        return [Finding(None, f"{given} keys went in, {returned} came out: {change}")]
    sums = rows[:, [_HASHES_BEFORE, _HASHES_AFTER]].sum(axis=0, dtype=np.uint64)
    crossed = np.bitwise_xor.reduce(rows[:, [_HASHES_BEFORE + 1, _HASHES_AFTER + 1]], axis=0)
    if sums[0] == sums[1] and crossed[0] == crossed[1]:
        return []
    return [Finding(None, f"{given} keys went in and came out, but they are not the same keys")]


def _size_findings(
    lengths: NDArray[np.int64],
    largest: int | None,
    imbalance: float | None,
    sizes: Sequence[int] | str | None,
) -> list[Finding]:
    n, p = int(lengths.sum()), len(lengths)
    fullest, most = int(lengths.argmax()), int(lengths.max())
    found = []
    if largest is not None and most > largest:
        found.append(Finding(fullest, f"it holds {most} keys, more than the {largest} permitted"))
    if imbalance is not None and most * p > imbalance * n:
        ratio = most * p / n
        found.append(Finding(fullest, f"it holds {ratio:.3f} times the mean, permitted is {imbalance}"))
    if sizes is None:
        return found
    if sizes == "even":
        claimed = np.clip(lengths, n // p, -(-n // p))
    else:
        claimed = np.asarray(sizes, np.int64)
    return found + [
        Finding(int(rank), f"it holds {lengths[rank]} keys, claimed were {claimed[rank]}")
        for rank in np.flatnonzero(lengths != claimed)
    ]
