"""The message player: step through a run's messages on its time line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, HoverTool, Range1d, Span
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.jupyter.explorers.base import Explorer, dropdown, slider
from labkit.plot.figure import Figure
from labkit.plot.gantt_figure import time_bars
from labkit.plot.style import grid_of
from labkit.result import Run
from labkit.text.html import escape, properties, quantity
from labkit.trace.activity import Activity, activity

if TYPE_CHECKING:
    from bokeh.plotting import figure

__all__ = ["MOST_RANKS", "MessagePlayer", "PlayedMessages", "messages"]

_ALL = "all ranks"


# The message player's content, without a widget: a time line up to one message, and what is known of it.

MOST_RANKS, MOST_MESSAGES = 64, 2000

_WIDTH = 900

_AFTER = 0.75


@dataclass(frozen=True)
class PlayedMessages:
    """The messages of a run, in the order in which their transfers began.

    Attributes
    ----------
    run : Run
    what : Activity
        Of its ranks.
    order : array of int, shape (messages,)
        Rows of ``run.trace.messages``.
    """

    run: Run
    what: Activity
    order: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.order)

    def row(self, step: int) -> dict[str, Any]:
        """Return a message's columns; steps count from 1."""
        found: dict[str, object] = self.run.trace.messages.iloc[int(self.order[step - 1])].to_dict()
        return found

    def reading(self, step: int) -> str:
        """Return as text what happens with a message."""
        total = len(self)
        if not step:
            where = f"{self.run.program} on {self.run.on}, {self.run.ranks} ranks"
            return f"{where}: before the first of {total} messages."
        one = self.row(step)
        size = quantity(float(one["bytes"]), "B")
        took = quantity(float(one["end_s"] - one["start_s"]), "s")
        return (
            f"Message {step} of {total}: rank {one['source']:g} sends {size} to rank {one['destination']:g}, "
            f"under way for {took}{_waiting(one)}."
        )

    def html(self, step: int) -> str:
        """Return what is known of a message as a table."""
        if not step:
            return ""
        one = self.row(step)
        rows = [("from, to", f"rank {one['source']:g}, rank {one['destination']:g}")]
        rows.append(("payload", quantity(float(one["bytes"]), "B")))
        is_own = bool(self.run.trace.is_own[int(self.order[step - 1])]) and one["tag"] >= 0
        rows.append(("tag", str(int(one["tag"])) if is_own else "none: part of a collective"))
        for name, column in _MOMENTS.items():
            at = float(one.get(column, math.nan))
            rows.append((name, escape(quantity(at, "s")) if math.isfinite(at) else "not recorded"))
        return properties(rows)


_MOMENTS = {
    "send posted": "send_posted_s",
    "receive posted": "recv_posted_s",
    "transfer begins": "start_s",
    "has arrived": "end_s",
}


def _waiting(one: dict[str, Any]) -> str:
    """Return as text which side was there first, and how long before the transfer began."""
    sent, received = float(one.get("send_posted_s", math.nan)), float(one.get("recv_posted_s", math.nan))
    begun = float(one["start_s"])
    if not (math.isfinite(sent) and math.isfinite(received)):
        return ""
    if received < begun and begun - received >= begun - sent:
        return f"; its receive had been posted {quantity(begun - received, 's')} before"
    if sent < begun:
        return f"; its send had been posted {quantity(begun - sent, 's')} before"
    if received > begun:
        return f"; its receive was posted {quantity(received - begun, 's')} after it had left"
    return "; both sides were ready immediately"


def messages_of(run: Run) -> PlayedMessages:
    """Take a run's messages."""
    if not isinstance(run, Run):
        raise DataError(
            f"the player takes a run, lk.run(..., trace=True); got {type(run).__name__}", code="wrong-type"
        )
    if run.trace is None:
        raise DataError(
            f"{run.program} on {run.on} has no record of its messages; run it with trace=True",
            code="not-recorded",
        )
    table = run.trace.messages
    if not len(table):
        raise DataError(
            f"{run.program} on {run.on} sent no message: there is nothing to play", code="no-data"
        )
    if run.ranks > MOST_RANKS or len(table) > MOST_MESSAGES:
        raise DataError(
            f"the player shows at most {MOST_RANKS} ranks and {MOST_MESSAGES:,} messages, one by one; this "
            f"run has {run.ranks:,} and {len(table):,}: take fewer ranks, or labkit.plot.gantt and "
            "labkit.plot.sends",
            code="too-many-ranks",
        )
    order = np.lexsort((table["end_s"].to_numpy(), table["start_s"].to_numpy()))
    return PlayedMessages(run, activity(run.trace, run.waits().waits), np.asarray(order, np.int64))


def message_figure(found: PlayedMessages, step: int) -> Figure:
    """Draw the time line with the messages up to one, and that one thick; what comes after it is pale."""
    step = min(max(step, 0), len(found))
    what = found.what
    span = Range1d(0.0, what.makespan_s, bounds=(0.0, what.makespan_s))
    fig = time_bars(what, found.run, span, _WIDTH, 0)
    now = float(found.row(step)["end_s"]) if step else 0.0
    fig.add_layout(
        BoxAnnotation(left=now, right=what.makespan_s, fill_color="white", fill_alpha=_AFTER, line_color=None)
    )
    fig.add_layout(
        Span(location=now, dimension="height", line_color="#222222", line_dash="dotted", line_width=1.5)
    )
    _arrows(fig, found, step)
    reading = found.reading(step)
    return Figure(grid_of([fig], 1), reading, f"Time line of the ranks up to one message. {reading}")


def _arrows(fig: figure, found: PlayedMessages, step: int) -> None:
    table = found.run.trace.messages.iloc[found.order[:step]]
    texts = [
        f"{a} to {b}, {quantity(float(n), 'B')}"
        for a, b, n in zip(table["source"], table["destination"], table["bytes"], strict=True)
    ]
    is_now = np.arange(step) == step - 1
    source = ColumnDataSource(
        {
            "x0": table["start_s"],
            "y0": table["source"],
            "x1": table["end_s"],
            "y1": table["destination"],
            "turn": np.where(table["destination"] > table["source"], np.pi, 0.0),
            "message": texts,
            "color": np.where(is_now, "#000000", "#666666"),
            "wide": np.where(is_now, 4.0, 1.0),
            "edge": np.where(is_now, 7.0, 2.4),
            "size": np.where(is_now, 14, 7),
        }
    )
    fig.segment("x0", "y0", "x1", "y1", source=source, color="white", line_width="edge", alpha=0.8)
    lines = fig.segment("x0", "y0", "x1", "y1", source=source, color="color", line_width="wide")
    fig.scatter(
        "x1",
        "y1",
        angle="turn",
        marker="triangle",
        size="size",
        fill_color="color",
        line_color="white",
        source=source,
    )
    fig.add_tools(HoverTool(renderers=[lines], tooltips=[("message", "@message")]))


class MessagePlayer(Explorer):
    """A run's messages to step through; see `messages`.

    Attributes
    ----------
    step, rank, play, back, forth : widgets
        The controls; `rank` lets `back` and `forth` go to messages from or to one rank alone.
    found : Messages
    figure : Figure
        What is shown.
    """

    figure: Figure

    def __init__(self, found: PlayedMessages) -> None:
        run = found.run
        super().__init__(f"Messages of {run.program} on {run.on}, {run.ranks} ranks")
        self.found = found
        self.step = slider("message", 0, 0, len(found), "0 is the beginning; arrow keys step", live=True)
        names = [(_ALL, -1), *((f"rank {rank}", rank) for rank in range(run.ranks))]
        self.rank = dropdown("step through", names, -1, "of one rank: the messages that it sends or receives")
        self.play = w.Play(interval=900, min=0, max=len(found), value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        self.back = w.Button(icon="step-backward", tooltip="the message before", layout=w.Layout(width="3em"))
        self.forth = w.Button(icon="step-forward", tooltip="the next message", layout=w.Layout(width="3em"))
        self.back.on_click(lambda _: self.go(-1))
        self.forth.on_click(lambda _: self.go(1))
        self._facts = w.HTML()
        place = w.VBox()
        self.start([self.step, self.rank], place, is_wide=True)
        self.step.layout.width = "32em"
        title, controls, *rest = self.children
        controls.children = [*controls.children, self.back, self.forth, self.play]
        self.children = [title, controls, *rest]
        place.children = [*self.pictures(), self._facts]

    def go(self, way: int) -> None:
        """Go to the next message, or with -1 to the one before: of the chosen rank, where one is chosen.

        Parameters
        ----------
        way : int
            1 or -1.
        """
        step, rank = self.step.value + way, self.rank.value
        while 0 < step <= len(self.found):
            one = self.found.row(step)
            if rank < 0 or rank in (one["source"], one["destination"]):
                break
            step += way
        if 0 <= step <= len(self.found):
            self.step.value = step

    def compute(self) -> None:
        """Draw the message that the controls say."""
        self.figure = message_figure(self.found, self.step.value)
        self.picture("message", self.figure)
        self._facts.value = self.found.html(self.step.value)


def messages(run: Run) -> MessagePlayer:
    """Step through a recorded run, message by message: the time line up to each, and what is known of it.

    Parameters
    ----------
    run : Run
        With ``trace=True``, on any machine: at most 64 ranks and 2000 messages.

    Returns
    -------
    MessagePlayer
        A widget: the last line of a cell shows it.

    Raises
    ------
    DataError
        No trace, no messages, or too many.

    Examples
    --------
    >>> import labkit as lk
    >>> run = lk.run(lambda comm: comm.bcast(b"news"), ranks=4, on="star", trace=True)
    >>> player = lk.explore.messages(run)
    >>> player.set(step=1)
    >>> player.figure.reading[:54]
    'Message 1 of 3: rank 0 sends 15 B to rank 2, under way'
    """
    return MessagePlayer(messages_of(run))
