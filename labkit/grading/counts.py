"""Rounds and volumes of a run, counted on the trace that the engine recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ENVELOPE_BYTES", "busiest_bytes", "received_from", "rounds_of"]

#: what a message counts beside its content: its tag, and that it came, tell something as well
ENVELOPE_BYTES = 16


def busiest_bytes(trace: Any, ranks: int, what: str, envelope_bytes: int = 0) -> int:
    """Return the bytes that the busiest rank received (``"received"``) or sent (``"sent"``).

    Parameters
    ----------
    trace : Trace
    ranks : int
    what : str
    envelope_bytes : int
        What each message counts besides.
    """
    messages = trace.messages
    column = "destination" if what == "received" else "source"
    weights = np.asarray(messages["bytes"], float) + envelope_bytes
    totals = np.bincount(messages[column], weights=weights, minlength=ranks)
    return int(totals.max()) if len(totals) else 0


def received_from(trace: Any, ranks: int, origin: int | None) -> list[int]:
    """Return the bytes that each rank received from ranks that can have known what `origin` was given.

    Parameters
    ----------
    trace : Trace
    ranks : int
    origin : int or None
        Only messages count that were posted by it, or by a rank that had received one that counts before.
        None: all messages count.
    """
    messages = trace.messages
    if origin is None:
        totals = np.bincount(messages["destination"], weights=messages["bytes"], minlength=ranks)
        return [int(total) for total in totals]
    rows = zip(
        *(messages[name].tolist() for name in ("send_posted_s", "end_s", "source", "destination", "bytes")),
        strict=True,
    )
    events: list[tuple[float, int, int]] = []
    table = list(rows)
    for i, (posted_s, end_s, *_) in enumerate(table):
        events += [(posted_s, 1, i), (end_s, 0, i)]
    found = [0] * ranks
    knows = [rank == origin for rank in range(ranks)]
    counting: set[int] = set()
    pending: set[int] = set()
    for _, is_post, i in sorted(events):
        _, _, source, destination, n_bytes = table[i]
        if is_post and knows[source]:
            counting.add(i)
        if is_post and i not in pending:
            continue
        if not is_post and i not in counting:  # complete at the instant of its post, or of somebody without
            pending.add(i)
            continue
        if i in counting:
            found[destination] += int(n_bytes)
            knows[destination] = knows[destination] or n_bytes > 0
    return found


def rounds_of(trace: Any, ranks: int) -> int:
    """Return the number of rounds: the longest chain of messages that had to follow each other.

    A message follows what its sender had received before it was posted, its sender's message before, and the
    receiver's message before: a rank sends at most one and receives at most one in a round. Computation and
    the machine's speed do not matter.

    Parameters
    ----------
    trace : Trace
    ranks : int
    """
    messages = trace.messages
    events = [(float(t), 1, i) for i, t in enumerate(messages["send_posted_s"])]
    events += [(float(t), 0, i) for i, t in enumerate(messages["end_s"])]
    sources, destinations = messages["source"].tolist(), messages["destination"].tolist()
    known, sent, received = [0] * ranks, [0] * ranks, [0] * ranks
    posted: dict[int, int] = {}
    pending: set[int] = set()
    for _, is_post, i in sorted(events):
        source, destination = sources[i], destinations[i]
        if is_post:
            posted[i] = sent[source] = max(known[source], sent[source]) + 1
            if i not in pending:
                continue
            pending.discard(i)
        elif i not in posted:  # complete at the instant of its post
            pending.add(i)
            continue
        received[destination] = max(posted[i], received[destination] + 1)
        known[destination] = max(known[destination], received[destination])
    return max([*known, *sent], default=0)
