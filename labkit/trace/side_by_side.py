"""Explanations side by side: why one machine took longer than another, or why all took the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.errors import DataError
from labkit.html import card, escape, quantity, table
from labkit.platform.link_names import HOST_KINDS
from labkit.trace.explanation import (
    COMPUTATION,
    OVERHEAD,
    PROBE,
    SHARED_CORES,
    Explanation,
    explained,
    spoken,
)

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.recorded_run import RecordedRun

__all__ = ["Contrast", "contrast"]

#: makespans closer than this are called the same
SAME = 0.05
#: what does not depend on how the hosts are connected
SHARED = (COMPUTATION, OVERHEAD, PROBE, *HOST_KINDS)


@dataclass(repr=False)
class Contrast:
    """Several explanations side by side.

    Attributes
    ----------
    explanations : list of Explanation
    seconds : pandas.DataFrame
        Seconds on the critical path: a row per reason, a column per run.
    """

    explanations: list[Explanation]
    seconds: pd.DataFrame

    def reading(self) -> str:
        """Say why the runs took different times, or the same."""
        ordered = sorted(self.explanations, key=lambda e: e.makespan_s)
        fast, slow = ordered[0], ordered[-1]
        names = self._names()
        spread = slow.makespan_s / fast.makespan_s - 1 if fast.makespan_s > 0 else 0.0
        if spread <= SAME:
            return self._sameness(names, spread)
        more_s = slow.makespan_s - fast.makespan_s
        a, b = (names[self.explanations.index(e)] for e in (fast, slow))
        more = (self.seconds[b] - self.seconds[a]).sort_values(ascending=False, kind="stable")
        grown = [(str(reason), float(s)) for reason, s in more.items() if s > 0][:2]
        reasons = [f"{quantity(s, 's', 3)} more in {spoken(reason)}" for reason, s in grown]
        return (
            f"{b} takes {spread:.0%} longer than {a} ({quantity(more_s, 's', 3)}): {' and '.join(reasons)}."
        )

    def _sameness(self, names: list[str], spread: float) -> str:
        of_hosts = [r for r in self.seconds.index if r in SHARED or str(r).startswith(SHARED_CORES)]
        shared = self.seconds.loc[of_hosts].sum()
        ends = [e.makespan_s or 1.0 for e in self.explanations]
        shares = [float(shared[name]) / end for name, end in zip(names, ends, strict=True)]
        if min(shares) < 0.5:
            return (
                f"The runs differ by {spread:.1%} only, although different things hold them: see the table."
            )
        return (
            f"The runs differ by {spread:.1%} only: computation, start-ups and the links of single hosts, "
            f"which all these machines share, make up {_range(shares)} of the critical path; what lies "
            "between the hosts holds little."
        )

    def _names(self) -> list[str]:
        return [str(name) for name in self.seconds.columns]

    def __repr__(self) -> str:
        shown = self.seconds.map(lambda s: quantity(float(s), "s", 3) if s else "")
        return f"{self.reading()}\n{shown.to_string()}"

    def _repr_html_(self) -> str:
        rows = [
            [escape(str(reason)), *(quantity(float(s), "s", 3) if s else "" for s in line)]
            for reason, line in zip(self.seconds.index, self.seconds.to_numpy(), strict=True)
        ]
        rows.append(
            ["<b>makespan</b>", *(f"<b>{quantity(e.makespan_s, 's')}</b>" for e in self.explanations)]
        )
        head = ["on the critical path", *map(escape, self._names())]
        return card("Why these runs differ", f"<p>{escape(self.reading())}</p>{table(head, rows)}")


def contrast(
    explanations: Explanation | RecordedRun | Sequence[Explanation | RecordedRun],
    *others: Explanation | RecordedRun,
) -> Contrast:
    """Put recorded runs side by side, each explained.

    Parameters
    ----------
    explanations, *others : Run or Explanation, or one sequence of them
        At least two, recorded with ``trace=True``.

    Returns
    -------
    Contrast

    Raises
    ------
    DataError
        Fewer than two, or something else, or a run that was not recorded.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     comm.allreduce(1.0)
    >>> runs = [lk.run(program, 4, on, trace=True) for on in ("star:4", "torus:4")]
    >>> contrast(*runs).seconds.columns.tolist()
    ['star:4', 'torus:4']
    """
    import pandas as pd

    first = explanations if isinstance(explanations, Sequence) else [explanations]
    found = [explained(one, "each of labkit.contrast is a recorded run") for one in (*first, *others)]
    if len(found) < 2:
        raise DataError(f"a contrast needs at least two recorded runs, got {len(found)}")
    names: list[str] = []
    for e in found:
        name = e.on if len({x.program for x in found}) == 1 else f"{e.program} on {e.on}"
        same = sum(known == name or known.startswith(f"{name} (") for known in names)
        names.append(f"{name} ({same + 1})" if same else name)
    columns = {name: e.totals() for name, e in zip(names, found, strict=True)}
    seconds = pd.DataFrame(columns).fillna(0.0)
    seconds = seconds.loc[seconds.max(axis=1).sort_values(ascending=False, kind="stable").index]
    return Contrast(found, seconds)


def _range(shares: list[float]) -> str:
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"
