"""Waits in the calls of a real run: for messages, for receivers, for messages that a probe looked for.

A receive cannot be over before its message is sent, so a call that sends and receives (an exchange, a wait
for several requests) waits for its late senders first; whether what it sends had to wait too is known only
from then on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["call_waits"]

Columns = dict[str, NDArray[Any]]
#: call, from when, until when what it waited for could begin, on whom it waited, row of the message
Part = tuple[NDArray[Any], ...]


def call_waits(
    calls: Columns, messages: Columns, probes: Columns, joints: tuple[NDArray[Any], ...]
) -> Columns:
    """Return the columns of `Trace.waits`.

    Parameters
    ----------
    calls : dict of arrays
    messages : dict of arrays
        With ``_sent`` and ``_got``, the calls in which the two sides were over (-1: none), ``_sent_s``, when
        the sender's was, and ``_order``, the place of the receive among all posts of its rank: these are
        taken out.
    probes : dict of arrays
        Those that found something: call, rank, peer, tag, context, order.
    joints : tuple of arrays
        What `labkit.trace.recorder.joints.joint_waits` found.
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
        "rank": pieces["rank"][call], "begin_s": begin, "end_s": end, "message": message,
        "ready_s": np.minimum(ready, end), "origin": origin, "call": cause,
    }  # fmt: skip
    order = np.lexsort((waits["begin_s"], waits["end_s"]))
    return {name: column[order] for name, column in waits.items()}


def _pieces(
    calls: Columns, over: list[tuple[NDArray[Any], NDArray[np.float64]]]
) -> tuple[Columns, list[NDArray[np.int64]]]:
    """Cut calls at the times at which something was over within them: a rank waits for one after the other.

    Parameters
    ----------
    calls : dict of arrays
    over : list of (array of int, array of float)
        The calls in which messages were over (-1: none), and when.

    Returns
    -------
    dict of arrays, list of array of int
        Rank, begin and end of each piece, the last of a call with its number; and the pieces in which
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
        "rank": np.append(own["rank"], own["rank"][of]), "begin_s": np.append(begin, since),
        "end_s": np.append(own["end_s"], until),
    }  # fmt: skip
    found = call.astype(np.int64)
    found[inside] = len(begin) + piece.ravel()
    return pieces, np.split(found, np.cumsum([len(one) for one, _ in over])[:-1])


def _receives(calls: Columns, messages: Columns, got: NDArray[Any]) -> Part:
    """Return what was waited for at receives: the post of the send."""
    begin, came = calls["begin_s"][got], messages["send_posted_s"]
    late = came > begin
    origin = np.where(late, messages["source"], messages["destination"])
    return got, begin, np.where(late, came, begin), origin, np.arange(len(got))


def _sends(
    calls: Columns, messages: Columns, sent: NDArray[Any], taken_s: NDArray[np.float64], received: Part
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


def _probes(calls: Columns, messages: Columns, probes: Columns, order: NDArray[Any]) -> Part:
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
    """Of what a call waited for, keep what came last; of several at once the largest message."""
    call, _, ready, _, message = part
    order = np.lexsort((messages["bytes"][message], ready, call))
    last = np.append(np.diff(call[order]) != 0, True)[: len(order)]
    return tuple(column[order][last] for column in part)


def _merged(calls: Columns, received: Part, taken: Part) -> list[tuple[Part, NDArray[Any] | None]]:
    """Put both together: a call that went on waiting, for a receiver, has two waits; else one is enough."""
    went_on = taken[2] > taken[1]
    both = np.isin(taken[0], received[0])
    second = tuple(column[went_on | ~both] for column in taken)
    since = calls["end_s"].copy()  # a first wait is over when the second begins
    follows = second[2] > second[1]
    since[second[0][follows]] = second[1][follows]
    return [(received, since[received[0]]), (second, None)]


def _whole(calls: Columns, part: Part, end: NDArray[Any] | None) -> Part:
    call, begin, ready, origin, message = part
    until = calls["end_s"][call] if end is None else end
    return call, begin, until, ready, origin, message, np.full(len(call), -1)
