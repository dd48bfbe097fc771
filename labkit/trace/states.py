"""The states of a rank: one table, from which time lines, their legends and explanations take them.

A wait state is the part of a wait before what it waits for could begin. Those of `labkit.trace.waiting.kinds`
are found by the analysis of the run, and have its names here, too. Adding one is adding its entry: the last
entry of the table that holds for a wait is the state of that part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.trace.waiting.kinds import KINDS

__all__ = [
    "BEGINNING",
    "CALLS",
    "COLLECTIVE",
    "COMPUTING",
    "MESSAGE",
    "NAMED",
    "OWN",
    "STATES",
    "State",
    "Waits",
    "state_named",
    "state_of_step",
]


@dataclass(frozen=True)
class Waits:
    """The waits of a run: an entry a wait in every array.

    Attributes
    ----------
    rank : array of int
        Who waited.
    begin_s, end_s : arrays of float
        From when to when.
    start_s : array of float
        When what it waited for could begin: the transfer of a message, a collective when all were there.
    message, call : arrays of int
        Row in `Trace.messages` of the message that ended it, in `Trace.calls` of the collective; else -1.
    source, destination, tag, bytes : arrays of int
        Of the message; without one -1.
    send_posted_s, recv_posted_s : arrays of float
        Of the message; without one NaN.
    """

    rank: NDArray[np.int64]
    begin_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    message: NDArray[np.int64]
    call: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    tag: NDArray[np.int64]
    bytes: NDArray[np.int64]
    send_posted_s: NDArray[np.float64]
    recv_posted_s: NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """Something that a rank does for a time.

    Attributes
    ----------
    name : str
        In legends and readings of time lines.
    color, hatch : str
        Of its bars: colours far apart in lightness too; the hatch is one of Bokeh's.
    reading : str
        As the reason for a part of a critical path.
    step : str
        The kind of the critical path's steps that are drawn so; "" for none.
    holds : callable, optional
        Of a wait state: which of the waits (`Waits`) are in it, as an array of bool.
    """

    name: str
    color: str
    hatch: str
    reading: str
    step: str = ""
    holds: Callable[[Waits], NDArray[np.bool_]] | None = None

    @property
    def hatch_color(self) -> str:
        """The colour of the hatch's lines: seen on the bar's own."""
        red, green, blue = (int(self.color[at : at + 2], 16) for at in (1, 3, 5))
        return "#707070" if 0.3 * red + 0.59 * green + 0.11 * blue > 190 else "white"


STATES = [
    State("computing", "#56B4E9", "blank", "computation", "computation"),
    State(
        "start-ups and calls", "#D55E00", "right_diagonal_line", "start-ups and calls of a rank", "overhead"
    ),
    State("message under way", "#8E4FA8", "dot", "messages under way", "transfer"),
    State("collective", "#009E73", "cross", "collectives", "collective"),
    State("not yet begun", "#F4F4F4", "blank", "a rank that began late", "start"),
    State(
        "late sender", "#E3E3E3", "horizontal_line", "nobody had sent", "probe",
        holds=lambda waits: np.ones(len(waits.rank), bool),
    ),
    State(
        "late receiver", "#B9B9B9", "left_diagonal_line", "nobody received",
        holds=lambda waits: waits.source == waits.rank,
    ),
    State(
        "wait at a collective", "#CDE7DC", "vertical_line", "not all ranks were in the collective",
        holds=lambda waits: waits.call >= 0,
    ),
]  # fmt: skip
COMPUTING, CALLS, MESSAGE, COLLECTIVE, BEGINNING = range(5)

#: waits are pale; neighbours in the table of wait states differ in tint and hatch
_PALE = ("#CDE7DC", "#F5E6B8", "#DCD3EC", "#CFE3F3", "#F6D5C6", "#E3E8B4", "#EBD0E0")
_LINES = (
    "vertical_line", "horizontal_line", "left_diagonal_line", "dot", "diagonal_cross", "cross",
    "right_diagonal_line", "ring", "blank",
)  # fmt: skip


def _named() -> list[int]:
    """Return the place in the table of each class of wait states; those that it lacks are added."""
    known = {state.name: place for place, state in enumerate(STATES)}
    for number, kind in enumerate(KINDS):
        if kind.name not in known:
            known[kind.name] = len(STATES)
            color, hatch = _PALE[number % len(_PALE)], _LINES[number % len(_LINES)]
            STATES.append(State(kind.name, color, hatch, kind.meaning))
    return [known[kind.name] for kind in KINDS]


#: where the classes of `labkit.trace.waiting.kinds.KINDS` are in the table
NAMED = _named()
#: entries from here on were added by others
OWN = len(STATES)


def state_of_step(kind: str) -> State:
    """Return the state as which a kind of steps of a critical path is drawn and named."""
    return next(state for state in STATES if state.step == kind)


def state_named(name: str) -> State:
    """Return the state as which a class of wait states is drawn."""
    return next(state for state in STATES if state.name == name)
