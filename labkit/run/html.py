"""A run as a notebook shows it: plain HTML tables, readable without scripts and in a dark theme."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from labkit.run.units import format_seconds

if TYPE_CHECKING:
    from labkit.run.result import Run

__all__ = ["run_html"]

#: characters of one rank's output that are shown; the rest stays in `Run.output`
SHOWN_CHARACTERS = 20_000
#: ranks whose output is shown
SHOWN_RANKS = 64

_CELL = "text-align:right;padding:2px 10px"
_NAME = "text-align:left;padding:2px 10px"
_WARN = "border-left:4px solid #d55e00;padding:2px 8px;margin:4px 0"
_NOTE = "border-left:4px solid #0072b2;padding:2px 8px;margin:4px 0"


def run_html(run: Run) -> str:
    """Render a run: headline, figures, phases, notes, and the output of each rank, folded.

    Parameters
    ----------
    run : Run
        Any run; every text in it is escaped.

    Returns
    -------
    str
        A fragment of HTML without scripts or links.
    """
    parts = [f"<div class='labkit-run'><div><strong>{escape(run.headline())}</strong></div>"]
    facts = " · ".join(f"{escape(name)} {escape(text)}" for name, text in run.facts())
    parts.append(f"<div style='opacity:0.8'>{facts}</div>")
    if not run.is_valid:
        parts.append(f"<div style='{_WARN}'>These times may not be used for a verdict.</div>")
    parts += [f"<div style='{_NOTE}'>{escape(note)}</div>" for note in run.notes]
    parts.append(_phases(run))
    parts.append(_output(run))
    parts.append("</div>")
    return "".join(parts)


def _phases(run: Run) -> str:
    rows = []
    for name, _, largest, mean, imbalance in run.phase_rows():
        share = largest / run.makespan_s if run.makespan_s > 0 else 0.0
        bar = f"<div style='background:#0072b2;height:8px;width:{min(share, 1.0) * 120:.0f}px'></div>"
        rows.append(
            f"<tr><td style='{_NAME}'>{escape(name)}</td>"
            f"<td style='{_CELL}'>{format_seconds(largest)}</td>"
            f"<td style='{_CELL}'>{format_seconds(mean)}</td>"
            f"<td style='{_CELL}'>{imbalance:.2f}</td>"
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


def _output(run: Run) -> str:
    printed = [(rank, text) for rank, text in enumerate(run.output) if text]
    if not printed:
        return ""
    blocks = []
    for rank, text in printed[:SHOWN_RANKS]:
        cut = len(text) - SHOWN_CHARACTERS
        more = f"\n… {cut} more characters in output[{rank}]" if cut > 0 else ""
        blocks.append(
            f"<div>rank {rank}</div><pre style='margin:0 0 6px 12px'>"
            f"{escape(text[:SHOWN_CHARACTERS].rstrip())}{more}</pre>"
        )
    if len(printed) > SHOWN_RANKS:
        blocks.append(f"<div>… and {len(printed) - SHOWN_RANKS} more ranks in output</div>")
    count = f"{len(printed)} rank{'s' if len(printed) != 1 else ''}"
    return f"<details><summary>output of {count}</summary>{''.join(blocks)}</details>"
