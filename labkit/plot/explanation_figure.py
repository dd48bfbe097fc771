"""Figures of an explanation: heat on the machine, use of the busiest links over time, the critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
)
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import FONT, HEAT, TOOLS, share_ticks, style_axes, time_axis
from labkit.plot.topology_figure import Cables, draw_layout
from labkit.text.html import quantity
from labkit.text.units import format_share
from labkit.trace.activity import MESSAGE, STATES
from labkit.trace.explanation import explained

if TYPE_CHECKING:
    import pandas as pd

    from labkit.result import Run
    from labkit.trace import Bottlenecks, Explanation

__all__ = ["critical_path", "heat", "utilisation"]

#: links of the figure of utilisation
_SHOWN = 24
_TAKES = "a figure of an explanation takes a recorded run"


def heat(explanation: Explanation | Run, *, width: int = 760, height: int = 520) -> Figure:
    """Draw the machine of a run, its cables colored by how much of their capacity was used.

    Parameters
    ----------
    explanation : Explanation or Run
        What `Run.explain` returned, or the recorded run itself (``trace=True``).
    width, height : int
        Pixels.

    Returns
    -------
    Figure
        A cable shows the busier of its two directions.

    Raises
    ------
    DataError
        The machine is too large to be drawn: see `utilisation`.
    """
    explanation = explained(explanation, _TAKES)
    _need_links(explanation)
    machine = explanation.trace.setting[0].sized(len(explanation.trace.ends_s))
    if machine.description.smaller() != machine.description:
        raise DataError(
            f"{machine.name} is too large to be drawn with its heat; "
            "labkit.plot.utilisation shows its busiest links",
            code="out-of-range",
        )
    layout = machine.description.lay_out()
    links = explanation.links
    used = list(zip(links["link"].tolist(), links["utilisation"].tolist(), strict=True))
    cables = Cables(layout)
    shares = cables.loads(used)
    top = max(shares.values(), default=1.0)
    mapper = LinearColorMapper(palette=HEAT, low=0.0, high=top)
    fig = draw_layout(layout, width, height, lambda a, b: shares.get(min((a, b), (b, a)), 0.0), mapper)
    bar = ColorBar(
        color_mapper=mapper,
        title="mean use of a cable's busier direction",
        formatter=share_ticks(),
        title_text_font=FONT,
        major_label_text_font=FONT,
        title_text_font_style="normal",
    )
    fig.add_layout(bar, "below")
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:3]
    busiest = ", ".join(f"{a} to {b} {format_share(share)}" for (a, b), share in ranked)
    reading = f"{explanation.on}: busiest cables over the run: {busiest or 'none'}."
    hidden = max(
        (one for one in used if cables.of_link(one[0]) is None), key=lambda one: one[1], default=None
    )
    if hidden is not None and layout.host_points is not None and hidden[1] > 0.5 * top:
        reading += f" Not drawn: links inside zones, {hidden[0]} {format_share(hidden[1])} the busiest."
    return Figure(fig, reading, f"Picture of the machine with its cables colored by use. {reading}")


def _need_links(explanation: Explanation) -> Bottlenecks:
    if explanation.bottlenecks is None:
        raise DataError(
            f"{explanation.program} ran on {explanation.on}, and a real run does not record which links its "
            "messages used; labkit.plot.critical_path and labkit.plot.gantt show what it does record",
            code="unsupported",
        )
    return explanation.bottlenecks


def utilisation(explanation: Explanation | Run, *, width: int = 760) -> Figure:
    """Draw how much of the busiest links' capacity was in use over the run.

    Parameters
    ----------
    explanation : Explanation or Run
        As in `heat`.
    width : int
        Pixels.

    Returns
    -------
    Figure
        A row per link, those that held transfers longest on top.
    """
    explanation = explained(explanation, _TAKES)
    found = _need_links(explanation)
    links = explanation.links.head(_SHOWN)
    if not len(links):
        told = f"{explanation.program} on {explanation.on} sent nothing"
        raise DataError(f"{told}: there is no use to be drawn", code="no-data")
    names = [str(name) for name in links["link"]]
    table = np.clip(found.utilisation[links["number"].to_numpy()], 0.0, 1.0)
    fig = figure(
        width=width, height=110 + 18 * len(names), y_range=names[::-1], x_range=(0.0, explanation.makespan_s),
        tools=TOOLS,
    )  # fmt: skip
    mapper = LinearColorMapper(palette=HEAT, low=0.0, high=1.0)
    step = explanation.makespan_s / table.shape[1]
    row, column = np.nonzero(table > 0.0)
    source = ColumnDataSource(
        {
            "link": [names[i] for i in row],
            "left": column * step,
            "right": (column + 1) * step,
            "share": table[row, column],
        }
    )
    drawn = fig.hbar(
        y="link", left="left", right="right", height=0.86, source=source, line_color=None,
        fill_color={"field": "share", "transform": mapper},
    )  # fmt: skip
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@link"), ("in use", "@share{0.[0] %}")]))
    fig.add_layout(
        ColorBar(
            color_mapper=mapper,
            title="in use",
            formatter=share_ticks(),
            ticker=FixedTicker(ticks=[0, 0.5, 1.0]),
            title_text_font=FONT,
            major_label_text_font=FONT,
            title_text_font_style="normal",
        ),
        "right",
    )
    time_axis(fig.xaxis)
    style_axes([fig])
    fig.grid.visible = False
    first = links.iloc[0]
    reading = (
        f"The {len(names)} links of {explanation.on} that held transfers longest; "
        f"{first['link']} was used up during {first['full']:.0%} of the run."
    )
    return Figure(fig, reading, f"Heat map of the use of links over time. {reading}")


def critical_path(explanation: Explanation | Run, *, width: int = 760, height: int = 380) -> Figure:
    """Draw the critical path: time to the right, ranks upwards, one bar or slanted line per step.

    Parameters
    ----------
    explanation : Explanation or Run
        As in `heat`.
    width, height : int
        Pixels.

    Returns
    -------
    Figure
        A transfer is a line from its sender to its receiver.
    """
    explanation = explained(explanation, _TAKES)
    path = explanation.path
    if path.empty:
        told = f"{explanation.program} on {explanation.on} took no time"
        raise DataError(f"{told}: its critical path has no steps", code="no-data")
    messages = explanation.trace.messages
    fig = figure(width=width, height=height, x_range=(0.0, explanation.makespan_s), tools=TOOLS)
    for state in STATES:
        rows = path[path["kind"] == state.step]
        if len(rows) and state.step != "transfer":
            label = state.reading if state.step == "probe" else state.name
            drawn = fig.hbar(
                y="rank",
                left="begin_s",
                right="end_s",
                source=_steps(rows),
                height=0.7,
                fill_color=state.color,
                line_color=None,
                hatch_pattern=state.hatch,
                hatch_color=state.hatch_color,
                hatch_alpha=0.55,
                hatch_scale=7,
                legend_label=label,
            )
            tips = [("rank", "@rank"), (label, "@text"), ("phase", "@phase")]
            fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    moved = path[path["kind"] == "transfer"]
    if len(moved):
        _draw_transfers(fig, moved, messages)
    ranks = len(explanation.trace.ends_s)
    fig.y_range.start, fig.y_range.end = -0.8, ranks - 0.2
    fig.yaxis.axis_label = "rank"
    time_axis(fig.xaxis, explanation.bottlenecks is not None)
    style_axes([fig])
    if fig.legend:
        fig.add_layout(fig.legend[0], "right")
        fig.legend.label_text_font = FONT
        fig.legend.border_line_color = None
    shares = path.assign(seconds=path["end_s"] - path["begin_s"]).groupby("kind")["seconds"].sum()
    largest = str(shares.idxmax())
    reading = (
        f"The critical path of {explanation.program} on {explanation.on} visits "
        f"{path['rank'].nunique()} of {ranks} rank{'s' if ranks != 1 else ''} in {len(path)} "
        f"step{'s' if len(path) != 1 else ''}; "
        f"{shares[largest] / explanation.makespan_s:.0%} of its {quantity(explanation.makespan_s, 's')} "
        f"is {_spoken(largest)}."
    )
    return Figure(fig, reading, f"Time line of the critical path over the ranks. {reading}")


def _draw_transfers(fig: figure, moved: pd.DataFrame, messages: pd.DataFrame) -> None:
    """Draw the transfers of the path as lines between ranks."""
    sent, source = messages.iloc[moved["message"].to_numpy()], _steps(moved)
    for end in ("source", "destination"):
        source.add(sent[end].to_numpy(), end)
    ends = {"x0": "begin_s", "x1": "end_s", "y0": "source", "y1": "destination"}
    state = STATES[MESSAGE]
    lines = fig.segment(source=source, color=state.color, line_width=1.6, legend_label=state.name, **ends)
    tips = [("message", "@source to @destination"), ("under way", "@text"), ("phase", "@phase")]
    fig.add_tools(HoverTool(renderers=[lines], tooltips=tips))


def _steps(rows: pd.DataFrame) -> ColumnDataSource:
    """Steps of the path, with their lengths as text."""
    lengths = (rows["end_s"] - rows["begin_s"]).to_numpy()
    return ColumnDataSource(
        {
            **{name: rows[name].to_numpy() for name in ("rank", "begin_s", "end_s", "phase")},
            "text": [quantity(float(s), "s") for s in lengths],
        }
    )


def _spoken(kind: str) -> str:
    names = {
        "overhead": "start-ups and calls",
        "transfer": "transfers",
        "probe": "waiting for a send",
        "collective": "collectives",
    }
    return names.get(kind, kind)
