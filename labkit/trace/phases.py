"""The phase of a rank at a time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_SAID", "NO_PHASE", "Entry", "PhaseClock", "by_entry", "phase_numbers"]

#: of a rank into a phase: rank, phase, begin and end in seconds, and how many phases were around it
Entry = tuple[int, str, float, float, int]


NO_PHASE = "(no phase)"
#: instead of a phase's number where only the time tells it
NOT_SAID = -2


def phase_numbers(calls: pd.DataFrame, names: Any) -> NDArray[np.int64]:
    """Return the innermost phase that each call names, as a number.

    Parameters
    ----------
    calls : pandas.DataFrame
        Rows of `Trace.calls`.
    names : sequence or pandas.Index of str
        Of phases, by number.

    Returns
    -------
    array of int64, a call each
        -1: none; `NOT_SAID`: the call names a phase that is not among these, or the calls name none at all.
    """
    import pandas as pd

    if "phase" not in calls:
        return np.full(len(calls), NOT_SAID, np.int64)
    said: Any = calls["phase"].to_numpy(object)
    found = pd.Index(list(names), dtype="object").get_indexer(said)
    return np.where((found < 0) & (said != NO_PHASE), NOT_SAID, found).astype(np.int64)


def by_entry(rows: Iterable[Entry]) -> list[Entry]:
    """Return phases in the order of their begins; of those that begin at once, in which a rank entered them.

    Times alone do not tell that of phases that take none.
    """
    left: dict[int, list[list[Entry]]] = {}  # by rank: phases that are over, each before those inside it
    for row in rows:
        known = left.setdefault(row[0], [])
        first = len(known)
        while first and known[first - 1][0][4] > row[4]:
            first -= 1
        inner = [one for part in known[first:] for one in part]
        known[first:] = [[row, *inner]]
    entered = [row for known in left.values() for part in known for row in part]
    return sorted(entered, key=lambda row: (row[2], row[0]))


class PhaseClock:
    """Looks phases up by rank and time; of nested phases the innermost counts.

    Parameters
    ----------
    phases : pandas.DataFrame
        `Run.phases`: rank, phase, begin_s, end_s, depth; without the last of a run that was kept before there
        was one.
    """

    def __init__(self, phases: pd.DataFrame) -> None:
        groups: Any = phases.groupby("rank", sort=False)
        self._rows = {int(rank): group for rank, group in groups}
        self._lines: dict[int, tuple[NDArray[np.float64], list[str]]] = {}

    def at(self, rank: int, when_s: float) -> str:
        """Return the phase of a rank at a time."""
        cuts, names = self._line(rank)
        return names[int(np.searchsorted(cuts, when_s, side="right"))]

    def all_at(self, ranks: NDArray[Any], whens_s: NDArray[np.float64]) -> NDArray[np.object_]:
        """Return the phases of ranks at times, an entry each."""
        found = np.full(len(ranks), NO_PHASE, object)
        for rank in self._rows:
            own = np.flatnonzero(ranks == rank)
            cuts, names = self._line(rank)
            found[own] = np.array(names, object)[np.searchsorted(cuts, whens_s[own], side="right")]
        return found

    def pieces(self, rank: int, begin_s: float, end_s: float) -> list[tuple[str, float, float]]:
        """Cut an interval of a rank at the borders of its phases: (phase, begin, end), in order."""
        cuts, names = self._line(rank)
        first = int(np.searchsorted(cuts, begin_s, side="right"))
        last = int(np.searchsorted(cuts, end_s, side="left"))
        borders = [begin_s, *(float(cut) for cut in cuts[first:last]), end_s]
        return [
            (names[first + i], low, high) for i, (low, high) in enumerate(pairwise(borders)) if high > low
        ]

    def _line(self, rank: int) -> tuple[NDArray[np.float64], list[str]]:
        """The borders of a rank's phases, and the phase before, between and after them."""
        if rank not in self._lines:
            self._lines[rank] = self._draw(rank)
        return self._lines[rank]

    def _draw(self, rank: int) -> tuple[NDArray[np.float64], list[str]]:
        rows = self._rows.get(rank)
        if rows is None:
            return np.empty(0), [NO_PHASE]
        columns = [rows[name].tolist() for name in ("begin_s", "end_s", "phase")]
        if "depth" in rows:
            spans = sorted(zip(*columns, rows["depth"].tolist(), strict=True), key=lambda span: span[0])
        else:
            around = [0] * len(rows)
            spans = sorted(zip(*columns, around, strict=True), key=lambda span: (span[0], -span[1]))
        cuts: list[float] = []
        names = [NO_PHASE]
        open_spans: list[tuple[float, str]] = []

        def close(until: float, depth: int = 0) -> None:
            while open_spans and (open_spans[-1][0], depth) < (until, len(open_spans)):
                cuts.append(open_spans.pop()[0])
                names.append(open_spans[-1][1] if open_spans else NO_PHASE)

        for begin, end, name, depth in spans:
            close(begin, depth if end == begin else 0)  # only what takes no time lies in what ends just then
            cuts.append(begin)
            names.append(name)
            open_spans.append((end, name))
        close(float("inf"))
        return np.array(cuts), names
