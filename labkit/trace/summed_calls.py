"""The summary of a simulated run: its calls are summed up as they are noted, and none of them is kept.

It stands where `labkit.sim.calls.CallNotes` stands in a traced run. From which call a message is sent the
engine counts itself, those of collectives that go on beside their ranks among them.
"""

from __future__ import annotations

from typing import Any

from labkit.trace.persistent import PersistentCollectives
from labkit.trace.recorder.ledger import Places
from labkit.trace.summary import Row, Summary

__all__ = ["CallSummary"]

#: polls that follow each other within this time are one call, as in a trace
_SPIN_S = 20e-6


class CallSummary:
    """What the ranks of one run call, summed up.

    Parameters
    ----------
    hub : Hub
        Of the run; it keeps counts.
    """

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        self.hub.keep_places()
        self.places = Places()
        self.summary = Summary(is_real=False)
        #: by rank the bytes of the collective that it is in, and its last poll: call, and when that was over
        self._given: dict[int, int] = {}
        self._polls: dict[int, tuple[int, float]] = {}
        self.persistent = PersistentCollectives()

    # -- as `CallNotes` -------------------------------------------------------------------------------------

    def opened(self, name: str, place: int) -> int:
        """Note that the running rank begins a call; the rank."""
        rank = int(self.hub.rank)
        self._settle(rank)
        self.hub.move_to(rank, self.summary.call(rank, name, place, self.hub.now_ahead()))
        return rank

    def closed(self, rank: int) -> None:
        """Note that a call is over."""
        self._settle(rank)
        self._polls.pop(rank, None)
        self.summary.over(rank, self.hub.now_after())
        self.hub.move_to(rank, -1)

    def joined(self, rank: int, comm: Any, root: int | None, n_bytes: int, number: int | None = None) -> None:
        """Note that a call is a collective."""
        self._given[rank] = n_bytes

    def took(self, algorithm: str) -> None:
        """Algorithms are not summed up."""

    def gave(self, n_bytes: int) -> None:
        """Note what the running rank gives to the collective that it is in."""
        rank = int(self.hub.rank)
        if rank in self._given:
            self._given[rank] += n_bytes

    def polled(self, rank: int) -> None:
        """Note that a call found nothing: no call of its own, if it follows the last such one closely."""
        before, now = self._polls.get(rank), self.hub.now_after()
        path, began = self.summary.inside(rank)
        self.summary.over(rank, now)
        self.hub.move_to(rank, -1)
        if before is not None and before[0] == path and began - before[1] <= _SPIN_S:
            self.summary.again(rank, path)
        self._polls[rank] = path, now

    # -- the end --------------------------------------------------------------------------------------------

    def _settle(self, rank: int) -> None:
        """Account for the collective that the rank was in."""
        n_bytes = self._given.pop(rank, None)
        if n_bytes is not None:
            self.summary.joined(rank, n_bytes)

    def rows(self) -> list[Row]:
        """End the run and return the sums: see `labkit.trace.summary.Summary.rows`."""
        for rank in range(self.hub.ranks):
            self._settle(rank)
            self.summary.finish(rank, float(self.hub.clock(rank)))
        columns = self.hub.place_columns()
        for values in zip(*(columns[name].tolist() for name in columns), strict=True):
            rank, path, *amounts = values
            if path >= 0:
                self.summary.sent(rank, path, *amounts)
        return self.summary.rows(self.places.texts())
