"""Wait states of windows: who waits for a post, for a completion, at a fence, for a lock.

A window's synchronization is messages and gates, so that the analysis finds its waits as those of messages.
Which calls they are in, and which call ends them, says what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.waiting.kinds import KINDS, kind_number

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace
    from labkit.trace.waiting.kinds import CallKinds

__all__ = ["calls_at", "lock_waits", "named", "sent_in"]

_LOCKS, _UNLOCKS = ("Lock", "Lock_all"), ("Unlock", "Unlock_all")

_ACCESSES = (
    "Put",
    "Get",
    "Rput",
    "Rget",
    "Accumulate",
    "Raccumulate",
    "Get_accumulate",
    "Rget_accumulate",
    "Fetch_and_op",
    "Compare_and_swap",
)

_AT_FENCE = kind_number("wait at fence")

#: the kinds of a message's wait that the late side of a window is found as
_LATE_SENDER = [kind_number(kind.name) for kind in KINDS if kind.name.startswith("late sender")]


def lock_waits(
    calls: pd.DataFrame | None, kinds: CallKinds, blocked: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Take the waits for locks out of the recorded ones, and say for whom they are.

    `calls`: `Trace.calls` of a simulated run.
    `kinds`: Of them.
    `blocked`: The recorded waits as ``_kernels.analyze_waits`` takes them; those for locks are taken out.
    Returns: The columns of `labkit.trace.waiting.tables.given_columns`. The cause is the rank whose unlock
        ends the wait.
    """
    found: dict[str, list[object]] = {
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
            blocked["rank"][at],
            blocked["begin_s"][at],
            until,
            owner[cause],
            row[at],
            cause,
            kind_number("lock contention"),
        )
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

    `waits`: By rank and time: state (a number), begin_s, end_s, row, cause_row, direct_s, passed_s, ...
    `calls`: `Trace.calls`.
    `kinds`: Of them.
    `messages`: `Trace.messages`: accesses are among them.
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
            parts.append(
                wait.assign(
                    state=kind_number(name),
                    begin_s=since,
                    end_s=until,
                    direct_s=wait["direct_s"] * share,
                    passed_s=wait["passed_s"] * share,
                )
            )
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


# The calls that sent the messages of a run.


def sent_in(trace: Trace) -> NDArray[np.int64]:
    """Return for each message the row of the call that sent it; -1 where none did.

    A send is posted once its start-up is paid: at the end of an Isend, where the next call may begin.
    """
    import pandas as pd

    calls, messages = trace.calls, trace.messages
    when_s = messages["send_posted_s"].to_numpy(np.float64)
    source = messages["source"].to_numpy(np.int64)
    found = calls_at(calls, source, when_s)
    if calls is None or not len(calls) or trace.clocks is not None:
        return found
    owner, begin, end, joint = (calls[name].to_numpy() for name in ("rank", "begin_s", "end_s", "joint"))
    codes, names = pd.factorize(calls["call"])
    sends = np.array([_is_send(str(name).lower()) for name in names], bool)[codes]
    begins = np.array([_begins(str(name).lower()) for name in names], bool)[codes]
    of_collective = ~trace.is_own
    paid = np.zeros((2, len(found)), bool)  # by a call that sends, by one that begins to
    if trace.setting:
        model, sizes = trace.setting[1], messages["bytes"].to_numpy(np.int64)
        paid = np.stack([_pays(costs, sizes) for costs in (model.send_overhead, model.isend_overhead)])
        paid[0] &= sizes < max(model.eager_below_bytes, model.detached_below_bytes)  # a rendezvous pays none

    def suits(row: NDArray[np.int64], message: NDArray[np.int64]) -> NDArray[np.bool_]:
        fits: NDArray[np.bool_] = np.where(of_collective[message], joint[row] >= 0, sends[row])
        is_paid = np.where(
            of_collective[message], paid[:, message].any(axis=0), paid[begins[row].astype(int), message]
        )
        return fits & ~(is_paid & (begin[row] >= when_s[message]))

    going = np.flatnonzero(found >= 0)
    best = found.copy()
    here = found.copy()
    good = np.zeros(len(found), bool)
    good[going] = suits(found[going], going)
    while len(going := going[~good[going]]):  # back over calls that end just then
        row = here[going] - 1
        touches = (row >= 0) & (owner[row] == source[going]) & (end[row] >= when_s[going])
        going, row = going[touches], row[touches]
        here[going] = row
        now = suits(row, going)
        good[going] = now
        best[going[now]] = row[now]
    return best


def _pays(costs: Sequence[tuple[float, ...]], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether sends of these sizes pay a start-up; costs as `NetworkModel.send_overhead`."""
    if not costs:
        return np.zeros(len(sizes), bool)
    least, fixed_s, byte_s = (np.array(column) for column in zip(*costs, strict=True))
    piece = np.maximum(np.searchsorted(least, sizes, side="left") - 1, 0)
    pays: NDArray[np.bool_] = fixed_s[piece] + byte_s[piece] * sizes > 0
    return pays


def _begins(name: str) -> bool:
    """Whether a send of this name, in small letters, is only begun."""
    return name.startswith("start") or (name.startswith("i") and name.endswith("send"))


def _is_send(name: str) -> bool:
    words = ("send", "put", "accumulate")
    return name.startswith("start") or name in ("post", "complete") or any(word in name for word in words)
