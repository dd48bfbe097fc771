"""A run as traces see it: what analyses read of `labkit.result.Run`, which is made above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RecordedRun"]


class RecordedRun:
    """A run with its trace: a base of `labkit.result.Run`, which says what the attributes are."""

    program: str
    ranks: int
    on: str
    model: str | None
    makespan_s: float
    phases: pd.DataFrame
    #: `labkit.trace.trace.Trace`, or None
    trace: Any
    machine: dict[str, Any]
    collectives: dict[Any, str]
    counts: pd.DataFrame | None
    again: Any
