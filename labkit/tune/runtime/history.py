"""Historic learning: decisions of earlier runs, in an SQLite file that many jobs may use at once.

What is known of one *key* (machine, ranks, function set) is a list of records: bytes, and the time of every
codelet that was measured. The *distance* of two records is the difference of the binary logarithms of their
bytes. The *loss* of one for the other is how much longer the other's calls take with the first one's winner;
two records are similar if neither loses more than a share. Calls of which there is no record take the nearest
one's winner if records at that distance, and all nearer ones, have been similar so far.

Only rank 0 opens the file, for a moment: each read and each write is one transaction, and who finds the file
locked waits. A file on a disk that several hosts share needs a file system with locks.

References
----------
.. [1] S. Feki, E. Gabriel: Incorporating historic learning into the Abstract Data and Communication Library.
   EuroPVM/MPI 2008.
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

from labkit.errors import CacheWarning, DataError
from labkit.units import format_bytes

__all__ = ["History", "Known", "Record", "farthest_similar", "records_of"]

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
        """Have rank 0 do it, and tell all ranks what came of it."""
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
    """Return the records of a key, the newest of equal bytes.

    Raises
    ------
    DataError
        The file cannot be read, or is none of these.
    """
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
                f"history {path}: somebody has held it locked for {_WAIT_S:g} s, and a transaction takes "
                "milliseconds; end the program that does, or take another file"
            ) from error
        raise DataError(
            f"history {path}: {error}; it is made as an SQLite file in a folder that can be written"
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
