"""Operations of a schedule as text that a student can follow with a pencil."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.schedule.section import block_indices
from labkit.schedule.step import NO_BUFFER, Blocks, Kind, Op

__all__ = ["op_text", "section_text"]


def op_text(buffers: Sequence[str], counts: Sequence[int], op: Op) -> str:
    """Return one operation as text.

    Parameters
    ----------
    buffers : sequence of str
        Their names.
    counts : sequence of int
        The rank's numbers of blocks, by buffer.
    op : Op
    """
    target = section_text(buffers, counts, op.section)
    verb = f"{op.kind.name.lower():6} "
    if op.kind is Kind.WAIT:
        return verb + ("all" if op.label < 0 else f"label {op.label}")
    label = f" (label {op.label})" if op.label else ""
    if op.kind.is_send:
        return f"{verb}{target} -> rank {op.peer}{label}"
    if op.kind.is_receive:
        return f"{verb}{target} <- rank {op.peer}{label}"
    source = section_text(buffers, counts, op.source)
    if op.kind is Kind.COPY:
        return f"{verb}{target} := {source}"
    operands = (source, target) if op.is_source_first else (target, source)
    return f"{'reduce':6} {target} := {operands[0]} op {operands[1]}"


def section_text(buffers: Sequence[str], counts: Sequence[int], section: Blocks) -> str:
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
    return f"{buffers[section.buffer]}[{inside}]"
