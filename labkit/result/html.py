"""A run as a notebook shows it: plain HTML tables, readable without scripts and in a dark theme."""

from __future__ import annotations

import math
from html import escape
from typing import Protocol

from labkit.html import prose
from labkit.printed import blocks_of, printed_html
from labkit.units import format_seconds, number_of_ranks

__all__ = ["run_html"]

_CELL = "text-align:right;padding:2px 10px"
_NAME = "text-align:left;padding:2px 10px"
_WARN = "border-left:4px solid #d55e00;padding:2px 8px;margin:4px 0"
_NOTE = "border-left:4px solid #0072b2;padding:2px 8px;margin:4px 0"


class Shown(Protocol):
    """What a page reads of a `labkit.result.Run`."""

    makespan_s: float
    is_valid: bool
    notes: list[str]
    output: list[str]

    def headline(self) -> str:
        """What ran where, and how long it took."""

    def facts(self) -> list[tuple[str, str]]:
        """The figures beside the makespan."""

    def shown_phases(self) -> list[tuple[str, float, float, float]]:
        """Name, maximum and mean in seconds, imbalance of each phase."""


def run_html(run: Shown, has_output: bool = True) -> str:
    """Render a run: headline, figures, phases, notes, and the output of each rank, folded."""
    parts = [f"<div class='labkit-run'><div><strong>{escape(run.headline())}</strong></div>"]
    facts = " · ".join(f"{escape(name)} {escape(text)}" for name, text in run.facts())
    parts.append(f"<div style='opacity:0.8'>{facts}</div>")
    if not run.is_valid:
        parts.append(f"<div style='{_WARN}'>These times may not be used for a verdict.</div>")
    parts += [f"<div style='{_NOTE}'>{prose(note)}</div>" for note in run.notes]
    parts.append(_phases(run))
    if has_output:
        parts.append(_output(run))
    parts.append("</div>")
    return "".join(parts)


def _phases(run: Shown) -> str:
    rows = []
    for name, largest, mean, imbalance in run.shown_phases():
        share = largest / run.makespan_s if run.makespan_s > 0 else 0.0
        bar = f"<div style='background:#0072b2;height:8px;width:{min(share, 1.0) * 120:.0f}px'></div>"
        rows.append(
            f"<tr><td style='{_NAME}'>{escape(name)}</td>"
            f"<td style='{_CELL}'>{format_seconds(largest)}</td>"
            f"<td style='{_CELL}'>{format_seconds(mean)}</td>"
            f"<td style='{_CELL}'>{'' if math.isnan(imbalance) else f'{imbalance:.2f}'}</td>"
            f"<td style='{_CELL}'>{share:.0%}</td><td style='{_NAME}'>{bar}</td></tr>"
        )
    if not rows:
        return ""
    head = "".join(
        f"<th scope='col' style='{style}'>{name}</th>"
        for name, style in (
            ("phase", _NAME), ("max over ranks", _CELL), ("mean", _CELL), ("imbalance", _CELL),
            ("of makespan", _CELL), ("", _NAME),
        )
    )  # fmt: skip
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _output(run: Shown) -> str:
    blocks = blocks_of([(False, text)] if text else [] for text in run.output)
    if not blocks:
        return ""
    count = sum(len(block.ranks) for block in blocks)
    head = f"output of {number_of_ranks(count)}"
    return f"<details><summary>{head}</summary>{printed_html(blocks)}</details>"
