"""Calls of the ranks of a run: noted and made a table in a traced run, summed up in one with a summary."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit._kernels import HubSums
from labkit.sim.simulation import Simulation
from labkit.trace.persistent import PersistentCollectives
from labkit.trace.recorder.joints import join_calls
from labkit.trace.recorder.ledger import Places
from labkit.trace.summary import Columns, summed_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallNotes", "CallSummary"]

#: polls that follow each other within this time are one call, as in the trace of a real run
_SPIN_S = 20e-6


class CallNotes:
    """What the ranks of one run have called.

    Parameters
    ----------
    simulation : Simulation
    """

    def __init__(self, simulation: Simulation) -> None:
        self.hub, self._innermost = simulation.hub, simulation.context.innermost_phase
        self.places = Places()
        self.place_outside = self.places.outside
        self.names: dict[str, int] = {}
        self._phases: dict[str, int] = {}
        # by row
        self._rank, self._call, self._place, self._phase = array("i"), array("i"), array("i"), array("i")
        self._begin_s, self._end_s = array("d"), array("d")
        #: which call it was, of all; rows are used again
        self._order, self._opened, self._free = array("q"), 0, array("q")
        #: by rows of collectives: communicator, number in it, bytes, root and the rank's own number
        self._joined: dict[int, list[int]] = {}
        #: by rows of collectives: the algorithm, where the run chooses one
        self._took: dict[int, str] = {}
        self._sequences: dict[tuple[int, int], int] = {}
        #: by rank its last poll, that found nothing; the collective that it is in
        self._polls: dict[int, int] = {}
        self._inside: dict[int, int] = {}
        self.persistent = PersistentCollectives()

    def opened(self, name: str, place: int) -> int:
        """Note that the running rank begins a call; the row."""
        names = self.names
        number = names[name] if name in names else names.setdefault(name, len(names))
        inside = self._innermost()
        phase = self._phases.setdefault(inside, len(self._phases))
        rank, begin_s, self._opened = self.hub.rank, self.hub.now_ahead(), self._opened + 1
        if self._free:
            row = self._free.pop()
            self._rank[row], self._call[row], self._place[row], self._phase[row] = rank, number, place, phase
            self._begin_s[row], self._end_s[row], self._order[row] = begin_s, np.nan, self._opened
            return row
        self._rank.append(rank)
        self._call.append(number)
        self._place.append(place)
        self._phase.append(phase)
        self._begin_s.append(begin_s)
        self._end_s.append(np.nan)
        self._order.append(self._opened)
        return len(self._rank) - 1

    def closed(self, row: int) -> None:
        """Note that a call is over."""
        self._end_s[row] = self.hub.now_after()
        if self._inside or self._polls:
            rank = self._rank[row]
            self._inside.pop(rank, None)
            self._polls.pop(rank, None)

    def joined(self, row: int, comm: Any, root: int | None, n_bytes: int, number: int | None = None) -> None:
        """Note that a call is the communicator's next collective, or the next start of a persistent one."""
        rank, context, top = self._rank[row], int(comm._context), -1
        context = context if number is None else number
        if comm.size == 1:
            context = -2 - rank  # nobody else's
        sequence = self._sequences[rank, context] = self._sequences.get((rank, context), -1) + 1
        if root is not None and 0 <= root < comm.size:
            top = root if comm._context == 0 else comm._world_ranks()[root]
        self._joined[row] = [context, sequence, n_bytes, top, comm.rank]
        self._inside[rank] = row

    def took(self, algorithm: str) -> None:
        """Note the algorithm of the collective that the running rank is in, as collective/algorithm."""
        row = self._inside.get(self.hub.rank)
        if row is not None:
            self._took[row] = algorithm.partition("/")[2]

    def gave(self, n_bytes: int) -> None:
        """Note what the running rank gives to the collective that it is in."""
        row = self._inside.get(self.hub.rank)
        if row is not None:
            self._joined[row][2] += n_bytes

    def polled(self, row: int) -> None:
        """Note that a call found nothing: one with the poll before, if it follows closely."""
        rank, now = self._rank[row], self.hub.now_after()
        before, self._polls[rank], self._end_s[row] = self._polls.get(rank), row, now
        if before is None or self._call[before] != self._call[row]:
            return
        if self._begin_s[row] - self._end_s[before] <= _SPIN_S:
            self._end_s[before], self._polls[rank] = now, before
            self._rank[row] = -1
            self._free.append(row)

    def table(self, ends_s: list[float]) -> pd.DataFrame:
        """Return `Trace.calls`."""
        import pandas as pd

        rank, begin, end = np.array(self._rank), np.array(self._begin_s), np.array(self._end_s)
        order = np.lexsort((np.array(self._order), rank))
        order = order[rank[order] >= 0]
        joined = np.full((5, len(rank)), -1, np.int64)
        joined[2] = 0
        if self._joined:
            joined[:, list(self._joined)] = np.array(list(self._joined.values()), np.int64).T
        rank, begin, end, joined = rank[order], begin[order], end[order], joined[:, order]
        # A call that raised was over before the rank's next one began, or with its program.
        after = np.asarray(ends_s, np.float64)[rank]
        after[:-1] = np.where(rank[1:] == rank[:-1], begin[1:], after[:-1])
        lists = (self.names, self.places.texts(), self._phases)
        names, texts, phases = (np.array([*words, ""], object) for words in lists)
        context, sequence, n_bytes, root, position = joined
        called = names[np.array(self._call)[order]]
        joint = join_calls({"rank": rank, "context": context, "sequence": sequence})
        took = np.full(len(self._rank), "", object)
        took[list(self._took)] = list(self._took.values())
        alike = zip(context.tolist(), called.tolist(), n_bytes.tolist(), strict=True)
        return pd.DataFrame({
            "rank": rank.astype(np.int64), "call": called, "bytes": n_bytes,
            "begin_s": begin, "end_s": np.where(np.isnan(end), after, end), "joint": joint,
            "root": root, "position": position, "place": texts[np.array(self._place)[order]],
            "phase": phases[np.array(self._phase)[order]],
            "algorithm": _spread(took[order].tolist(), joint.tolist(), list(alike)),
        })  # fmt: skip


def _spread(took: list[str], joint: list[int], alike: list[Any]) -> list[str]:
    """Give what one rank has noted to the others of its collective, and to calls that repeat it.

    The engine repeats a collective without asking anew; calls that are alike and were once carried out by
    different algorithms (of another operator) are then left open.
    """
    of_joint = {number: name for number, name in zip(joint, took, strict=True) if name and number >= 0}
    known: dict[Any, set[str]] = {}
    for key, name in zip(alike, took, strict=True):
        if name:
            known.setdefault(key, set()).add(name)
    repeated = {key: next(iter(names)) for key, names in known.items() if len(names) == 1}
    rows = zip(took, joint, alike, strict=True)
    return [name or of_joint.get(n, repeated.get(key, "") if n >= 0 else "") for name, n, key in rows]


class CallSummary:
    """Sums up what the ranks of one run call, in the place of `CallNotes`; no call is kept.

    Parameters
    ----------
    hub : Hub
        Of the run.
    """

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        self.places = Places()
        self.persistent = PersistentCollectives()
        self.sums = sums = HubSums(hub)
        # without frames of Python in between: a run makes many calls
        self.place_outside = self.places.outside
        self.opened, self.closed, self.polled, self.gave = sums.opened, sums.closed, sums.polled, sums.gave

    def joined(self, rank: int, comm: Any, root: int | None, n_bytes: int, number: int | None = None) -> None:
        """Note that a call is a collective."""
        self.sums.joined(rank, n_bytes)

    def columns(self) -> Columns:
        """End the run and return the sums: see `labkit.trace.summary.summed_columns`."""
        columns = self.sums.columns()
        return summed_columns(columns, columns["calls"], self.places.texts())
