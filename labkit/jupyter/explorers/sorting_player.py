"""The sorting player: step through the phases of a parallel sort."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import numpy as np
from bokeh.core.properties import value as constant
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.palettes import Cividis256
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit import registry
from labkit.errors import DataError
from labkit.jupyter.explorers.base import Player, dropdown, number_field, slider, text
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, HEAT, TOOLS, count_axis, grid_of, heading, style_axes
from labkit.program.context import watching
from labkit.text.html import escape, quantity, table

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "INPUTS",
    "MOST_RANKS",
    "PhaseEnd",
    "SortingPlayer",
    "inputs",
    "play",
    "samples",
    "sorting",
    "sorts",
]

# The picture of a sort's step: every rank's keys as bars, and the matrix of keys that moved.

_HEIGHT = 400


# The sorting player's content, without a widget: every rank's keys after each phase of a parallel sort.

MOST_RANKS, MOST_KEYS = 16, 256

#: samples for each of what sample sort takes by default, 32 or p of a rank
OVERSAMPLING = (4.0, 2.0, 1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)

#: name -> what it is
INPUTS = {
    "random": "every key anywhere",
    "reversed": "the largest keys on the first rank",
    "sorted": "already in order",
    "dealt out": "successive keys on successive ranks",
    "nearly sorted": "in order except for a few pairs",
}

#: where a sort keeps its keys, the latest name first
_NAMES = ("merged", "result", "pieces", "mine", "given")

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class PhaseEnd:
    """The end of a phase.

    Attributes
    ----------
    phase : str
    keys : tuple of arrays
        What every rank holds, as places in the sorted sequence: 0 is the smallest key.
    owner : array, shape (keys,)
        The rank of every key.
    end_s : float
        When the last rank was through, in simulated time.
    """

    phase: str
    keys: tuple[Keys, ...]
    owner: Keys
    end_s: float

    @property
    def imbalance(self) -> float:
        """The largest number of keys of a rank, divided by the mean."""
        sizes = [len(one) for one in self.keys]
        return max(sizes) * len(sizes) / sum(sizes)


@dataclass(frozen=True)
class Played:
    """A sort taken apart.

    Attributes
    ----------
    algorithm, on : str
    steps : list of Step
        The input first.
    samples : str
        How many samples were taken, and what that promises; empty of a sort that takes none.
    """

    algorithm: str
    on: str
    steps: list[PhaseEnd]
    samples: str = ""

    def moved(self, step: int) -> NDArray[np.int64]:
        """Return how many keys went from rank to rank in a step, shape (ranks, ranks)."""
        ranks = len(self.steps[0].keys)
        before, now = self.steps[max(step - 1, 0)].owner, self.steps[step].owner
        return np.bincount(before * ranks + now, minlength=ranks * ranks).reshape(ranks, ranks)

    def target(self, step: int) -> Keys:
        """Return the rank that every key is sent to next: its own where no exchange is left."""
        for later in self.steps[step + 1 :]:
            if (later.owner != self.steps[step].owner).any():
                return later.owner
        return self.steps[step].owner

    def reading(self, step: int) -> str:
        """Return as text what happened in a step."""
        one = self.steps[step]
        n, ranks = len(one.owner), len(one.keys)
        where = f"{self.algorithm}, {ranks} ranks, {n} keys"
        if step == 0:
            return f"{where}: the input, before the first of {len(self.steps) - 1} steps."
        table = self.moved(step)
        away = n - int(np.trace(table))
        went = f"{away} of {n} keys went to another rank" if away else "no key left its rank"
        whole = self.steps[-1].end_s
        spent = max(one.end_s - self.steps[step - 1].end_s, 0.0)
        sizes = [len(keys) for keys in one.keys]
        even = f"every rank holds {sizes[0]}"
        balance = (
            even if min(sizes) == max(sizes) else f"the largest rank holds {one.imbalance:.3g} times the mean"
        )
        return (
            f"{where}, step {step} of {len(self.steps) - 1}, {one.phase}: {went}; {balance}; "
            f"{spent / whole if whole else 0.0:.0%} of the time."
        )


def sorts() -> list[str]:
    """Return the names of the sorts."""
    return list(registry.names("sorting"))


def samples(algorithm: str) -> bool:
    """Whether a sort takes samples, as many as its ``oversampling`` asks for."""
    function = registry.get("sorting", algorithm).function
    return function is not None and "oversampling" in inspect.signature(function).parameters


def _samples(algorithm: str, n: int, ranks: int, oversampling: float) -> str:
    """Return as text how many samples a sort takes and what balance they promise; empty without samples."""
    if not samples(algorithm):
        return ""
    module = importlib.import_module(f"labkit.algorithms.sorting.{algorithm}")
    block = module.block_length(n, ranks, oversampling)
    most = min(module.largest_block(n, ranks, oversampling), n)
    each = "Every key is a sample." if block == 1 else f"One sample for {block} keys."
    bound = f"no rank ends with more than {most} keys, {most * ranks / n:.3g} times the mean"
    return f"{each} With evenly spaced samples, {bound}."


def inputs(kind: str, ranks: int, per_rank: int, seed: int) -> list[Keys]:
    """Return the keys of every rank, as places in the sorted sequence."""
    n = ranks * per_rank
    every = np.arange(n)
    if kind == "random":
        every = np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
    elif kind == "reversed":
        every = every[::-1]
    elif kind == "dealt out":
        every = every.reshape(per_rank, ranks).T.ravel()
    elif kind == "nearly sorted":
        pairs = np.random.PCG64(seed).random_raw(max(1, n // 12)) % max(n - 1, 1)
        for at in pairs.astype(np.int64).tolist():
            other = (at + per_rank) % n
            every[[at, other]] = every[[other, at]]
    elif kind != "sorted":
        raise DataError(f"an input is one of {', '.join(INPUTS)}; got {kind!r}", code="unknown-name")
    return [np.asarray(part, np.int64) for part in every.reshape(ranks, per_rank)]


def play(
    algorithm: str,
    kind: str = "random",
    ranks: int = 6,
    per_rank: int = 16,
    seed: int = 0,
    on: str = "star",
    oversampling: float = 1.0,
    is_drawn: bool = False,
) -> Played:
    """Sort, and keep what every rank holds at the end of every phase."""
    version = registry.version_of("sorting", algorithm)
    return _played(algorithm, kind, ranks, per_rank, seed, on, oversampling, is_drawn, version)


@lru_cache(maxsize=32)
def _played(
    algorithm: str,
    kind: str,
    ranks: int,
    per_rank: int,
    seed: int,
    on: str,
    oversampling: float,
    is_drawn: bool,
    version: object,
) -> Played:
    """Sort, once for each version of the algorithm's file."""
    import labkit as lk

    sorter = registry.get("sorting", algorithm)
    per_rank = sorter.requirements.keys_per_rank or per_rank
    if not (1 <= ranks <= MOST_RANKS and 1 <= per_rank <= MOST_KEYS):
        raise DataError(
            f"the player shows 1 to {MOST_RANKS} ranks of 1 to {MOST_KEYS} keys, got {ranks} of {per_rank}",
            code="out-of-range",
        )
    given = inputs(kind, ranks, per_rank, seed)
    n = ranks * per_rank
    scale = 60_000 // n  # wide apart, so that digits differ
    function = sorter.function
    assert function is not None
    seen: list[list[tuple[str, Keys]]] = [[] for _ in range(ranks)]

    def watch(rank: int, phase: str, variables: Mapping[str, object]) -> None:
        keys = _held(variables)
        if keys is not None:
            seen[rank].append((phase, np.asarray(keys, np.int64) // scale))

    options = {"oversampling": oversampling, "seed": seed if is_drawn else None} if samples(algorithm) else {}

    def program(comm: Intracomm) -> object:
        return function(comm, (given[comm.rank] * scale).astype(np.uint16), **options)

    with watching(watch):
        run = lk.run(program, ranks, on=on, isolate=False)
    last = [np.asarray(one, np.int64).ravel() // scale for one in run.results]
    steps = [PhaseEnd("input", tuple(given), _owners(given, n), 0.0), *_steps(seen, given, run.phases, n)]
    if not (np.concatenate(last) == np.arange(n)).all():
        raise DataError(
            f"{algorithm} did not sort these keys: the player has nothing to show", code="wrong-result"
        )
    taken = _samples(algorithm, n, ranks, oversampling)
    return Played(algorithm, on, steps, taken)


def _held(variables: Mapping[str, Any]) -> object:
    """Find a sort's keys among its variables."""
    for name in _NAMES:
        if name in variables:
            value = variables[name]
            value = value.keys if name == "given" and not isinstance(value, np.ndarray) else value
            return np.atleast_1d(value)
    return None


def _steps(seen: list[list[tuple[str, Keys]]], given: list[Keys], phases: object, n: int) -> list[PhaseEnd]:
    """Join what the ranks held: the k-th end of a phase on all ranks is one step."""
    ends = _ends(phases)
    counted: list[dict[tuple[str, int], Keys]] = []
    for events in seen:
        often: dict[str, int] = {}
        found: dict[tuple[str, int], Keys] = {}
        for phase, keys in events:
            often[phase] = often.get(phase, 0) + 1
            found[phase, often[phase]] = keys
        counted.append(found)
    order = list(counted[int(np.argmax([len(found) for found in counted]))])
    held = list(given)
    steps = []
    for which in order:
        held = [found.get(which, before) for found, before in zip(counted, held, strict=True)]
        steps.append(PhaseEnd(which[0], tuple(held), _owners(held, n), ends.get(which, 0.0)))
    return steps


def _ends(phases: Any) -> dict[tuple[str, int], float]:
    """When the last rank left a phase for the k-th time."""
    found: dict[tuple[str, int], float] = {}
    for (_, phase), rows in phases.groupby(["rank", "phase"], sort=False):
        for k, end in enumerate(sorted(rows["end_s"].tolist()), 1):
            found[str(phase), k] = max(found.get((str(phase), k), 0.0), float(end))
    return found


def _owners(held: list[Keys], n: int) -> Keys:
    owner: Keys = np.zeros(n, np.int64)
    for rank, keys in enumerate(held):
        owner[keys] = rank
    return owner


def step_figure(played: Played, step: int) -> Figure:
    """Draw what every rank holds after a step, and which keys moved in it."""
    step = min(max(step, 0), len(played.steps) - 1)
    sizes = ", ".join(str(len(keys)) for keys in played.steps[step].keys)
    reading = played.reading(step)
    alt = (
        f"Keys of every rank as bars, and a matrix of the keys that moved. {reading} Keys per rank: {sizes}."
    )
    return Figure(grid_of([_bars(played, step), _matrix(played, step)]), reading, alt)


def _bars(played: Played, step: int) -> object:
    one, target = played.steps[step], played.target(step)
    ranks, n = len(one.keys), len(one.owner)
    longest = max(len(s.keys[r]) for s in played.steps for r in range(ranks))
    rank = np.concatenate([np.full(len(keys), r) for r, keys in enumerate(one.keys)])
    place = np.concatenate([np.arange(len(keys)) for keys in one.keys])
    key = np.concatenate(one.keys)
    tall = 0.12 + 0.7 * key / max(n - 1, 1)
    origin = played.steps[0].owner
    source = ColumnDataSource(
        {
            "left": place + 0.04,
            "right": place + 0.96,
            "bottom": rank + 0.42,
            "top": rank + 0.42 - tall,
            "color": [Cividis256[round(255 * k / max(n - 1, 1))] for k in key.tolist()],
            "key": key,
            "rank": rank,
            "origin": origin[key],
            "target": target[key],
        }
    )
    fig = figure(
        width=530,
        height=_HEIGHT,
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(-0.3, longest + 0.3),
        y_range=Range1d(ranks - 0.45, -0.55),
    )
    drawn = fig.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        source=source,
        fill_color="color",
        line_color=None,
    )
    tips = [("key", "@key"), ("on rank", "@rank"), ("from rank", "@origin"), ("next to rank", "@target")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    if step + 1 < len(played.steps) and (played.steps[step + 1].owner != one.owner).any():
        _cuts(fig, [target[keys] for keys in one.keys])
    count_axis(fig.yaxis[0], "rank", ranks)
    count_axis(fig.xaxis[0], "key's place on its rank", longest)
    fig.xaxis.visible = longest > 1
    fig.add_layout(heading(f"after {one.phase}" if step else "input", 14), "above")
    style_axes([fig])
    fig.grid.visible = False
    return fig


def _cuts(fig: figure, targets: list[Any]) -> None:
    """Mark where a rank's keys are cut into pieces for other ranks."""
    at = [(r, i + 1) for r, to in enumerate(targets) for i in np.flatnonzero(np.diff(to)).tolist()]
    fig.segment(
        [x for _, x in at],
        [r - 0.46 for r, _ in at],
        [x for _, x in at],
        [r + 0.46 for r, _ in at],
        color=COLORS[1],
        line_width=2.5,
    )


def _matrix(played: Played, step: int) -> figure:
    table = played.moved(step)
    ranks = len(table)
    row, column = (each.ravel() for each in np.indices(table.shape))
    count = table.ravel()
    away = np.where(np.eye(ranks, dtype=bool), 0, table).ravel()
    top = max(int(table.max()), 1)
    shade = [HEAT[round((len(HEAT) - 1) * c / top)] if c else "white" for c in count.tolist()]
    source = ColumnDataSource(
        {
            "row": row,
            "column": column,
            "count": count,
            "color": shade,
            "text": [str(c) if c else "" for c in count.tolist()],
            "ink": ["white" if c > 0.45 * top else "#222222" for c in count.tolist()],
            "edge": [COLORS[1] if a else "#dddddd" for a in away.tolist()],
        }
    )
    fig = figure(
        width=350,
        height=_HEIGHT,
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(-0.6, ranks - 0.4),
        y_range=Range1d(ranks - 0.4, -0.6),
    )
    drawn = fig.rect(
        "column", "row", width=0.9, height=0.9, source=source, fill_color="color", line_color="edge"
    )
    tips = [("from rank", "@row"), ("to rank", "@column"), ("keys", "@count")]
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    if ranks <= 12:
        fig.text(
            "column",
            "row",
            "text",
            source=source,
            text_align="center",
            text_baseline="middle",
            text_color="ink",
            text_font=constant(FONT),
            text_font_size="11px",
        )
    count_axis(fig.xaxis[0], "to rank", ranks)
    count_axis(fig.yaxis[0], "from rank", ranks)
    fig.add_layout(heading("keys that went from rank to rank", 14), "above")
    style_axes([fig])
    fig.grid.visible = False
    return fig


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
        self.algorithm = dropdown("sort", sorts(), algorithm)
        self.order = dropdown("keys", list(INPUTS), kind, "; ".join(f"{k}: {v}" for k, v in INPUTS.items()))
        self.ranks = slider("ranks", ranks, 1, MOST_RANKS)
        self.per_rank = slider("keys per rank", per_rank, 1, MOST_KEYS, "a sort of one key per rank has one")
        known = sorted({*OVERSAMPLING, oversampling}, reverse=True)
        self.oversampling = dropdown(
            "oversampling",
            [(_share(one), one) for one in known],
            oversampling,
            "samples of a rank, in multiples of 32: the fewer samples, the worse the balance",
        )
        self.is_drawn = dropdown("samples", [("evenly spaced", False), ("drawn at random", True)], False)
        self.seed = number_field("seed", seed, 0, 2**31 - 1)
        self.machine = text("machine", on, "star", "what it is simulated on, such as torus:4x4")
        self.step = slider("step", 0, 0, 1, "0 is the input; arrow keys step", live=True)
        self.play = w.Play(interval=1400, min=0, max=1, value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        self._facts = w.HTML(layout=w.Layout(max_width="60em"))
        self.played = self._play()
        self.fit_steps(len(self.played.steps) - 1)
        place = w.VBox()
        controls = [
            self.algorithm,
            self.order,
            self.ranks,
            self.per_rank,
            self.oversampling,
            self.is_drawn,
            self.seed,
            self.machine,
            self.step,
            self.play,
        ]
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
            self.algorithm.value,
            self.order.value,
            self.ranks.value,
            self.per_rank.value,
            self.seed.value,
            self.machine.value.strip() or "star",
            self.oversampling.value,
            self.is_drawn.value,
        )

    def _table(self) -> str:
        """Return all steps, with the current one in bold."""
        rows = []
        for i, one in enumerate(self.played.steps):
            sizes = [len(keys) for keys in one.keys]
            cells = [
                str(i),
                escape(one.phase),
                f"{min(sizes)} to {max(sizes)}",
                f"{one.imbalance:.3g}",
                quantity(one.end_s, "s", 3),
            ]
            rows.append([f"<b>{cell}</b>" if i == self.step.value else cell for cell in cells])
        if len(rows) > 14:  # a sort of many levels: those around the present one
            first = min(max(self.step.value - 6, 0), len(rows) - 13)
            rows = rows[first : first + 13]
        head = ["step", "phase", "keys per rank", "largest / mean", "finished after"]
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
