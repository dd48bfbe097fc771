"""Rounds and volumes of a run, counted on the trace that the engine recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["busiest_bytes", "rounds_of"]


def busiest_bytes(trace: Any, ranks: int, what: str) -> int:
    """Return the bytes that the busiest rank received (``"received"``) or sent (``"sent"``).

    Parameters
    ----------
    trace : Trace
    ranks : int
    what : str
    """
    messages = trace.messages
    column = "destination" if what == "received" else "source"
    totals = np.bincount(messages[column], weights=messages["bytes"], minlength=ranks)
    return int(totals.max()) if len(totals) else 0


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
