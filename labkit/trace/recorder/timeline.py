"""The trace of a real run, made of its ranks' notes: clocks aligned, messages matched, waits found.

A real run records when calls began and ended. Whom a wait was for follows from the rule of late
senders and late receivers: a rank that receives, or probes, waits for the other side until that has posted
its send; one that sends waits, if its call lasts that long, until the receiver is in the call in which it
receives; and in a collective it waits until the last of those that it needs has arrived. From then on the
message or the collective itself is under way.

References
----------
.. [1] F. Wolf, B. Mohr: Automatic performance analysis of hybrid MPI/OpenMP applications. Journal of Systems
   Architecture 49, 2003. doi:10.1016/S1383-7621(03)00102-4
.. [2] D. Boehme et al.: Scalable critical-path based performance analysis. IPDPS 2012.
   doi:10.1109/IPDPS.2012.120
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.timing.clocks import Clocks
from labkit.trace.recorder.windows import ACCESSES, WindowCall
from labkit.trace.trace import ConcurrentOperations, PhaseClock, Trace
from labkit.trace.waiting.kinds import base_of, is_begun, kind_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["clocks_of", "join_calls", "trace_of", "window_waits"]


#: one value for each row of a table, of any type
Column = NDArray[Any]
Columns = dict[str, Column]

_COLUMNS = ("rank", "begin_s", "until_s", "cause", "call", "cause_call", "state")


class Wait(NamedTuple):
    """A row of `labkit.trace.waiting.tables.given_columns`."""

    rank: int
    begin_s: float
    until_s: float
    cause: int
    call: int
    cause_call: int
    state: int


@dataclass
class _Epoch:
    """From the call that begins it to the one that ends it."""

    rank: int
    peers: tuple[int, ...]
    is_exclusive: bool
    calls: list[WindowCall] = field(default_factory=list)
    end: int = -1

    def towards(self, peer: int) -> list[int]:
        """Return its calls that concern a peer: those that name none concern all."""
        return [one.call for one in self.calls if not one.ranks or peer in one.ranks]


def targets_of(window_calls: Iterable[WindowCall], names: Column) -> dict[int, int]:
    """Return by row of a call the target that it accesses."""
    return {one.call: one.ranks[0] for one in window_calls if one.ranks and names[one.call] in ACCESSES}


def window_waits(calls: Columns, names: Column, window_calls: Sequence[WindowCall]) -> pd.DataFrame | None:
    """Find what ranks waited for at posts, completions and locks.

    `calls`: rank, begin_s and end_s of all calls.
    `names`: By call.
    `window_calls`: By rows of `calls`, of each rank in the order of its calls.
    Returns: See `labkit.trace.waiting.tables.given_columns`; None where no rank waited.
    """
    import pandas as pd

    by_window: dict[int, list[WindowCall]] = {}
    for one in window_calls:
        by_window.setdefault(one.window, []).append(one)
    found: list[Wait] = []
    for own in by_window.values():
        accesses = _epochs(own, calls, names, ("Start",), ("Complete",))
        exposures = _epochs(own, calls, names, ("Post",), ("Wait", "Test"))
        found += _late_posts(calls, accesses, exposures)
        found += _late_origins(calls, names, accesses, exposures)
        found += _locks(calls, own, names)
    if not found:
        return None
    found.sort()
    return pd.DataFrame(found, columns=_COLUMNS)


def _epochs(
    own: list[WindowCall], calls: Columns, names: Column, first: tuple[str, ...], last: tuple[str, ...]
) -> list[_Epoch]:
    """Return the epochs of all ranks that begin and end with these calls."""
    found: list[_Epoch] = []
    going: dict[int, _Epoch] = {}
    for one in own:
        rank, name = int(calls["rank"][one.call]), names[one.call]
        if name in first:
            going[rank] = _Epoch(rank, one.ranks, one.is_exclusive)
            found.append(going[rank])
        if rank not in going:
            continue
        if name in first or name in last or name in ACCESSES:
            going[rank].calls.append(one)
        if name in last:
            going.pop(rank).end = one.call
    return [one for one in found if one.end >= 0]


def _pairs(
    accesses: list[_Epoch], exposures: list[_Epoch]
) -> tuple[dict[int, list[tuple[int, _Epoch]]], dict[int, list[_Epoch]]]:
    """Return by number of an access epoch its (target, exposure), and by that of an exposure its accesses.

    The n-th epoch of an origin that has a target is the n-th of the target's that has that origin.
    """
    queues: dict[tuple[int, int], list[int]] = {}
    for number, epoch in enumerate(exposures):
        for origin in epoch.peers:
            queues.setdefault((origin, epoch.rank), []).append(number)
    taken: dict[tuple[int, int], int] = {}
    of_access: dict[int, list[tuple[int, _Epoch]]] = {}
    of_exposure: dict[int, list[_Epoch]] = {}
    for number, access in enumerate(accesses):
        for target in access.peers:
            key = (access.rank, target)
            turn = taken.get(key, 0)
            taken[key] = turn + 1
            if turn < len(queues.get(key, ())):
                exposure = queues[key][turn]
                of_access.setdefault(number, []).append((target, exposures[exposure]))
                of_exposure.setdefault(exposure, []).append(access)
    return of_access, of_exposure


def _late_posts(calls: Columns, accesses: list[_Epoch], exposures: list[_Epoch]) -> list[Wait]:
    begin, end = calls["begin_s"], calls["end_s"]
    found = []
    for number, met in _pairs(accesses, exposures)[0].items():
        access = accesses[number]
        for one in access.calls:
            posts = [exposure.calls[0].call for target, exposure in met if _concerns(one, target)]
            posts = [post for post in posts if begin[one.call] < begin[post] < end[one.call]]
            if posts:
                post = max(posts, key=lambda row: begin[row])
                found.append(_wait(calls, one.call, begin[one.call], begin[post], post, "late post"))
    return found


def _concerns(call: WindowCall, target: int) -> bool:
    return not call.ranks or target in call.ranks


def _late_origins(
    calls: Columns, names: Column, accesses: list[_Epoch], exposures: list[_Epoch]
) -> list[Wait]:
    begin, end = calls["begin_s"], calls["end_s"]
    found = []
    for number, met in _pairs(accesses, exposures)[1].items():
        wait = exposures[number].end
        late = [access for access in met if begin[wait] < begin[access.end] < end[wait]]
        if not late:
            continue
        last = max(late, key=lambda access: begin[access.end])
        own = [row for row in last.towards(exposures[number].rank) if names[row] in ACCESSES]
        over = max((float(end[row]) for row in own), default=-np.inf)
        since = float(begin[wait])
        borders = (begin[last.calls[0].call], over, begin[last.end])
        for state, until in zip(("early post", "early wait", "late complete"), borders, strict=True):
            until = min(float(until), float(begin[last.end]))
            if until > since:
                found.append(_wait(calls, wait, since, until, last.end, state))
                since = until
    return found


def _locks(calls: Columns, own: list[WindowCall], names: Column) -> list[Wait]:
    begin, end = calls["begin_s"], calls["end_s"]
    found = []
    for target in sorted({rank for one in own for rank in one.ranks}):
        epochs = _lock_epochs(own, calls, names, target)
        unlocks = sorted(epochs, key=lambda epoch: begin[epoch.end])
        for epoch in epochs:
            for row in epoch.towards(target):
                holders = [
                    other.end
                    for other in unlocks
                    if other.rank != epoch.rank
                    and (other.is_exclusive or epoch.is_exclusive)
                    and begin[row] < begin[other.end] < end[row]
                    and end[other.end] < end[epoch.end]
                ]
                if holders:
                    holder = holders[-1]
                    found.append(_wait(calls, row, begin[row], begin[holder], holder, "lock contention"))
    return found


def _lock_epochs(own: list[WindowCall], calls: Columns, names: Column, target: int) -> list[_Epoch]:
    """Return the epochs in which ranks had, or wanted, the lock of a target."""
    going: dict[int, _Epoch] = {}
    found = []
    for one in own:
        rank, name = int(calls["rank"][one.call]), names[one.call]
        if name in ("Lock", "Lock_all") and target in one.ranks:
            going[rank] = _Epoch(rank, one.ranks, one.is_exclusive)
            found.append(going[rank])
        if rank not in going or (one.ranks and target not in one.ranks):
            continue
        going[rank].calls.append(one)
        if name in ("Unlock", "Unlock_all"):
            going.pop(rank).end = one.call
    return [one for one in found if one.end >= 0]


def _wait(calls: Columns, row: int, begin_s: float, until_s: float, cause_row: int, state: str) -> Wait:
    rank, cause = int(calls["rank"][row]), int(calls["rank"][cause_row])
    return Wait(rank, float(begin_s), float(until_s), cause, row, cause_row, kind_number(state))


#: call, from when, until when what it waited for could begin, on whom it waited, row of the message
Part = tuple[Column, ...]


def call_waits(calls: Columns, messages: Columns, probes: Columns, joints: tuple[Column, ...]) -> Columns:
    """Return the columns of `Trace.waits`.

    `messages`: With ``_sent`` and ``_got``, the calls in which the two sides were over (-1: none),
        ``_sent_s``, when the sender's was, and ``_order``, the place of the receive among all posts of its
        rank: these are taken out.
    `probes`: Those that found something: call, rank, peer, tag, context, order.
    `joints`: What `labkit.trace.recorder.joints.joint_waits` found.
    """
    sent, got, order, sent_s = (messages.pop(name) for name in ("_sent", "_got", "_order", "_sent_s"))
    taken_s = calls["begin_s"][got]
    pieces, (by, to) = _pieces(calls, [(sent, sent_s), (got, messages["end_s"])])
    received = _last(_receives(pieces, messages, to), messages)
    taken = _last(_sends(pieces, messages, by, taken_s, received), messages)
    parts = [_whole(pieces, *pair) for pair in _merged(pieces, received, taken)]
    parts.append(_whole(calls, _probes(calls, messages, probes, order), None))
    call, ready, origin, message, cause = joints
    parts.append((call, calls["begin_s"][call], calls["end_s"][call], ready, origin, message, cause))
    call, begin, end, ready, origin, message, cause = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    waits: Columns = {
        "rank": pieces["rank"][call],
        "begin_s": begin,
        "end_s": end,
        "message": message,
        "ready_s": np.minimum(ready, end),
        "origin": origin,
        "call": cause,
    }
    order = np.lexsort((waits["begin_s"], waits["end_s"]))
    return {name: column[order] for name, column in waits.items()}


def _pieces(
    calls: Columns, over: list[tuple[Column, NDArray[np.float64]]]
) -> tuple[Columns, list[NDArray[np.int64]]]:
    """Cut calls at the times at which something was over within them: a rank waits for one after the other.

    `over`: The calls in which messages were over (-1: none), and when.
    Returns: Rank, begin and end of each piece, the last of a call with its number; and the pieces in which
        messages were over.
    """
    own = {name: calls[name] for name in ("rank", "begin_s", "end_s")}
    call, when = (np.concatenate(columns) for columns in zip(*over, strict=True))
    inside = np.flatnonzero((call >= 0) & (when < own["end_s"][call]))
    if not len(inside):
        return own, [np.asarray(one, np.int64) for one, _ in over]
    cuts, piece = np.unique(np.stack([call[inside], when[inside]], 1), axis=0, return_inverse=True)
    of, until = cuts[:, 0].astype(np.int64), cuts[:, 1]
    is_first = np.append(True, np.diff(of) != 0)
    begin = own["begin_s"].copy()
    since = np.where(is_first, begin[of], np.append(0.0, until[:-1]))
    begin[of] = until  # ascending: the last one stays
    pieces = {
        "rank": np.append(own["rank"], own["rank"][of]),
        "begin_s": np.append(begin, since),
        "end_s": np.append(own["end_s"], until),
    }
    found = call.astype(np.int64)
    found[inside] = len(begin) + piece.ravel()
    return pieces, np.split(found, np.cumsum([len(one) for one, _ in over])[:-1])


def _receives(calls: Columns, messages: Columns, got: Column) -> Part:
    """Return what was waited for at receives: the post of the send."""
    begin, came = calls["begin_s"][got], messages["send_posted_s"]
    late = came > begin
    origin = np.where(late, messages["source"], messages["destination"])
    return got, begin, np.where(late, came, begin), origin, np.arange(len(got))


def _sends(
    calls: Columns, messages: Columns, sent: Column, taken_s: NDArray[np.float64], received: Part
) -> Part:
    """Return what was waited for at sends: a receiver that was in its call before the sender's was over.

    Only from when the call's own receives could go on.
    """
    free = calls["begin_s"].copy()
    free[received[0]] = received[2]
    known = np.flatnonzero(sent >= 0)
    by, there = sent[known], taken_s[known]
    is_blocking = messages["send_posted_s"][known] == calls["begin_s"][by]
    held = (there < calls["end_s"][by]) & ((there >= calls["begin_s"][by]) | is_blocking)
    known, by, there = known[held], by[held], there[held]
    later = there > free[by]
    origin = np.where(later, messages["destination"][known], messages["source"][known])
    return by, free[by], np.where(later, there, free[by]), origin, known


def _probes(calls: Columns, messages: Columns, probes: Columns, order: Column) -> Part:
    """Return what probes waited for: the message that the rank's next receive of that kind took."""
    channels: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    names = ("destination", "source", "tag", "context")
    if len(probes["call"]):
        columns = (messages[name].tolist() for name in names)
        for row, (place, *channel) in enumerate(zip(order.tolist(), *columns, strict=True)):
            channels.setdefault(tuple(channel), []).append((place, row))
    call, row_of = [], []
    columns = (probes[name].tolist() for name in ("call", "order", "rank", "peer", "tag", "context"))
    for number, place, *channel in zip(*columns, strict=True):
        own = [one for one in channels.get(tuple(channel), ()) if one[0] > place]
        if own:
            call.append(number)
            row_of.append(min(own)[1])
    by, rows = np.array(call, np.int64), np.array(row_of, np.int64)
    begin, came = calls["begin_s"][by], messages["send_posted_s"][rows]
    late = came > begin
    origin = np.where(late, messages["source"][rows], messages["destination"][rows])
    return by, begin, np.where(late, came, begin), origin, rows


def _last(part: Part, messages: Columns) -> Part:
    """Of what a call waited for, keep what came last; of several at the same time the largest message."""
    call, _, ready, _, message = part
    order = np.lexsort((messages["bytes"][message], ready, call))
    last = np.append(np.diff(call[order]) != 0, True)[: len(order)]
    return tuple(column[order][last] for column in part)


def _merged(calls: Columns, received: Part, taken: Part) -> list[tuple[Part, Column | None]]:
    """Put both together: a call that went on waiting, for a receiver, has two waits; else one is enough."""
    went_on = taken[2] > taken[1]
    both = np.isin(taken[0], received[0])
    second = tuple(column[went_on | ~both] for column in taken)
    since = calls["end_s"].copy()  # a first wait is over when the second begins
    follows = second[2] > second[1]
    since[second[0][follows]] = second[1][follows]
    return [(received, since[received[0]]), (second, None)]


def _whole(calls: Columns, part: Part, end: Column | None) -> Part:
    call, begin, ready, origin, message = part
    until = calls["end_s"][call] if end is None else end
    return call, begin, until, ready, origin, message, np.full(len(call), -1)


#: of a recording that does not say what its probes found
_NO_PROBES = {name: np.empty(0, np.int64) for name in ("call", "peer", "tag", "context", "order")}


def clocks_of(times: Sequence[Mapping[str, Any]]) -> Clocks | None:
    """Return how the clocks of the ranks go, from what each noted; None of a run that was not recorded."""
    timelines = [one.get("timeline") for one in times]
    return None if None in timelines else Clocks([list(one["clock"]) for one in timelines if one is not None])


def trace_of(
    timelines: Sequence[Mapping[str, Any]],
    clocks: Clocks,
    spans: Sequence[tuple[float, float]],
    phases: Any,
) -> tuple[Trace, list[str]]:
    """Put the ranks' notes together.

    `timelines`: By rank what `labkit.trace.recorder.ledger.Ledger.timeline` returned, and ``clock``.
    `clocks`: Counts the violations that are found.
    `spans`: When each rank entered and left the program, by the clock of rank 0; the trace begins with the
        first.
    `phases`: `Run.phases`.
    Returns: And what there is to say of it.
    """
    import pandas as pd

    zero = min(begin for begin, _ in spans)
    calls, posts, probes, blocks, sources, windows = _together(timelines, clocks, zero)
    ends = [end - zero for _, end in spans]
    messages, unmatched = _matched(calls, posts)
    clocks.violations = int((messages["end_s"] < messages["send_posted_s"]).sum())
    names, joint = _words(timelines, calls, "name", "names"), join_calls(calls)
    waits = call_waits(calls, messages, probes, joint_waits(calls, joint, names, sources))
    begins = calls["begin_s"]
    table = pd.DataFrame({
        "rank": calls["rank"], "call": names, "bytes": calls["bytes"].astype(np.int64),
        "begin_s": begins, "end_s": calls["end_s"], "joint": joint,
        "root": calls["root"], "position": calls["position"],
        "place": _words(timelines, calls, "place", "places"),
    })  # fmt: skip
    if "phase" in calls:  # the order of an archive's events has more information than their times
        table["phase"] = _words(timelines, calls, "phase", "phases")
    else:
        table["phase"] = PhaseClock(phases).all_at(calls["rank"], begins)
    table["algorithm"] = ""  # the library does not report it
    for row, target in targets_of(windows, names).items():
        table.loc[row, "root"] = target
    beside = _beside(table, calls, waits)
    if beside is not None:
        for side in ("send_operation", "recv_operation"):
            messages[side] = np.full(len(messages["bytes"]), -1)
    work = _between(calls, [(begin - zero, end - zero) for begin, end in spans])
    trace = Trace(
        pd.DataFrame(messages),
        pd.DataFrame(waits),
        pd.DataFrame(work),
        ends,
        None,
        beside,
        table,
        clocks,
        [begin - zero for begin, _ in spans],
    )
    trace.blocks = blocks
    trace.call_cost_s = [float(one.get("call_cost_s") or 0.0) for one in timelines]
    trace.given_waits = window_waits(calls, names, windows)
    if count := clocks.violations:
        plural = "s end before they begin" if count > 1 else " ends before it begins"
        unmatched.append(f"{count} message{plural}: the ranks' clocks differ by more than was corrected")
    remarks = dict.fromkeys(remark for one in timelines for remark in one["notes"])
    return trace, [*unmatched, *remarks]


def _together(
    timelines: Sequence[Mapping[str, Any]], clocks: Clocks, zero: float
) -> tuple[
    Columns, Columns, Columns, dict[int, list[int]], dict[tuple[int, int], list[int]], list[WindowCall]
]:
    """Return the calls, the posts and the probes of all ranks, each one's own by rows of the whole.

    And by rows of calls their blocks, by rank and communicator whom the rank hears as its neighbors, and the
    calls on windows.
    """
    contexts: dict[object, int] = {"world": 0}
    calls: dict[str, list[Any]] = {}
    posts: dict[str, list[Any]] = {}
    probes: dict[str, list[Any]] = {}
    blocks: dict[int, list[int]] = {}
    sources: dict[tuple[int, int], list[int]] = {}
    windows: list[WindowCall] = []
    first = 0
    for rank, one in enumerate(timelines):
        # A rank's numbers of communicators, and the run's: the same for all of a communicator's ranks.
        known = {-1: -1, 0: 0, 2: contexts.setdefault(("self", rank), len(contexts))}
        for number, key in one["communicators"].items():
            known[int(number)] = contexts.setdefault(key, len(contexts))
        count = len(one["calls"]["begin_s"])
        own = {name: np.asarray(column) for name, column in one["calls"].items()}
        for name in ("begin_s", "end_s"):
            own[name] = clocks.corrected(rank, own[name]) - zero
        own["ends"] = np.where(own["ends"] >= 0, own["ends"] + first, -1)
        own |= {"rank": np.full(count, rank), "context": _renumbered(own["context"], known)}
        sent = {name: np.asarray(column) for name, column in one["posts"].items()}
        sent["done"] = np.where(sent["done"] >= 0, sent["done"] + first, -1)
        if "done_s" in sent:  # an archive may record when, within the call
            sent["done_s"] = clocks.corrected(rank, sent["done_s"]) - zero
        seen = {name: np.asarray(column) for name, column in one.get("probes", _NO_PROBES).items()}
        for part in (sent, seen):
            part["call"] = part["call"] + first
            context = _renumbered(part["context"], known)
            part |= {"rank": np.full(len(part["call"]), rank), "context": context}
        for whole, part in ((calls, own), (posts, sent), (probes, seen)):
            for name, column in part.items():
                whole.setdefault(name, []).append(column)
        blocks |= {first + number: counts for number, counts in one["blocks"].items()}
        sources |= {(rank, known[int(number)]): heard for number, heard in one.get("sources", {}).items()}
        for number, window, *who in one.get("windows", ()):
            windows.append(WindowCall(first + number, known[window], *who))
        first += count
    of_calls, of_posts, of_probes = (
        {name: np.concatenate(columns) for name, columns in whole.items()} for whole in (calls, posts, probes)
    )
    return of_calls, of_posts, of_probes, blocks, sources, windows


def _renumbered(numbers: Column, known: Mapping[int, int]) -> NDArray[np.int64]:
    distinct, place = np.unique(numbers, return_inverse=True)
    return np.array([known[int(number)] for number in distinct], np.int64)[place]


def _words(
    timelines: Sequence[Mapping[str, Any]], calls: Columns, column: str, words: str
) -> NDArray[np.object_]:
    found = np.empty(len(calls["rank"]), object)
    for rank, one in enumerate(timelines):
        own = calls["rank"] == rank
        known = np.array([*one[words], ""], object)
        found[own] = known[calls[column][own]]
    return found


def _matched(calls: Columns, posts: Columns) -> tuple[Columns, list[str]]:
    """Match sends and receives: of a pair of ranks, a communicator and a tag, in the order of the posts."""
    alive = ~posts["is_cancelled"]
    sends = np.flatnonzero(posts["is_send"] & alive)
    receives = np.flatnonzero(~posts["is_send"] & alive & (posts["done"] >= 0))
    keys = []
    for rows, source, destination in ((sends, "rank", "peer"), (receives, "peer", "rank")):
        ends = [posts[name][rows].astype(np.int64) for name in (source, destination, "context", "tag")]
        order = np.lexsort((posts["order"][rows], *ends))
        ends = [column[order] for column in ends]
        changed = np.ones(len(rows), bool)
        if len(rows):
            changed[1:] = np.any([np.diff(column) != 0 for column in ends], axis=0)
        begin = np.maximum.accumulate(np.where(changed, np.arange(len(rows)), 0))
        keys.append(
            (
                rows[order],
                list(zip(*(c.tolist() for c in (*ends, np.arange(len(rows)) - begin)), strict=True)),
            )
        )
    (sends, of_send), (receives, of_receive) = keys
    row_of = dict(zip(of_receive, receives.tolist(), strict=True))
    got = np.array([row_of.get(key, -1) for key in of_send], np.int64)
    said = []
    if lost := int((got < 0).sum()):
        said.append(f"{lost} messages were never received, or not by a call that is noted")
    if extra := len(receives) - int((got >= 0).sum()):
        said.append(f"{extra} receives are of messages whose sends were not noted")
    sends, got = sends[got >= 0], got[got >= 0]
    posted, taken = calls["begin_s"][posts["call"][sends]], calls["begin_s"][posts["done"][got]]
    end = _done_s(calls, posts, got)
    sent = np.where(posts["done"][sends] >= 0, _done_s(calls, posts, sends), np.inf)
    order = np.argsort(end, kind="stable")
    messages: Columns = {
        "source": posts["rank"][sends],
        "destination": posts["rank"][got],
        "tag": posts["tag"][sends],
        "context": posts["context"][sends],
        "bytes": posts["bytes"][sends].astype(np.int64),
        "send_posted_s": posted,
        "recv_posted_s": calls["begin_s"][posts["call"][got]],
        "start_s": np.where(sent <= taken, posted, np.minimum(np.maximum(posted, taken), end)),
        "arrived_s": np.full(len(sends), np.nan),
        "end_s": end,
        "_sent": posts["done"][sends],
        "_got": posts["done"][got],
        "_order": posts["order"][got],
        "_sent_s": sent,
    }
    return {name: column[order] for name, column in messages.items()}, said


def _done_s(calls: Columns, posts: Columns, rows: Column) -> NDArray[np.float64]:
    """Return when posts were over: at the end of their calls, where the notes do not say more."""
    end: NDArray[np.float64] = calls["end_s"][posts["done"][rows]]
    if "done_s" in posts:
        said = posts["done_s"][rows]
        end = np.where(np.isfinite(said), np.minimum(said, end), end)
    return end


def _between(calls: Columns, spans: Sequence[tuple[float, float]]) -> Columns:
    """Return the times between a rank's calls: it computes."""
    rank, begins, ends = [], [], []
    for number, (first, last) in enumerate(spans):
        own = calls["rank"] == number
        begin = np.clip(np.append(first, calls["end_s"][own]), first, last)
        end = np.clip(np.append(calls["begin_s"][own], last), first, last)
        some = end > begin
        rank.append(np.full(int(some.sum()), number))
        begins.append(begin[some])
        ends.append(end[some])
    return {name: np.concatenate(c) for name, c in (("rank", rank), ("begin_s", begins), ("end_s", ends))}


def _beside(table: pd.DataFrame, calls: Columns, waits: Columns) -> ConcurrentOperations | None:
    """Return the nonblocking collectives: from their calls to the ends of the calls that ended them."""
    import pandas as pd

    ended = np.flatnonzero(calls["ends"] >= 0)
    begun = calls["ends"][ended]
    if not len(begun):
        return None
    operations = pd.DataFrame(
        {
            "rank": calls["rank"][begun],
            "name": table["call"].to_numpy()[begun],
            "begin_s": calls["begin_s"][begun],
            "end_s": calls["end_s"][ended],
        }
    ).sort_values("begin_s", kind="stable", ignore_index=True)
    return ConcurrentOperations(
        operations, pd.DataFrame({**waits, "operation": np.full(len(waits["rank"]), -1)})
    )


# Collectives of a real run: which calls of the ranks are one, and for whom each of them waited.


_FROM_ROOT, _TO_ROOT = ("bcast", "scatter", "scatterv"), ("gather", "gatherv", "reduce")
_PREFIX = ("scan", "exscan")


def join_calls(calls: Columns) -> NDArray[np.int64]:
    """Number the collectives: the n-th calls of a communicator's ranks are one; -1 for other calls."""
    rows = np.flatnonzero(calls["sequence"] >= 0)
    joint = np.full(len(calls["rank"]), -1)
    keys = np.stack([calls["context"][rows], calls["sequence"][rows]]).astype(np.int64)
    if len(rows):
        joint[rows] = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    return joint


def joint_waits(
    calls: Columns,
    joint: NDArray[np.int64],
    names: Column,
    sources: Mapping[tuple[int, int], list[int]],
) -> tuple[Column, ...]:
    """Find what calls waited for in collectives.

    `joint`: By call its collective: see `join_calls`.
    `names`: By call.
    `sources`: By rank and communicator the ranks from which the rank receives there as its neighbors.
    Returns: The call that waited, when the last rank that it needs had come, that rank, -1, and the row of
        the call that began the collective: itself, unless it is nonblocking.
    """
    begin, end, rank = calls["begin_s"], calls["end_s"], calls["rank"]
    waiter = np.arange(len(rank))
    ended = np.flatnonzero(calls["ends"] >= 0)
    waiter[calls["ends"][ended]] = ended
    rows = np.flatnonzero(joint >= 0)
    rows = rows[np.lexsort((begin[rows], joint[rows]))]
    ready, origin = begin[waiter].copy(), rank.copy()
    for own in np.split(rows, np.flatnonzero(np.diff(joint[rows])) + 1) if len(rows) else ():
        last = _last_needed(calls, own, base_of(str(names[own[0]])), end[waiter[own]], sources)
        late = (last >= 0) & (begin[last] > begin[waiter[own]])
        ready[own[late]], origin[own[late]] = begin[last[late]], rank[last[late]]
    is_waited = waiter != np.arange(len(rank))
    is_waited |= ~np.array([is_begun(str(name)) for name in names], bool)
    rows = rows[is_waited[rows]]
    return waiter[rows], ready[rows], origin[rows], np.full(len(rows), -1), rows


def _last_needed(
    calls: Columns,
    own: Column,
    base: str,
    until: Column,
    sources: Mapping[tuple[int, int], list[int]],
) -> NDArray[np.int64]:
    """Return for each call of a collective the latest one that it needs and that began before it was over."""
    begin = calls["begin_s"]
    everybody = own[np.maximum(np.searchsorted(begin[own], until) - 1, 0)]
    if base in _FROM_ROOT or base in _TO_ROOT:
        is_root = calls["rank"][own] == calls["root"][own]
        if base in _TO_ROOT:
            return np.where(is_root, everybody, -1)
        root = own[is_root]
        one = int(root[0]) if root.size else -1
        return np.where(is_root | (begin[one] >= until), -1, one)
    if base in _PREFIX:
        place = calls["position"][own]
        below = [own[(place < mine) & (begin[own] < upto)] for mine, upto in zip(place, until, strict=True)]
        return np.array([rows[-1] if rows.size else -1 for rows in below])
    return _last_heard(calls, own, until, sources) if base.startswith("neighbor") else everybody


def _last_heard(
    calls: Columns, own: Column, until: Column, sources: Mapping[tuple[int, int], list[int]]
) -> NDArray[np.int64]:
    """Return for each call to neighbors the latest one of those from which it receives; -1: of none."""
    found = np.full(len(own), -1)
    row_of = dict(zip(calls["rank"][own].tolist(), own.tolist(), strict=True))
    keys = zip(calls["rank"][own].tolist(), calls["context"][own].tolist(), strict=True)
    for place, key in enumerate(keys):
        heard = [row_of[source] for source in sources.get(key, ()) if source in row_of]
        heard = [row for row in heard if calls["begin_s"][row] < until[place]]
        if heard:
            found[place] = max(heard, key=lambda row: calls["begin_s"][row])
    return found
