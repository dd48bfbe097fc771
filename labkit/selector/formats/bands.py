"""The form that all formats of rules come down to: bands of ranks, and in each of them steps of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

__all__ = ["Band", "SizeBand", "first_matches", "rows_of"]


@dataclass(frozen=True)
class SizeBand:
    """Some sizes, and what is taken there.

    `low`, `high`: Bytes: from, and below.
    `name`: labkit's algorithm; None: what the library takes by itself.
    """

    low: float
    high: float
    name: str | None


@dataclass(frozen=True)
class Band:
    """Some numbers of ranks.

    `low`, `high`: From, and below.
    `steps`: Disjoint.
    """

    low: float
    high: float
    steps: Sequence[SizeBand]


def rows_of(operation: str, bands: Iterable[Band], amount: str = "bytes") -> list[dict[str, object]]:
    """Return the rules of bands, as `labkit.selector.Rules` takes them."""
    rows = []
    for band in bands:
        for step in band.steps:
            if step.name is None:
                continue
            row: dict[str, object] = {"operation": operation}
            for key, low, high in (("ranks", band.low, band.high), (amount, step.low, step.high)):
                if low > 0:
                    row[f"{key}_from"] = int(low)
                if high < inf:
                    row[f"{key}_below"] = int(high)
            row["use"] = step.name
            rows.append(row)
    return rows


def first_matches(
    ranges: Sequence[tuple[float, float, object]], merge: Callable[[float, float, Any], object]
) -> list[Any]:
    """Cut ranges that may overlap, of which the first one counts, into disjoint ones.

    Examples
    --------
    >>> first_matches([(2, 4, "a"), (0, 8, "b")], lambda low, high, value: (low, high, value))
    [(0, 2, 'b'), (2, 4, 'a'), (4, 8, 'b')]
    """
    edges = sorted({edge for low, high, _ in ranges for edge in (low, high)})
    found = []
    for low, high in pairwise(edges):
        value = next((value for a, b, value in ranges if a <= low and high <= b), None)
        if value is not None:
            found.append(merge(low, high, value))
    return found
