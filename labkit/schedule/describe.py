"""A schedule as text that a student can follow with a pencil."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from labkit.schedule.section import block_indices
from labkit.schedule.step import NO_BUFFER, Blocks, Kind, Op

if TYPE_CHECKING:
    from labkit.schedule.schedule import Schedule

__all__ = ["describe", "op_text", "section_text"]


def describe(schedule: Schedule, ranks: Iterable[int] | None = None) -> str:
    """Return the programs of all ranks, or of some, one operation a line.

    Examples
    --------
    >>> from labkit import registry
    >>> print(describe(registry.get("bcast", "binomial").build(4), ranks=[1, 2]))
    bcast/binomial on 4 ranks, root 0
    rank 1
      recv   data[0] <- rank 0
    rank 2
      recv   data[0] <- rank 0
      send   data[0] -> rank 3
    """
    chosen = list(range(schedule.size)) if ranks is None else list(ranks)
    root = f", root {schedule.root}" if schedule.problem.is_rooted else ""
    lines = [f"{schedule.problem.name}/{schedule.name} on {schedule.size} ranks{root}"]
    for rank in chosen:
        counts = schedule.n_blocks(rank)
        lines.append(f"rank {rank}")
        lines += [f"  {op_text(schedule, counts, op)}" for op in schedule.program(rank)]
    return "\n".join(lines)


def op_text(schedule: Schedule, counts: list[int], op: Op) -> str:
    """Return one operation as text; `counts` are the rank's numbers of blocks, by buffer."""
    target = section_text(schedule, counts, op.section)
    verb = f"{op.kind.name.lower():6} "
    if op.kind is Kind.WAIT:
        return verb + ("all" if op.label < 0 else f"label {op.label}")
    label = f" (label {op.label})" if op.label else ""
    if op.kind.is_send:
        return f"{verb}{target} -> rank {op.peer}{label}"
    if op.kind.is_receive:
        return f"{verb}{target} <- rank {op.peer}{label}"
    source = section_text(schedule, counts, op.source)
    if op.kind is Kind.COPY:
        return f"{verb}{target} := {source}"
    operands = (source, target) if op.is_source_first else (target, source)
    return f"{'reduce':6} {target} := {operands[0]} op {operands[1]}"


def section_text(schedule: Schedule, counts: list[int], section: Blocks) -> str:
    """Return a section as ``name[blocks]``, consecutive blocks as ``a..b``."""
    if section.buffer == NO_BUFFER:
        return "nothing"
    indices = block_indices(*section[1:], counts[section.buffer]).tolist()
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    inside = ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in ranges)
    return f"{schedule.buffers[section.buffer].name}[{inside}]"
