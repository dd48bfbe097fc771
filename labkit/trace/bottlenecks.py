"""The bottleneck of each transfer of a recorded run, a link or another bound, and the links' utilisation.

Nothing is recorded for this but who sent how much from when to when: the allocation of every instant is
solved once more by the engine's own solver, and the bytes it moves are checked against the sizes sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = ["WINDOW", "Bottlenecks", "find_bottlenecks"]

#: in `Bottlenecks.link`: held by the bound that the latency sets to one transfer (the TCP window)
WINDOW = -1
#: flows that may be filled again; about 20 s of host time
WORK = 200_000_000
#: entries of the table of utilisation
CELLS = 4_000_000


@dataclass
class Bottlenecks:
    """What held the transfers of a run.

    Attributes
    ----------
    latency_s : array of float, by message
        Length of the latency phase.
    transfer, link, seconds : arrays
        One entry per stretch of a transfer: the message's row, the link that held it (`WINDOW`: its own
        bound), for how long. Sorted by message.
    link_bytes, link_full_s, link_held_s : arrays of float, by link
        What a link carried, how long its capacity was used up, and the seconds of transfers it held, summed.
    utilisation : array of float, shape (links, bins)
        Mean share of a link's capacity that was in use, in equal parts of the run.
    instants, solved : int
        How many times the allocation changed, and how many of these instants were solved (all, but for huge
        loads).
    moved_error : float
        Largest relative difference between a transfer's size and the bytes that the solved rates moved.
    """

    latency_s: NDArray[np.float64]
    transfer: NDArray[np.int64]
    link: NDArray[np.int64]
    seconds: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    link_full_s: NDArray[np.float64]
    link_held_s: NDArray[np.float64]
    utilisation: NDArray[np.float64]
    instants: int
    solved: int
    moved_error: float

    def held(self, message: int) -> list[tuple[int, float]]:
        """Return the (link, seconds) of one message, in order of time."""
        first, last = np.searchsorted(self.transfer, [message, message + 1])
        return [(int(self.link[i]), float(self.seconds[i])) for i in range(first, last)]


def find_bottlenecks(
    trace: Trace, built: Any, model: Any, makespan_s: float, bins: int = 200, work: int = WORK
) -> Bottlenecks:
    """Solve the allocations of a recorded run again.

    Parameters
    ----------
    trace : Trace
    built : labkit._kernels.Platform
        The machine of the run.
    model : labkit._kernels.Model
        Its network model.
    makespan_s : float
        End of the last bin of `Bottlenecks.utilisation`, in seconds.
    bins : int
        Fewer are used on machines with very many links.
    work : int
        Limit of the solver's work, in flows filled; 0: none.
    """
    rows = trace.messages
    links = int(built.link_count)
    bins = max(1, min(bins, CELLS // max(links, 1)))
    found = _kernels.analyse_transfers(
        built, model,
        rows["source"].to_numpy(np.int32), rows["destination"].to_numpy(np.int32),
        rows["bytes"].to_numpy(np.uint64), rows["start_s"].to_numpy(np.float64),
        rows["arrived_s"].to_numpy(np.float64), _ways(rows), makespan_s, bins, work,
    )  # fmt: skip
    found["utilisation"] = found["utilisation"].reshape(links, bins)
    return Bottlenecks(**found)


def _ways(rows: pd.DataFrame) -> NDArray[np.uint32]:
    """Which of several routes each message took; machines of one route a pair record none."""
    if "way" in rows:
        return np.ascontiguousarray(rows["way"].to_numpy(np.uint32))
    return np.zeros(len(rows), np.uint32)
