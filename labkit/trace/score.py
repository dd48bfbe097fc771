"""The size of a trace: the buffer of the ranks of a real run, by phase and call, and what can be left out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.program.function_phases import FILTERS, filter_text
from labkit.text.html import escape, table, titled_block
from labkit.text.units import format_bytes, format_share, number_of_ranks
from labkit.trace.counters import summary_frame
from labkit.trace.trace import NO_PHASE
from labkit.trace.waiting.kinds import COMPUTATION, NOT_BEGUN
from labkit.trace.waiting.profile import profiled
from labkit.trace.waiting.windows import calls_at, sent_in

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import RecordedRun
    from labkit.trace.waiting.analysis import Waiting

__all__ = ["Score", "score_of"]

#: of a call and of a send or receive: TimedCall and TimedPost in kernels/bindings/bind_rank_log.cpp
CALL_BYTES, POST_BYTES = 56, 40
#: of an entry into a phase: a tuple of a name and two numbers in a list (CPython 3.11, 64 bits)
PHASE_BYTES = 120
#: a phase is not worth its place if it takes this share of the buffer and has at most that share of the time
_MUCH, _LITTLE = 0.1, 0.02


@dataclass(repr=False)
class Score:
    """Estimated buffers of a trace.

    `rows`: By phase and call, the largest buffer first: phase (``"solve > exchange"``), call (or
        ``"(phase)"``, for the entries), visits, posts (sends and receives), buffer_bytes (of all ranks),
        seconds (of all ranks, wait states included), waiting_s (NaN where a summary was scored).
    `largest_bytes`: The buffer of the rank that needs most: what a rank must have room for.
    `leave_out`: Phases that take a tenth of the buffer or more, and have at most 2 % of the ranks' time, and
        of the waiting.
    """

    program: str
    ranks: int
    rows: pd.DataFrame
    largest_bytes: int
    leave_out: list[str]

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write `leave_out` as a filter file: ``lk.run(..., trace=True, leave_out=path)`` reads it.

        `path`: Its name ends in ``.filter`` or ``.filt``.
        Raises DataError: Another ending, or it cannot be written.

        Notes
        -----
        The format is Score-P's. labkit reads files that EXCLUDE names, and records all others.
        """
        target = Path(path)
        if target.suffix not in FILTERS:
            raise DataError(
                f"a filter file ends in {' or '.join(FILTERS)}, got {str(target)!r}", code="unknown-format"
            )
        try:
            target.write_text(filter_text(self.leave_out, self.reading()), encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"{str(target)!r} cannot be written: {error.strerror or error}", code="unwritable-file"
            ) from None
        return target

    @property
    def buffer_bytes(self) -> int:
        """Of all ranks together."""
        return int(self.rows["buffer_bytes"].sum())

    def by_phase(self) -> pd.DataFrame:
        """Sum up by phase, the largest buffer first."""
        columns = ["visits", "posts", "buffer_bytes", "seconds", "waiting_s"]
        sums = self.rows.groupby("phase", sort=False)[columns].sum().reset_index()
        return sums.sort_values("buffer_bytes", ascending=False, kind="stable", ignore_index=True)

    def reading(self) -> str:
        """Return as text what a trace takes, and what may be left out."""
        said = (
            f"A trace of {self.program} on {number_of_ranks(self.ranks)} takes "
            f"{format_bytes(self.buffer_bytes)} of buffer, at most {format_bytes(self.largest_bytes)} on one "
            "rank."
        )
        kept = self._of_entries()
        if not self.leave_out:
            all_of_it = "No phase's calls take a tenth of it for next to nothing of the time: record all."
            return f"{said} {all_of_it}{kept}"
        phases = self.by_phase().set_index("phase")
        told = []
        for name in self.leave_out:
            own = phases[[name in str(path).split(" > ") for path in phases.index]].sum()
            share = own["buffer_bytes"] / max(self.buffer_bytes, 1)
            told.append(f"{name} takes {format_share(float(share))} of it")
        names = ", ".join(repr(name) for name in self.leave_out)
        of_waiting = "" if self.rows["waiting_s"].isna().any() else " and of the waiting"
        return (
            f"{said} Phase {' and phase '.join(told)}, with next to nothing of the time{of_waiting}: "
            f"leave_out=[{names}] records the rest; write() makes a filter file of it.{kept}"
        )

    def _of_entries(self) -> str:
        """Return as text which short phases are entered often enough to take much of the buffer."""
        time_s = max(float(self.rows["seconds"].sum()), 0.0)
        entries = self.rows[self.rows["call"] == "(phase)"]
        paths = [str(path).split(" > ") for path in self.rows["phase"]]
        told = []
        columns = (entries[name] for name in ("phase", "visits", "buffer_bytes"))
        for path, visits, buffer in zip(*columns, strict=True):
            name = str(path).rsplit(" > ", 1)[-1]
            spent_s = float(self.rows["seconds"][[name in one for one in paths]].sum())
            if buffer >= _MUCH * self.buffer_bytes and spent_s <= _LITTLE * time_s:
                share = format_share(buffer / self.buffer_bytes)
                told.append(
                    f" The {visits:,} entries into phase {name} take {share} of it and are recorded all the "
                    "same: a phase around more of the work takes less."
                )
        return "".join(told)

    def __repr__(self) -> str:
        return self.reading()

    def _repr_html_(self) -> str:
        first = self.rows.head(12)
        names = ("phase", "call", "visits", "posts", "buffer_bytes")
        shown = [
            [
                escape(str(phase)),
                escape(str(call)),
                f"{visits:,}",
                f"{posts:,}",
                format_bytes(int(buffer)),
                format_share(buffer / max(self.buffer_bytes, 1)),
            ]
            for phase, call, visits, posts, buffer in zip(*(first[n].tolist() for n in names), strict=True)
        ]
        head = ["phase", "call", "visits", "sends and receives", "buffer", "share"]
        return titled_block(
            f"Buffers of a trace: {escape(self.program)}",
            f"<p>{escape(self.reading())}</p>{table(head, shown)}",
        )


def score_of(run: RecordedRun) -> Score:
    """Estimate the buffers of a trace from a run with a summary or a trace, simulated or real.

    Notes
    -----
    What counts is what `labkit.trace.recorder` keeps of a rank until its program ends: 56 B of a call, 40 B
    of a send or a receive, 120 B of an entry into a phase. The messages that simulated
    collectives are made of do not count: a real run does not see them. Polls that find nothing are one call
    where they follow each other closely, and how many times that is differs from run to run. A summary has
    the calls, not the posts: each call to send or to receive counts as one, an exchange as two, and of a
    call that starts several the messages that were sent there count twice.
    """
    if run.trace is not None and run.trace.calls is None:
        raise DataError(
            f"which calls {run.program} makes is not known, so neither is what a trace of them takes: "
            "score a run of a program, or the replay of a time-independent trace",
            code="not-recorded",
        )
    if run.trace is None and run.summary is not None:
        profile = summary_frame(run.summary, run.counts)
        profile = profile.assign(posts=_posting(profile), spent=profile["spent_s"], waiting_s=np.nan)
    else:
        profile, waiting, call_path = profiled(run)
        posts = _posts(run, waiting, call_path)[profile["rank"].to_numpy(), profile["path"].to_numpy()]
        profile = profile.assign(posts=posts, spent=profile["seconds"] + profile["waiting_s"])
    calls = ~profile["call"].isin([COMPUTATION, NOT_BEGUN]).to_numpy()
    profile["visits"] = np.where(calls, profile["visits"], 0)
    profile["buffer_bytes"] = CALL_BYTES * profile["visits"] + POST_BYTES * profile["posts"]
    by_rank = np.bincount(profile["rank"], profile["buffer_bytes"], run.ranks)
    groups = profile.groupby(["phase", "call"], observed=True, sort=False)
    rows = groups.agg(
        visits=("visits", "sum"),
        posts=("posts", "sum"),
        buffer_bytes=("buffer_bytes", "sum"),
        seconds=("spent", "sum"),
        waiting_s=("waiting_s", _sum),
    ).reset_index()
    rows = rows.astype({"phase": object, "call": object})
    entries = _entries(run, profile["phase"].astype(str).unique().tolist())
    rows = _with_entries(rows, entries)
    by_rank = by_rank + PHASE_BYTES * np.bincount(run.phases["rank"].to_numpy(np.int64), minlength=run.ranks)
    rows = rows.sort_values("buffer_bytes", ascending=False, kind="stable", ignore_index=True)
    return Score(run.program, run.ranks, rows, int(by_rank.max(initial=0)), _little(rows))


def _sum(values: Any) -> float:
    return float(values.sum(skipna=False))


#: calls to send or to receive, by their names in lower case; nonblocking ones have an i before it
_ONE = ("send", "ssend", "bsend", "rsend", "recv")


def _posting(profile: pd.DataFrame) -> NDArray[np.int64]:
    """Return how many sends and receives calls of a summary post."""
    names = profile["call"].astype(str).str.lower()
    each = names.str.removeprefix("i").isin(_ONE).astype(int) + 2 * names.str.contains("sendrecv").astype(int)
    each += (names == "start").astype(int)
    posts = np.where(names == "startall", 2 * profile["messages"], each * profile["visits"])
    return np.asarray(posts, np.int64)


def _posts(run: RecordedRun, waiting: Waiting, call_path: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the program's own sends and receives by rank and call path."""
    found = np.zeros((run.ranks, len(waiting.paths)), np.int64)
    messages, calls = run.trace.messages, run.trace.calls
    if calls is None or not len(calls):
        return found
    is_own = run.trace.is_own
    sides = (
        ("source", sent_in(run.trace)),
        (
            "destination",
            calls_at(
                calls,
                messages["destination"].to_numpy(np.int64),
                messages["recv_posted_s"].to_numpy(np.float64),
            ),
        ),
    )
    for side, row in sides:
        known = is_own & (row >= 0)
        np.add.at(found, (messages[side].to_numpy(np.int64)[known], call_path[row[known]]), 1)
    return found


def _entries(run: RecordedRun, paths: list[str]) -> dict[str, int]:
    """Return the number of entries of phases, by their whole chain if it is known, else by name."""
    chains: dict[str, str] = {}
    for path in paths:
        if path != NO_PHASE:
            chains.setdefault(path.rsplit(" > ", 1)[-1], path)
    counts = run.phases["phase"].value_counts()
    return {chains.get(str(name), str(name)): int(count) for name, count in counts.items()}


def _with_entries(rows: pd.DataFrame, entries: dict[str, int]) -> pd.DataFrame:
    import pandas as pd

    if not entries:
        return rows
    more = pd.DataFrame(
        {
            "phase": list(entries),
            "call": "(phase)",
            "visits": list(entries.values()),
            "posts": 0,
            "buffer_bytes": [PHASE_BYTES * count for count in entries.values()],
            "seconds": 0.0,
            "waiting_s": 0.0,
        }
    )
    return pd.concat([rows, more], ignore_index=True)


def _little(rows: pd.DataFrame) -> list[str]:
    """Return phases that take much buffer and little of the time; of those in each other the outermost."""
    whole = rows[["buffer_bytes", "seconds", "waiting_s"]].sum()
    calls = rows[rows["call"] != "(phase)"]  # the entries are recorded all the same
    names = dict.fromkeys(
        name for path in rows["phase"] if path != NO_PHASE for name in str(path).split(" > ")
    )
    found: list[str] = []
    for name in names:
        paths = [str(path).split(" > ") for path in calls["phase"]]
        own = calls[[name in path for path in paths]]
        outside = any(name in path and {*path[: path.index(name)]} & {*found} for path in paths)
        takes = own[["buffer_bytes", "seconds", "waiting_s"]].sum()
        much = takes["buffer_bytes"] >= _MUCH * whole["buffer_bytes"] > 0
        if (
            much
            and not outside
            and all(takes[one] <= _LITTLE * whole[one] for one in ("seconds", "waiting_s"))
        ):
            found.append(name)
    return found
