"""The send matrix: bytes and messages from every rank to every other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    HoverTool,
    LinearColorMapper,
    LogColorMapper,
    Range1d,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import FONT, HEAT, SI_JS, TOOLS, count_axis, grid_of, heading, style_axes, whole_ticker
from labkit.text.html import quantity
from labkit.text.units import format_share

if TYPE_CHECKING:
    import pandas as pd

    from labkit.result import Run
    from labkit.trace.trace import Trace

__all__ = ["payloads", "send_tables", "sends"]


#: rows of the matrix; of more ranks, neighbors are summed up
MOST_ROWS = 128
#: a color scale over more than this is logarithmic
_WIDE = 20.0


def sends(run: Run, *, phase: str | None = None, size: int = 330) -> Figure:
    """Draw the bytes and the messages that every rank sent to every other.

    Parameters
    ----------
    run : Run
        With ``trace=True``.
    phase : str, optional
        Only messages that were posted while their senders were in this phase.
    size : int
        Pixels of one side of a matrix.

    Returns
    -------
    Figure
        Rows are senders, columns receivers; beyond 128 ranks each cell stands for a block of neighbors.

    Raises
    ------
    DataError
        No trace, a phase that is not there, or no messages.

    Examples
    --------
    >>> import labkit as lk
    >>> def shift(comm):
    ...     comm.sendrecv(b"x" * 1000, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    >>> sends(lk.run(shift, ranks=8, on="star", trace=True)).reading.split(":")[0]
    'shift, 8 ranks'
    """
    ranks, rows = _messages(run, phase)
    bytes_, counts, block = send_tables(ranks, *rows)
    panels = [
        _matrix(bytes_, "bytes", "B", ranks, block, size, (bytes_, counts)),
        _matrix(counts, "messages", "", ranks, block, size, (bytes_, counts)),
    ]
    panels[1].yaxis.axis_label = None
    blocks = run.trace.clocks is not None and (run.trace.calls["joint"] >= 0).any()
    name = f"{run.program}{f', phase {phase}' if phase else ''}, {ranks} ranks"
    reading = f"{name}: {_said(ranks, *rows)}"
    if blocks:
        reading += " A collective counts as its blocks, whatever messages MPI made of them."
    if block > 1:
        reading += f" A cell stands for {block} senders and {block} receivers."
    return Figure(grid_of(panels), reading, f"Matrices of bytes and messages from rank to rank. {reading}")


def _messages(run: Run, phase: str | None) -> tuple[int, tuple[Any, Any, Any]]:
    if run.trace is None:
        raise DataError(
            f"{run.program} on {run.on} has no record of its messages; run it with trace=True",
            code="not-recorded",
        )
    table = payloads(run.trace)
    if phase is not None:
        entries = run.phases[run.phases["phase"] == phase]
        if not len(entries):
            known = ", ".join(map(str, run.phases["phase"].drop_duplicates())) or "none"
            raise DataError(f"{run.program} has no phase {phase!r}; it has: {known}", code="unknown-name")
        table = table[_posted_inside(table, entries)]
    if not len(table):
        raise DataError(
            f"{run.program} on {run.on} sent nothing{f' in {phase!r}' if phase else ''}", code="no-data"
        )
    columns = (
        table["source"].to_numpy(),
        table["destination"].to_numpy(),
        table["bytes"].to_numpy(np.float64),
    )
    return len(run.trace.ends_s), columns


def _posted_inside(table: pd.DataFrame, entries: pd.DataFrame) -> NDArray[np.bool_]:
    """Which messages were posted by their senders within one of the entries."""
    source, posted = table["source"].to_numpy(), table["send_posted_s"].to_numpy()
    inside = np.zeros(len(table), bool)
    for rank, part in entries.groupby("rank"):
        rows = np.flatnonzero(source == rank)
        begin, end = np.sort(part["begin_s"].to_numpy()), np.sort(part["end_s"].to_numpy())
        begun = np.searchsorted(begin, posted[rows], side="right")
        inside[rows] = begun > np.searchsorted(end, posted[rows], side="left")
    return inside


def send_tables(
    ranks: int, source: NDArray[np.int64], destination: NDArray[np.int64], n_bytes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Sum up messages by blocks of senders and receivers.

    Returns
    -------
    (bytes, messages, block)
        Two arrays of shape (rows, rows), at most 128 by 128, and the ranks that a row stands for.
    """
    block = -(-ranks // MOST_ROWS)
    rows = -(-ranks // block)
    cell = (source // block) * rows + destination // block
    shape = (rows, rows)
    counts, sums = (
        np.asarray(np.bincount(cell, of, rows * rows), np.float64).reshape(shape)
        for of in (np.ones(len(cell)), n_bytes)
    )
    return sums, counts, block


def _matrix(
    table: NDArray[np.float64],
    title: str,
    unit: str,
    ranks: int,
    block: int,
    size: int,
    both: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> figure:
    row, column = np.nonzero(both[1])
    values = table[row, column]
    fig = figure(
        frame_width=size, frame_height=size, tools=TOOLS, active_drag=None,
        x_range=Range1d(-0.5, ranks - 0.5), y_range=Range1d(ranks - 0.5, -0.5),
    )  # fmt: skip
    low, high = float(values[values > 0].min(initial=np.inf)), float(values.max())
    is_wide = high > _WIDE * low
    mapper = (
        LogColorMapper(palette=HEAT, low=low, high=high)
        if is_wide
        else LinearColorMapper(palette=HEAT, low=0.0, high=high or 1.0)
    )
    source = ColumnDataSource({
        "left": column * block - 0.5, "right": np.minimum((column + 1) * block, ranks) - 0.5,
        "bottom": row * block - 0.5, "top": np.minimum((row + 1) * block, ranks) - 0.5,
        "value": values,
        "who": [_block_name(i, block, ranks) for i in row.tolist()],
        "whom": [_block_name(i, block, ranks) for i in column.tolist()],
        "bytes": [quantity(float(v), "B") for v in both[0][row, column]],
        "messages": both[1][row, column].astype(np.int64),
    })  # fmt: skip
    drawn = fig.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        source=source,
        line_color=None,
        fill_color={"field": "value", "transform": mapper},
    )
    tips = [("from", "@who"), ("to", "@whom"), ("", "@bytes in @messages{0,0} messages")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    count_axis(fig.xaxis[0], "to rank", ranks)
    count_axis(fig.yaxis[0], "from rank", ranks)
    # messages are whole
    ticks = {} if unit or is_wide else {"ticker": whole_ticker()}
    bar = ColorBar(
        **ticks,
        color_mapper=mapper,
        formatter=CustomJSTickFormatter(code=SI_JS, args={"unit": unit}),
        width=12,
        major_label_text_font=FONT,
        padding=4,
    )
    fig.add_layout(bar, "right")
    fig.add_layout(heading(f"{title}{' (logarithmic)' if is_wide else ''}", 14), "above")
    style_axes([fig])
    return fig


def _block_name(index: int, block: int, ranks: int) -> str:
    first, last = index * block, min((index + 1) * block, ranks) - 1
    return f"rank {first}" if first == last else f"ranks {first} to {last}"


def _said(ranks: int, source: Any, destination: Any, n_bytes: Any) -> str:
    """Return as text how much there was, to how many partners, and how uneven it was."""
    sent, received = (np.bincount(who, n_bytes, ranks) for who in (source, destination))
    pairs = np.unique(source * ranks + destination)
    partners = np.bincount(pairs // ranks, minlength=ranks)
    total, most = float(n_bytes.sum()), int(partners.max())
    text = f"{len(source):,} messages with {quantity(total, 'B')}; a rank sends to "
    least = int(partners.min())
    text += f"{least} to {most} others" if least < most else f"{most} other{'s' if most != 1 else ''}"
    if total == 0:
        return f"{text}."
    heaviest = []
    for verb, table in (("sends", sent), ("receives", received)):
        share, rank = float(table.max()) / total, int(table.argmax())
        if share * ranks > 1.05:
            heaviest.append(f"rank {rank} {verb} the most, {format_share(share)} of all bytes")
    even = "; every rank sends and receives the same amount"
    return f"{text}{'; ' + '; '.join(heaviest) if heaviest else even}."


# Payloads between ranks: messages, and of a real run's collectives the blocks, by the definition of each.
#
# A simulated run's collectives are messages. A real run records the operation, not the messages that its
# library made of it. An alltoall is a block from each rank to each, a gather one from each to the root; what
# is combined on its way (reductions, scans) has no blocks.


_COLUMNS = ("source", "destination", "bytes", "send_posted_s")
_FROM_ROOT, _TO_ROOT = ("bcast", "scatter", "scatterv"), ("gather", "gatherv")
_TO_ALL = ("allgather", "allgatherv", "alltoall", "alltoallv")


def payloads(trace: Trace) -> pd.DataFrame:
    """Return who gave how much to whom when.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    pandas.DataFrame
        source, destination, bytes, send_posted_s.
    """
    messages = trace.messages[list(_COLUMNS)]
    if trace.clocks is None:
        return messages
    import pandas as pd

    return pd.concat([messages, _blocks(trace)], ignore_index=True)


def _blocks(trace: Trace) -> pd.DataFrame:
    """Return the blocks of collectives between different ranks."""
    import pandas as pd

    assert trace.calls is not None
    calls = trace.calls[trace.calls["joint"] >= 0].sort_values(["joint", "position"], kind="stable")
    rows = calls.index.to_numpy()
    joint, rank, root, size = (calls[name].to_numpy() for name in ("joint", "rank", "root", "bytes"))
    begin, names = calls["begin_s"].to_numpy(), calls["call"].to_numpy()
    columns: tuple[list[NDArray[np.float64]], ...] = ([], [], [], [])
    groups = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(joint)) + 1) if len(rows) else []
    for own in groups:
        name = str(names[own[0]]).lower()
        base = name.removeprefix("i") if name not in _TO_ALL else name
        members = rank[own]
        if base in _FROM_ROOT:
            givers, takers = own[members == root[own[0]]], members
        elif base in _TO_ROOT:
            givers, takers = own, root[own[:1]]
        elif base in _TO_ALL:
            givers, takers = own, members
        else:
            continue
        for giver in givers.tolist():
            counts = trace.blocks.get(int(rows[giver]))
            sent = np.full(len(takers), size[giver]) if counts is None else np.asarray(counts)
            if base == "scatter" and counts is None:  # the root's own block is as the others
                sent = np.full(len(takers), size[own].max())
            if len(sent) != len(takers):
                continue
            others = takers != rank[giver]
            for column, value in zip(
                columns, (rank[giver], takers[others], sent[others], begin[giver]), strict=True
            ):
                column.append(np.broadcast_to(value, int(others.sum())))
    found = [np.concatenate(column) if column else np.empty(0) for column in columns]
    types = (np.int64, np.int64, np.int64, np.float64)
    named = zip(_COLUMNS, found, types, strict=True)
    return pd.DataFrame({name: column.astype(kind) for name, column, kind in named})
