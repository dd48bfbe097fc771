"""The history of tuning: decisions, and searches that ended before theirs, in a file that runs share."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, combinations
from math import inf, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import CacheWarning, DataError
from labkit.text.files import json_of
from labkit.text.units import format_bytes

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["History", "Record", "RememberedChoice", "farthest_similar", "records_of"]

#: how long a transaction waits for those of others
_WAIT_S = 15.0
_MAKE = """
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, bytes REAL NOT NULL, winner TEXT NOT NULL,
    times TEXT NOT NULL, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX IF NOT EXISTS by_key ON decisions (key);
CREATE TABLE IF NOT EXISTS unfinished (
    key TEXT NOT NULL, bytes REAL NOT NULL, times TEXT NOT NULL, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (key, bytes)
);
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
class RememberedChoice:
    """What is remembered: winner, its time, the second, how far away it was, and where it comes from."""

    winner: str
    time_s: float
    second: str | None
    distance: float
    source: str


class History:
    """The decisions about one key in a file; made by all ranks, opened by rank 0.

    `path`: Is made where it is not there.
    """

    def __init__(self, path: Path, comm: Intracomm, key: str, n_bytes: float) -> None:
        self.path, self._comm, self._key, self._n_bytes = path, comm, key, n_bytes

    def find(self, names: Sequence[str], similar: float) -> RememberedChoice | None:
        """Return what is known about such calls, the same on all ranks; None: nothing.

        Raises DataError: The file cannot be read, or is none of these.
        """

        def look() -> RememberedChoice | None:
            return _nearest(records_of(self.path, self._key), self._n_bytes, names, similar)

        found: RememberedChoice | None = self._read(look)
        return found

    def find_unfinished(self) -> dict[str, tuple[float, float]]:
        """Return the times of the codelets that a search measured which ended before its decision.

        Returns: Name of the codelet -> estimate and standard error in seconds, in the order of the
            measurements.
        """

        def look() -> dict[str, tuple[float, float]]:
            with _opened(self.path) as base:
                row = base.execute(
                    "SELECT times FROM unfinished WHERE key = ? AND bytes = ?",
                    (self._key, float(self._n_bytes)),
                ).fetchone()
                return {} if row is None else {name: (t, e) for name, (t, e) in _times(row[0]).items()}

        found: dict[str, tuple[float, float]] = self._read(look) or {}
        return found

    def keep_unfinished(self, times: Mapping[str, tuple[float, float]]) -> None:
        """Replace what is known of the search under way."""
        row = (self._key, float(self._n_bytes), json.dumps(dict(times)))
        self._write(
            "what a search has measured",
            "INSERT OR REPLACE INTO unfinished (key, bytes, times) VALUES (?, ?, ?)",
            row,
        )

    def keep(self, times: Mapping[str, float], winner: str) -> None:
        """Add a decision; its search is over."""
        row = (self._key, float(self._n_bytes), winner, json.dumps(dict(times)))
        self._write(
            "a decision", "INSERT INTO decisions (key, bytes, winner, times) VALUES (?, ?, ?, ?)", row
        )
        self._write("a decision", "DELETE FROM unfinished WHERE key = ? AND bytes = ?", row[:2])

    def _write(self, what: str, statement: str, row: tuple[object, ...]) -> None:
        """Carry out one statement; where the file cannot be written, rank 0 warns, and the run goes on."""

        def write() -> None:
            try:
                with _opened(self.path) as base:
                    base.execute("BEGIN IMMEDIATE")
                    base.execute(statement, row)
                    base.execute("COMMIT")
            except DataError as error:
                warnings.warn(f"{what} was not kept: {error}", CacheWarning, stacklevel=2)

        self._by_rank_0(write)

    def _read(self, look: Callable[[], object]) -> Any:
        """Look into the file; None, with a warning, where the disk is too full to make it."""

        def read() -> object:
            try:
                return look()
            except DataError as error:
                if getattr(error.__cause__, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                    raise
                warnings.warn(f"nothing is remembered: {error}", CacheWarning, stacklevel=2)
                return None

        return self._by_rank_0(read)

    def _by_rank_0(self, work: Any) -> object:
        """Run it on rank 0 and broadcast the result."""
        found: tuple[object, str | None] = (None, None)
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
        found = {row[0]: Record(row[0], row[1], {n: t for n, (t,) in _times(row[2]).items()}) for row in rows}
        if any(one.winner not in one.times for one in found.values()):
            raise ValueError("a decision without the time of its winner")
        return list(found.values())


def _times(text: str) -> dict[str, list[float]]:
    """Read what was measured: for each name its seconds, and their standard error where it is known."""
    times = json_of(text)
    if not isinstance(times, dict):
        raise ValueError(f"{text[:40]!r} are no measured times")
    found = {name: value if isinstance(value, list) else [value] for name, value in times.items()}
    for one in chain.from_iterable(found.values()):
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one < inf:
            raise ValueError(f"{one!r:.40} is no measured time")
    return found


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a history for one transaction; make it if it is not there."""
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as base:
            has_table = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'unfinished'").fetchone()
            if not has_table:
                base.executescript(f"BEGIN IMMEDIATE;{_MAKE}COMMIT;")
            yield base
    except (sqlite3.Error, ValueError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise DataError(
                f"history {path}: another program has kept it locked for {_WAIT_S:g} s; a transaction takes "
                "milliseconds; end that program, or use another file",
                code="in-use",
            ) from error
        raise DataError(
            f"history {path}: {error}; it must be an SQLite file in a writable folder", code="malformed-file"
        ) from error


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


def _nearest(
    records: Sequence[Record], n_bytes: float, names: Sequence[str], similar: float
) -> RememberedChoice | None:
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
    return RememberedChoice(nearest.winner, nearest.times[nearest.winner], second, distance, where)
