"""Nonblocking collectives in a recorded run: what went on beside the ranks, and what it waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Beside", "taken_apart"]

#: in the recorded column `message`: a probe; below it, an operation (-2 - its row)
_PROBE = -1


@dataclass(repr=False)
class Beside:
    """What went on beside the ranks.

    Attributes
    ----------
    operations : pandas.DataFrame
        A row for every nonblocking collective of a rank, in order of their begins: rank, name, begin_s,
        end_s (inf: never over).
    waits : pandas.DataFrame
        The waits of ranks and of operations as they were recorded, in order of their ends: rank, operation
        (row of the one that waited, -1: the rank itself), begin_s, end_s, message (-1: a probe; -2 - i: the
        i-th operation was over).
    """

    operations: pd.DataFrame
    waits: pd.DataFrame


def taken_apart(
    messages: dict[str, Any],
    waits: Mapping[str, Any],
    operations: Mapping[str, Any],
    sides: Mapping[str, Any],
) -> tuple[dict[str, Any], Beside]:
    """Separate what ranks and operations waited for.

    Parameters
    ----------
    messages : dict of arrays
        Gets the columns send_operation and recv_operation.
    waits, operations, sides : mappings of arrays
        As recorded.

    Returns
    -------
    waits : dict of arrays
        Those of the ranks themselves, each with the message that ended it.
    beside : Beside
    """
    import pandas as pd

    for side in ("send_operation", "recv_operation"):
        messages[side] = np.full(len(messages["bytes"]), -1, np.int64)
        messages[side][sides["message"]] = sides[side]
    waiter, ended_by = waits["operation"], waits["message"]
    last = _last_messages(waiter, ended_by, len(operations["rank"]))
    own = waiter < 0
    by_operation = np.where(ended_by < _PROBE, -2 - ended_by, -1)
    message = np.where(by_operation >= 0, last[np.maximum(by_operation, 0)], ended_by)
    kept = {name: waits[name][own] for name in ("rank", "begin_s", "end_s")}
    kept |= {"message": message[own], "operation": by_operation[own]}
    return kept, Beside(pd.DataFrame(operations), pd.DataFrame(waits))


def _last_messages(waiter: NDArray[Any], ended_by: NDArray[Any], operations: int) -> NDArray[np.int64]:
    """Return the last message that each operation waited for, -1 for none."""
    last = np.full(operations, -1, np.int64)
    rows = np.flatnonzero((waiter >= 0) & (ended_by >= 0))
    last[waiter[rows]] = ended_by[rows]  # a later row wins
    return last
