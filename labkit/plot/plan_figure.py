"""A synthesized collective in time: a lane for each pair of ranks, a bar for each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import ColorBar, ColumnDataSource, FactorRange, HoverTool, LinearColorMapper, Range1d, Span
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, TOOLS, heading, style_axes, time_axis
from labkit.text.html import quantity
from labkit.text.units import format_share

if TYPE_CHECKING:
    from labkit.synthesis.programs import Transfer
    from labkit.synthesis.synthesized import Synthesized

__all__ = ["plan"]

#: lanes of a picture; of more pairs those that carry the most
MOST_LANES = 48
#: bars of a picture; of more messages the first ones
_MOST_BARS = 20_000
#: chunk numbers that a tip lists
_MOST_LISTED = 8


def plan(made: Synthesized, *, width: int = 620) -> Figure:
    """Draw when each message of a synthesized collective is under way, and what it carries.

    Parameters
    ----------
    made : labkit.synthesis.Synthesized
        What `labkit.synthesize` returned.
    width : int
        Pixels inside the axes.

    Returns
    -------
    Figure
        A lane for each pair of ranks that send to each other, one direction of it; a bar for each message, by
        the planned times, in the color of the first chunk that it carries; hatched where the receiver
        combines. The dashed line is the lower bound.

    Raises
    ------
    DataError
        Nothing is sent.

    Examples
    --------
    >>> import labkit as lk
    >>> ring = lk.graph([(0, 1), (1, 2), (2, 0)], range(3), bw="1Gbps", lat="1us")
    >>> plan(lk.synthesize("allgather", on=ring, n_bytes=1000)).reading.split(":")[0]
    'allgather of 1 kB a block for 3 ranks of graph'
    """
    transfers = made.plan.transfers
    if not transfers:
        raise DataError(
            f"{made.schedule.problem.name} on {made.schedule.size} rank sends nothing to draw", code="no-data"
        )
    lanes = _lanes(transfers)
    shown = [one for one in transfers if (one.source, one.destination) in lanes][:_MOST_BARS]
    end_s, bound_s = max(made.plan.end_s, made.bound.seconds), made.bound.seconds
    names = [_lane(*pair) for pair in sorted(lanes, reverse=True)]
    fig = figure(
        frame_width=width,
        frame_height=max(90, 15 * len(names)),
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(0.0, 1.02 * end_s),
        y_range=FactorRange(*names, range_padding=0.02),
    )
    chunks = 1 + max(chunk for one in transfers for chunk in one.chunks)
    mapper = LinearColorMapper(palette=Cividis256, low=0, high=max(chunks - 1, 1))
    for is_combined in (False, True):
        some = [one for one in shown if one.is_combined == is_combined]
        if some:
            bars = fig.hbar(
                y="lane",
                left="begin",
                right="end",
                height=0.78,
                source=ColumnDataSource(_columns(some)),
                fill_color={"field": "chunk", "transform": mapper},
                line_color="white",
                line_width=0.5,
                hatch_pattern="right_diagonal_line" if is_combined else "blank",
                hatch_color="white",
                hatch_alpha=0.8,
            )
            tips = [("from, to", "@lane"), ("carries", "@carries"), ("under way", "@when"), ("", "@what")]
            fig.add_tools(HoverTool(renderers=[bars], tooltips=tips))
    fig.add_layout(
        Span(location=bound_s, dimension="height", line_color=COLORS[1], line_dash="dashed", line_width=2)
    )
    if chunks > 1:
        title = {"title": "chunk", "title_text_font": FONT, "major_label_text_font": FONT}
        fig.add_layout(ColorBar(color_mapper=mapper, width=12, padding=4, **title), "right")
    time_axis(fig.xaxis)
    fig.xaxis.axis_label = "planned time"
    fig.yaxis.axis_label = "from rank → to rank"
    fig.add_layout(heading(made.title, 14), "above")
    style_axes([fig])
    reading = _reading(made, transfers, lanes, len(shown))
    return Figure(fig, reading, f"A lane for each pair of ranks, a bar for each message. {reading}")


def _lane(source: int, destination: int) -> str:
    return f"{source} → {destination}"


def _lanes(transfers: tuple[Transfer, ...]) -> set[tuple[int, int]]:
    """Return the pairs that are drawn: those that are busy the longest."""
    busy = _busy_s(transfers)
    return set(sorted(busy, key=lambda pair: (-busy[pair], pair))[:MOST_LANES])


def _busy_s(transfers: tuple[Transfer, ...]) -> dict[tuple[int, int], float]:
    """Return how long at least one message is under way, for each pair; messages come by their beginnings."""
    busy: dict[tuple[int, int], float] = {}
    until: dict[tuple[int, int], float] = {}
    for one in transfers:
        pair = one.source, one.destination
        begin_s = max(one.begin_s, until.get(pair, 0.0))
        busy[pair] = busy.get(pair, 0.0) + max(0.0, one.end_s - begin_s)
        until[pair] = max(one.end_s, begin_s)
    return busy


def _columns(some: list[Transfer]) -> dict[str, object]:
    return {
        "lane": [_lane(one.source, one.destination) for one in some],
        "begin": np.array([one.begin_s for one in some]),
        "end": np.array([one.end_s for one in some]),
        "chunk": np.array([one.chunks[0] for one in some], np.int64),
        "carries": [_carries(one.chunks) for one in some],
        "when": [f"{quantity(one.begin_s, 's')} to {quantity(one.end_s, 's')}" for one in some],
        "what": ["the receiver combines it with its own" if one.is_combined else "" for one in some],
    }


def _carries(chunks: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, chunks[:_MOST_LISTED]))
    more = f" and {len(chunks) - _MOST_LISTED} more" if len(chunks) > _MOST_LISTED else ""
    return f"chunk{'s' if len(chunks) > 1 else ''} {listed}{more}"


def _reading(
    made: Synthesized, transfers: tuple[Transfer, ...], lanes: set[tuple[int, int]], bars: int
) -> str:
    busy = _busy_s(transfers)
    fullest = max(busy, key=lambda pair: (busy[pair], pair))
    said = f"{made.title}: {len(transfers):,} messages between {len(busy)} pairs of ranks, "
    said += f"{quantity(made.time_s, 's')} simulated, "
    if made.bound.seconds > 0:
        said += f"{made.ratio:.3g} times the lower bound (dashed, {quantity(made.bound.seconds, 's')}); "
    under_way = busy[fullest] / made.plan.end_s if made.plan.end_s > 0 else 1.0
    said += f"from rank {fullest[0]} to {fullest[1]} a message is under way the longest, "
    said += f"{format_share(under_way)} of the planned time."
    if any(one.is_combined for one in transfers):
        said += " Hatched: the receiver combines."
    if len(busy) > len(lanes):
        said += f" Shown are the {len(lanes)} busiest pairs."
    if bars == _MOST_BARS:
        said += f" Shown are the first {_MOST_BARS:,} messages."
    return said
