"""A simulated run written down as a time-independent trace."""

from __future__ import annotations

import os
from pathlib import Path

from labkit.sim.simulation import Simulation

__all__ = ["keep_calls", "write_calls"]


def keep_calls(simulation: Simulation, target: str | os.PathLike[str] | None) -> Path | None:
    """Let the simulation note every call; where its trace will go, None without a target."""
    if target is None:
        return None
    from labkit.trace.formats.ti_writer import check_target

    path = check_target(target)
    simulation.hub.keep_calls()
    simulation.calls.keeps_calls = simulation.context.keeps_calls = True
    return path


def write_calls(simulation: Simulation, target: Path) -> str:
    """Write the trace; a sentence that says where it is."""
    from labkit.trace.formats.ti_writer import Numbering, write_actions

    hub, numbering = simulation.hub, Numbering()
    path = write_actions(
        target, simulation.ranks, lambda rank: numbering.renumbered(rank, hub.call_lines(rank))
    )
    return f"recorded as a time-independent trace in {path}"
