"""A prediction compared with the outcome: numbers, or a growth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, FactorRange, HoverTool, Legend, LegendItem
from bokeh.plotting import figure

from labkit.errors import DataError
from labkit.plot.figure import Figure
from labkit.plot.scaling_figure import scaling
from labkit.plot.style import COLORS, FONT, SI_JS, TOOLS, heading, style_axes, value_axis, whole_ticker, wrap
from labkit.scaling import Expectation, Model, Verdict
from labkit.text.html import SI_UNITS, number, quantity

__all__ = ["guess"]

#: a prediction this near to the outcome counts as right, in the reading
_NEAR = 0.1
#: how the reading begins where the reader has not predicted
_OPEN = "Not predicted yet: write your prediction in place of the question mark"
#: numbers that differ by less are one, computed in two ways
_ROUNDING = 1e-9
#: from this ratio of the largest to the smallest on, the axis is logarithmic
_WIDE = 30.0


def guess(
    predicted: Mapping[str, float] | Expectation | None,
    found: Mapping[str, float] | Verdict | Model,
    *,
    unit: str = "",
    title: str = "Predicted and found",
    label: str = "",
    width: int = 760,
) -> Figure:
    """Draw a prediction compared with the outcome; the outcome alone where nothing (or NaN) is predicted."""
    if predicted is None:
        if isinstance(found, Verdict | Model):
            base = scaling(found, width=width)
            return Figure(base.layout, f"{_OPEN}. {base.reading}", base.alt, has_words=base.has_words)
        predicted = dict.fromkeys(found, np.nan)
    if isinstance(predicted, Expectation) and isinstance(found, Verdict | Model):
        return _growth(predicted, found, width)
    if isinstance(predicted, Expectation) or isinstance(found, Verdict | Model):
        raise DataError("a growth is drawn with a verdict or a model, numbers with numbers")
    if set(predicted) != set(found):
        raise DataError(
            f"predicted were {', '.join(map(str, predicted)) or 'nothing'}, found were "
            f"{', '.join(map(str, found)) or 'nothing'}: the names must be the same"
        )
    names = [str(name) for name in predicted]
    own = np.array([float(value) for value in predicted.values()])
    out = np.array([float(found[name]) for name in predicted])
    reading = _reading(names, own, out, unit)
    fig = _numbers(names, own, out, unit, label, width)
    fig.add_layout(heading(title), "above")
    return Figure(fig, reading, f"{title}: {_pairs(names, own, out, unit)}.")


def _numbers(names: list[str], own: Any, out: Any, unit: str, label: str, width: int) -> figure:
    """Return the picture: a line of the picture for each number, from the prediction to the outcome."""
    is_log, both = _is_wide(own, out), _known(own, out)
    low, high = float(both.min()), float(both.max())
    if is_log:
        span = (low / 1.6, high * 2.5)
    else:
        span = (min(low, 0.0), max(high, 0.0) * 1.14 or 1.0)
        span = (span[0] - 0.03 * (span[1] - span[0]), span[1])
    fig = figure(
        width=width, height=130 + 34 * len(names), y_range=FactorRange(*reversed(names)), x_range=span,
        x_axis_type="log" if is_log else "linear", tools=TOOLS, active_drag=None, sizing_mode="fixed",
    )  # fmt: skip
    source = ColumnDataSource(
        {
            "name": names,
            "own": own,
            "out": out,
            "mine": [_predicted(v, unit) for v in own],
            "text": [quantity(float(v), unit, 3) for v in out],
        }
    )
    fig.segment("own", "name", "out", "name", source=source, color="#999999", line_width=2)
    mine = fig.scatter(
        "own",
        "name",
        source=source,
        size=13,
        marker="diamond",
        fill_color="white",
        line_color=COLORS[1],
        line_width=2.5,
    )
    came = fig.scatter("out", "name", source=source, size=11, color="#111111", line_color="white")
    tips = [("", "@name"), ("predicted", "@mine"), ("found", "@text")]
    fig.add_tools(HoverTool(renderers=[mine, came], tooltips=tips))
    items = [LegendItem(label="predicted", renderers=[mine]), LegendItem(label="found", renderers=[came])]
    fig.add_layout(Legend(items=items, label_text_font=FONT, border_line_color=None), "right")
    if is_log:
        value_axis(fig.xaxis, unit, *span)
    else:
        fig.xaxis.formatter = CustomJSTickFormatter(code=SI_JS, args={"unit": unit if unit == "s" else ""})
        is_counted = unit != "s" and np.allclose(both, np.rint(both), _ROUNDING, 0)
        if is_counted:  # 2.5 of them there are not
            fig.xaxis.ticker = whole_ticker()
    in_ticks = unit == "s" or (is_log and unit in SI_UNITS)
    fig.xaxis.axis_label = label or ("" if in_ticks else unit or _units_of(names)) or None
    style_axes([fig])
    fig.ygrid.grid_line_color = None
    return fig


def _units_of(names: list[str]) -> str:
    """Name the axis where names end in units, such as ``time [ms]``: then each number has its own."""
    return "in the unit of its name" if any(name.endswith("]") for name in names) else ""


def _known(own: Any, out: object) -> Any:
    return np.concatenate([own[~np.isnan(own)], out])


def _predicted(value: float, unit: str) -> str:
    return "?" if np.isnan(value) else quantity(float(value), unit, 3)


def _is_wide(own: object, out: object) -> bool:
    both = _known(own, out)
    return bool(both.min() > 0 and both.max() / both.min() > _WIDE)


def _reading(names: list[str], own: Any, out: Any, unit: str) -> str:
    is_open = np.isnan(own)
    if is_open.all():
        return f"{_OPEN}."
    if is_open.any():
        missing = ", ".join(name for name, one in zip(names, is_open, strict=True) if one)
        names = [name for name, one in zip(names, is_open, strict=True) if not one]
        return f"{_reading(names, own[~is_open], out[~is_open], unit)} {_OPEN} of: {missing}."
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(np.log(np.maximum(own, 0) / out))
    off = np.where(own == out, 0.0, np.where(np.isfinite(off), off, np.inf))
    near = int((off <= np.log1p(_NEAR)).sum())
    far = off if _is_wide(own, out) or _units_of(names) else np.abs(own - out)
    k = int(np.argmax(far >= far.max() * (1 - _ROUNDING)))  # of several as far off, the first
    mine, came = quantity(float(own[k]), unit, 3), quantity(float(out[k]), unit, 3)
    if len(names) == 1:
        word = "about right" if near else "too low" if own[k] < out[k] else "too high"
        return f"Predicted: {mine}; found: {came}. The prediction was {word}."
    if near == len(names):
        return f"All {near} predictions are within {_NEAR:.0%} of what was found."
    share = f"{near} of {len(names)} predictions are within {_NEAR:.0%} of what was found"
    return f"{share}; farthest off: {names[k]} (predicted {mine}, found {came})."


def _pairs(names: list[str], own: Any, out: Any, unit: str) -> str:
    texts = zip(names, own, out, strict=True)
    return "; ".join(
        f"{name}: predicted {_predicted(a, unit)}, found {quantity(float(b), unit, 3)}"
        for name, a, b in texts
    )


def _growth(predicted: Expectation, found: Verdict | Model, width: int) -> Figure:
    """Return the scaling figure with the predicted growth through its first measured point."""
    base = scaling(found, width=width)
    fig = base.layout
    model = found.model if isinstance(found, Verdict) else found
    if model is None:
        raise DataError(
            "too few values were measured for a model; measure at five or more", code="not-enough-data"
        )
    x, y = model.x, model.y
    at = np.geomspace(float(x[0]), float(x[-1]), 120)
    with np.errstate(over="ignore"):
        line = y[0] * np.exp2(predicted.log2(at) - predicted.log2(x[:1]))
    mine = fig.line(at, line, color=COLORS[6], width=3, line_dash="dotted")
    fig.legend[0].items.append(LegendItem(label=f"predicted: {predicted.term.pretty()}", renderers=[mine]))
    last = float(line[-1] / y[-1])
    where = f"at {model.parameter} = {number(x[-1])}"
    if 1 / (1 + _NEAR) <= last <= 1 + _NEAR:
        said = f"The predicted growth, {predicted.term.pretty()}, meets the measurement {where}."
    else:
        word = "above" if last > 1 else "below"
        times = last if last > 1 else 1 / last
        said = (
            f"The predicted growth, {predicted.term.pretty()}, ends {quantity(times, '', 3)} times {word} "
            f"the measurement {where}."
        )
    for line_text in wrap(said, int(fig.width // 7.2)):
        fig.add_layout(heading(line_text, 12, COLORS[6]), "below")
    return Figure(fig, f"{base.reading} {said}", f"{base.alt} {said}", has_words=True)
