"""Comparison of rows that were computed again with the rows of a bundle: bit by bit, every column."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

__all__ = ["Difference", "compare_rows"]


@dataclass(frozen=True)
class Difference:
    """A cell that is not what it is when it is computed again.

    Attributes
    ----------
    row : int
        Of the study's table, from 0 on.
    what : str
        Which measurement it is.
    column : str
        Its column.
    stored, again : object
        What the bundle holds; what came now: None where nothing came.
    reason : str
        Why nothing came.
    """

    row: int
    what: str
    column: str
    stored: Any
    again: Any
    reason: str = ""

    def __str__(self) -> str:
        stored, again = (repr(v) if isinstance(v, str) else str(v) for v in (self.stored, self.again))
        found = f"{self.column} is {stored} in the bundle, {again} when run again"
        return f"row {self.row} ({self.what}): {self.reason or found}"


def compare_rows(
    data: pd.DataFrame, positions: Sequence[int], again: Iterable[Mapping[str, Any]]
) -> list[Difference]:
    """Compare the rows of one run, by their positions in the bundle's table, with those of the run made anew.

    Returns
    -------
    list of Difference
        For each row that differs: its first cell that does.
    """
    computed: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in again:
        computed.setdefault((str(row.get("metric")), str(row.get("phase"))), []).append(row)
    found = []
    for position in positions:
        stored = {str(column): value for column, value in data.iloc[position].to_dict().items()}
        metric, phase = _text(stored["metric"]), _text(stored["phase"])
        what = f"{metric}{f' of {phase}' if phase else ''}, ranks={stored.get('ranks')}, on {stored['on']}"
        if not computed.get((metric, phase)):
            reason = "the run gives no such measurement any more"
            found.append(Difference(position, what, "metric", metric, None, reason))
            continue
        other = computed[metric, phase].pop(0)
        for column, value in stored.items():
            if not _is_same(value, now := other.get(column)):
                found.append(Difference(position, what, column, _plain(value), _plain(now)))
                break
    return found


def _is_same(stored: Any, again: Any) -> bool:
    """Whether two cells are the same: numbers to the last bit, everything else as the table writes it."""
    if isinstance(stored, str) or isinstance(again, str):
        return _text(stored) == _text(again)
    if again is None:
        return stored is None or (isinstance(stored, float) and math.isnan(stored))
    if isinstance(stored, float) or isinstance(again, float):
        return _bits(float(stored)) == _bits(float(again))
    return bool(stored == again)


def _bits(number: float) -> bytes:
    return b"nan" if math.isnan(number) else struct.pack("<d", number)


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
