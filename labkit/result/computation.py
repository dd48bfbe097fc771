"""Measured computation: what each rank spent between its calls, to be charged again to the bit.

A program that computes measures something else in every run. What a run has measured is its
`Run.computation`; a run that is given it (``compute=run``) charges each stretch again, in the order of the
rank's calls, and so takes the same simulated time to the last bit: tomorrow, on another computer, on another
machine.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["Computation"]


#: what the packed form of one run may grow to
_MOST_UNPACKED = 1 << 30


class Computation:
    """What the ranks of one run have computed.

    `stretches`: For each rank (n_calls,) int64: nanoseconds of CPU time between its calls of MPI.
    `scale`: Simulated seconds for each of them.

    Examples
    --------
    >>> kept = Computation([np.array([2_000_000]), np.array([500_000, 1_000_000])])
    >>> kept.ranks, round(kept.total_s, 6), Computation.unpacked(kept.packed()) == kept
    (2, 0.0035, True)
    """

    def __init__(self, stretches: Sequence[object], scale: float = 1.0) -> None:
        self.stretches = [np.ascontiguousarray(one, dtype=np.int64) for one in stretches]
        self.scale = float(scale)

    @property
    def ranks(self) -> int:
        """How many ranks there were."""
        return len(self.stretches)

    @property
    def rank_seconds(self) -> NDArray[Any]:
        """(ranks,) seconds: what each rank is charged."""
        return np.array([1e-9 * float(one.sum()) * self.scale for one in self.stretches])

    @property
    def total_s(self) -> float:
        """What all ranks together are charged, s."""
        return float(self.rank_seconds.sum())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Computation):
            return NotImplemented
        return self.scale == other.scale and [one.tobytes() for one in self.stretches] == [
            one.tobytes() for one in other.stretches
        ]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Computation({self.ranks} ranks, {self.total_s:.6g} s)"

    def packed(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        data = b"".join(one.astype("<i8").tobytes() for one in self.stretches)
        return {
            "calls": [len(one) for one in self.stretches],
            "scale": self.scale,
            "ns": base64.b64encode(zlib.compress(data, 6)).decode("ascii"),
        }

    @classmethod
    def unpacked(cls, form: Mapping[str, Any]) -> Computation:
        """Read what `packed` returned.

        Raises DataError: It is something else.
        """
        try:
            counts, scale = list(form["calls"]), form["scale"]
            if any(type(one) is not int or one < 0 for one in counts):
                raise ValueError(f"calls = {counts!r:.40} are no numbers of calls")
            if isinstance(scale, bool) or not 0 < scale < math.inf:
                raise ValueError(f"scale = {scale!r:.40} is no finite factor > 0")
            most = 8 * sum(counts)
            if most > _MOST_UNPACKED:
                raise ValueError("too many calls")
            data = zlib.decompressobj().decompress(base64.b64decode(form["ns"], validate=True), most + 1)
            values = np.frombuffer(data, "<i8")
            if len(values) != sum(counts):
                raise ValueError("the numbers of calls and of values differ")
            if (values < 0).any():
                raise ValueError("a time is negative")
            return cls(np.split(values, np.cumsum(counts)[:-1]), float(scale))
        except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
            raise DataError(
                f"this is no recorded computation of labkit's: {error}", code="malformed-file"
            ) from None
