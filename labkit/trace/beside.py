"""Nonblocking collectives in a recorded run: what went on concurrently, and what it waited for."""

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
    """What went on concurrently with the ranks.

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
        Those of the ranks themselves. While a rank waits for an operation, it waits for what the operation
        waits for: such a wait is cut into those of the operation, so that the picture is that of the blocking
        call; in between the operation is in its own part of calls.
    beside : Beside
    """
    import pandas as pd

    for side in ("send_operation", "recv_operation"):
        messages[side] = np.full(len(messages["bytes"]), -1, np.int64)
        messages[side][sides["message"]] = sides[side]
    by_operation = np.where(waits["message"] < _PROBE, -2 - waits["message"], -1)
    plain = np.flatnonzero((waits["operation"] < 0) & (by_operation < 0))
    row, piece = _pieces(waits, by_operation)
    begin = np.maximum(waits["begin_s"][row], waits["begin_s"][piece])
    end = np.minimum(waits["end_s"][row], waits["end_s"][piece])
    columns = {
        "rank": (waits["rank"][plain], waits["rank"][row]),
        "begin_s": (waits["begin_s"][plain], begin),
        "end_s": (waits["end_s"][plain], end),
        "message": (waits["message"][plain], waits["message"][piece]),
        "operation": (by_operation[plain], by_operation[row]),
    }
    kept = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(kept["end_s"], kind="stable")
    whole = {name: column[order] for name, column in kept.items()}
    return whole, Beside(pd.DataFrame(operations), pd.DataFrame(waits))


def _pieces(
    waits: Mapping[str, Any], by_operation: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair ranks' waits for operations with the waits of these operations at that time."""
    waiter, begin, end = waits["operation"], waits["begin_s"], waits["end_s"]
    inner = np.flatnonzero(waiter >= 0)
    inner = inner[np.argsort(waiter[inner], kind="stable")]
    first = np.searchsorted(waiter[inner], np.arange(max(by_operation.max(initial=-1), -1) + 2))
    rows: list[NDArray[np.int64]] = []
    pieces: list[NDArray[np.int64]] = []
    for row in np.flatnonzero((waiter < 0) & (by_operation >= 0)).tolist():
        operation = by_operation[row]
        own = inner[first[operation] : first[operation + 1]]
        own = own[(end[own] > begin[row]) & (begin[own] < end[row])]
        rows.append(np.full(len(own), row, np.int64))
        pieces.append(own)
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *rows]), np.concatenate([nothing, *pieces])
