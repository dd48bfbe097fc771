"""Beyond the measured range: a model's value at a target, and the parameter at which a budget is reached."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.checks import echo
from labkit.errors import DataError
from labkit.scaling.model import Model
from labkit.text import html as markup

__all__ = ["Limit", "Outlook", "limit", "outlook"]

Floats = npt.NDArray[np.float64]

#: an interval wider than this ratio says little
_WIDE = 2.0
_POWERS, _STEPS = 40, 4  # powers of two beyond the range that are looked at, and steps in each


@dataclass(frozen=True)
class Outlook:
    """A model's outlook at one value of the parameter.

    Attributes
    ----------
    at : float
        The value of the parameter.
    value, low, high : float
        The prediction and its interval.
    level : float
        The confidence of the interval.
    times_beyond : float
        ``at`` over the largest measured value.
    carries_to : float
        Up to where the data carry: the interval there is no wider than a factor of 2.
    misses : float
        How far the nearest curve misses a point, where no model describes the data; else 0.
    """

    at: float
    value: float
    low: float
    high: float
    level: float
    times_beyond: float
    carries_to: float
    parameter: str = "p"
    unit: str = ""
    misses: float = 0.0

    def __str__(self) -> str:
        """Print in a sentence."""
        value, low, high = (markup.quantity(v, self.unit, 3) for v in (self.value, self.low, self.high))
        text = f"At {self.parameter} = {markup.number(self.at)}: {value}"
        if low != high:
            text += f", between {low} and {high} ({self.level:.0%})"
        if self.times_beyond > 1:
            text += f"; {self.times_beyond:.3g} times beyond the data"
        if self.at > self.carries_to:
            text += f", which carry to about {self.parameter} = {markup.number(self.carries_to, 2)}"
        return f"{text}.{_caution(self.misses)}"

    __repr__ = __str__


@dataclass(frozen=True)
class Limit:
    """The value of the parameter up to which a budget is kept (from which on, where the model falls).

    Attributes
    ----------
    at : float
        By the model; inf where the budget is never reached, 0 where it never suffices.
    low, high : float
        The interval of ``at``.
    at_most : float
        The budget.
    level : float
        The confidence of the interval.
    falls : bool
        Whether the model falls, so that the budget is kept from ``at`` on.
    measured_to : float
        The largest measured value.
    misses : float
        As of an `Outlook`.
    """

    at: float
    low: float
    high: float
    at_most: float
    level: float
    falls: bool
    measured_to: float
    parameter: str = "p"
    unit: str = ""
    misses: float = 0.0

    def __str__(self) -> str:
        """Print in a sentence."""
        budget = markup.quantity(self.at_most, self.unit)
        where = "from" if self.falls else "up to"
        if self.at == 0 or (self.falls and np.isinf(self.at)):
            text = f"At most {budget}: not kept at any {self.parameter} from the smallest measured on."
            return text + _caution(self.misses)
        if np.isinf(self.at):
            text = f"At most {budget}: kept at every {self.parameter} that was looked at"
            text += f", surely up to about {_whole(self.low)}." if np.isfinite(self.low) else "."
            return text + _caution(self.misses)
        text = f"At most {budget}: kept {where} about {self.parameter} = {_whole(self.at)}"
        low, high = _whole(self.low), _whole(self.high)
        if low != high:
            text += f", between {low} and {high} ({self.level:.0%})"
        beyond = self.at / self.measured_to
        text += f"; {beyond:.3g} times beyond the data." if beyond > 1 else "."
        return text + _caution(self.misses)

    __repr__ = __str__


def _caution(misses: float) -> str:
    """Return what to say of a curve that is only the nearest one."""
    if not misses:
        return ""
    return (
        f" No model describes the data: this follows the nearest curve, which misses a point by {misses:.1%}."
    )


def _whole(value: float) -> str:
    if value == 0:
        return "no value"
    return "any" if np.isinf(value) else f"{float(f'{value:.3g}'):g}"


def outlook(model: Model, at: float, level: float = 0.95) -> Outlook:
    """Return the value of a model at a target scale, its interval, and how far the data carry.

    Parameters
    ----------
    model : Model
        From `labkit.scaling.fit`.
    at : float
        The value of the parameter, > 0.
    level : float
        The confidence of the interval.

    Raises
    ------
    DataError
        When ``at`` is not a positive number.
    """
    if not isinstance(at, (int, float, np.number)) or not 0 < at < np.inf:
        raise DataError(f"the target must be a positive number; got {echo(at)}", code="out-of-range")
    last = float(model.x[-1])
    value = float(model.predict(float(at)))
    low, high = (float(v) for v in model.interval(float(at), level))
    ahead = _ahead(model)
    lows, highs = model.interval(ahead, level)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide = np.flatnonzero(~(highs <= _WIDE * lows))
    carries = float(ahead[max(wide[0] - 1, 0)]) if wide.size else np.inf
    return Outlook(
        float(at),
        value,
        low,
        high,
        level,
        at / last,
        carries,
        model.parameter,
        model.unit,
        _misses(model),
    )


def limit(model: Model, at_most: float, level: float = 0.95) -> Limit:
    """Return up to which value of the parameter a model stays within a budget.

    Parameters
    ----------
    model : Model
        From `labkit.scaling.fit`.
    at_most : float
        The budget, in the unit of the measurements, > 0.
    level : float
        The confidence of the interval.

    Raises
    ------
    DataError
        When the budget is not a positive number.

    References
    ----------
    S. Shudler et al., IEEE TPDS 30(8), 2019, section 3.2.2.
    """
    if not isinstance(at_most, (int, float, np.number)) or not 0 < at_most < np.inf:
        raise DataError(f"the budget must be a positive number; got {echo(at_most)}", code="out-of-range")
    inside = np.geomspace(float(model.x[0]), float(model.x[-1]), 60)
    x = np.concatenate([inside, _ahead(model)[1:]])
    middle = model.predict(x)
    low, high = model.interval(x, level)
    falls = bool(middle[-1] < middle[0])
    places = [_crossing(x, curve, at_most, falls) for curve in (middle, high, low)]
    first, last = min(places[1:]), max(places[1:])
    return Limit(
        places[0],
        min(first, places[0]),
        max(last, places[0]),
        float(at_most),
        level,
        falls,
        float(model.x[-1]),
        model.parameter,
        model.unit,
        _misses(model),
    )


def _misses(model: Model) -> float:
    return model.error if model.is_nearest else 0.0


def _ahead(model: Model) -> Floats:
    return np.asarray(model.x[-1] * np.exp2(np.arange(_POWERS * _STEPS + 1) / _STEPS), dtype=np.float64)


def _crossing(x: Floats, y: Floats, budget: float, falls: bool) -> float:
    """Return where y crosses the budget, on a line between logarithms; 0 or inf where it does not."""
    over = ~(y <= budget)
    if falls:
        if over[-1]:
            return float("inf")
        if not over.any():
            return float(x[0])
        k = int(x.size - np.argmax(over[::-1]))  # the first value from which on it is kept
    else:
        if over[0]:
            return 0.0
        if not over.any():
            return float("inf")
        k = int(np.argmax(over))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, b = np.log(y[k - 1]), np.log(y[k])
        share = (np.log(budget) - a) / (b - a)
    share = float(share) if np.isfinite(share) else 0.0
    return float(np.exp((1 - share) * np.log(x[k - 1]) + share * np.log(x[k])))
