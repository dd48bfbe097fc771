"""The collective player: step through the rounds of an algorithm."""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ipywidgets as w
import numpy as np
from bokeh.core.properties import value as constant
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
from bokeh.plotting import figure

from labkit import registry
from labkit.errors import DataError, ScheduleError
from labkit.jupyter.explorers.base import Explorer, Player, dropdown, number_field, slider, text
from labkit.plot.figure import Figure
from labkit.plot.style import COLORS, FONT, HEAT, TOOLS, count_axis, grid_of, heading, style_axes
from labkit.schedule import Schedule, check
from labkit.schedule.count import count
from labkit.schedule.problem import PROBLEMS, Value
from labkit.schedule.symbolic import Rounds, Sent, rounds, value_text
from labkit.sim.schedules import simulate
from labkit.synthesis import Synthesized
from labkit.text.html import escape, properties, quantity

__all__ = [
    "MOST_RANKS",
    "CollectivePlayer",
    "PlayedCollective",
    "SchedulePlayer",
    "collective",
    "round_figure",
    "schedule",
]


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

    prepared: PlayedCollective
    figure: Figure

    def __init__(self, problem: str, algorithm: str, ranks: int, on: str, n_bytes: int) -> None:
        super().__init__("Collective")
        sizes = sorted({*_SIZES, n_bytes})
        self.problem_name = dropdown("collective", collectives(), problem)
        self.algorithm = dropdown("algorithm", algorithms(problem), algorithm)
        self.ranks = slider("ranks", ranks, 1, MOST_RANKS)
        self.root = number_field("root", 0, 0, MOST_RANKS - 1)
        self.size = dropdown("size", [(quantity(float(n), "B"), n) for n in sizes], n_bytes)
        self.machine = text("machine", on, "star", "what it is simulated on, such as torus:4x4")
        self.buffer = dropdown("buffer", ["recv"], "recv", "whose blocks are shown")
        self.step = slider("round", 0, 0, 1, "0 is the start; arrow keys step", live=True)
        self.play = w.Play(interval=900, min=0, max=1, value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        self._facts = w.HTML(layout=w.Layout(max_width="60em"))
        self.problem_name.observe(self._chosen, "value")
        self.prepared = self._prepare()
        self._fit()
        place = w.VBox()
        controls = [
            self.problem_name,
            self.algorithm,
            self.ranks,
            self.root,
            self.size,
            self.machine,
            self.buffer,
            self.step,
        ]
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

    def _prepare(self) -> PlayedCollective:
        return prepare(
            self.problem_name.value,
            self.algorithm.value,
            self.ranks.value,
            self.root.value,
            self.size.value,
            self.machine.value.strip() or "star",
        )

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
        No such collective or algorithm, or not for this number of ranks.
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


# The collective player's content, without a widget: a round's messages, and the blocks held after it.


MOST_RANKS = 32


@dataclass(frozen=True)
class PlayedCollective:
    """A collective taken apart.

    Attributes
    ----------
    found : Rounds
    cost : registry.Cost
    formula : str
        The cost section of the algorithm's file.
    verdict : str
        What the checker says.
    seconds : float
        Simulated.
    n_bytes : int
    on : str
    """

    found: Rounds
    cost: registry.Cost
    formula: str
    verdict: str
    seconds: float
    n_bytes: int
    on: str

    @property
    def buffers(self) -> list[str]:
        """The names of its buffers; a barrier has none but what ranks know."""
        names = [buffer.name for buffer in self.found.schedule.buffers]
        return names or ["who has entered"]

    @property
    def result(self) -> str:
        """The buffer with the result."""
        return next((name for name in ("recv", "data") if name in self.buffers), self.buffers[0])

    def html(self) -> str:
        """Return cost, time and proof as a table."""
        c = self.cost
        counted = f"{c.rounds:g} α + {quantity(c.volume_bytes, 'B')} · β"
        if c.reduced_bytes:
            counted += f" + {quantity(c.reduced_bytes, 'B')} · γ"
        rows = [
            ("cost", escape(self.formula)),
            ("here", counted),
            (f"simulated on {self.on}", f"<b>{quantity(self.seconds, 's')}</b>"),
            ("rounds", f"{len(self.found)} with one port each way"),
            ("checked", escape(self.verdict)),
        ]
        return properties(rows)


def collectives() -> list[str]:
    """Return the collectives that have algorithms as schedules."""
    return list(dict.fromkeys(problem for problem, _ in registry.schedules()))


def algorithms(problem: str) -> list[str]:
    """Return the algorithms of a collective that are schedules."""
    return [name for of, name in registry.schedules() if of == problem]


def prepare(problem: str, name: str, ranks: int, root: int, n_bytes: int, on: str) -> PlayedCollective:
    """Take a collective apart."""
    return _prepared(problem, name, ranks, root, n_bytes, on, registry.version_of(problem, name))


@lru_cache(maxsize=64)
def _prepared(
    problem: str, name: str, ranks: int, root: int, n_bytes: int, on: str, version: object
) -> PlayedCollective:
    """Take a collective apart, once for each version of its file."""
    if not 1 <= ranks <= MOST_RANKS:
        raise ScheduleError(f"the player shows 1 to {MOST_RANKS} ranks, got {ranks}", code="out-of-range")
    algorithm = registry.get(problem, name)
    if PROBLEMS[problem].is_rooted and not 0 <= root < ranks:
        raise ScheduleError(f"root {root} is not one of the ranks 0 to {ranks - 1}", code="out-of-range")
    schedule = algorithm.build(ranks, root if PROBLEMS[problem].is_rooted else 0)
    seconds = simulate(schedule, on, n_bytes=n_bytes).makespan_s
    cost = algorithm.cost(ranks, n_bytes) if algorithm.cost else registry.Cost(0)
    found = rounds(schedule)
    return PlayedCollective(found, cost, _formula(problem, name), str(check(schedule)), seconds, n_bytes, on)


def _formula(problem: str, name: str) -> str:
    """Return the paragraph about the cost from the algorithm's file."""
    text = inspect.getdoc(importlib.import_module(f"labkit.algorithms.{problem}.{name}")) or ""
    found = re.search(r"\*\*Cost\*\*:\s*(.+?)(?:\n\s*\n|\Z)", text, re.DOTALL)
    return " ".join(found[1].replace("``", "").split()) if found else "not stated"


# The picture of one round: ranks on a circle with its messages, and a table of the blocks they hold.

_SIDE = 330

#: width of the table of blocks: both together fill a notebook of 1366 pixels
_WIDE = 550

_LABELED = 16


def draw_round(found: Rounds, step: int, buffer: str) -> Any:
    """Draw a round."""
    sent = found.messages[step - 1] if step else []
    left = _circle(found.schedule.size, sent)
    right = _knowledge(found, step) if not found.schedule.buffers else _blocks(found, step, buffer)
    return grid_of([left, right])


def _circle(ranks: int, sent: list[Sent]) -> object:
    fig = figure(
        width=_SIDE, height=_SIDE + 30, tools=TOOLS, active_drag=None, match_aspect=True,
        x_range=Range1d(-1.3, 1.3), y_range=Range1d(-1.3, 1.3),
    )  # fmt: skip
    at = [
        (math.sin(2 * math.pi * i / ranks), math.cos(2 * math.pi * i / ranks)) if ranks > 1 else (0.0, 0.0)
        for i in range(ranks)
    ]
    lines = [_bent(at[m.source], at[m.destination]) for m in sent]
    source = ColumnDataSource({
        "xs": [[x for x, _ in line] for line in lines], "ys": [[y for _, y in line] for line in lines],
        "who": [f"{m.source} to {m.destination}" for m in sent],
        "what": [_carried(m) for m in sent],
    })  # fmt: skip
    drawn = fig.multi_line("xs", "ys", source=source, line_color=COLORS[1], line_width=2, line_alpha=0.85)
    fig.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@who"), ("", "@what")]))
    fig.scatter(
        [line[-1][0] for line in lines],
        [line[-1][1] for line in lines],
        angle=[math.atan2(b[1] - a[1], b[0] - a[0]) - math.pi / 2 for a, b in (line[-2:] for line in lines)],
        marker="triangle",
        size=9,
        color=COLORS[1],
    )
    busy = {end for m in sent for end in (m.source, m.destination)}
    fig.scatter(
        [x for x, _ in at],
        [y for _, y in at],
        size=22 if ranks <= _LABELED else 15,
        color=COLORS[0],
        fill_alpha=[1.0 if i in busy or not sent else 0.45 for i in range(ranks)],
        line_color="white",
    )
    fig.text(
        [x for x, _ in at],
        [y for _, y in at],
        [str(i) for i in range(ranks)],
        text_align="center",
        text_baseline="middle",
        text_color="white",
        text_font=constant(FONT),
        text_font_style="bold",
        text_font_size="12px" if ranks <= _LABELED else "9px",
    )
    fig.add_layout(heading("who sends to whom", 14), "above")
    style_axes([fig])
    fig.axis.visible = fig.grid.visible = False
    fig.outline_line_color = None
    return fig


def _bent(a: tuple[float, float], b: tuple[float, float]) -> list[tuple[float, float]]:
    """A line from rank to rank, bent to one side so that both directions are seen, short of either end."""
    length = math.dist(a, b) or 1.0
    side = (-(b[1] - a[1]) / length, (b[0] - a[0]) / length)
    near, far = min(0.16 / length, 0.3), 1 - min(0.19 / length, 0.35)
    points = []
    for t in np.linspace(near, far, 14).tolist():
        bulge = 4 * t * (1 - t) * 0.09 * length
        points.append(
            (a[0] + t * (b[0] - a[0]) + bulge * side[0], a[1] + t * (b[1] - a[1]) + bulge * side[1])
        )
    return points


def _carried(message: Sent) -> str:
    if not message.places:
        return "no data"
    texts = [value_text(value) for value in message.values]
    return ", ".join(texts[:6]) + (f" and {len(texts) - 6} more" if len(texts) > 6 else "")


def _table(title: str, ranks: int, columns: int, cells: Mapping[str, Sequence[object]], label: str) -> figure:
    """Cells by row (a rank) and column: color, text, hover, and whether they are new."""
    fig = figure(
        width=_WIDE,
        height=_SIDE + 30,
        tools=TOOLS,
        active_drag=None,
        x_range=Range1d(-0.6, columns - 0.4),
        y_range=Range1d(ranks - 0.4, -0.6),
    )
    source = ColumnDataSource(cells)
    drawn = fig.rect(
        "column",
        "row",
        width=0.92,
        height=0.86,
        source=source,
        fill_color="color",
        line_color="edge",
        line_width="wide",
    )
    fig.add_tools(
        HoverTool(renderers=[drawn], tooltips=[("rank", "@row"), (label, "@column"), ("", "@said")])
    )
    if max(ranks, columns) <= _LABELED:
        fig.text(
            "column",
            "row",
            "text",
            source=source,
            text_align="center",
            text_baseline="middle",
            text_color="ink",
            text_font=constant(FONT),
            text_font_size="11px" if columns <= 8 else "9px",
        )
    count_axis(fig.yaxis[0], "rank", ranks)
    count_axis(fig.xaxis[0], label, columns)
    if columns == 1:
        fig.xaxis.ticker = FixedTicker(ticks=[0])
    fig.add_layout(heading(title, 14), "above")
    style_axes([fig])
    fig.grid.visible = False
    return fig


def _blocks(found: Rounds, step: int, buffer: str) -> Any:
    schedule = found.schedule
    names = [one.name for one in schedule.buffers]
    number = names.index(buffer) if buffer in names else 0
    counts = schedule.n_blocks_of(range(schedule.size))[number]
    now, before = found.states[step], found.states[max(step - 1, 0)]
    rows: list[dict[str, object]] = []
    for rank in range(schedule.size):
        for block in range(int(counts[rank])):
            held = now[rank].get((number, block))
            is_new = step > 0 and held is not None and held != before[rank].get((number, block))
            rows.append({"row": rank, "column": block, **_cell(held, found, is_new)})
    kind = "ranks combined" if schedule.problem.is_reduction else "whose block"
    title = f"{names[number]} {'at the start' if not step else f'after round {step}'}: {kind}"
    keys = ("row", "column", "color", "ink", "text", "said", "edge", "wide")
    cells = {key: [row[key] for row in rows] for key in keys}
    return _table(title, schedule.size, int(counts.max(initial=1)), cells, "block")


def _cell(held: Value | None, found: Rounds, is_new: bool) -> dict[str, object]:
    edge = {"edge": COLORS[1] if is_new else "#dddddd", "wide": 3 if is_new else 1}
    if held is None:
        return {"color": "white", "ink": "#222222", "text": "", "said": "nothing", **edge}
    block, runs = held
    size = found.schedule.size
    if found.schedule.problem.is_reduction:
        combined = sum(end - begin for begin, end in runs)
        share, text = combined / size, "all" if combined == size else _runs(runs)
    else:
        origin = runs[0][0]
        share, text = (origin + 1) / size, f"{origin}" if found.schedule.parts == 1 else f"{origin}:{block}"
    color = HEAT[round((len(HEAT) - 1) * share)]
    ink = "white" if share > 0.45 else "#222222"
    return {"color": color, "ink": ink, "text": text, "said": value_text(held), **edge}


def _runs(runs: tuple[tuple[int, int], ...]) -> str:
    spans = [f"{a}" if b == a + 1 else f"{a}–{b - 1}" for a, b in runs]
    return ",".join(spans) if len(spans) <= 2 else f"{sum(b - a for a, b in runs)}"


def _knowledge(found: Rounds, step: int) -> object:
    """Of a barrier: which ranks each rank knows to have entered."""
    ranks = found.schedule.size
    cells: dict[str, list[object]] = {
        key: [] for key in ("row", "column", "color", "ink", "text", "said", "edge", "wide")
    }
    for rank in range(ranks):
        now, before = found.heard[step][rank], found.heard[max(step - 1, 0)][rank]
        for other in range(ranks):
            knows, is_new = bool(now >> other & 1), bool((now & ~before) >> other & 1)
            said = f"{'knows' if knows else 'does not know'} that rank {other} has entered"
            row = (
                rank,
                other,
                COLORS[0] if knows else "white",
                "white",
                "✓" if knows else "",
                said,
                COLORS[1] if is_new else "#dddddd",
                3 if is_new else 1,
            )
            for key, one in zip(cells, row, strict=True):
                cells[key].append(one)
    when = "the start" if not step else f"round {step}"
    return _table(f"who knows of whom after {when}", ranks, ranks, cells, "of rank")


def round_figure(prepared: PlayedCollective, step: int, buffer: str) -> Figure:
    """Draw one round."""
    found = prepared.found
    step = min(max(step, 0), len(found))
    schedule = found.schedule
    sent = found.messages[step - 1] if step else []
    label = f"{schedule.problem.name}, {schedule.name}, {schedule.size} ranks"
    if step:
        most = max((len(one.places) for one in sent), default=0)
        size = f" of up to {most} block{'s' if most > 1 else ''}" if most else ""
        when = f"round {step} of {len(found)}: {len(sent)} message{'s' if len(sent) != 1 else ''}{size}"
    else:
        when = f"before the first of {len(found)} rounds"
    done, all_ = _complete(found, step)
    reading = f"{label}, {when}; {done} of {all_} results are complete."
    who = "; ".join(f"{m.source} to {m.destination}" for m in sent[:24])
    alt = f"Ranks on a circle, the round's messages as arrows, and a table of what they hold. {reading}"
    layout = draw_round(found, step, buffer)
    return Figure(layout, reading, f"{alt} Messages: {who or 'none'}.")


def _complete(found: Rounds, step: int) -> tuple[int, int]:
    """How many result blocks are what they must become, and how many there are."""
    schedule = found.schedule
    if not schedule.buffers:
        everybody = (1 << schedule.size) - 1
        return sum(known == everybody for known in found.heard[step]), schedule.size
    done = total = 0
    counts = schedule.n_blocks_of(range(schedule.size))
    for place, buffer in enumerate(schedule.buffers):
        for rank in range(schedule.size):
            for block in range(0 if buffer.is_temporary else int(counts[place][rank])):
                wanted: object = schedule.wanted(buffer.name, rank, block)
                if wanted is not None:
                    total += 1
                    done += found.states[step][rank].get((place, block)) == wanted
    return done, total


# The schedule player: step through a schedule that was made, round by round.


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

    prepared: PlayedCollective
    figure: Figure

    def __init__(self, prepared: PlayedCollective) -> None:
        super().__init__("Schedule")
        self.prepared, last = prepared, len(prepared.found)
        self.buffer = dropdown("buffer", prepared.buffers, prepared.result, "whose blocks are shown")
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


def schedule(made: Synthesized | Schedule, *, on: object = "star", n_bytes: int = 4096) -> SchedulePlayer:
    """Step through a schedule: who sends what to whom in each round, and what every rank then holds.

    Parameters
    ----------
    made : Synthesized or Schedule
        What `labkit.synthesize` returned, or a custom schedule.
    on, n_bytes
        The machine that a custom schedule is simulated on, and its message or block; what was
        synthesized brings both.

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
        raise DataError(
            f"the player takes a schedule, or what lk.synthesize returned, got {made!r}", code="wrong-type"
        )
    own = made.schedule if isinstance(made, Synthesized) else made
    if own.size > MOST_RANKS:
        raise ScheduleError(f"the player shows 1 to {MOST_RANKS} ranks, got {own.size}", code="out-of-range")
    if isinstance(made, Synthesized):
        seconds, n_bytes, where, how = made.time_s, made.n_bytes, made.platform.name, made.method
    else:
        seconds, where, how = simulate(own, on, n_bytes=n_bytes).makespan_s, str(on), own.name
    steps, volume, reduced = count(own, n_bytes)
    cost = registry.Cost(steps, volume, reduced)
    return SchedulePlayer(PlayedCollective(rounds(own), cost, how, str(check(own)), seconds, n_bytes, where))
