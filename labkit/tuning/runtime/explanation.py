"""The explanation of a request's decision: as text, as a table, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import DataError
from labkit.text import html as markup
from labkit.text.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Decision", "Row", "TuningExplanation", "Verification", "verify"]


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

    `estimate_s`: Seconds: the rank with the most.
    `outliers`: Of the rank with the most.
    `times_s`: Of this rank.
    """

    name: str
    estimate_s: float
    outliers: int
    attributes: Mapping[str, Hashable]
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class Decision:
    """One decision, or what is known before it.

    `phase` ({"search", "verification", "production"})
    `winner`: None before the decision.
    `measured_now`: The codelet under measurement; empty in production.
    `calls`, `trials`, `decided_at`: All calls, those of the last search, and the last call before the present
        decision.
    `rows`: The fastest first.
    `codelets`: That can be used.
    `points`, `warmup`: Measurements of each codelet, and calls before them.
    `counted`: How many times each was measured, as text.
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
class TuningExplanation:
    """What a request or a timer has decided: a decision for each kind of call."""

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
            cards.append(markup.titled_block(markup.escape(one.head), inner))
        return "".join(cards) or markup.titled_block("Tuning", markup.escape(str(self)))


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


# The quality of decisions: verification runs, how stable they are, and errors of rankings.


#: below this mean instability, the name for it
STABILITY = ((0.2, "very stable"), (0.4, "stable"), (0.6, "fair"), (0.8, "unstable"), (1.01, "very unstable"))


def _frame(rows: Mapping[str, object], columns: list[str]) -> pd.DataFrame:
    """Return rows as a table; ranks of a tuned program, which need none, do not wait for pandas."""
    import pandas as pd

    return pd.DataFrame(list(rows.values()), index=pd.Index(list(rows)), columns=pd.Index(columns))


@dataclass(frozen=True)
class Verification:
    """Times of verification runs.

    `times`: Codelet to the seconds of its runs; as many of each.
    Raises DataError: Fewer than two codelets, or not as many runs of each.

    Examples
    --------
    >>> found = Verification({"a": [1.0, 1.1], "b": [1.05, 1.2], "c": [2.0, 2.1]})
    >>> found.winners, found.worst, round(found.instability("a"), 2), found.stability
    (['a', 'b'], ['c'], 0.5, 'stable')
    >>> found.ranking_errors({"a": 3.0, "b": 2.0, "c": 1.0}).loc["average", "largest"].round(1)
    np.float64(95.2)
    """

    times: Mapping[str, Sequence[float]]

    def __post_init__(self) -> None:
        counts = {len(times) for times in self.times.values()}
        if len(self.times) < 2 or len(counts) != 1 or 0 in counts:
            raise DataError(
                "verification takes at least two codelets, and as many runs of each", code="count-mismatch"
            )

    @property
    def table(self) -> pd.DataFrame:
        """Return least, mean and most time of each codelet (s), its instability, overhead of the mean (%)."""
        rows = {
            name: (min(times), float(np.mean(times)), max(times), self.instability(name))
            for name, times in self.times.items()
        }
        found = _frame(rows, columns=["min_s", "mean_s", "max_s", "instability"])
        found["overhead_percent"] = self._overhead(np.mean)
        return found.sort_values("mean_s")

    def overlap(self, one: str, other: str) -> bool:
        """Whether two codelets could change places."""
        a, b = self.times[one], self.times[other]
        return not (min(a) > max(b) or max(a) < min(b))

    @property
    def winners(self) -> list[str]:
        """The codelet with the least time, and those that overlap with it."""
        best = min(self.times, key=lambda name: min(self.times[name]))
        return [name for name in self.times if self.overlap(name, best)]

    @property
    def worst(self) -> list[str]:
        """The codelet with the greatest time, and those that overlap with it."""
        last = max(self.times, key=lambda name: max(self.times[name]))
        return [name for name in self.times if self.overlap(name, last)]

    def instability(self, name: str) -> float:
        """Return the share of the other codelets that it overlaps with."""
        return float(np.mean([self.overlap(name, other) for other in self.times if other != name]))

    @property
    def stability(self) -> str:
        """A name for the mean instability: of `STABILITY`."""
        mean = float(np.mean([self.instability(name) for name in self.times]))
        return next(word for below, word in STABILITY if mean < below)

    def loss(self, name: str) -> float:
        """Return how much longer a codelet takes than the best, by the means, as a share."""
        means = {one: float(np.mean(times)) for one, times in self.times.items()}
        return means[name] / min(means.values()) - 1

    def ranking_errors(self, estimates: Mapping[str, float]) -> pd.DataFrame:
        """Return the errors of a ranking in percent: rows least, average, most; columns largest, sum.

        `estimates`: Codelet to what was estimated, in any unit.
        Raises DataError: A codelet that was not verified.
        """
        unknown = set(estimates) - set(self.times)
        if unknown:
            raise DataError(f"there are no verification runs of {', '.join(sorted(unknown))}", code="no-data")
        low, mean, high = (self._overhead(of) for of in (np.min, np.mean, np.max))
        errors: dict[str, list[float]] = {"least": [0.0], "average": [0.0], "most": [0.0]}
        for c, d in permutations(estimates, 2):
            if self.overlap(c, d) or np.sign(estimates[c] - estimates[d]) == np.sign(mean[c] - mean[d]):
                continue
            ends = sorted((low[d] - high[c], high[d] - low[c]))
            for row, weight in zip(errors, (ends[0], mean[c] - mean[d], ends[1]), strict=True):
                errors[row].append(max(0.0, weight))
        rows = {row: (max(values), sum(values)) for row, values in errors.items()}
        return _frame(rows, columns=["largest", "sum"])

    def _overhead(self, of: Callable[..., Any]) -> dict[str, float]:
        values = {name: float(of(times)) for name, times in self.times.items()}
        best = min(values.values())
        return {name: 100 * (value - best) / best if best > 0 else 0.0 for name, value in values.items()}


def verify(
    program: Callable[..., object],
    ranks: int,
    on: object,
    codelets: Sequence[str],
    *,
    runs: int = 3,
    phase: str | None = None,
    **options: Any,
) -> Verification:
    """Run a program with each codelet preselected, several times.

    `program`: ``program(comm, ..., use=name)``; hands `use` to its request.
    `runs`: Of each codelet; simulated ones with their own seeds.
    `phase`: What is timed: this phase of the slowest rank; default: the makespan.
    `**options`: Of `labkit.run`, and arguments of the program.
    Raises DataError: Fewer than two codelets, fewer than one run, or a phase that the program does not have.
    """
    from labkit.launch.run import run

    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise DataError(f"runs must be an integer of at least 1, got {runs!r}", code="out-of-range")
    first = int(options.pop("seed", 0))
    times: dict[str, list[float]] = {}
    for name in codelets:
        for number in range(runs):
            found = run(program, ranks, on, use=name, seed=first + number, **options)
            if phase is None:
                took = found.makespan_s
            else:
                rows = found.phases[found.phases["phase"] == phase]
                if rows.empty:
                    raise DataError(f"{found.program} has no phase {phase!r}", code="unknown-name")
                took = float((rows["end_s"] - rows["begin_s"]).groupby(rows["rank"]).sum().max())
            times.setdefault(name, []).append(took)
    return Verification(times)
