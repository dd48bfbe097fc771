"""The collective player: step through the rounds of an algorithm."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from labkit.html import quantity
from labkit.jupyter.explorers.base import Player, choice, number, slider, text
from labkit.jupyter.explorers.collective_view import (
    MOST_RANKS,
    Prepared,
    algorithms,
    collectives,
    prepare,
    round_figure,
)
from labkit.plot.figure import Figure
from labkit.schedule.problem import PROBLEMS

__all__ = ["CollectivePlayer", "collective"]

_SIZES = [8 * 8**i for i in range(8)]


class CollectivePlayer(Player):
    """A collective to step through; see `collective`.

    Parameters
    ----------
    problem, algorithm, ranks, on, n_bytes
        As in `collective`.

    Attributes
    ----------
    problem_name, algorithm, ranks, root, size, machine, buffer, step : widgets
        The controls, each with a `value`.
    prepared : Prepared
    figure : Figure
        What is shown.
    """

    prepared: Prepared
    figure: Figure

    def __init__(self, problem: str, algorithm: str, ranks: int, on: str, n_bytes: int) -> None:
        super().__init__("Collective")
        sizes = sorted({*_SIZES, n_bytes})
        self.problem_name = choice("collective", collectives(), problem)
        self.algorithm = choice("algorithm", algorithms(problem), algorithm)
        self.ranks = slider("ranks", ranks, 1, MOST_RANKS)
        self.root = number("root", 0, 0, MOST_RANKS - 1)
        self.size = choice("size", [(quantity(float(n), "B"), n) for n in sizes], n_bytes)
        self.machine = text("machine", on, "star", "what it is simulated on, such as torus:4x4")
        self.buffer = choice("buffer", ["recv"], "recv", "whose blocks are shown")
        self.step = slider("round", 0, 0, 1, "0 is the start; arrow keys step", live=True)
        self.play = w.Play(interval=900, min=0, max=1, value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        self._facts = w.HTML(layout=w.Layout(max_width="60em"))
        self.problem_name.observe(self._chosen, "value")
        self.prepared = self._prepare()
        self._fit()
        place = w.VBox()
        controls = [self.problem_name, self.algorithm, self.ranks, self.root, self.size, self.machine,
                    self.buffer, self.step]  # fmt: skip
        self.start([*controls, self.play], place, is_wide=True)
        place.children = [*self.pictures(), self._facts]

    def compute(self) -> None:
        """Draw the round that the controls say."""
        self.root.layout.display = "" if PROBLEMS[self.problem_name.value].is_rooted else "none"
        self.prepared = self._prepare()
        self._fit()
        self.figure = round_figure(self.prepared, self.step.value, self.buffer.value)
        self.picture("round", self.figure)
        self._facts.value = self.prepared.html()

    def _prepare(self) -> Prepared:
        return prepare(
            self.problem_name.value, self.algorithm.value, self.ranks.value, self.root.value,
            self.size.value, self.machine.value.strip() or "star",
        )  # fmt: skip

    def _fit(self) -> None:
        """Fit the range of rounds and the list of buffers to the algorithm."""
        self.fit_steps(len(self.prepared.found))
        with self.quiet():
            names = self.prepared.buffers
            if list(self.buffer.options) != names:
                self.buffer.options = names
                self.buffer.value = self.prepared.result

    def _chosen(self, change: Any) -> None:
        """Another collective has other algorithms."""
        with self.quiet():
            names = algorithms(change["new"])
            kept = self.algorithm.value
            self.algorithm.options = names
            self.algorithm.value = kept if kept in names else names[0]
            self.step.value = 0


def collective(
    problem: str = "allreduce",
    algorithm: str = "",
    *,
    ranks: int = 8,
    on: str = "star",
    n_bytes: int = 4096,
) -> CollectivePlayer:
    """Step through a collective: who sends what to whom in each round, and what every rank then holds.

    Parameters
    ----------
    problem, algorithm : str
        Where to begin; by default the first algorithm of the collective.
    ranks : int
        1 to 32.
    on : str
        The machine that it is simulated on.
    n_bytes : int
        The message of a bcast, reduction or scan; one block of the others.

    Returns
    -------
    CollectivePlayer
        A widget: the last line of a cell shows it.

    Raises
    ------
    ScheduleError
        No such collective or algorithm, or not for so many ranks.
    PlatformError
        No such machine.

    Examples
    --------
    >>> from labkit.jupyter import explorers
    >>> player = explorers.collective("bcast", "binomial", ranks=8)
    >>> player.set(step=2)
    >>> player.figure.reading
    'bcast, binomial, 8 ranks, round 2 of 3: 2 messages of up to 1 block; 4 of 8 results are complete.'
    """
    name = algorithm or next(iter(algorithms(problem)), "")
    prepare(problem, name, ranks, 0, n_bytes, on)
    return CollectivePlayer(problem, name, ranks, on, n_bytes)
