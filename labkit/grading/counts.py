"""Rounds and volumes of a run, counted on the trace that the engine recorded."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from labkit.trace.trace import Trace

__all__ = [
    "ENVELOPE_BYTES",
    "Cut",
    "busiest_bytes",
    "chain_of",
    "left_over",
    "long_messages",
    "most_told",
    "packed_bytes",
    "received_from",
    "rounds_of",
    "uncounted",
]

#: what a message counts in addition to its content: its tag and its arrival carry information, too
ENVELOPE_BYTES = 16

#: less is not packed: that would be longer
_SHORT_BYTES = 16

#: a message that did not fit into the room of its receive: source, destination, tag, bytes
Cut = tuple[int, int, int, int]


def _posted(trace: Trace, name: str) -> Any:
    """Return a column of all messages that were posted: those that were received, then those that were not.

    A probe also reports a message that nobody receives, and its sender has sent it.
    """
    column = trace.messages[name].to_numpy()
    left = getattr(trace, "unreceived", None)
    return column if left is None else np.concatenate([column, left[name].to_numpy()])


def uncounted(trace: Trace) -> tuple[int, int]:
    """Return how many messages nobody has received and a run's own counts leave out, and their bytes."""
    left = getattr(trace, "unreceived", None)
    if left is None:
        return 0, 0
    is_missing = left["is_counted"].to_numpy() == 0
    return int(is_missing.sum()), int(left["bytes"].to_numpy()[is_missing].sum())


def left_over(trace: Trace) -> str:
    """Return a sentence about messages that were never received and the ranks of the first; "" for none."""
    left = getattr(trace, "unreceived", None)
    if left is None or not len(left):
        return ""
    first = left.iloc[0]
    many = f"{len(left)} messages are" if len(left) > 1 else "1 message is"
    of = ", the first" if len(left) > 1 else ""
    return (
        f"{many} left that were never received{of} from rank {int(first['source'])} to rank "
        f"{int(first['destination'])}: the next receive on this communicator could get it"
    )


def busiest_bytes(trace: Trace, ranks: int, what: str, envelope_bytes: int = 0) -> int:
    """Return the bytes that were sent to the busiest rank (``"received"``), or by it (``"sent"``)."""
    column = "destination" if what == "received" else "source"
    weights = _posted(trace, "bytes").astype(float) + envelope_bytes
    totals = np.bincount(_posted(trace, column), weights=weights, minlength=ranks)
    return int(totals.max()) if len(totals) else 0


def long_messages(trace: Trace, least_bytes: int) -> int:
    """Return the number of messages with at least this many bytes, unreceived ones included."""
    return int((_posted(trace, "bytes") >= least_bytes).sum())


def packed_bytes(data: Any) -> int:
    """Return how many bytes of data are left when they are packed.

    Pickles of objects have many bytes without information, and numbers are wider than what they hold: a bound
    on what a rank learns must not cost points for either, nor be met by who packs it.
    """
    n_bytes = memoryview(data).nbytes
    return n_bytes if n_bytes <= _SHORT_BYTES else min(n_bytes, len(zlib.compress(data, 1)))


def most_told(trace: Trace, told: Sequence[int], envelope_bytes: int = 0) -> int:
    """Return the bytes, packed, that the busiest rank received."""
    came = np.bincount(_posted(trace, "destination").astype(np.int64), minlength=len(told))
    return int((np.asarray(told) + came * envelope_bytes).max())


def received_from(trace: Trace, ranks: int, origin: int | None, cut: Iterable[Cut] = ()) -> list[int]:
    """Return the bytes that each rank received from others that can have known what `origin` was given."""
    messages = _without(trace.messages, Counter(cut))
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


def _without(messages: Any, cut: Counter[Cut]) -> Any:
    """Return the rows of messages between ranks without those that did not fit; of equal ones the first."""
    messages = messages[messages["source"] != messages["destination"]]
    if not cut:
        return messages
    columns = (messages[name].tolist() for name in ("source", "destination", "tag", "bytes"))
    is_kept = np.ones(len(messages), np.bool_)
    for nth, row in enumerate(zip(*columns, strict=True)):
        if cut[row] > 0:
            cut[row] -= 1
            is_kept[nth] = False
    return messages[is_kept]


def chain_of(trace: Trace, ranks: int) -> int:
    """Return the length of the longest chain of messages, each sent after its sender had received the last.

    Unlike rounds, messages that a rank sends or receives concurrently are one behind the same one.
    """
    messages = trace.messages
    columns = (messages[name].tolist() for name in ("send_posted_s", "end_s", "source", "destination"))
    table = list(zip(*columns, strict=True))
    known = [0] * ranks
    depth: dict[int, int] = {}
    events = [(row[1], 0, i) for i, row in enumerate(table)] + [(row[0], 1, i) for i, row in enumerate(table)]
    for _, is_post, i in sorted(events):
        _, end_s, source, destination = table[i]
        if is_post:
            depth[i] = known[source] + 1
        if (is_post and end_s == table[i][0]) or (not is_post and i in depth):
            known[destination] = max(known[destination], depth[i])
    return max(depth.values(), default=0)


def rounds_of(trace: Trace, ranks: int) -> int:
    """Return the number of rounds: the longest chain of messages that had to follow each other.

    A message follows what its sender had received before it was posted, its sender's message before, and the
    receiver's message before: a rank sends at most one and receives at most one in a round. Computation and
    the machine's speed do not matter.
    """
    events = [(float(t), 1, i) for i, t in enumerate(_posted(trace, "send_posted_s"))]
    events += [(float(t), 0, i) for i, t in enumerate(trace.messages["end_s"])]
    sources, destinations = _posted(trace, "source").tolist(), trace.messages["destination"].tolist()
    known, sent, received = [0] * ranks, [0] * ranks, [0] * ranks
    posted: dict[int, int] = {}
    pending: set[int] = set()
    for _, is_post, i in sorted(events):
        source = sources[i]
        if is_post:
            posted[i] = sent[source] = max(known[source], sent[source]) + 1
            if i not in pending:
                continue
            pending.discard(i)
        elif i not in posted:  # complete at the instant of its post
            pending.add(i)
            continue
        destination = destinations[i]
        received[destination] = max(posted[i], received[destination] + 1)
        known[destination] = max(known[destination], received[destination])
    return max([*known, *sent], default=0)
