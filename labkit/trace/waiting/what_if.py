"""A trial of one change (what if): one thing of a simulated run is changed, and it is simulated again.

What the critical path promises is how much of it the change takes away. Mostly less is won: another path may
then be the longest. Faster links can win more, as what they carried held other transfers back, and so can
shorter computation where ranks then send at other times, when fewer share the links. What is really won is
simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError, SuggestsNames
from labkit.program.variation import Variation
from labkit.selector import selector_of
from labkit.text.html import escape, quantity, table, titled_block
from labkit.text.units import format_share, ranks_text
from labkit.trace.trace import NO_PHASE, RecordedRun, lacks_trace
from labkit.trace.waiting.analysis import Waiting, find_waiting
from labkit.trace.waiting.kinds import COMPUTATION, base_of

if TYPE_CHECKING:
    from labkit.trace.waiting.analysis import Waiting

__all__ = ["WhatIf", "try_it"]

#: shares of the makespan, and of all that a rank computes, below this are rounding
_ROUNDING = 1e-12

Array = NDArray[np.float64]


def by_visit(run: RecordedRun, waiting: Waiting, phase: str) -> tuple[Array, Array]:
    """Sum up what is computed in a phase, and in those inside it.

    `run`: Recorded.
    `waiting`: Of the run.
    Returns (spent, critical : arrays of shape (ranks, visits)): Seconds in all, and on the critical path.
        Ranks that enter the phase less often have 0 s at the end. A phase in itself is one visit.
    """
    rows = run.phases[run.phases["phase"] == phase]
    visits = [outermost(rows[rows["rank"] == rank]) for rank in range(run.ranks)]
    most = max((len(begin) for begin, _ in visits), default=0)
    spent, critical = np.zeros((run.ranks, most)), np.zeros((run.ranks, most))
    work, path = run.trace.computations, waiting.critical
    owner, visitor = work["rank"].to_numpy(), path["rank"].to_numpy()
    for rank, (begin, end) in enumerate(visits):
        if not len(begin):
            continue
        works = _stretches(work[owner == rank])
        both = _common(works, _stretches(path[visitor == rank]))
        spent[rank, : len(begin)] = _within(works, begin, end)
        critical[rank, : len(begin)] = _within(both, begin, end)
    return spent, critical


def outermost(rows: Any) -> tuple[Array, Array]:
    """Return begins and ends of one rank's entries into a phase; those inside others are left out."""
    begin, end = rows["begin_s"].to_numpy(np.float64), rows["end_s"].to_numpy(np.float64)
    order = np.lexsort((-end, end > begin, begin))  # those that take no time came before, not inside
    begin, end = begin[order], end[order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    outer = begin >= before
    return begin[outer], end[outer]


def _stretches(rows: Any) -> Array:
    """Return begins and ends in order of time, shape (stretches, 2)."""
    found: Array = rows[["begin_s", "end_s"]].to_numpy(np.float64)
    return found[np.argsort(found[:, 0], kind="stable")]


def _common(first: Array, second: Array) -> Array:
    """Return what two lists of stretches, disjoint in themselves, have in common."""
    if not len(first) or not len(second):
        return np.empty((0, 2))
    edges = np.unique(np.concatenate([first.ravel(), second.ravel()]))
    middle = (edges[:-1] + edges[1:]) / 2
    inside = np.ones(len(middle), bool)
    for one in (first, second):
        place = np.searchsorted(one[:, 0], middle, side="right") - 1
        inside &= (place >= 0) & (middle < one[np.maximum(place, 0), 1])
    return np.column_stack([edges[:-1], edges[1:]])[inside]


def _within(stretches: Array, begin: Array, end: Array) -> Array:
    """Return how much of some stretches lies between begins and ends."""
    if not len(stretches):
        return np.zeros(len(begin))
    lengths = stretches[:, 1] - stretches[:, 0]
    # between two stretches the sum stands still
    sums = np.cumsum(np.column_stack([np.zeros(len(lengths)), lengths]).ravel())
    edges = stretches.ravel()
    found: Array = np.interp(end, edges, sums) - np.interp(begin, edges, sums)
    found[found < _ROUNDING * sums[-1]] = 0.0
    return found


#: smaller factors of computation are given as "next to none"
_NEXT_TO_NONE = 1e-3
_ANOTHER = ": then another path is the longest"
_HELD = ": then something else holds these transfers, or another path is the longest"
_NOT_FREE = ": that is all that these calls took on it, and the others take time as well"


@dataclass(repr=False)
class WhatIf(SuggestsNames):
    """A run, and the same with one thing changed.

    `change`: What was changed.
    `predicted_s`: Seconds by which the critical path promises the run to be shorter; None where it says
        nothing (another machine).
    `why_less`: Why less than that may be won, as the end of a sentence.
    """

    change: str
    before: RecordedRun
    after: RecordedRun
    predicted_s: float | None
    why_less: str = ""

    @property
    def won_s(self) -> float:
        """Seconds by which the run is really shorter; below 0: longer."""
        return self.before.makespan_s - self.after.makespan_s

    def reading(self) -> str:
        """Return as text what was won, and what was promised."""
        old, new = (quantity(run.makespan_s, "s") for run in (self.before, self.after))
        share = abs(self.won_s) / self.before.makespan_s if self.before.makespan_s > 0 else 0.0
        amount = f"{quantity(abs(self.won_s), 's', 3)} ({format_share(share)})"
        if abs(self.won_s) <= _ROUNDING * self.before.makespan_s:
            said = f"With {self.change}, {self.before.program} takes as long as before: {new}."
        else:
            word = "shorter" if self.won_s > 0 else "longer"
            said = f"With {self.change}, {self.before.program} takes {new} instead of {old}: {amount} {word}."
        if self.predicted_s is None:
            return said
        nothing = _ROUNDING * self.before.makespan_s
        if self.predicted_s <= nothing:
            much = self.predicted_s < -nothing
            word = f"{quantity(-self.predicted_s, 's', 3)} more" if much else "nothing"
            return f"{said} The critical path predicted {word}."
        kept = self.won_s / self.predicted_s
        promised = quantity(self.predicted_s, "s", 3)
        if self.won_s > self.predicted_s + nothing:
            return f"{said} The critical path predicted {promised}."
        told = f"The critical path predicted up to {promised}"
        if kept >= 0.95:
            return f"{said} {told}."
        return f"{said} {told}; {format_share(max(kept, 0.0))} of that is gained{self.why_less}."

    def __repr__(self) -> str:
        return self.reading()

    def _repr_html_(self) -> str:
        promised = "–" if self.predicted_s is None else quantity(self.predicted_s, "s", 3)
        rows = [
            ["before", quantity(self.before.makespan_s, "s"), ""],
            ["after", quantity(self.after.makespan_s, "s"), quantity(self.won_s, "s", 3)],
            ["by the critical path", "", promised],
        ]
        inner = f"<p>{escape(self.reading())}</p>{table(['', 'makespan', 'won'], rows)}"
        return titled_block(f"What if: {escape(self.change)}", inner)


def try_it(
    run: RecordedRun,
    phase: str | None,
    factor: float | None,
    ranks: Iterable[int] | None,
    balanced: str | None,
    every_visit: bool,
    links: str | Iterable[str] | None,
    coll: object,
    on: object,
) -> WhatIf:
    """Do `Run.what_if`."""
    given = {"phase": phase, "balanced": balanced, "links": links, "coll": coll, "on": on}
    named = [name for name, one in given.items() if one is not None]
    if len(named) != 1:
        raise DataError(
            f"what_if changes one thing: give one of {', '.join(given)}; "
            f"got {', '.join(named) or 'none of them'}",
            code="conflicting-options",
        )
    _check(run, named[0], factor, ranks)
    if every_visit and balanced is None:
        raise DataError("every_visit belongs to balanced=...; leave it out", code="conflicting-options")
    if on is not None:
        return WhatIf(f"the machine {on}", run, run.again(on=on), None)
    if coll is not None:
        return _with_collectives(run, coll)
    if links is not None:
        assert factor is not None
        return _with_links(run, (links,) if isinstance(links, str) else tuple(links), float(factor))
    waiting = find_waiting(run)
    name: Any = phase if phase is not None else balanced
    spent, critical = _in_phase(run, waiting, name)
    if every_visit:
        return _by_visit(run, waiting, name)
    if phase is not None:
        assert factor is not None
        factors, change = _on_ranks(run, phase, float(factor), ranks)
    else:
        factors = _levelled(name, spent)
        change = (
            f"the computation of phase {name} balanced over the {int((spent > 0).sum())} ranks that have any"
        )
    again = run.again(trial=Variation(computation={name: factors.tolist()}))
    return WhatIf(change, run, again, float((critical * (1.0 - factors)).sum()), _ANOTHER)


def _check(run: RecordedRun, named: str, factor: float | None, ranks: Iterable[int] | None) -> None:
    if run.trace is None:
        raise lacks_trace(run, f"nothing can be tried in {run.program} on {run.on}")
    if run.model is None:
        raise DataError(
            f"{run.program} ran on a real machine, where nothing can be tried; run it with trace=True on a "
            'simulated one, as in on="star", and ask that run',
            code="not-recorded",
        )
    if run.again is None:
        raise DataError(
            f"{run.program} cannot be run again: only a run that labkit.run returned here can; "
            "one that was loaded, replayed or sent from another process cannot",
            code="in-use",
        )
    if (factor is not None) != (named in ("phase", "links")):
        raise DataError(
            "a factor belongs to phase=... or links=...; "
            + ("give one, as in factor=0.5" if factor is None else "leave it out"),
            code="conflicting-options",
        )
    if factor is not None and not _is_factor(factor):
        raise DataError(
            f"the factor must be a number above 0 and finite, got {factor!r}", code="out-of-range"
        )
    if ranks is not None and named != "phase":
        raise DataError("ranks belong to phase=...; leave them out", code="conflicting-options")


def _is_factor(given: Any) -> bool:
    try:
        return 0 < float(given) < float("inf")
    except (TypeError, ValueError):
        return False


def _in_phase(run: RecordedRun, waiting: Waiting, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return by rank what is computed in a phase and the phases in it, in all and on the critical path."""
    inside = np.array([f" > {name} > " in f" > {phase} > " for phase in waiting.paths["phase"]], bool)
    if not isinstance(name, str) or not inside.any():
        known = sorted({str(one) for one in waiting.paths["name"]} - {NO_PHASE})
        have = f"its phases are {', '.join(known)}" if known else "it has none; mark one with lk.phase(...)"
        if not isinstance(name, str):
            raise DataError(
                f"a phase is given by its name, got {name!r}: {run.program}: {have}", code="wrong-type"
            )
        raise DataError(f"{run.program} has no phase {name!r}: {have}", code="unknown-name")
    works = inside & (waiting.paths["call"] == COMPUTATION).to_numpy()
    rows = waiting.totals[works[waiting.totals["path"].to_numpy()]]
    sums = [np.bincount(rows["rank"], rows[column], run.ranks) for column in ("seconds", "critical_s")]
    if not sums[0].any():
        raise DataError(f"in phase {name!r} nothing is computed: there is nothing to scale", code="no-data")
    return sums[0], sums[1]


def _on_ranks(
    run: RecordedRun, phase: str, factor: float, ranks: Iterable[int] | None
) -> tuple[NDArray[Any], str]:
    factors = np.full(run.ranks, factor)
    amount = f"{factor:g} times" if factor >= _NEXT_TO_NONE else "next to none of"
    change = f"{amount} the computation in phase {phase}"
    if ranks is None:
        return factors, change
    chosen = sorted({int(rank) for rank in ranks})
    if not chosen or chosen[0] < 0 or chosen[-1] >= run.ranks:
        raise DataError(f"ranks are numbers from 0 to {run.ranks - 1}, got {chosen}", code="out-of-range")
    factors[:] = 1.0
    factors[chosen] = factor
    return factors, f"{change} on {ranks_text(chosen)}"


def _levelled(name: str, spent: NDArray[Any]) -> NDArray[Any]:
    some = spent > 0
    return np.where(some, spent[some].mean() / np.where(some, spent, 1.0), 1.0)


def _by_visit(run: RecordedRun, waiting: Waiting, name: str) -> WhatIf:
    spent, critical = by_visit(run, waiting, name)
    some = spent > 0
    mean = spent.sum(axis=0) / np.maximum(some.sum(axis=0), 1)
    factors = np.where(some, mean / np.where(some, spent, 1.0), 1.0)
    again = run.again(trial=Variation(visits={name: factors.tolist()}))
    change = f"the computation of each of the {spent.shape[1]} visits of phase {name} balanced over its ranks"
    return WhatIf(change, run, again, float((critical * (1.0 - factors)).sum()), _ANOTHER)


def _with_links(run: RecordedRun, kinds: tuple[str, ...], faster: float) -> WhatIf:
    from labkit.trace.explanation import explain_run

    explained = explain_run(run)
    known = sorted(set(explained.links["kind"]))
    if unknown := [kind for kind in kinds if kind not in known]:
        raise DataError(
            f"no links of the kind {unknown[0]!r} carried anything; there are {', '.join(known)}",
            code="unknown-name",
        )
    held = explained.totals()
    on_path = float(sum(held.get(kind, 0.0) for kind in kinds))
    change = f"{faster:g} times the bandwidth of {' and '.join(kinds)}"
    return WhatIf(
        change,
        run,
        run.again(trial=Variation(links=dict.fromkeys(kinds, faster))),
        on_path * (1.0 - 1.0 / faster),
        _HELD,
    )


def _check_called(run: RecordedRun, coll: Mapping[object, object]) -> None:
    """Refuse other algorithms for collectives that the run has none of."""
    selector_of(coll)  # refuses names that there are not
    calls = run.trace.calls
    called = {getattr(situation, "operation", "") for situation in run.collectives}
    if calls is not None:
        called |= {base_of(str(name)) for name in calls.loc[calls["joint"] >= 0, "call"].unique()}
    if coll and not any(str(name).lower() in called for name in coll):
        known = ", ".join(sorted(called - {""}))
        have = f"its collectives are {known}" if known else "it has no collectives"
        raise DataError(
            f"{run.program} calls no {' and no '.join(map(str, coll))}: {have}", code="unknown-name"
        )


def _with_collectives(run: RecordedRun, coll: object) -> WhatIf:
    change = "other algorithms of the collectives"
    promised = None
    if isinstance(coll, Mapping):
        _check_called(run, coll)
        change = " and ".join(f"{name} by {algorithm}" for name, algorithm in coll.items())
        waiting = find_waiting(run)
        meant = waiting.totals["call"].astype(str).map(base_of).isin([str(name).lower() for name in coll])
        promised = float(waiting.totals.loc[meant, "critical_s"].sum())
    return WhatIf(change, run, run.again(coll=coll), promised, _NOT_FREE)
