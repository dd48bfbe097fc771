"""One search and its decision: search, decision and production of calls that are alike.

All ranks go through the same states at the same calls. A rank decides nothing by itself: estimates are maxima
over the ranks, and rank 0 looks up the history and broadcasts the result.
"""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import combinations
from math import inf, log2
from pathlib import Path
from typing import Any

import numpy as np

from labkit import context
from labkit.errors import CacheWarning, DataError
from labkit.selector import Situation
from labkit.tune.runtime.codelets import Codelet
from labkit.tune.runtime.explanation import Decision, Row
from labkit.tune.runtime.plan import Plan
from labkit.tune.runtime.search import BruteForce, Search, search_of
from labkit.tune.runtime.world import most_of
from labkit.units import format_bytes, format_seconds, format_share

__all__ = ["History", "Record", "Tuning", "farthest_similar", "records_of"]


#: how long a transaction waits for those of others
_WAIT_S = 15.0
_MAKE = """
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, bytes REAL NOT NULL, winner TEXT NOT NULL,
    times TEXT NOT NULL, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX IF NOT EXISTS by_key ON decisions (key);
"""


@dataclass(frozen=True)
class Record:
    """A decision: bytes, winner, and seconds of every codelet measured."""

    n_bytes: float
    winner: str
    times: Mapping[str, float]

    def distance(self, n_bytes: float) -> float:
        """How far other calls are."""
        return abs(log2(max(self.n_bytes, 1)) - log2(max(n_bytes, 1)))

    def loss(self, other: Record) -> float:
        """How much longer the other's calls take with this one's winner; infinite if that is not known."""
        best = min(other.times.values())
        took = other.times.get(self.winner, inf)
        return took / best - 1 if best > 0 else 0.0


@dataclass(frozen=True)
class Known:
    """What is remembered: winner, its time, the second, how far away it was, and where it comes from."""

    winner: str
    time_s: float
    second: str | None
    distance: float
    source: str


class History:
    """The decisions about one key in a file; made by all ranks, opened by rank 0.

    Parameters
    ----------
    path : Path
        Is made where it is not there.
    comm : communicator
    key : str
    n_bytes : float
    """

    def __init__(self, path: Path, comm: Any, key: str, n_bytes: float) -> None:
        self.path, self._comm, self._key, self._n_bytes = path, comm, key, n_bytes

    def find(self, names: Sequence[str], similar: float) -> Known | None:
        """Return what is known about such calls, the same on all ranks; None: nothing.

        Raises
        ------
        DataError
            The file cannot be read, or is none of these.
        """

        def look() -> Known | None:
            try:
                known = records_of(self.path, self._key)
            except DataError as error:
                if getattr(error.__cause__, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                    raise
                warnings.warn(f"nothing is remembered: {error}", CacheWarning, stacklevel=2)
                return None
            return _nearest(known, self._n_bytes, names, similar)

        found: Known | None = self._by_rank_0(look)
        return found

    def keep(self, times: Mapping[str, float], winner: str) -> None:
        """Add a decision; where the file cannot be written, rank 0 warns, and the run goes on."""
        row = (self._key, float(self._n_bytes), winner, json.dumps(dict(times)))

        def add() -> None:
            try:
                _add(self.path, row)
            except DataError as error:
                warnings.warn(f"a decision was not kept: {error}", CacheWarning, stacklevel=2)

        self._by_rank_0(add)

    def _by_rank_0(self, work: Any) -> Any:
        """Run it on rank 0 and broadcast the result."""
        found: tuple[Any, str | None] = (None, None)
        if self._comm.Get_rank() == 0:
            try:
                found = work(), None
            except DataError as error:
                found = None, str(error)
        value, wrong = self._comm.bcast(found, 0)
        if wrong is not None:
            raise DataError(wrong)
        return value


def records_of(path: Path, key: str) -> list[Record]:
    """Return the records of a key, the newest of equal bytes."""
    with _opened(path) as base:
        rows = base.execute("SELECT bytes, winner, times FROM decisions WHERE key = ? ORDER BY id", (key,))
        return list({row[0]: Record(row[0], row[1], json.loads(row[2])) for row in rows}.values())


def _add(path: Path, row: tuple[Any, ...]) -> None:
    with _opened(path) as base:
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO decisions (key, bytes, winner, times) VALUES (?, ?, ?, ?)", row)
        base.execute("COMMIT")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a history for one transaction; make it if it is not there."""
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as base:
            has_table = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'decisions'").fetchone()
            if not has_table:
                base.executescript(f"BEGIN IMMEDIATE;{_MAKE}COMMIT;")
            yield base
    except (sqlite3.Error, ValueError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise DataError(
                f"history {path}: another program has kept it locked for {_WAIT_S:g} s; a transaction takes "
                "milliseconds; end that program, or use another file"
            ) from error
        raise DataError(f"history {path}: {error}; it must be an SQLite file in a writable folder") from error


def farthest_similar(records: Sequence[Record], similar: float) -> float:
    """Return the distance up to which all pairs of records were similar; 0 where there is no such pair."""
    pairs = sorted(
        (one.distance(other.n_bytes), max(one.loss(other), other.loss(one)))
        for one, other in combinations(records, 2)
    )
    farthest = 0.0
    for distance, loss in pairs:
        if loss > similar:
            break
        farthest = distance
    return farthest


def _nearest(records: Sequence[Record], n_bytes: float, names: Sequence[str], similar: float) -> Known | None:
    usable = [one for one in records if one.winner in names]
    if not usable:
        return None
    nearest = min(usable, key=lambda one: (one.distance(n_bytes), one.n_bytes))
    distance = nearest.distance(n_bytes)
    if distance > farthest_similar(usable, similar):
        return None
    order = sorted(nearest.times, key=lambda name: nearest.times[name])
    second = next((name for name in order if name != nearest.winner and name in names), None)
    where = "an earlier run" if not distance else f"calls of {format_bytes(nearest.n_bytes)}"
    return Known(nearest.winner, nearest.times[nearest.winner], second, distance, where)


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
