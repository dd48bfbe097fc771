"""A run as traces see it: what analyses read of `labkit.result.Run`, which is made above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.errors import DataError

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
    #: `labkit.trace.counters.Columns` of a run with ``summary=True``, or None
    summary: dict[str, Any] | None
    again: Any

    def lacks_trace(self, what: str) -> DataError:
        """Return the error of an analysis that needs a trace; `what` is not possible without."""
        has = "it has no trace; run it with trace=True"
        if self.summary is not None:
            has = (
                "its summary sums up time, calls and messages, and only a trace has their order; run it "
                "with trace=True, leaving out what run.score() says"
            )
        return DataError(f"{what}: {has}")
