"""Speedup and efficiency, compared with the ideal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.checks import echo
from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import (
    COLORS,
    DASHES,
    FONT,
    MARKERS,
    TOOLS,
    grid_of,
    heading,
    rank_axis,
    share_ticks,
    style_axes,
    value_axis,
)
from labkit.text.html import number, quantity
from labkit.text.units import format_share

if TYPE_CHECKING:
    from labkit.study import Study

__all__ = ["efficiency"]

Floats = NDArray[np.float64]
_SCALINGS = ("strong", "weak")
#: in names of parameters: what they say about the input
_NAMES = {"weak": ("local", "per_rank", "each"), "strong": ("total", "overall", "global")}
#: exponents of the work over the ranks that are this near to 0 and 1 mean strong and weak scaling
_FLAT = 0.35
#: by how much an efficiency is above 1 before it is called superlinear: less is within what repeats scatter
_SUPERLINEAR = 0.05


def efficiency(
    studies: Study | Mapping[str, Study],
    scaling: str | None = None,
    *,
    baseline_s: float | None = None,
    metric: str | None = None,
    phase: str | None = None,
    width: int = 300,
    height: int = 280,
) -> Figure:
    """Draw speedup and efficiency over the ranks.

    Parameters
    ----------
    studies : Study, or mapping of str to Study
        Measurements over the ranks; several are lines of one figure.
    scaling : "strong" or "weak"
        Whether all ranks together work on the same input however many they are, or each on the same. By
        default from the study: a parameter called like ``n_total`` or ``n_local``, else comparisons that
        stay the same or grow with the ranks; anything else counts as strong, and the reading states that.
    baseline_s : float, optional
        Seconds of the best program on one rank (weak: with one rank's input). By default each line's own
        time at its fewest ranks counts as perfectly efficient: relative speedup, which flatters.
    metric, phase : str, optional
        What to draw; by default the makespan.
    width, height : int
        Pixels inside the axes of each part.

    Returns
    -------
    Figure
        Strong: S(p) = T(1) / T(p) and S(p) / p. Weak: the scaled speedup p T(1) / T(p), and T(1) / T(p).

    Raises
    ------
    DataError
        Another scaling, a baseline that is no time, nothing to draw, or not over the ranks.
    """
    if scaling is not None and scaling not in _SCALINGS:
        raise DataError(f'scaling must be "strong" or "weak", got {echo(scaling)}', code="unknown-name")
    if baseline_s is not None and not 0 < baseline_s < float("inf"):
        raise DataError(f"baseline_s must be seconds > 0, got {baseline_s!r}", code="out-of-range")
    named = studies if isinstance(studies, Mapping) else {"": studies}
    if not named:
        raise DataError("there is nothing to draw: pass a study, or {name: study}", code="no-data")
    scaling, because = (scaling, "") if scaling else _scaling_of(named)
    lines = {name: _line(study, scaling, baseline_s, metric, phase) for name, study in named.items()}
    every = np.unique(np.concatenate([p for p, _, _ in lines.values()]))
    left = _panel(lines, every, 1, (width, height), "speedup" if scaling == "strong" else "scaled speedup")
    right = _panel(lines, every, 2, (width, height), "efficiency")
    reading = _reading(lines, f"{scaling} scaling{because}", baseline_s)
    alt = f"Speedup and efficiency over the ranks, {scaling} scaling. {reading} {_numbers(lines)}"
    return Figure(grid_of([left, right]), reading, alt)


def _scaling_of(studies: Mapping[str, Study]) -> tuple[str, str]:
    """Return whether scaling is weak or strong, and by which column."""
    found = {name: _told(study) for name, study in studies.items()}
    known = {name: told for name, told in found.items() if told is not None}
    if not known:
        return "strong", ', which the studies do not record; scaling="weak" if every rank has its own input'
    kinds = {kind for kind, _ in known.values()}
    if len(kinds) > 1:
        said = ", ".join(f"{name!r}: {kind} ({why})" for name, (kind, why) in known.items())
        raise DataError(
            f'these studies do not scale alike: {said}; draw them apart, or pass scaling="strong"',
            code="ambiguous",
        )
    kind, why = next(iter(known.values()))
    return kind, f", by {why}"


def _told(study: Study) -> tuple[str, str] | None:
    """The scaling of a study, and its evidence: a parameter's name, or its comparisons."""
    for column in map(str, study.data.columns):
        for kind, words in _NAMES.items():
            if any(word in column.lower() for word in words):
                return kind, column
    rows = study.data[(study.data["metric"] == "comparisons") & (study.data["phase"].fillna("") == "")]
    work = rows.groupby("ranks")["value"].mean()
    if len(work) < 2 or not work.iloc[0] > 0 or not work.index[0] > 0:
        return None
    times = float(work.iloc[-1] / work.iloc[0])
    power = np.log(times) / np.log(float(work.index[-1] / work.index[0]))
    if abs(power) < _FLAT:
        return "strong", f"its comparisons, {times:.2g} times as many at {number(work.index[-1])} ranks"
    if abs(power - 1) < _FLAT:
        return "weak", f"its comparisons, {times:.2g} times as many at {number(work.index[-1])} ranks"
    return None


def _line(
    study: Study, scaling: str, baseline_s: float | None, metric: str | None, phase: str | None
) -> tuple[Floats, Floats, Floats]:
    """Ranks, speedup and efficiency."""
    curve = study.curve(metric, phase)
    if curve.column != "ranks" or curve.unit != "s":
        raise DataError(
            f"speedup needs times over the ranks; this study has {curve.metric} "
            f"[{curve.unit or 'no unit'}] over {curve.column}",
            code="unsupported",
        )
    p = np.asarray(curve.samples.x, np.float64)
    times = np.asarray(curve.samples.aggregate("quartile"), np.float64)
    if scaling == "strong":
        share = (times[0] * p[0] if baseline_s is None else baseline_s) / (times * p)
    else:
        share = (times[0] if baseline_s is None else baseline_s) / times
    return p, share * p, share


def _panel(
    lines: Mapping[str, tuple[Floats, Floats, Floats]],
    every: Floats,
    which: int,
    size: tuple[int, int],
    title: str,
) -> figure:
    is_speedup = which == 1
    margin = (every[-1] / every[0]) ** 0.06 if every.size > 1 else 1.2
    values = np.concatenate([line[which] for line in lines.values()])
    x_range = Range1d(float(every[0] / margin), float(every[-1] * margin))
    if is_speedup:
        low, high = min(float(values.min()), float(every[0])), max(float(values.max()), float(every[-1]))
        y_range, y_type = Range1d(low / 1.2, high * 1.2), "log"
    else:
        y_range, y_type = Range1d(0.0, max(1.08, 1.08 * float(values.max()))), "linear"
    fig = figure(
        frame_width=size[0],
        frame_height=size[1],
        tools=TOOLS,
        active_drag=None,
        x_axis_type="log",
        y_axis_type=y_type,
        x_range=x_range,
        y_range=y_range,
    )
    ideal = every if is_speedup else np.ones_like(every)
    items = [
        LegendItem(
            label="ideal",
            renderers=[fig.line(every, ideal, color="#444444", line_width=1.4, line_dash=[2, 3])],
        )
    ]
    for i, (name, line) in enumerate(lines.items()):
        items.append(LegendItem(label=name or "measured", renderers=_curve(fig, i, line, which, name)))
    rank_axis(fig.xaxis[0], every, room=max(3, size[0] // 44))
    fig.xaxis.axis_label = "ranks p"
    if is_speedup:
        value_axis(fig.yaxis, "", low, high)
    else:
        fig.yaxis.formatter = share_ticks()
        legend = Legend(items=items, label_text_font=FONT, border_line_color=None, click_policy="hide")
        fig.add_layout(legend, "right")
    fig.add_layout(heading(title, 14), "above")
    style_axes([fig])
    fig.xgrid.ticker = fig.xaxis[0].ticker
    return fig


def _curve(fig: figure, i: int, line: tuple[Floats, Floats, Floats], which: int, name: str) -> list[object]:
    texts = [f"{s:.3g}" for s in line[1]], [format_share(float(e)) for e in line[2]]
    source = ColumnDataSource({"p": line[0], "y": line[which], "speedup": texts[0], "efficiency": texts[1]})
    color = COLORS[i % len(COLORS)]
    drawn = fig.line("p", "y", source=source, color=color, width=2.2, line_dash=DASHES[i % len(DASHES)])
    marks = fig.scatter(
        "p", "y", source=source, color=color, size=8, marker=MARKERS[i % len(MARKERS)], line_color="white"
    )
    tips = [(name or "ranks", "@p{0,0}"), ("speedup", "@speedup"), ("efficiency", "@efficiency")]
    fig.add_tools(HoverTool(renderers=[marks], tooltips=tips))
    return [drawn, marks]


def _reading(
    lines: Mapping[str, tuple[Floats, Floats, Floats]], scaling: str, baseline_s: float | None
) -> str:
    parts = []
    for name, (p, speedup, share) in lines.items():
        half = np.flatnonzero(share < 0.5)
        lost = f", below 50% from {number(p[half[0]])} on" if half.size and half[0] > 0 else ""
        parts.append(
            f"{f'{name}: s' if name else 'S'}peedup {speedup[-1]:.3g} and efficiency "
            f"{format_share(float(share[-1]))} at {number(p[-1])} ranks{lost}{_above_ideal(p, share)}"
        )
    if baseline_s is None:
        first = ", ".join(dict.fromkeys(f"{number(p[0])}" for p, _, _ in lines.values()))
        base = f"relative to each one's own time at {first} rank{'s' if first != '1' else ''}"
    else:
        base = f"against {quantity(baseline_s, 's')} on one rank"
    return f"{'; '.join(parts)} ({scaling}; {base})."


def _above_ideal(p: Floats, share: Floats) -> str:
    """Return the sentence that a speed-up above p was found, and where; the times alone do not show why."""
    best = int(np.argmax(share))
    if share[best] <= 1 + _SUPERLINEAR:
        return ""
    ranks = f"{number(p[best])} rank{'s' if p[best] != 1 else ''}"
    return (
        f", above the ideal (superlinear), most at {ranks} with {format_share(float(share[best]))}: caches, "
        "less work in all, or a slow baseline may be why"
    )


def _numbers(lines: Mapping[str, tuple[Floats, Floats, Floats]]) -> str:
    said = []
    for name, (p, _, share) in lines.items():
        pairs = ", ".join(f"{number(a)}: {format_share(float(b))}" for a, b in zip(p, share, strict=True))
        said.append(f"{name or 'efficiency'}: {pairs}")
    return "; ".join(said) + "."
