"""The summary of a run: each rank's time, visits and messages by call path, summed up while the program runs.

No event is kept: what a summary takes grows with the ranks and the call paths, not with calls and messages.
`labkit._kernels.HubSums` and `labkit._kernels.RankLog` sum up; this module makes the table of it that
`labkit.trace.waiting.profile` makes of a trace, without what only events show: which part of the time was
spent waiting, for whom, and what was on the critical path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.counters import EVENTS, column_of, in_units
from labkit.trace.phases import NO_PHASE
from labkit.trace.waiting.kinds import COMPUTATION, NOT_BEGUN

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "SUMS",
    "Columns",
    "gives_nothing",
    "joined_columns",
    "not_begun",
    "summary_frame",
    "summed_columns",
]

#: what is summed up, in the order of a row's values
SUMS = ("visits", "spent_s", "messages", "bytes", "empty_messages", "collective_bytes", "empty_collectives")
_KEYS = ("rank", "phase", "name", "call", "place")

#: rank, phase (``"solve > exchange"``), name (its innermost phase), call, place, `SUMS`, counters by names
Columns = dict[str, NDArray[Any]]


def gives_nothing(call: str, n_bytes: int) -> bool:
    """Whether a rank gives nothing to a collective call: it only synchronises.

    An object is never without bytes, but it is its root's alone.

    Examples
    --------
    >>> gives_nothing("Barrier", 0), gives_nothing("Bcast", 0), gives_nothing("Bcast", 8)
    (True, True, False)
    >>> gives_nothing("barrier", 0), gives_nothing("bcast", 0)
    (True, False)
    """
    return n_bytes == 0 and (not call[:1].islower() or call == "barrier")


def summed_columns(
    sums: Mapping[str, Any], calls: Sequence[str], places: Sequence[str], counters: Sequence[str] = ()
) -> Columns:
    """Return the sums of `labkit._kernels` with names in the place of numbers.

    Parameters
    ----------
    sums : mapping
        Of `labkit._kernels.HubSums.columns` or `labkit._kernels.RankLog.summed_columns`.
    calls, places : sequence of str
        By their numbers.
    counters : sequence of str
        Of the host, in the order in which they are summed up.
    """
    paths = [
        (
            text or NO_PHASE,
            name or NO_PHASE,
            calls[call] if call >= 0 else COMPUTATION,
            places[place] if place >= 0 else "",
        )
        for text, name, call, place in sums["paths"]
    ]
    path = sums["path"]
    columns: Columns = {"rank": sums["rank"]}
    for name, texts in zip(_KEYS[1:], zip(*paths, strict=True), strict=True):
        columns[name] = np.array(texts, object)[path]
    columns |= {name: sums[name] for name in SUMS}
    is_empty = np.array([gives_nothing(call, 0) for _, _, call, _ in paths], bool)
    columns["empty_collectives"] = columns["empty_collectives"] * is_empty[path]
    return columns | dict(zip(counters, sums["counted"], strict=True))


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts; NaN for counters that some of them lack."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: np.concatenate([part.get(name, np.full(len(part["rank"]), np.nan)) for part in parts])
        for name in names
    }


def summary_frame(columns: Columns, counts: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the sums of all ranks as the table that `labkit.Run.profile` gives.

    Parameters
    ----------
    columns : dict of arrays
        Of `summed_columns`.
    counts : pandas.DataFrame, optional
        `labkit.Run.counts`: with memory_bytes, the table has that too.

    Returns
    -------
    pandas.DataFrame
        By rank and path: rank, path, phase, call, place, visits (of computation: how often the phase, or the
        program, was entered), spent_s (wait states included: only events tell them apart), messages, bytes,
        empty_messages, collective_bytes and empty_collectives, as in
        `labkit.trace.waiting.profile.profile_of`; but a collective counts as empty for a rank that gives
        nothing to it, whatever the others give. With ``counters=`` a column for each that the hosts have,
        NaN on those that do not.
    """
    import pandas as pd

    counters = [name for name in EVENTS if name in columns and not np.isnan(columns[name]).all()]
    table = pd.DataFrame({name: columns[name] for name in (*_KEYS, *SUMS, *counters)})
    table.loc[table["call"] == NOT_BEGUN, counters] = 0
    table = table.groupby(list(_KEYS), sort=False, as_index=False)[[*SUMS, *counters]].sum(min_count=1)
    table["path"] = table.groupby(list(_KEYS[1:]), sort=False).ngroup()
    table = table.sort_values(["rank", "path"], kind="stable", ignore_index=True)
    if counts is not None and "memory_bytes" in counts:
        held = counts.set_index(["rank", "phase"])["memory_bytes"]
        names = table["name"].replace(NO_PHASE, "")
        table["memory_bytes"] = held.reindex(pd.MultiIndex.from_arrays([table["rank"], names])).to_numpy()
    held_too = ["memory_bytes"] if "memory_bytes" in table else []
    for name in counters:
        held_too.append(column_of(name))
        values = table.pop(name)
        table[column_of(name)] = in_units(name, values if values.hasnans else values.astype(int))
    return table[["rank", "path", "phase", "call", "place", *SUMS, *held_too]]


def not_begun(rank: int, seconds: float) -> Columns:
    """Return the time before a real rank began, as a row."""
    row = {"phase": NO_PHASE, "name": NO_PHASE, "call": NOT_BEGUN, "place": ""}
    zero: Columns = {name: np.zeros(1, np.int64) for name in SUMS}
    words: Columns = {name: np.array([text], object) for name, text in row.items()}
    return {"rank": np.array([rank]), **words, **zero, "spent_s": np.array([seconds])}
