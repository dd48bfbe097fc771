"""Measured computation: what each rank spent between its calls, to be charged again to the bit.

A program that computes measures something else in every run. What a run has measured is its
`Run.computation`; a run that is given it (``compute=run``) charges each stretch again, in the order of the
rank's calls, and so takes the same simulated time to the last bit: tomorrow, on another computer, on another
machine.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.errors import DataError

__all__ = ["REMARK", "Computation", "Uncharged"]

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

    def __init__(self, stretches: Sequence[Any], scale: float = 1.0) -> None:
        self.stretches = [np.ascontiguousarray(one, dtype=np.int64) for one in stretches]
        self.scale = float(scale)

    @property
    def ranks(self) -> int:
        """How many ranks there were."""
        return len(self.stretches)

    @property
    def rank_seconds(self) -> np.ndarray[Any, Any]:
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
            counts = [int(one) for one in form["calls"]]
            most = 8 * sum(counts)
            if min(counts, default=0) < 0 or most > _MOST_UNPACKED:
                raise ValueError("too many calls")
            data = zlib.decompressobj().decompress(base64.b64decode(form["ns"], validate=True), most + 1)
            values = np.frombuffer(data, "<i8")
            if len(values) != sum(counts):
                raise ValueError("the numbers of calls and of values differ")
            return cls(np.split(values, np.cumsum(counts)[:-1]), float(form["scale"]))
        except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
            raise DataError(f"this is no recorded computation of labkit's: {error}") from None


REMARK = (
    "computation was free: the program's own code took much of the host's time and no simulated time; "
    'compute="measured" (--compute measured) charges what it takes here, labkit.compute(seconds) what you say'
)
#: thresholds: seconds, share of the CPU time, and number of looks that found it: one look
#: stands for all since the last one, and in a short run two or three may have come at odd moments
_LEAST_S, _LEAST_SHARE, _LEAST_LOOKS = 0.01, 0.2, 5


@dataclass
class Uncharged:
    """What was seen of it in one run, or in several together.

    `seconds`: CPU time of the program's code, what it calls of libraries included.
    `total_s`: CPU time of everything.
    `looks`: How many looks found the program's code running.
    """

    seconds: float = 0.0
    total_s: float = 0.0
    looks: int = 0

    def add(self, other: Uncharged) -> None:
        """Add what was seen in another run: the short runs of a sweep are notable together."""
        self.seconds += other.seconds
        self.total_s += other.total_s
        self.looks += other.looks

    @property
    def is_notable(self) -> bool:
        """Whether to warn the user."""
        return self.looks >= _LEAST_LOOKS and self.seconds >= max(_LEAST_S, _LEAST_SHARE * self.total_s)
