"""The model explorer: move a point, and see fit and verdict move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ipywidgets as w
import numpy as np
from bokeh.core.properties import value as constant
from bokeh.models import BoxZoomTool, ColumnDataSource, CustomJS, PanTool, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.jupyter.explorers.base import Explorer, dropdown, text
from labkit.plot.figure import Figure
from labkit.plot.scaling_figure import Curves, curves_of
from labkit.plot.style import COLORS, FONT, TOOLS, heading, rank_axis, style_axes, value_axis
from labkit.scaling import Model, Samples, Term, Verdict, judge
from labkit.study import Study
from labkit.text.html import badge, escape, properties, quantity

__all__ = ["ModelExplorer", "fitted", "model"]

_OWN = "my data"

#: A point is held from the beginning of a drag to its end, above its rank; the kernel is notified a few times
#: a second. Bokeh takes a button that is held for 0.3 s before it moves for a press and then hears of no drag
#: (its own PointDrawTool loses it; easily met where JupyterLab makes another cell the active one first). So a
#: press holds a point, too, and is followed by the movements of the mouse.
_DRAG = """
const event = cb_obj
const held = (globalThis.labkitHeld ??= new WeakMap())
const x = source.get_array("x"), y = source.get_array("y")
if (event.event_name == "panstart" || event.event_name == "press") {
  held.delete(source)
  if (tools.some((tool) => tool.active)) return
  const right = plot.inner_width / Math.log(plot.x_range.end / plot.x_range.start)
  const up = plot.inner_height / Math.log(plot.y_range.end / plot.y_range.start)
  let near = 14, point = null
  x.forEach((at, i) => {
    const away = Math.hypot(right * Math.log(event.x / at), up * Math.log(event.y / y[i]))
    if (away < near) { near = away; point = i }
  })
  if (point != null) held.set(source, {point, factor: y[point] / event.y, told: 0})
  return
}
const one = held.get(source)
if (one == null) return
const wanted = one.factor * event.y
if (wanted > 0) y[one.point] = Math.min(Math.max(wanted, plot.y_range.start), plot.y_range.end)
const is_over = event.event_name == "panend" || event.event_name == "pressup"
if (is_over) held.delete(source)
const now = Date.now()
if (!is_over && now - one.told < 200) { source.change.emit(); return }
one.told = now
source.setv({data: source.data}, {check_eq: false})
"""

_EVENTS = "panstart", "pan", "panend", "press", "mousemove", "pressup"

_ROOM = 8.0


# The model explorer's content, without a widget: points that can be moved, and their fit and verdict.

Floats = NDArray[np.float64]

_P = np.array([16, 32, 64, 128, 256, 512, 1024], np.float64)

#: name -> (ranks, seconds, what one might expect)
EXAMPLES: dict[str, tuple[Floats, Floats, str]] = {
    "p log p": (_P, 2e-7 * _P * np.log2(_P), "p log p"),
    "a start-up, then p": (_P, 4e-5 + 3e-7 * _P, "p"),
    "log p, one outlier": (_P, 1e-5 * np.log2(_P) * np.array([1, 1, 1, 1.9, 1, 1, 1]), "log p"),
    "square root of p": (_P, 2e-5 * np.sqrt(_P), "p"),
    "nothing grows": (_P, np.full(_P.size, 3e-5), "1"),
    "strong scaling": (_P, 8e-3 / _P + 2e-6 * np.log2(_P), "1/p"),
}


@dataclass(frozen=True)
class Fitted:
    """Points and what is fitted to them.

    Attributes
    ----------
    x, y : arrays of float
    verdict : Verdict
    curves : Curves
        Lines and band of the figure.
    """

    x: Floats
    y: Floats
    verdict: Verdict
    curves: Curves

    @property
    def model(self) -> Model | None:
        """The best model; None of too few values."""
        return self.verdict.model

    def html(self) -> str:
        """Return verdict and model, as a sentence and numbers."""
        parts = [f"<p>{badge(self.verdict.match)}</p>"]
        if self.model is not None:
            rows = [("it grows", growth_in_words(self.model, self.x[-1], self.verdict.unit))]
            name = "nearest curve" if self.model.is_nearest else "model"
            rows.append((name, escape(self.model.in_unit(self.verdict.unit))))
            rows.append(("largest error", f"{self.model.error:.1%}"))
            shown = ", ".join(one.term.pretty() for one in self.verdict.plausible[:6])
            rows.append(
                (
                    "not rejected",
                    escape(shown or "no model of the family"),
                )
            )
            parts.append(properties(rows))
        return "".join(parts)

    def reading(self) -> str:
        """Summarize the points in a sentence."""
        return self.verdict.sentence(Term.pretty)


def fitted(x: Sequence[float] | Floats, y: Sequence[float] | Floats, expectation: str, unit: str) -> Fitted:
    """Fit and judge points."""
    at, values = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if at.shape != values.shape or not (np.isfinite(values) & (values > 0)).all():
        raise DataError(
            "every point needs a value above 0; drag it back, or press reset", code="out-of-range"
        )
    verdict = judge(at, values, expectation, unit=unit)
    samples = verdict.samples or Samples(at, tuple(np.array([v]) for v in values))
    return Fitted(at, values, verdict, curves_of(verdict, verdict.model, samples))


def growth_in_words(model: Model, largest: float, unit: str) -> str:
    """Return as text what a term means.

    Examples
    --------
    >>> import labkit as lk
    >>> p = np.array([8, 16, 32, 64, 128.0])
    >>> growth_in_words(lk.fit(p, p * np.log2(p)), 128, "")
    'a little faster than in proportion to p: with p times a logarithm; from 128 to 256, 2.29 times as much'
    """
    term = model.term
    if term.is_constant:
        return f"not at all: {quantity(model.constant, unit)} whatever {term.symbol} is"
    first, last = (float(v) for v in model.predict(np.array([largest, 2 * largest])))
    step = f"from {largest:g} to {2 * largest:g}, {last / first:.3g} times as much"
    return f"{_how(term)}; {step}"


#: exponent -> how a power is called
_NAMED = {
    0.5: "with the root of",
    1.0: "in proportion to",
    2.0: "with the square of",
    3.0: "with the cube of",
    -1.0: "in inverse proportion to",
}


def _exponent(value: float) -> str:
    """Write 0.6666... as 2/3."""
    near = Fraction(value).limit_denominator(12)
    return str(near) if abs(float(near) - value) < 1e-9 else f"{value:g}"


def _how(term: Term) -> str:
    p, power, logs = term.symbol, float(term.polynomial), float(term.logarithmic)
    if term.exponential != 0:
        return f"exponentially with {p}" if term.exponential > 0 else f"and falls exponentially with {p}"
    if power == 0:
        how = "with the logarithm" if logs == 1 else f"with the logarithm to the power {_exponent(logs)}"
        return f"slowly: {how} of {p}" if logs > 0 else f"and falls slowly: {how} of {p}"
    base = f"{_NAMED[power]} {p}" if power in _NAMED else f"with {p} to the power {_exponent(power)}"
    if power < 0:
        base = f"less and less: {base}"
    if logs == 0:
        return base
    times = "a logarithm" if logs == 1 else f"its logarithm to the power {_exponent(logs)}"
    if power == 1 and logs > 0:
        return f"a little faster than in proportion to {p}: with {p} times {times}"
    return f"{base}, {'times' if logs > 0 else 'divided by'} {times if logs > 0 else times.replace('-', '')}"


class ModelExplorer(Explorer):
    """Points to be moved; see `model`.

    Parameters
    ----------
    x, y : sequences of float, or None
        User-defined points; None: an example.
    expectation, unit : str
        As in `model`.

    Attributes
    ----------
    example, expectation, point, factor : widgets
        The controls; `factor` multiplies the value of the point that `point` chooses.
    source : bokeh ColumnDataSource
        The points, which the mouse moves; `move` does it from Python.
    fitted : Fitted
        What is fitted to them.
    """

    fitted: Fitted

    def __init__(self, x: object, y: object, expectation: str, unit: str) -> None:
        super().__init__("Model")
        self._unit = unit
        self._own = None if x is None else (np.asarray(x, np.float64), np.asarray(y, np.float64), expectation)
        names = [_OWN, *EXAMPLES] if self._own is not None else list(EXAMPLES)
        self.example = dropdown("points", names, names[0])
        self.expectation = text("expected", self._data()[2], "p log p", "in big-O notation")
        self.point = dropdown("point", [("", 0)], 0, "the point that the keyboard moves; the mouse moves any")
        self.factor = w.FloatLogSlider(
            description="times",
            value=1.0,
            base=10,
            min=-1,
            max=1,
            step=0.02,
            readout_format=".2f",
            continuous_update=True,
            tooltip="its value, times so much; arrow keys move it",
            style={"description_width": "7.5em"},
            layout=w.Layout(width="20em"),
        )
        self.reset = w.Button(description="reset", tooltip="the points as they were", icon="undo")
        self.reset.on_click(lambda _: self._begin())
        self._says_fit = w.HTML(layout=w.Layout(max_width="34em"))
        self._is_moving = False
        self.example.observe(self._chosen, "value")
        self.point.observe(self._picked, "value")
        self.factor.observe(self._nudged, "value")
        self._load()
        place = w.VBox()
        self.start([self.example, self.expectation, self.point, self.factor, self.reset], place)
        place.children = [*self.pictures(), self._says_fit]

    @property
    def points(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The current points: x and y."""
        data = self.source.data
        return np.asarray(data["x"], np.float64), np.asarray(data["y"], np.float64)

    def move(self, point: int, value: float) -> None:
        """Move a point up or down, as the mouse does.

        Parameters
        ----------
        point : int
            Its number, from 0 on.
        value : float
            Above 0.
        """
        y = [*self.points[1].tolist()]
        y[point] = float(value)
        self.source.data = {**self.source.data, "y": y}

    def compute(self) -> None:
        """Fit and judge the points, and move the lines."""
        x, y = self.points
        self.fitted = fitted(x, y, self.expectation.value, self._unit)
        curves = self.fitted.curves
        at = curves.at.tolist()
        self._line.data = _columns(at, y=curves.model if self.fitted.model is not None else None)
        self._expected.data = _columns(at, y=curves.expectation)
        self._band.data = _columns(at, low=curves.low, high=curves.high)
        self._says_fit.value = self.fitted.html()
        is_law = self.fitted.model is None or not self.fitted.model.is_nearest
        self._named.label = constant("model" if is_law else "nearest curve")
        reading = self.fitted.reading()
        alt = f"Points with their model, expectation and limits, both axes logarithmic. {reading}"
        if "model" not in self._pictures:
            self.picture("model", Figure(self._fig, reading, alt))
        else:
            self._pictures["model"].reading, self._pictures["model"].alt = reading, alt

    def _data(self) -> tuple[Any, Any, str]:
        if self.example.value == _OWN and self._own is not None:
            return self._own
        return EXAMPLES[self.example.value]

    def _load(self) -> None:
        """Build the figure again: axes that fit the points."""
        x, y, _ = self._data()
        self._given = [float(v) for v in y]
        low, high = float(np.min(y)) / _ROOM, float(np.max(y)) * _ROOM
        fig = figure(
            width=610, height=420, x_axis_type="log", y_axis_type="log", tools=TOOLS, active_drag=None,
            x_range=Range1d(float(x[0]) / 1.3, float(x[-1]) * 2.2), y_range=Range1d(low, high),
        )  # fmt: skip
        self.source = ColumnDataSource({"x": [float(v) for v in x], "y": list(self._given)})
        self._line, self._expected = (
            ColumnDataSource({"x": [], "y": []}),
            ColumnDataSource({"x": [], "y": []}),
        )
        self._band = ColumnDataSource({"x": [], "low": [], "high": []})
        fig.varea("x", "low", "high", source=self._band, color=COLORS[5], alpha=0.22, legend_label="limits")
        fig.line("x", "y", source=self._line, color=COLORS[0], line_width=4, legend_label="model")
        fig.line(
            "x",
            "y",
            source=self._expected,
            color=COLORS[1],
            line_width=2,
            line_dash=[7, 7],
            legend_label="expected",
        )
        fig.scatter(x, y, size=9, fill_color=None, line_color="#777777", legend_label="as it was")
        fig.scatter("x", "y", source=self.source, size=13, color="#111111", line_color="white")
        grabbed = CustomJS(
            args={"source": self.source, "plot": fig, "tools": [one for one in fig.tools if _drags(one)]},
            code=_DRAG,
        )
        for event in _EVENTS:
            fig.js_on_event(event, grabbed)
        fig.xaxis.axis_label = "ranks p"
        fig.add_layout(fig.legend[0], "right")  # outside the frame: points may be dragged anywhere in it
        fig.legend.label_text_font, fig.legend.border_line_color = FONT, None
        self._named = fig.legend[0].items[1]
        fig.add_layout(heading("drag a point up or down", 13, "#555555"), "above")
        rank_axis(fig.xaxis[0], x)
        value_axis(fig.yaxis, self._unit, low, high)
        style_axes([fig])
        fig.toolbar.autohide = False
        self.source.on_change("data", self._dragged)
        self._fig = fig
        with self.quiet():
            self.point.options = [(f"p = {v:g}", i) for i, v in enumerate(x)]
            self.point.value, self.factor.value = len(x) // 2, 1.0
        self._base = self._given[self.point.value]

    def _dragged(self, _: str, __: object, new: Any) -> None:
        """A point was moved: only up and down, and never away."""
        if self._is_moving:
            return
        x = [float(v) for v in self._data()[0]]
        y = [float(v) for v in new["y"]]
        is_whole = len(y) == len(x)
        if not is_whole or [float(v) for v in new["x"]] != x:
            self._is_moving = True
            self.source.data = {"x": x, "y": y if is_whole else list(self._given)}
            self._is_moving = False
        self.refresh()

    def _nudged(self, change: Any) -> None:
        if not self._is_setting:
            chosen = self.point.value
            self.move(chosen, self._base * change["new"])

    def _picked(self, _: object) -> None:
        """Another point: times 1 is where it is now."""
        self._base = float(self.points[1][self.point.value])
        with self.quiet():
            self.factor.value = 1.0

    def _chosen(self, _: object) -> None:
        with self.quiet():
            self.expectation.value = self._data()[2]
        self._begin()

    def _begin(self) -> None:
        """The points as they were, in a separate figure."""
        self._load()
        known = self._pictures.get("model")
        self.refresh()
        if known is not None:
            known.show(Figure(self._fig, known.reading, known.alt))


def _columns(x: list[float], **lines: Any) -> dict[str, list[float]]:
    """Columns of a source as plain lists; empty ones where there is no line."""
    if any(line is None for line in lines.values()):
        return {"x": [], **{name: [] for name in lines}}
    return {"x": x, **{name: line.tolist() for name, line in lines.items()}}


def _drags(tool: object) -> bool:
    """Whether a tool means the drag for itself, when it is switched on."""
    return isinstance(tool, PanTool | BoxZoomTool)


def model(
    data: Study | Sequence[float] | None = None,
    values: Sequence[float] | None = None,
    expectation: str = "p log p",
    *,
    unit: str = "s",
    metric: str | None = None,
    phase: str | None = None,
) -> ModelExplorer:
    """Move measurements about and see which model is fitted, and what becomes of the verdict.

    Parameters
    ----------
    data : Study or sequence of float, optional
        A study, or the numbers of ranks; without it, examples.
    values : sequence of float, optional
        With numbers of ranks: what was measured there.
    expectation : str
        In big-O notation.
    unit : str
        Of the values.
    metric, phase : str, optional
        Of a study: what to take; by default the makespan.

    Returns
    -------
    ModelExplorer
        A widget: the last line of a cell shows it.

    Raises
    ------
    DataError
        Ranks without values, or fewer than two of them.

    Examples
    --------
    >>> from labkit.jupyter import explorers
    >>> explorer = explorers.model()
    >>> str(explorer.fitted.model.term), explorer.fitted.verdict.match
    ('p log p', 'exact')
    >>> explorer.move(6, 0.2)
    >>> explorer.fitted.verdict.match
    'undecided'
    """
    if isinstance(data, Study):
        curve = data.curve(metric, phase)
        x, y, unit = curve.samples.x, curve.samples.aggregate("quartile"), curve.unit
        return ModelExplorer(x, y, expectation, unit)
    if data is None:
        return ModelExplorer(None, None, expectation, unit)
    if values is None or len(values) != len(data) or len(data) < 2:
        raise DataError(
            "give as many values as numbers of ranks, at least two: model([4, 8, 16], [1, 2, 4])",
            code="count-mismatch",
        )
    return ModelExplorer(data, values, expectation, unit)
