"""The explanation of a request's decision: as text, as a table, as plain data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from labkit import html as markup
from labkit.units import format_seconds

__all__ = ["Decision", "Explanation", "Row"]

_TIMED = {
    "barrier": "between two barriers",
    "nobarrier": "without barriers",
}
_ESTIMATES = {
    "mean": "the mean",
    "drop": "the mean (without values far above the least, unless they are many)",
    "iqr": "the mean within 1.5 interquartile ranges",
    "cluster": "the mean without small distant clusters",
    "student": "the location of a t-distribution",
}


@dataclass(frozen=True)
class Row:
    """What was measured of one codelet.

    Attributes
    ----------
    name : str
    estimate_s : float
        Seconds: the rank with the most.
    outliers : int
        Of the rank with the most.
    attributes : mapping
    times_s : tuple of float
        Of this rank.
    """

    name: str
    estimate_s: float
    outliers: int
    attributes: Mapping[str, Hashable]
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class Decision:
    """One decision, or what is known before it.

    Attributes
    ----------
    what : str
    phase : {"search", "verification", "production"}
    winner : str or None
        None before the decision.
    measured_now : str
        The codelet under measurement; empty in production.
    calls, trials, decided_at : int
        All calls, those of the last search, and the last call before the present decision.
    rows : tuple of Row
        The fastest first.
    codelets : int
        That can be used.
    search, timing, estimator : str
    points, warmup : int
        Measurements of each codelet, and calls before them.
    left_out, events : tuple of str
    counted : str
        How many times each was measured, as text.
    """

    what: str
    phase: str
    winner: str | None
    measured_now: str
    calls: int
    trials: int
    decided_at: int
    rows: tuple[Row, ...]
    codelets: int
    search: str
    timing: str
    estimator: str
    points: int
    warmup: int
    left_out: tuple[str, ...]
    events: tuple[str, ...]
    counted: str = ""

    @property
    def head(self) -> str:
        """Return the decision in one sentence."""
        if self.winner is not None:
            since = f"from call {self.decided_at + 1} on"
            return f"{self.what}: {self.winner}, {since} ({_calls(self.calls)} so far)."
        return (
            f"{self.what}: no decision yet; {self.phase} measures {self.measured_now}, and has measured "
            f"{len(self.rows)} of {self.codelets} codelets in {_calls(self.trials)}."
        )

    @property
    def why(self) -> str:
        """Return how it was found, in one sentence; empty where nothing was measured."""
        if not self.rows:
            return ""
        warm = f", after {self.warmup} to warm up" if self.warmup else ""
        timed = _TIMED.get(self.timing, self.timing)
        return (
            f"{self.search.capitalize()} measured {len(self.rows)} of {self.codelets} codelets in "
            f"{self.trials} calls, {self.counted or f'{self.points} of each'}{warm}, {timed}; what counts is "
            f"{_ESTIMATES[self.estimator]} on each rank, then the maximum over the ranks.{self._gain()}"
        )

    def _gain(self) -> str:
        own = next((row for row in self.rows if row.name == "library"), None)
        best = next((row for row in self.rows if row.name == self.winner), None)
        if own is None or best is None or not best.estimate_s:
            return ""
        if best is own and own is not self.rows[0]:  # others were measured less often
            return " The library's own was taken: no other is clearly faster."
        if best is own:
            second = next((row for row in self.rows if row is not own), None)
            if second is None or not own.estimate_s:
                return " The library's own is the fastest."
            more = f"{second.name}, the next, takes {second.estimate_s / own.estimate_s:.2f} times as long"
            return f" The library's own is the fastest; {more}."
        ratio = own.estimate_s / best.estimate_s
        more = f"{ratio:.2f} times as long as {best.name}" if ratio >= 1.005 else f"as long as {best.name}"
        if ratio < 0.995:
            more = f"{ratio:.2f} times as long as {best.name}, in fewer measurements"
        return f" The library's own takes {more}."

    def table(self) -> list[list[str]]:
        """Return a row for each codelet measured: name, time, against the best, outliers, attributes."""
        best = min((row.estimate_s for row in self.rows), default=0.0)
        return [
            [
                row.name,
                format_seconds(row.estimate_s),
                f"{row.estimate_s / best:.2f}" if best > 0 else "1.00",
                str(row.outliers),
                ", ".join(f"{name}: {value}" for name, value in row.attributes.items()),
            ]
            for row in self.rows
        ]

    def __str__(self) -> str:
        lines = [self.head]
        if self.rows:
            lines.append(self.why)
            cells = [["codelet", "time", "to best", "outliers", "attributes"], *self.table()]
            wide = [max(len(row[i]) for row in cells) for i in range(5)]
            lines += [
                "  "
                + "  ".join(
                    text.ljust(wide[i]) if i in (0, 4) else text.rjust(wide[i]) for i, text in enumerate(row)
                ).rstrip()
                for row in cells
            ]
        lines += [f"- {event}." for event in self.events]
        if self.left_out:
            lines.append(f"- left out: {'; '.join(self.left_out)}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; times in seconds."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rows"}
        rows = [
            {
                "name": row.name,
                "time_s": row.estimate_s,
                "times_s": list(row.times_s),
                "outliers": row.outliers,
                "attributes": {name: str(value) for name, value in row.attributes.items()},
            }
            for row in self.rows
        ]
        return own | {"left_out": list(self.left_out), "events": list(self.events), "rows": rows}


@dataclass(frozen=True)
class Explanation:
    """What a request or a timer has decided: a decision for each kind of call.

    Attributes
    ----------
    decisions : tuple of Decision
    """

    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.decisions)) or "There was no call yet: nothing is decided."

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; times in seconds."""
        return {"decisions": [one.to_dict() for one in self.decisions]}

    def _repr_html_(self) -> str:
        head = ["codelet", "time", "to best", "outliers", "attributes"]
        cards = []
        for one in self.decisions:
            rows = [[markup.escape(cell) for cell in row] for row in one.table()]
            said = [*one.events, *([f"left out: {'; '.join(one.left_out)}"] if one.left_out else [])]
            inner = markup.escape(one.why) + (markup.table(head, rows) if rows else "")
            inner += "".join(f"<div>{markup.escape(text)}.</div>" for text in said)
            cards.append(markup.card(markup.escape(one.head), inner))
        return "".join(cards) or markup.card("Tuning", markup.escape(str(self)))


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"
