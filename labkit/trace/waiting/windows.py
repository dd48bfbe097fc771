"""Wait states of windows: who waits for a post, for a completion, at a fence, for a lock.

A window's synchronisation is messages and gates, so that the analysis finds its waits as those of messages.
Which calls they are in, and which call ends them, says what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.waiting.kinds import KINDS, kind_number

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.waiting.call_kinds import CallKinds

__all__ = ["calls_at", "lock_waits", "named"]

_LOCKS, _UNLOCKS = ("Lock", "Lock_all"), ("Unlock", "Unlock_all")
_ACCESSES = (
    "Put", "Get", "Rput", "Rget", "Accumulate", "Raccumulate", "Get_accumulate", "Rget_accumulate",
    "Fetch_and_op", "Compare_and_swap",
)  # fmt: skip
_AT_FENCE = kind_number("wait at fence")
#: the kinds of a message's wait that the late side of a window is found as
_LATE_SENDER = [kind_number(kind.name) for kind in KINDS if kind.name.startswith("late sender")]


def lock_waits(
    calls: pd.DataFrame | None, kinds: CallKinds, blocked: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Take the waits for locks out of the recorded ones, and say for whom they are.

    Parameters
    ----------
    calls : pandas.DataFrame or None
        `Trace.calls` of a simulated run.
    kinds : CallKinds
        Of them.
    blocked : dict of arrays
        The recorded waits as ``_kernels.analyse_waits`` takes them; those for locks are taken out.

    Returns
    -------
    dict of arrays
        The columns of `labkit.trace.waiting.tables.given_columns`. The cause is the rank whose unlock ends
        the wait.
    """
    found: dict[str, list[Any]] = {
        name: [] for name in ("rank", "begin_s", "until_s", "cause", "call", "cause_call", "state")
    }
    unlocks = np.flatnonzero(kinds.are(_UNLOCKS))
    if calls is None or not len(unlocks):
        return {name: np.array(column, np.float64) for name, column in found.items()}
    row = calls_at(calls, blocked["rank"].astype(np.int64), blocked["begin_s"])
    is_lock = (blocked["message"] == -1) & (row >= 0) & kinds.are(_LOCKS)[np.maximum(row, 0)]
    begin_s, end_s, owner = (calls[name].to_numpy() for name in ("begin_s", "end_s", "rank"))
    taken = np.zeros(len(is_lock), bool)
    for at in np.flatnonzero(is_lock):
        until = blocked["end_s"][at]
        own = unlocks[owner[unlocks] != blocked["rank"][at]]
        own = own[begin_s[own] <= until]
        if not len(own):
            continue
        cause = own[np.argmin(np.abs(end_s[own] - until))]
        values = (
            blocked["rank"][at], blocked["begin_s"][at], until, owner[cause], row[at], cause,
            kind_number("lock contention"),
        )  # fmt: skip
        for column, value in zip(found.values(), values, strict=True):
            column.append(value)
        taken[at] = True
    for name in blocked:
        if len(blocked[name]):
            blocked[name] = blocked[name][~taken]
    return {name: np.array(column, np.float64) for name, column in found.items()}


def named(
    waits: pd.DataFrame, calls: pd.DataFrame | None, kinds: CallKinds, messages: pd.DataFrame
) -> pd.DataFrame:
    """Call the waits of post, start, complete, wait and fences by their names.

    A target's wait is an *early post* until the origin starts, an *early wait* until the origin's last access
    is over, and from then on a *late complete*; a wait at a fence is an *early fence* as long as another rank
    still accesses the waiting rank's part. Such a wait becomes several.

    Parameters
    ----------
    waits : pandas.DataFrame
        By rank and time: state (a number), begin_s, end_s, row, cause_row, direct_s, passed_s, ...
    calls : pandas.DataFrame or None
        `Trace.calls`.
    kinds : CallKinds
        Of them.
    messages : pandas.DataFrame
        `Trace.messages`: accesses are among them.
    """
    import pandas as pd

    of_windows = kinds.are(("Post", "Complete", *_ACCESSES))
    if calls is None or not len(waits) or not of_windows.any():
        return waits
    names = calls["call"].to_numpy(object)
    owner, end_s, begin_s = (calls[name].to_numpy() for name in ("rank", "end_s", "begin_s"))
    posts = kinds.are(("Post", "Complete"))
    row, cause = waits["row"].to_numpy(), waits["cause_row"].to_numpy()
    # what a call sends at its very end is found in the next one, which begins then
    before = np.maximum(cause - 1, 0)
    cause = np.where(~posts[cause] & posts[before] & (owner[before] == owner[cause]), before, cause)
    here, there = names[np.maximum(row, 0)], names[np.maximum(cause, 0)]
    ours = np.isin(waits["state"].to_numpy(), _LATE_SENDER) & (row >= 0) & (cause >= 0)
    ours &= ((there == "Post") & (here == "Start")) | (
        (there == "Complete") & np.isin(here, ("Wait", "Test"))
    )
    fenced = waits["state"].to_numpy() == _AT_FENCE
    accesses = np.flatnonzero(kinds.are(_ACCESSES))
    if not ours.any() and not (fenced.any() and len(accesses)):
        return waits
    waits = waits.copy()
    waits.loc[ours, "cause_row"] = cause[ours]
    by = np.where(ours, there, np.where(fenced, "Fence", ""))
    waits.loc[by == "Post", "state"] = kind_number("late post")
    starts = np.flatnonzero(names == "Start")
    parts = [waits[(by == "") | (by == "Post")]]
    for at in np.flatnonzero(by == "Complete"):
        began = _last(starts[owner[starts] == owner[cause[at]]], begin_s, begin_s[cause[at]], begin_s)
        mine = accesses[owner[accesses] == owner[cause[at]]]
        over = max(began, _last(mine, end_s, begin_s[cause[at]], end_s))
        one = waits.iloc[int(at) : int(at) + 1]
        parts += _cut(one, (("early post", began), ("early wait", over), ("late complete", np.inf)))
    to = _accessed(calls, messages, accesses)
    for at in np.flatnonzero(by == "Fence"):
        one = waits.iloc[int(at) : int(at) + 1]
        own = to.get(int(one["rank"].iloc[0]), np.empty(0, np.int64))
        over = _last(own, begin_s, float(one["end_s"].iloc[0]), end_s)
        parts += _cut(one, (("early fence", over), ("wait at fence", np.inf)))
    found: pd.DataFrame = pd.concat(parts)
    return found.sort_values(["rank", "begin_s"], kind="stable", ignore_index=True)


def _last(
    rows: NDArray[np.int64], when_s: NDArray[np.float64], until_s: float, answer_s: NDArray[np.float64]
) -> float:
    """Return the answer of the last of some calls that came by a time; before everything: of none."""
    came = rows[when_s[rows] <= until_s]
    return float(answer_s[came].max()) if len(came) else -np.inf


def _cut(wait: pd.DataFrame, names: tuple[tuple[str, float], ...]) -> list[pd.DataFrame]:
    """Cut a wait at instants into waits of these names; those without length go."""
    begin, end = float(wait["begin_s"].iloc[0]), float(wait["end_s"].iloc[0])
    parts, since = [], begin
    for name, instant in names:
        until = min(max(instant, since), end)
        if until > since:
            share = (until - since) / (end - begin)
            parts.append(wait.assign(
                state=kind_number(name), begin_s=since, end_s=until,
                direct_s=wait["direct_s"] * share, passed_s=wait["passed_s"] * share,
            ))  # fmt: skip
        since = until
    return parts


def _accessed(
    calls: pd.DataFrame, messages: pd.DataFrame, accesses: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """Return by rank the calls by which others access its part of a window.

    A put is a message of its origin, a get one of its target: both are posted within the call.
    """
    found: dict[int, list[NDArray[np.int64]]] = {}
    if not len(accesses):
        return {}
    names = calls["call"].to_numpy(object)
    is_access = np.isin(names, _ACCESSES)
    source, destination = (messages[end].to_numpy(np.int64) for end in ("source", "destination"))
    posted = messages["send_posted_s"].to_numpy(np.float64)
    for origin, target in ((source, destination), (destination, source)):
        row = calls_at(calls, origin, posted)
        before = np.maximum(row - 1, 0)  # what is posted at its very end is found in the next call
        at_end = (row > 0) & ~is_access[np.maximum(row, 0)] & is_access[before]
        at_end &= calls["end_s"].to_numpy()[before] >= posted
        row = np.where(at_end & (calls["rank"].to_numpy()[before] == origin), before, row)
        known = (row >= 0) & (origin != target) & is_access[np.maximum(row, 0)]
        for rank in np.unique(target[known]):
            found.setdefault(int(rank), []).append(np.unique(row[known & (target == rank)]))
    owner, aimed = calls["rank"].to_numpy(np.int64), calls["root"].to_numpy(np.int64)
    known = is_access & (aimed >= 0) & (aimed != owner)  # of a real run
    for rank in np.unique(aimed[known]):
        found.setdefault(int(rank), []).append(np.flatnonzero(known & (aimed == rank)))
    return {rank: np.unique(np.concatenate(rows)) for rank, rows in found.items()}


def calls_at(
    calls: pd.DataFrame | None, rank: NDArray[np.int64], when_s: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return for ranks and times the row of the call that the rank was in; -1 for none."""
    found = np.full(len(rank), -1, np.int64)
    if calls is None or not len(calls):
        return found
    owner, begin, end = (calls[name].to_numpy() for name in ("rank", "begin_s", "end_s"))
    order = np.argsort(rank, kind="stable")
    borders = np.searchsorted(rank[order], np.arange(int(owner.max()) + 2))
    first = np.searchsorted(owner, np.arange(int(owner.max()) + 2))
    for one in range(int(owner.max()) + 1):
        rows, low, high = order[borders[one] : borders[one + 1]], first[one], first[one + 1]
        if low == high:
            continue
        place = low + np.searchsorted(begin[low:high], when_s[rows], side="right") - 1
        inside = (place >= low) & (end[np.maximum(place, 0)] >= when_s[rows])
        found[rows[inside]] = place[inside]
    return found
