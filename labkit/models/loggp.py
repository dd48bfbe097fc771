"""LogGP: what messages cost where they meet at their hosts' interfaces only.

References
----------
A. Alexandrov, M. F. Ionescu, K. E. Schauser, C. Scheiman: LogGP: incorporating long messages into the LogP
model. SPAA 1995, doi:10.1145/215399.215427. The threshold S: see ``datasets/models/loggps.toml``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any

from labkit.errors import DataError
from labkit.text.html import quantity

__all__ = ["LogGP"]


@dataclass(frozen=True)
class LogGP:
    """The parameters of LogGP, and what they predict for messages and simple broadcasts.

    A message of k bytes counts k G here (the original: k - 1), as in the simulator's model ``loggps``.

    Attributes
    ----------
    latency_s : float
        L: from one interface to the other.
    overhead_s : float
        o: of the processor, at each end, for every message.
    gap_s : float
        g: from the end of a message to the beginning of the next one at the same interface.
    gap_per_byte_s : float
        G: 1 / bandwidth.

    Examples
    --------
    >>> net = LogGP(latency_s=5e-6, overhead_s=2e-6, gap_s=3e-6, gap_per_byte_s=1e-9)
    >>> round(1e6 * net.message_s(1000), 3), round(1e6 * net.train_s(3, 1000), 3)
    (10.0, 18.0)
    >>> print(net)
    LogGP: L = 5 µs, o = 2 µs, g = 3 µs, G = 1 ns per byte
    """

    latency_s: float
    overhead_s: float
    gap_s: float = 0.0
    gap_per_byte_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative times."""
        for name, value in asdict(self).items():
            if not 0 <= value < math.inf:
                raise DataError(f"LogGP needs {name} >= 0 and finite, got {value!r}", code="out-of-range")

    def __str__(self) -> str:
        """Print the parameters by the model's letters, with their units."""
        whole = {"L": self.latency_s, "o": self.overhead_s, "g": self.gap_s}
        times = ", ".join(f"{letter} = {quantity(time, 's')}" for letter, time in whole.items())
        return f"LogGP: {times}, G = {quantity(self.gap_per_byte_s, 's')} per byte"

    def options(self) -> dict[str, Any]:
        """Return them as changes of the simulator's model: ``models.get("loggps", **net.options())``."""
        o = ((0, self.overhead_s, 0.0),)
        return {
            "latency_s": self.latency_s,
            "gap_s": self.gap_s,
            "gap_per_byte_s": self.gap_per_byte_s,
            "send_overhead": o,
            "isend_overhead": o,
            "recv_overhead": o,
            "envelope_bytes": 0,
        }

    def step_s(self, size: float) -> float:
        """Return how long after a send the next one can follow: max(o, g + G k)."""
        return max(self.overhead_s, self.gap_s + self.gap_per_byte_s * size)

    def message_s(self, size: float) -> float:
        """Return o + L + G k + o."""
        return 2 * self.overhead_s + self.latency_s + self.gap_per_byte_s * size

    def round_trip_s(self, size: float) -> float:
        """Return the time of a message and its answer, both of k bytes."""
        return 2 * self.message_s(size)

    def train_s(self, messages: int, size: float) -> float:
        """Return the time until the last of n messages, sent one after another to one rank, is received."""
        return self.message_s(size) + (messages - 1) * self.step_s(size)

    def linear_bcast_s(self, ranks: int, size: float) -> float:
        """Return the time of a broadcast in which the root sends to each rank itself."""
        return self.train_s(ranks - 1, size) if ranks > 1 else 0.0

    def binomial_bcast_s(self, ranks: int, size: float) -> float:
        """Return the time of a broadcast down a binomial tree, the farthest rank first."""
        return self._tree_s(ranks, size, partial(_halves, ranks))

    def best_bcast_s(self, ranks: int, size: float) -> float:
        """Return the time of the best tree there is: whoever has the message sends on and on, to new ranks.

        R. Karp, A. Sahay, E. Santos, K. Schauser: Optimal broadcast and summation in the LogP model. SPAA
        1993, doi:10.1145/165231.165250.
        """
        free = [0.0]  # when a rank can send its next message
        last = 0.0
        for _ in range(ranks - 1):
            begin = heappop(free)
            last = begin + self.message_s(size)
            heappush(free, begin + self.step_s(size))
            heappush(free, last)
        return last

    def _tree_s(self, ranks: int, size: float, children: Callable[[int], list[int]]) -> float:
        last, open_ranks = 0.0, [(0, 0.0)]
        while open_ranks:
            rank, begin = open_ranks.pop()
            last = max(last, begin)
            for nth, child in enumerate(children(rank)):
                open_ranks.append((child, begin + nth * self.step_s(size) + self.message_s(size)))
        return last


def _halves(ranks: int, rank: int) -> list[int]:
    """Return the children of a rank in a binomial tree, in sending order."""
    lowest = rank & -rank if rank else 1 << (ranks - 1).bit_length()
    distances = (lowest >> k for k in range(1, lowest.bit_length()))
    return [rank + distance for distance in distances if distance and rank + distance < ranks]
