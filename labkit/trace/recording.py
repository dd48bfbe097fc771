"""The recorded trace of a simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.run.units import format_bytes, format_count

if TYPE_CHECKING:  # pandas is imported only when a trace is made
    import pandas as pd

__all__ = ["Trace"]


@dataclass(repr=False)
class Trace:
    """Every message, wait and computation of a run.

    Attributes
    ----------
    messages : pandas.DataFrame
        A row per message in order of completion: source and destination (ranks), tag, context, bytes
        (payload), send_posted_s and recv_posted_s (when the two sides were posted), start_s (begin of the
        transfer), arrived_s (its last byte), end_s (the receive is complete). Seconds of simulated time. On
        machines that choose a route for each message also way, the router's number for it.
    waits : pandas.DataFrame
        A row for every time in which a rank had nothing to do: rank, begin_s, end_s, and the row of the
        message that ended it (-1: a probe, ended by the post of a send).
    computations : pandas.DataFrame
        A row for every uninterrupted charged computation: rank, begin_s, end_s.
    ends_s : list of float
        When each rank left the program.
    setting : (Platform, NetworkModel) or None
        The machine and the model of the run: what an explanation needs.
    """

    messages: pd.DataFrame
    waits: pd.DataFrame
    computations: pd.DataFrame
    ends_s: list[float] = field(default_factory=list)
    setting: Any = None

    @classmethod
    def from_columns(
        cls,
        messages: Mapping[str, Any],
        waits: Mapping[str, Any],
        computations: Mapping[str, Any],
        ends_s: list[float],
        setting: Any = None,
    ) -> Trace:
        """Build a trace from arrays by column."""
        import pandas as pd

        return cls(pd.DataFrame(messages), pd.DataFrame(waits), pd.DataFrame(computations), ends_s, setting)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        payload = format_bytes(int(self.messages["bytes"].sum()))
        return (
            f"trace of {len(self.ends_s)} ranks: {format_count(len(self))} messages with {payload}, "
            f"{format_count(len(self.waits))} waits, {format_count(len(self.computations))} computations"
        )
