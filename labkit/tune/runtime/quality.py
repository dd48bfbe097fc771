"""The quality of decisions: verification runs, how stable they are, and errors of rankings.

A *verification run* uses one codelet from beginning to end (``use=``). Codelets whose times over several such
runs overlap are indistinguishable: the *winners* are the fastest one and all that overlap with it.
The *instability* of a codelet is the share of the others that it overlaps with. An estimate that ranks two
codelets otherwise than their verification runs do, where they do not overlap, is in error by the difference
of their overheads over the best.

References
----------
.. [1] K. Benkert: Adaptive parallel communications for large-scale computational fluid dynamics.
   Dissertation, Universität Stuttgart, 2011, sections 5.3 and 6.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STABILITY", "Verification", "verify"]

#: below this mean instability, the word for it
STABILITY = ((0.2, "very stable"), (0.4, "stable"), (0.6, "fair"), (0.8, "unstable"), (1.01, "very unstable"))


def _frame(rows: Mapping[str, Any], columns: list[str]) -> pd.DataFrame:
    """Return rows as a table; ranks of a tuned program, which need none, do not wait for pandas."""
    import pandas as pd

    return pd.DataFrame(list(rows.values()), index=pd.Index(list(rows)), columns=pd.Index(columns))


@dataclass(frozen=True)
class Verification:
    """Times of verification runs.

    Attributes
    ----------
    times : mapping of str to sequence of float
        Codelet to the seconds of its runs; as many of each.

    Raises
    ------
    DataError
        Fewer than two codelets, or not as many runs of each.

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
            raise DataError("verification takes at least two codelets, and as many runs of each")

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
        """A word for the mean instability: of `STABILITY`."""
        mean = float(np.mean([self.instability(name) for name in self.times]))
        return next(word for below, word in STABILITY if mean < below)

    def loss(self, name: str) -> float:
        """Return how much longer a codelet takes than the best, by the means, as a share."""
        means = {one: float(np.mean(times)) for one, times in self.times.items()}
        return means[name] / min(means.values()) - 1

    def ranking_errors(self, estimates: Mapping[str, float]) -> pd.DataFrame:
        """Return the errors of a ranking in percent: rows least, average, most; columns largest, sum.

        Parameters
        ----------
        estimates : mapping of str to float
            Codelet to what was estimated, in any unit.

        Raises
        ------
        DataError
            A codelet that was not verified.
        """
        unknown = set(estimates) - set(self.times)
        if unknown:
            raise DataError(f"there are no verification runs of {', '.join(sorted(unknown))}")
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
    program: Callable[..., Any],
    ranks: int,
    on: Any,
    codelets: Sequence[str],
    *,
    runs: int = 3,
    phase: str | None = None,
    **options: Any,
) -> Verification:
    """Run a program with each codelet preselected, several times.

    Parameters
    ----------
    program : callable
        ``program(comm, ..., use=name)``; hands `use` to its request.
    ranks : int
    on : str or Platform
    codelets : sequence of str
    runs : int
        Of each codelet; simulated ones with seeds of their own.
    phase : str, optional
        What is timed: this phase of the slowest rank; default: the makespan.
    **options
        Of `labkit.run`, and arguments of the program.

    Raises
    ------
    DataError
        Fewer than two codelets, fewer than one run, or a phase that the program does not have.
    """
    from labkit.run import run

    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise DataError(f"runs must be an integer of at least 1, got {runs!r}")
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
                    raise DataError(f"{found.program} has no phase {phase!r}")
                took = float((rows["end_s"] - rows["begin_s"]).groupby(rows["rank"]).sum().max())
            times.setdefault(name, []).append(took)
    return Verification(times)
