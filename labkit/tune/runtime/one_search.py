"""One search and its decision: search, decision and production of calls that are alike.

All ranks go through the same states at the same calls. A rank decides nothing by itself: estimates are maxima
over the ranks, and what is looked up is looked up by rank 0 and told to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit import context
from labkit.errors import DataError
from labkit.selector import Situation
from labkit.tune.runtime.codelets import Codelet
from labkit.tune.runtime.explanation import Decision, Row
from labkit.tune.runtime.history import History, Known
from labkit.tune.runtime.plan import Plan
from labkit.tune.runtime.search import BruteForce, Search, search_of
from labkit.tune.runtime.world import most_of
from labkit.units import format_seconds, format_share

__all__ = ["Tuning"]

#: a remembered time may be missed by so much
_REMEMBERED = 0.25


class Tuning:
    """The tuning of calls that are alike, one of them after the other.

    Parameters
    ----------
    comm : communicator
        For nothing else.
    what : str
        What is tuned, as a sentence begins.
    codelets : sequence of Codelet
        That can be used here.
    left_out : sequence of str
        Those that cannot, and why.
    plan : Plan
    key, n_bytes : str and float
        What the history knows it by.
    points : int
        Measurements of each codelet.
    situation : Situation, optional
        Of a collective's calls: the run says what they take (`labkit.Run.collectives`).

    Attributes
    ----------
    phase : {"search", "verification", "production"}
    calls, trials : int
        All so far, and those spent on the last search.
    """

    def __init__(
        self, comm: Any, what: str, codelets: Sequence[Codelet], left_out: Sequence[str], plan: Plan,
        key: str, n_bytes: float, points: int, situation: Situation | None = None,
    ) -> None:  # fmt: skip
        self._comm, self.what, self._plan = comm, what, plan
        self.codelets = {codelet.name: codelet for codelet in codelets}
        self._left_out, self._points, self._situation = list(left_out), points, situation
        self.phase, self.calls, self.trials = "search", 0, 0
        self.winner: str | None = None
        self.events: list[str] = []
        self._rows: dict[str, Row] = {}
        self._times: list[float] = []
        self._warm = plan.warmup
        self._decided_at = 0
        self._search: Search | None = None
        self._known: Known | None = None
        self._is_remembered = False
        self._history = None if plan.history is None else History(plan.history, comm, key, n_bytes)
        self._baseline_s: float | None = None
        self._suspect = False
        self._since = 0
        if not self.codelets:
            raise DataError(f"{what}: no codelet can be used ({'; '.join(self._left_out)})")
        if plan.use is not None:
            self._preselect(plan.use)
        elif self._history is None or not self._remember():
            self._begin()

    @property
    def current(self) -> Codelet:
        """What the next call takes."""
        if self.phase == "production":
            return self.codelets[str(self.winner)]
        assert self._search is not None
        assert self._search.current is not None
        return self._search.current

    @property
    def is_timed(self) -> bool:
        """Whether the next call is to be timed."""
        if self.phase != "production":
            return True
        monitor = self._plan.monitor
        if monitor is None:
            return False
        return self._suspect or bool(self._times) or self._since % monitor.every < monitor.calls

    @property
    def is_warming(self) -> bool:
        """Whether the next call does not count: the first ones of a codelet."""
        return self.phase != "production" and self._warm > 0

    def passed(self) -> None:
        """Note a call that was not timed."""
        self.calls += 1
        self._since += 1

    def add(self, time_s: float, calls: int = 1) -> None:
        """Note that a call took so long on this rank, or each of several passes of a timer."""
        self.calls += calls
        self._since += 1
        if self.phase == "production":
            self._watch(time_s)
            return
        self.trials += calls
        if self._warm:
            self._warm -= 1
            return
        self._times.append(time_s)
        assert self._search is not None
        if len(self._times) < self._search.needed:
            return
        name = self.current.name
        search = self._search
        search.tell(*self._estimate(name, search.is_joined))
        self._warm = self._plan.warmup
        if search.current is not None:
            return
        if self.phase == "verification":
            self._verified(search)
        else:
            self.events += search.words
            self._decide(search.winner)
            if self._history is not None:
                self._history.keep({n: r.estimate_s for n, r in self._rows.items()}, search.winner)

    def _begin(self) -> None:
        self.phase, self._is_remembered = "search", False
        every = list(self.codelets.values())
        self._search = search_of(self._plan.search)(every, self._points, self._plan.warmup)
        self._times, self._warm = [], self._plan.warmup

    def _preselect(self, name: str) -> None:
        if name not in self.codelets:
            why = next((text for text in self._left_out if text.startswith(f"{name} ")), "")
            known = ", ".join(self.codelets)
            raise DataError(f"{self.what}: {why or f'there is no codelet {name!r}'}; there are: {known}")
        self.events.append(f"{name} was preselected (use={name!r}): nothing was searched")
        self._decide(name)

    def _decide(self, name: str) -> None:
        self.winner, self.phase = name, "production"
        self._decided_at, self._since = self.calls, 0
        self._times, self._baseline_s, self._suspect = [], None, False
        how = "preselected" if self._plan.use is not None else f"by {self._plan.search}"
        if self.phase == "production" and self._is_remembered:
            how = "remembered and verified"
        context.decided(self.what, self._situation, name, f"from call {self.calls + 1} on, {how}")

    def _estimate(self, name: str, is_joined: bool = False) -> tuple[float, float]:
        """Return what all ranks' times say of a codelet, and its standard error; called by all together."""
        before = self._rows[name].times_s if is_joined and name in self._rows else ()
        times = np.array([*before, *self._times])
        estimator = self._plan.estimator
        error_s = float(np.std(times, ddof=1)) / len(times) ** 0.5 if len(times) > 1 else 0.0
        *most, outliers, error_s = most_of(
            self._comm, [*estimator.local(times), float(estimator.outliers(times)), error_s]
        )
        self._times = []
        found = estimator.joined(most)
        attributes = dict(self.codelets[name].attributes)
        self._rows[name] = Row(name, found, int(outliers), attributes, tuple(times.tolist()))
        return found, error_s

    # What is remembered of earlier runs

    def _remember(self) -> bool:
        """Ask the history; whether there is something to verify."""
        assert self._history is not None
        self._known = known = self._history.find(list(self.codelets), self._plan.similar)
        if known is None:
            self.events.append(f"{self._plan.history} knows of no calls that are near enough")
            return False
        names = [known.winner]
        if known.distance and known.second in self.codelets and known.second is not None:
            names.append(known.second)
        self.phase, self._search = (
            "verification",
            BruteForce([self.codelets[name] for name in names], self._points),
        )
        self._times, self._warm = [], self._plan.warmup
        return True

    def _verified(self, search: Search) -> None:
        """Compare what was measured with what is remembered."""
        known = self._known
        assert known is not None
        took = search.times[known.winner]
        if known.distance:
            lost = took / search.times[search.winner] - 1
            holds = lost <= self._plan.similar
            said = f"the second then, {known.second}, is not faster"
            if len(search.times) == 1:
                said = "there was no other codelet then"
            elif search.winner != known.winner:
                said = (
                    f"it takes {format_share(lost)} more than the second then, {known.second}; "
                    f"{'up to' if holds else 'only'} {format_share(self._plan.similar)} may be lost"
                )
        else:
            holds = known.time_s / (1 + _REMEMBERED) <= took <= known.time_s * (1 + _REMEMBERED)
            said = f"it takes {format_seconds(took)}, and took {format_seconds(known.time_s)} then"
        if holds:
            self.events.append(f"{known.winner} is remembered from {known.source}, and verified: {said}")
            self._is_remembered = True
            self._decide(known.winner)
        else:
            self.events.append(f"{known.winner} is remembered from {known.source}, and discarded: {said}")
            self._begin()

    # Production

    def _watch(self, time_s: float) -> None:
        """Take up a time of production; tune again when two series in a row say that it has changed."""
        monitor = self._plan.monitor
        assert monitor is not None
        self._times.append(time_s)
        if len(self._times) < monitor.calls:
            return
        name = str(self.winner)
        kept = self._rows.get(name)
        took, _ = self._estimate(name)
        if kept is not None:
            self._rows[name] = kept
        if self._baseline_s is None:
            self._baseline_s = took
            return
        ratio = took / self._baseline_s if self._baseline_s > 0 else 1.0
        is_off = monitor.is_off(ratio)
        if is_off and self._suspect:
            self.events.append(
                f"call {self.calls}: {name} took {format_seconds(took)} instead of "
                f"{format_seconds(self._baseline_s)} ({format_share(abs(ratio - 1))} "
                f"{'more' if ratio > 1 else 'less'}), twice in a row: tuned again"
            )
            self._rows, self._suspect, self.trials = {}, False, 0
            self._begin()
            return
        self._suspect = is_off

    # Words

    def decision(self) -> Decision:
        """Return what was found out so far."""
        rows = sorted(self._rows.values(), key=lambda row: row.estimate_s)
        now = "" if self.phase == "production" else self.current.name
        return Decision(
            self.what, self.phase, self.winner if self.phase == "production" else None, now, self.calls,
            self.trials, self._decided_at, tuple(rows), len(self.codelets),
            "verification" if self._is_remembered or self.phase == "verification" else self._plan.search,
            self._plan.timing, self._plan.estimator.name, self._points, self._plan.warmup,
            tuple(self._left_out), tuple(self.events), "" if self._search is None else self._search.counted,
        )  # fmt: skip
