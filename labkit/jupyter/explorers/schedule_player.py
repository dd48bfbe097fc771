"""The schedule player: step through a schedule that was made, round by round."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from labkit import registry
from labkit.errors import DataError, ScheduleError
from labkit.jupyter.explorers.base import Explorer, choice, slider
from labkit.jupyter.explorers.collective_player import MOST_RANKS, Prepared, round_figure
from labkit.plot.figure import Figure
from labkit.schedule import Schedule, check
from labkit.schedule.count import count
from labkit.schedule.symbolic import rounds
from labkit.sim.schedules import simulate
from labkit.synthesis import Synthesized

__all__ = ["SchedulePlayer", "schedule"]


class SchedulePlayer(Explorer):
    """A schedule to step through; see `schedule`.

    Parameters
    ----------
    prepared : Prepared
        The schedule's rounds, simulated and counted.

    Attributes
    ----------
    buffer, step : widgets
        The controls, each with a `value`.
    prepared : Prepared
    figure : Figure
        What is shown.
    """

    prepared: Prepared
    figure: Figure

    def __init__(self, prepared: Prepared) -> None:
        super().__init__("Schedule")
        self.prepared, last = prepared, len(prepared.found)
        self.buffer = choice("buffer", prepared.buffers, prepared.result, "whose blocks are shown")
        self.step = slider("round", 0, 0, last, "0 is the start; arrow keys step", live=True)
        self.play = w.Play(interval=900, min=0, max=last, value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        place = w.VBox()
        self.start([self.buffer, self.step, self.play], place, is_wide=True)
        place.children = [*self.pictures(), w.HTML(prepared.html(), layout=w.Layout(max_width="60em"))]

    def compute(self) -> None:
        """Draw the round that the controls say."""
        self.figure = round_figure(self.prepared, self.step.value, self.buffer.value)
        self.picture("round", self.figure)


def schedule(made: Synthesized | Schedule, *, on: Any = "star", n_bytes: int = 4096) -> SchedulePlayer:
    """Step through a schedule: who sends what to whom in each round, and what every rank then holds.

    Parameters
    ----------
    made : Synthesized or Schedule
        What `labkit.synthesize` returned, or a schedule of one's own.
    on, n_bytes
        The machine that a schedule of one's own is simulated on, and its message or block; what was
        synthesised brings both.

    Returns
    -------
    SchedulePlayer
        A widget: the last line of a cell shows it.

    Raises
    ------
    DataError
        Something else.
    ScheduleError
        It has more ranks than can be shown.

    Examples
    --------
    >>> import labkit as lk
    >>> from labkit.jupyter import explorers
    >>> ring = lk.graph([(0, 1), (1, 2), (2, 0)], range(3), bw="1Gbps", lat="1us")
    >>> player = explorers.schedule(lk.synthesize("allgather", on=ring, n_bytes=1000))
    >>> player.set(step=1)
    >>> player.figure.reading.split(":")[0].endswith("round 1 of 2")
    True
    """
    if not isinstance(made, Synthesized | Schedule):
        raise DataError(f"the player takes a schedule, or what lk.synthesize returned, got {made!r}")
    own = made.schedule if isinstance(made, Synthesized) else made
    if own.size > MOST_RANKS:
        raise ScheduleError(f"the player shows 1 to {MOST_RANKS} ranks, got {own.size}")
    if isinstance(made, Synthesized):
        seconds, n_bytes, where, how = made.time_s, made.n_bytes, made.platform.name, made.method
    else:
        seconds, where, how = simulate(own, on, n_bytes=n_bytes).makespan_s, str(on), own.name
    steps, volume, reduced = count(own, n_bytes)
    cost = registry.Cost(steps, volume, reduced)
    return SchedulePlayer(Prepared(rounds(own), cost, how, str(check(own)), seconds, n_bytes, where))
