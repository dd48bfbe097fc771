"""The scaling figure: measurements, model, expectation, deviation band, and the verdict as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.models import ColumnDataSource, HoverTool, Legend, Range1d, Title
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.style import (
    COLORS,
    FONT,
    MATCH_COLORS,
    TOOLS,
    heading,
    rank_axis,
    style_axes,
    value_axis,
    wrap,
)
from labkit.scaling import Model, Samples, Term, Verdict
from labkit.scaling.samples import LEAST_VALUES
from labkit.scaling.verdict import course
from labkit.text import html as markup

__all__ = ["Curves", "curves_of", "draw", "scaling"]


Floats = npt.NDArray[np.float64]


#: pixels: a letter, a line, the sample before a label with the paddings, and what an axis takes
_LETTER, _ROW, _SAMPLE, _AXES = 6.9, 22.0, 46.0, 75.0
_CORNERS = ("top_left", "top_right", "bottom_right", "bottom_left")


def add_legend(
    fig: figure,
    items: Sequence[tuple[str, list[object]]],
    data: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    taken: float = 0.0,
) -> None:
    """Give a figure with fixed ranges a legend that covers none of its data."""
    legend = Legend(items=list(items), orientation="vertical", click_policy="hide")
    legend.label_text_font, legend.label_text_font_size = FONT, "12px"
    legend.border_line_color, legend.background_fill_alpha = "#dddddd", 0.85
    legend.padding, legend.spacing, legend.margin = 6, 1, 8
    longest = max((len(text) for text, _ in items), default=0)
    wide = float(fig.frame_width or fig.width - _AXES)
    high = float(fig.frame_height or fig.height - _AXES - taken)
    size = ((longest * _LETTER + _SAMPLE) / wide, (len(items) * _ROW + 28) / high)
    corner = free_corner([_placed(fig, x, y) for x, y in data], size)
    if corner is None:
        legend.border_line_color = None
        fig.add_layout(legend, "right")
    else:
        legend.location = corner
        fig.add_layout(legend)


def free_corner(data: Sequence[tuple[Floats, Floats]], size: tuple[float, float]) -> str | None:
    """Return the first corner in which a box covers none of the data, or None.

    Examples
    --------
    >>> rising = np.linspace(0, 1, 50)
    >>> free_corner([(rising, rising)], (0.3, 0.3)), free_corner([(rising, 1 - rising)], (0.3, 0.3))
    ('top_left', 'top_right')
    >>> free_corner([(rising, rising), (rising, 1 - rising)], (0.3, 0.3)) is None
    True
    """
    if not (size[0] < 1 and size[1] < 1):
        return None
    for corner in _CORNERS:
        left, bottom = (1 - size[0] if "right" in corner else 0.0), (1 - size[1] if "top" in corner else 0.0)
        if not any(_inside(x, y, left, bottom, size) for x, y in data):
            return corner
    return None


def _inside(x: Floats, y: Floats, left: float, bottom: float, size: tuple[float, float]) -> bool:
    across = (x >= left) & (x <= left + size[0])
    return bool((across & (y >= bottom) & (y <= bottom + size[1])).any())


def _placed(fig: figure, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return data as places in the frame."""
    found = []
    for values, span, scale in ((x, fig.x_range, fig.x_scale), (y, fig.y_range, fig.y_scale)):
        ends, at = np.array([span.start, span.end], float), np.asarray(values, float)
        if "Log" in type(scale).__name__:
            with np.errstate(divide="ignore", invalid="ignore"):
                ends, at = np.log(ends), np.log(at)
        found.append((at - ends[0]) / (ends[1] - ends[0]))
    return found[0], found[1]


_POINTS = 160
#: pixels of a line of text above or below the frame
_LINE = 25.0
_BEYOND = 2.0  # how far curves go past the largest measured value


@dataclass(frozen=True)
class Curves:
    """What a scaling figure draws, over the values `at` of the parameter."""

    at: Floats
    model: Floats
    expectation: Floats | None
    low: Floats | None
    high: Floats | None
    samples: Samples
    points: Floats
    aggregate: str = "mean"


def scaling(
    subject: Verdict | Model | None,
    samples: Samples | None = None,
    *,
    metric: str = "",
    unit: str = "",
    phase: str = "",
    parameter: str = "",
    title: str = "",
    width: int = 760,
    height: int = 480,
) -> Figure:
    """Draw measurements with their model and, for a verdict, the expectation and its limits.

    Parameters
    ----------
    subject : Verdict, Model or None
        What to draw. Of a verdict without a model (too few values), or of None, only the measurements are.
    samples : Samples, optional
        The measurements; those of the verdict, or the points of the model, by default.
    metric, unit, phase, parameter : str
        For the axes; a verdict knows its own.
    title : str
        Instead of the name of what was measured.
    width, height : int
        Pixels.

    Returns
    -------
    Figure
    """
    verdict = subject if isinstance(subject, Verdict) else None
    model = verdict.model if verdict is not None else subject
    if isinstance(subject, Verdict):
        samples = samples or subject.samples
        metric, unit = metric or subject.metric, unit or subject.unit
        phase = phase or subject.phase
        parameter = parameter or subject.expectation.parameter
    elif isinstance(model, Model):
        parameter, unit = parameter or model.parameter, unit or model.unit
        samples = samples or Samples(model.x, tuple(np.array([v]) for v in model.y))
    elif samples is None and subject is not None:
        raise DataError(
            f"a verdict or a model is drawn here, got a {type(subject).__name__}: study.expect('p log p') "
            "makes the one, study.fit() the other, and study.plot() draws a study",
            code="wrong-type",
        )
    if samples is None:
        raise DataError("there are no measurements to draw; pass samples=...", code="no-data")
    aggregate = verdict.aggregate if verdict is not None else "auto"
    curves = curves_of(verdict, model if isinstance(model, Model) else None, samples, aggregate)
    name = title or (
        f"phase {phase}" if phase else metric.removesuffix("_s").replace("_", " ") or "measurements"
    )
    fitted = model if isinstance(model, Model) else None
    words = _words(verdict, model, samples)
    reading = _reading(verdict, fitted, curves, parameter, unit)
    above, below = wrap(words, max(30, int(width / 9.8))), wrap(reading, int(width // 7.2))
    taken = _LINE * (1 + len(above) + len(below))
    fig = draw(curves, verdict, fitted, unit, parameter, width, height, taken=taken)
    fig.yaxis.axis_label = _axis_label(metric, unit, phase)
    _write(fig, name, above, verdict, below)
    return Figure(fig, words, _alt(name, words, curves, parameter, unit), has_words=True)


def _write(fig: figure, name: str, above: list[str], verdict: Verdict | None, below: list[str]) -> None:
    """Put the name and the verdict's lines above the picture, and those of the reading below it."""
    color = MATCH_COLORS[verdict.match] if verdict is not None else "#222222"
    for line in reversed(above):
        fig.add_layout(heading(line, 14, color), "above")
    fig.add_layout(heading(name, 17), "above")
    small: dict[str, object] = {
        "text_font_size": "12px",
        "text_font_style": "normal",
        "text_color": "#444444",
    }
    for line in below:
        fig.add_layout(Title(text=line, text_font=FONT, **small), "below")


def curves_of(
    verdict: Verdict | None, model: Model | None, samples: Samples, aggregate: str = "auto"
) -> Curves:
    """Compute the lines and the band of a figure.

    The band holds every growth within the limits that starts where the expectation's curve starts:
    E times D(x)/D(x0) above and below, x0 the least measured value.
    """
    x = samples.x
    is_alone = x.size == 1 or (model is None and verdict is None)
    at = np.geomspace(x[0], x[-1] * (1.0 if is_alone else _BEYOND), _POINTS)
    summary = samples.summary(aggregate)
    points = summary.points
    line = model.predict(at) if model is not None else np.full_like(at, np.nan)
    expectation = low = high = None
    if verdict is not None:
        expectation = _expected(verdict, at, x, points)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            spread = np.exp2(verdict.deviation.term.log2(at) - verdict.deviation.term.log2(at[:1]))
        if np.isfinite(spread).all():
            low, high = expectation / spread, expectation * spread
    name = {"quartile": "first quartile", "min": "least"}.get(summary.aggregate, summary.aggregate)
    return Curves(at, line, expectation, low, high, samples, points, name)


def _expected(verdict: Verdict, at: Floats, x: Floats, points: Floats) -> Floats:
    """Return the expectation's fitted curve; where it cannot be fitted, its shape through the first point."""
    if verdict.reference is not None:
        return verdict.reference.predict(at)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        shape = np.exp2(verdict.expectation.log2(at) - verdict.expectation.log2(x[:1]))
    return np.asarray(points[0] * np.where(np.isfinite(shape), shape, 1.0), dtype=np.float64)


def draw(
    curves: Curves,
    verdict: Verdict | None,
    model: Model | None,
    unit: str,
    parameter: str,
    width: int,
    height: int,
    with_legend: bool = True,
    taken: float = 0.0,
) -> figure:
    """Draw the curves into a new Bokeh figure, without titles, for which `taken` pixels are left."""
    low, high = _span(curves)
    left, right = float(curves.at[0]), float(curves.at[-1])
    margin = (right / left) ** 0.03 if right > left else 1.2
    fig = figure(
        width=width,
        height=height,
        x_axis_type="log",
        y_axis_type="log",
        x_range=Range1d(left / margin, right * margin),
        y_range=Range1d(low, high),
        tools=TOOLS,
        active_drag=None,
        sizing_mode="fixed",
    )
    items: list[tuple[str, list[object]]] = []
    if curves.low is not None and curves.high is not None and verdict is not None:
        band = fig.varea(
            curves.at, np.maximum(curves.low, low / 1e6), curves.high, color=COLORS[5], alpha=0.22
        )
        items.append((f"limits: {verdict.expectation.term.pretty()} × {_pm(verdict)}", [band]))
    items += _lines(fig, curves, verdict, model)
    items += _points(fig, curves, unit)
    if with_legend:
        shown = [(curves.samples.x, curves.points), (curves.at, curves.model)]
        shown += [
            (np.full(of.size, x), of) for x, of in zip(curves.samples.x, curves.samples.groups, strict=True)
        ]
        if curves.expectation is not None:
            shown.append((curves.at, curves.expectation))
        add_legend(fig, items, shown, taken)
    fig.xaxis.axis_label = {"p": "ranks p"}.get(parameter, parameter)
    rank_axis(fig.xaxis[0], curves.samples.x, room=max(4, width // 80))
    value_axis(fig.yaxis, unit, low, high)
    style_axes([fig])
    fig.xgrid.ticker = fig.xaxis[0].ticker
    fig.ygrid.ticker = fig.yaxis[0].ticker
    return fig


def _lines(fig: figure, curves: Curves, verdict: Verdict | None, model: Model | None) -> list[Any]:
    items: list[object] = []
    if model is not None:
        inside = curves.at <= curves.samples.x[-1] * (1 + 1e-9)
        fitted = fig.line(curves.at[inside], curves.model[inside], color=COLORS[0], width=4)
        beyond = fig.line(curves.at[~inside], curves.model[~inside], color=COLORS[0], width=4, alpha=0.35)
        name = "nearest curve" if model.is_nearest else "model"
        items.append((f"{name}: {model.term.pretty()}", [fitted, beyond]))
    if curves.expectation is not None and verdict is not None:
        # above the model, so that both are seen where they agree
        line = fig.line(curves.at, curves.expectation, color=COLORS[1], width=2, line_dash=[7, 7])
        items.append((f"expected: {verdict.expectation.term.pretty()}", [line]))
    return items


def _points(fig: figure, curves: Curves, unit: str) -> list[Any]:
    items: list[object] = []
    sizes = [g.size for g in curves.samples.groups]
    if max(sizes) > 1:
        xs = np.repeat(curves.samples.x, sizes)
        every = fig.scatter(xs, np.concatenate(curves.samples.groups), size=6, color="#555555", alpha=0.35)
        items.append(("each repetition", [every]))
    texts = [markup.quantity(float(v), unit, 3) for v in curves.points]
    source = ColumnDataSource({"x": curves.samples.x, "y": curves.points, "n": sizes, "text": texts})
    strong = fig.scatter(
        "x", "y", source=source, size=10, color="#111111", line_color="white", line_width=1.2
    )
    fig.add_tools(HoverTool(renderers=[strong], tooltips=[("at", "@x{0,0}"), ("", "@text"), ("runs", "@n")]))
    items.append((curves.aggregate if max(sizes) > 1 else "measured", [strong]))
    return items


def _span(curves: Curves) -> tuple[float, float]:
    """Return the vertical range: the data and the lines, and the band as far as it stays near them."""
    values = [*curves.samples.groups, curves.model[np.isfinite(curves.model)]]
    if curves.expectation is not None:
        values.append(curves.expectation[np.isfinite(curves.expectation) & (curves.expectation > 0)])
    joined = np.concatenate([v for v in values if v.size])
    joined = joined[joined > 0]
    low, high = float(joined.min()), float(joined.max())
    room = max((high / low) ** 0.12, 1.25)
    return low / room, high * room * (1.6 if high / low < 30 else (high / low) ** 0.12)


def _pm(verdict: Verdict) -> str:
    return f"(1/{verdict.deviation.term.pretty()} … {verdict.deviation.term.pretty()})"


def _axis_label(metric: str, unit: str, phase: str) -> str:
    name = "time" if unit == "s" else metric.replace("_", " ") or "value"
    if unit == "s" and metric.startswith("makespan"):
        name = "makespan"
    if phase and unit == "s":
        name = "time of the slowest rank"
    return name if unit in ("s", "B", "") else f"{name} [{unit}]"


def _words(verdict: Verdict | None, model: Model | object, samples: Samples) -> str:
    if verdict is not None:
        return f"{markup.MATCH_SIGNS[verdict.match]} {verdict.sentence(Term.pretty)}"
    if not isinstance(model, Model):
        if len(samples.x) >= LEAST_VALUES:
            return "Measured; no model was given."
        return f"Measured: too few values for a model, which needs {LEAST_VALUES}."
    return f"It {course(model, Term.pretty)}."


def _reading(verdict: Verdict | None, model: Model | None, curves: Curves, parameter: str, unit: str) -> str:
    """Return how to read the picture: the model's numbers, and what the data leave open."""
    if model is None:
        if verdict is None and len(curves.samples.x) >= LEAST_VALUES:
            return "labkit.fit makes a model."
        return "Measure at more values." if verdict is None else "Too few values for a model."
    r2 = "" if model.r2_adjusted is None else f", adjusted R² {model.r2_adjusted:.3f}"
    name = "No model fits within the tolerance; the nearest curve is" if model.is_nearest else "Model"
    text = f"{name} {model.in_unit(unit)}{r2}; largest error {model.error:.1%}."
    last = float(curves.samples.x[-1])
    text += f" The pale part of the line is a prediction beyond {parameter} = {markup.number(last)}."
    if verdict is not None:
        text += " Shaded: every growth within the limits, from the first point on."
    if verdict is not None and verdict.plausible:
        shown = [m.term.pretty() for m in verdict.plausible[:6]]
        more = len(verdict.plausible) - len(shown)
        text += f" Not rejected by the data: {', '.join(shown)}{f' and {more} more' if more else ''}."
    return text


def _alt(name: str, words: str, curves: Curves, parameter: str, unit: str) -> str:
    x, y = curves.samples.x, curves.points
    pairs = ", ".join(
        f"{markup.number(a)}: {markup.quantity(float(b), unit, 3)}"
        for a, b in zip(x[:12], y[:12], strict=True)
    )
    return f"Scaling figure of {name} over {parameter}, both axes logarithmic. {words} Measured: {pairs}."
