"""The calls that sent the messages of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.trace import Trace

__all__ = ["sent_in"]


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
