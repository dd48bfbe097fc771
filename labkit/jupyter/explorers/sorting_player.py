"""The sorting player: step through the phases of a parallel sort."""

from __future__ import annotations

import ipywidgets as w

from labkit.html import escape, quantity, table
from labkit.jupyter.explorers.base import Player, choice, number, slider, text
from labkit.jupyter.explorers.sorting_figure import step_figure
from labkit.jupyter.explorers.sorting_view import (
    INPUTS,
    MOST_KEYS,
    MOST_RANKS,
    OVERSAMPLING,
    Played,
    play,
    samples,
    sorts,
)
from labkit.plot.figure import Figure

__all__ = ["SortingPlayer", "sorting"]


class SortingPlayer(Player):
    """A sort to step through; see `sorting`.

    Parameters
    ----------
    algorithm, kind, ranks, per_rank, seed, on, oversampling
        As in `sorting`, whose `keys` is `kind`.

    Attributes
    ----------
    algorithm, order, ranks, per_rank, oversampling, is_drawn, seed, machine, step : widgets
        The controls, each with a `value`.
    played : Played
    figure : Figure
        What is shown.
    """

    played: Played
    figure: Figure

    def __init__(
        self, algorithm: str, kind: str, ranks: int, per_rank: int, seed: int, on: str, oversampling: float
    ) -> None:
        super().__init__("Parallel sort")
        self.algorithm = choice("sort", sorts(), algorithm)
        self.order = choice("keys", list(INPUTS), kind, "; ".join(f"{k}: {v}" for k, v in INPUTS.items()))
        self.ranks = slider("ranks", ranks, 1, MOST_RANKS)
        self.per_rank = slider("keys per rank", per_rank, 1, MOST_KEYS, "a sort of one key per rank has one")
        known = sorted({*OVERSAMPLING, oversampling}, reverse=True)
        self.oversampling = choice(
            "oversampling", [(_share(one), one) for one in known], oversampling,
            "samples of a rank, in multiples of 32: the fewer samples, the worse the balance",
        )  # fmt: skip
        self.is_drawn = choice("samples", [("evenly spaced", False), ("drawn at random", True)], False)
        self.seed = number("seed", seed, 0, 2**31 - 1)
        self.machine = text("machine", on, "star", "what it is simulated on, such as torus:4x4")
        self.step = slider("step", 0, 0, 1, "0 is the input; arrow keys step", live=True)
        self.play = w.Play(interval=1400, min=0, max=1, value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        self._facts = w.HTML(layout=w.Layout(max_width="60em"))
        self.played = self._play()
        self.fit_steps(len(self.played.steps) - 1)
        place = w.VBox()
        controls = [self.algorithm, self.order, self.ranks, self.per_rank, self.oversampling, self.is_drawn,
                    self.seed, self.machine, self.step, self.play]  # fmt: skip
        self.start(controls, place, is_wide=True)
        place.children = [*self.pictures(), self._facts]

    def compute(self) -> None:
        """Draw the step that the controls say."""
        for control in (self.oversampling, self.is_drawn):
            control.layout.display = "" if samples(self.algorithm.value) else "none"
        self.played = self._play()
        self.fit_steps(len(self.played.steps) - 1)
        self.figure = step_figure(self.played, self.step.value)
        self.picture("step", self.figure)
        self._facts.value = self._table()

    def _play(self) -> Played:
        return play(
            self.algorithm.value, self.order.value, self.ranks.value, self.per_rank.value, self.seed.value,
            self.machine.value.strip() or "star", self.oversampling.value, self.is_drawn.value,
        )  # fmt: skip

    def _table(self) -> str:
        """All steps, the present one bold."""
        rows = []
        for i, one in enumerate(self.played.steps):
            sizes = [len(keys) for keys in one.keys]
            cells = [str(i), escape(one.phase), f"{min(sizes)} to {max(sizes)}", f"{one.imbalance:.3g}",
                     quantity(one.end_s, "s", 3)]  # fmt: skip
            rows.append([f"<b>{cell}</b>" if i == self.step.value else cell for cell in cells])
        if len(rows) > 14:  # a sort of many levels: those around the present one
            first = min(max(self.step.value - 6, 0), len(rows) - 13)
            rows = rows[first : first + 13]
        head = ["step", "phase", "keys per rank", "largest / mean", "all through after"]
        said = f"<div>{escape(self.played.samples)}</div>" if self.played.samples else ""
        return said + table(head, rows)


def _share(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def sorting(
    algorithm: str = "sample_sort",
    keys: str = "random",
    *,
    ranks: int = 6,
    per_rank: int = 16,
    oversampling: float = 1.0,
    seed: int = 0,
    on: str = "star",
) -> SortingPlayer:
    """Step through a parallel sort: every rank's keys after each phase, cuts, exchanges and balance.

    Parameters
    ----------
    algorithm : str
        ``sample_sort``, ``histogram_sort``, ``exact_splitting_sort``, ``radix_sort`` or ``mini_sort``.
    keys : str
        What is sorted: ``random``, ``reversed``, ``sorted``, ``dealt out`` or ``nearly sorted``.
    ranks, per_rank : int
        At most 16 ranks of 256 keys.
    oversampling : float
        Of sample sort: how many samples a rank takes, in multiples of 32. With fewer samples than keys the
        ranks end with different numbers of keys.
    seed : int
        Of the keys.
    on : str
        The machine that it is simulated on.

    Returns
    -------
    SortingPlayer
        A widget: the last line of a cell shows it.

    Raises
    ------
    ScheduleError
        No such sort.
    DataError
        No such keys, too many ranks or keys.
    PlatformError
        No such machine.

    Examples
    --------
    >>> from labkit.jupyter import explorers
    >>> player = explorers.sorting("sample_sort", "reversed", ranks=4, per_rank=8)
    >>> [step.phase for step in player.played.steps]
    ['input', 'agree', 'local sort', 'splitters', 'exchange', 'merge']
    >>> player.set(step=4)
    >>> player.figure.reading[:70]
    'sample_sort, 4 ranks, 32 keys, step 4 of 5, exchange: 32 of 32 keys we'
    """
    play(algorithm, keys, ranks, per_rank, seed, on, oversampling)
    return SortingPlayer(algorithm, keys, ranks, per_rank, seed, on, oversampling)
