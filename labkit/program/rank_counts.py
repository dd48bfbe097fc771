"""Counts of a run's ranks: messages, bytes, custom counters and memory, in total and by phase."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:  # a rank that counts nothing must not pay for importing NumPy and pandas
    import pandas as pd

    from labkit._kernels import ArrayMemory

__all__ = ["TRAFFIC", "RealTally", "Tally", "joined", "metrics_of", "tally_frame"]

#: what the messages of a rank come to
TRAFFIC = ("messages", "bytes", "received", "received_bytes", "rounds")
_MEMORY = ("memory_bytes", "resident_bytes")

Row = dict[str, Any]


class Tally:
    """Counts for the ranks of this process; the machine's context asks it while the program runs.

    `traffic`: Returns the values of `TRAFFIC` of a rank so far; none where messages are counted elsewhere.
    """

    def __init__(self, traffic: Callable[[int], tuple[int, ...]] | None = None) -> None:
        self._traffic = traffic
        self._memory: dict[int, ArrayMemory] = {}
        self._own: dict[int, dict[str, float]] = {}
        self._open: dict[int, list[tuple[str, Row, int]]] = {}
        self._phases: dict[tuple[int, str], Row] = {}

    def begin(self, rank: int) -> None:
        """A rank begins: the arrays that it makes from now on are its own."""
        from labkit._kernels import ArrayMemory

        self._memory[rank] = memory = ArrayMemory()
        memory.install()

    def add(self, rank: int, name: str, amount: float) -> None:
        """Count for a rank."""
        own = self._own.setdefault(rank, {})
        own[name] = own.get(name, 0.0) + amount

    def enter(self, rank: int, phase: str) -> None:
        """A rank enters a phase; the most that it holds is looked for again."""
        before = self._now(rank)
        memory = self._memory[rank]
        self._open.setdefault(rank, []).append((phase, before, memory.peak))
        memory.peak = 0

    def leave(self, rank: int) -> None:
        """It leaves the phase entered last."""
        if not self._open.get(rank):
            return
        phase, before, peak = self._open[rank].pop()
        memory = self._memory[rank]
        row = self._phases.setdefault((rank, phase), {})
        for name, value in self._now(rank).items():
            row[name] = row.get(name, 0) + value - before.get(name, 0)
        row["memory_bytes"] = max(row.get("memory_bytes", 0), memory.peak)
        memory.peak = max(peak, memory.peak)

    def rows(self) -> list[Row]:
        """Return a row for each rank, and for each phase that it was in."""
        whole = [
            {"rank": rank, "phase": "", **self._now(rank), "memory_bytes": memory.peak}
            for rank, memory in sorted(self._memory.items())
        ]
        return whole + [{"rank": rank, "phase": phase, **row} for (rank, phase), row in self._phases.items()]

    def _now(self, rank: int) -> Row:
        traffic = self._traffic(rank) if self._traffic is not None else ()
        return {**dict(zip(TRAFFIC, traffic, strict=False)), **self._own.get(rank, {})}


class RealTally(Tally):
    """The tally of the rank that this process is; its messages are counted by the recorder."""

    def begin(self, rank: int) -> None:
        """The program begins: what this process holds from now on is its own."""
        super().begin(rank)
        self._rank = rank
        # Linux: the high-water mark starts again
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        self._before = _resident_bytes()

    def end(self) -> list[Row]:
        """The program has ended; return the rows. On Linux with the growth of the process's memory."""
        from labkit._kernels import ArrayMemory

        ArrayMemory.uninstall()
        rows = self.rows()
        if self._before is not None and (after := _resident_bytes()) is not None:
            rows[0]["resident_bytes"] = max(0, after[1] - self._before[0])
        return rows


def _resident_bytes() -> tuple[int, int] | None:
    """Return what this process has in memory, now and at most; None where the system does not report it."""
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
            words = dict(line.split(":", 1) for line in file.read().splitlines())
        now, most = (int(words[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, KeyError, ValueError, IndexError):
        return None
    return now, most


def joined(one: Iterable[Row], other: Iterable[Row]) -> list[Row]:
    """Return rows of the same ranks and phases as one each."""
    found: dict[tuple[int, str], Row] = {}
    for row in (*one, *other):
        found.setdefault((row["rank"], row["phase"]), {}).update(row)
    return list(found.values())


def tally_frame(rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows of a tally as the data frame `labkit.Run.counts`; what a rank did not count is 0."""
    import pandas as pd

    rows = list(rows)
    names = dict.fromkeys(("rank", "phase", *TRAFFIC, *_MEMORY))
    names.update(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        held = [row[name] for row in rows if name in row]
        if len(held) == len(rows):
            columns[name] = held
        elif held:
            columns[name] = [float(cast("float", row.get(name, 0))) for row in rows]
    return pd.DataFrame(columns)


def metrics_of(counts: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Return what a study keeps of a run's counts: (metric, phase, value).

    `counts`: `Run.counts`.
    Returns: The whole run first. ``messages``, ``bytes`` and what the program counts: the sum over the ranks,
        and with ``rank_`` before its name the most of one rank (sent or received, whichever is more);
        ``rounds`` and ``rank_memory_bytes``: the most of one rank.
    """
    found: list[tuple[str, str, float]] = []
    rows: dict[str, list[int]] = {}
    for row, phase in enumerate(counts["phase"]):
        rows.setdefault(str(phase), []).append(row)
    columns = {name: counts[name].to_numpy() for name in counts.columns if name not in ("rank", "phase")}
    for phase, own in rows.items():
        part = {name: column[own] for name, column in columns.items()}  # pandas takes a millisecond for each
        for name, values in part.items():
            if name.endswith(("received", "received_bytes")) or (phase and name == "resident_bytes"):
                continue
            if name == "rounds":
                found.append((name, phase, float(values.max())))
                continue
            if name not in _MEMORY:
                found.append((name, phase, float(values.sum())))
            taken = name.replace("messages", "received").replace("bytes", "received_bytes")
            most = max(part[one].max() for one in {name, taken} & part.keys())
            found.append((f"rank_{name}", phase, float(most)))
    return sorted(found, key=lambda one: one[1] != "")
