"""Leftovers of a program: messages that nobody has received, receives that nothing came to."""

from __future__ import annotations

from typing import Any

from labkit.sim.simulation import Simulation
from labkit.units import format_bytes

__all__ = ["left_over"]

#: messages that are named; the rest is counted
_SHOWN = 8


def left_over(simulation: Simulation) -> list[str]:
    """Say it, in sentences; with lines where the run was checked (``check=True``)."""
    checks = simulation.checks
    count, rows = simulation.hub.left_over()
    lines = [_text(row, checks) for row in rows[:_SHOWN]]
    if count > len(lines):
        lines.append(f"... and {count - len(lines)} more messages or receives")
    if lines and checks is None:
        lines.append("check=True says at which lines these calls were made")
    return lines if checks is None else [*lines, *checks.left()]


def _text(row: Any, checks: Any) -> str:
    kind, owner, peer, tag, n_bytes, context = row
    shown = "any tag" if tag < 0 else f"tag {tag}"
    if kind == "send":
        made = checks.unreceived(context, owner, tag) if checks is not None else ""
        what = f"{made} sent" if made else f"rank {owner} sent"
        return f"{what} {format_bytes(n_bytes)} to rank {peer}, {shown}, and nobody received it"
    made = checks.waiting(owner, context) if checks is not None else ""
    source = "any rank" if peer < 0 else f"rank {peer}"
    return f"{made or f'rank {owner}'} waited for a message from {source}, {shown}, and nothing came"
