"""The shape of data that change, jump, or follow no model, in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from labkit.html import number
from labkit.scaling.model import Model
from labkit.scaling.samples import Summary
from labkit.scaling.term import Term
from labkit.scaling.words import growth

__all__ = ["describe", "scatters"]

Floats = npt.NDArray[np.float64]

#: local power of p below which data level off
_FLAT = 0.1


def describe(x: Floats, y: Floats, model: Model | None, symbol: str, tolerance: float) -> str:
    """Return what the data do over the range, as a clause that follows "it".

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        The points.
    model : Model or None
        What describes them: only its pieces are told, where it has several.
    symbol : str
        The name of the parameter.
    tolerance : float
        Relative steps below this count as none.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([32.0, 64, 128, 256, 512])
    >>> describe(p, np.array([0.1406, 0.2032, 0.2338, 0.2490, 0.2570]), None, "p", 0.02)
    'rises by 83 % and levels off'
    """
    if model is not None and model.before is not None:
        return _pieces(model, symbol)
    slopes = np.diff(np.log(y)) / np.diff(np.log(x))
    change = y[-1] / y[0] - 1
    whole = _course(y, tolerance)
    if whole == "rises":
        return f"rises by {_percent(change)}{_bend(slopes)}"
    if whole == "falls":
        return f"falls by {_percent(-change)}{_bend(-slopes)}"
    if whole:
        return whole
    for at in (int(np.argmin(y)), int(np.argmax(y)), _flat_head(y, tolerance), _flat_tail(y, tolerance)):
        if 0 < at < y.size - 1:
            before, after = _course(y[: at + 1], tolerance), _course(y[at:], tolerance)
            if before and after and before.split()[0] != after.split()[0]:
                return f"{before} up to {symbol} = {number(x[at])} and {after} from there on"
    return "goes up and down"


def _pieces(model: Model, symbol: str) -> str:
    """Return the pieces of a model that changes, or the step that it takes."""
    last = model
    assert last.before is not None
    assert last.since is not None
    own, ends = replace(last, before=None), last.x[[0, -1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = own.predict(ends) / last.before.predict(ends)
    if last.before.before is None and np.isclose(
        factors[0], factors[1], rtol=1e-6
    ):  # one curve and its multiple
        factor = float(factors[1])
        first = "levels off" if last.others else growth(last.term, Term.pretty)
        jump = f"jumps by a factor of {factor:.2g}" if factor > 1 else f"drops to {_percent(factor)}"
        return f"{first} and {jump} at {symbol} = {number(last.since)}"
    pieces: list[Model] = []
    one: Model | None = model
    while one is not None:
        pieces.insert(0, one)
        one = one.before
    terms = [f"{'constant' if m.term.is_constant else m.term.pretty(symbol)}" for m in pieces]
    places = " and ".join(f"{symbol} = {number(m.since)}" for m in pieces[1:] if m.since is not None)
    return f"changes at {places}: {', then '.join(terms)}"


def _course(y: Floats, tolerance: float) -> str:
    """Return what a stretch of the data does, if it is one thing; a step within the tolerance is none."""
    steps, change = np.diff(y) / y[:-1], y[-1] / y[0] - 1
    if (steps >= -tolerance).all() and change > tolerance:
        return "rises"
    if (steps <= tolerance).all() and change < -tolerance:
        return "falls"
    spread = float(np.ptp(y) / y.min())  # both ways from the first point
    return f"stays within {_percent(spread)}" if spread <= 2 * tolerance else ""


def _flat_head(y: Floats, tolerance: float) -> int:
    """Return the last place up to which the data stay about the same."""
    spread = np.maximum.accumulate(y) / np.minimum.accumulate(y) - 1
    return int(np.count_nonzero(spread <= 2 * tolerance)) - 1


def _flat_tail(y: Floats, tolerance: float) -> int:
    return y.size - 1 - _flat_head(y[::-1], tolerance)


def _bend(slopes: Floats) -> str:
    half = slopes.size // 2
    early, late = float(slopes[:half].mean()), float(slopes[-half:].mean())
    if late < 0.5 * early:
        return " and levels off" if slopes[-1] < _FLAT else ", more slowly towards the end"
    return ", faster towards the end" if late > 1.3 * early else ""


def _percent(change: float) -> str:
    return f"{100 * change:.0f} %" if change < 4 else f"a factor of {float(f'{change + 1:.3g}'):,.10g}"


def scatters(summary: Summary, tolerance: float) -> bool:
    """Return whether data go to and fro, as single measurements with noise do."""
    y = summary.points
    steps = np.diff(y) / y[:-1]
    if (steps > 2 * tolerance).any() and (steps < -2 * tolerance).any():
        return True
    bends = np.diff(np.log(y), 2)
    turns = np.count_nonzero(np.diff(np.sign(bends)))
    return bool(
        not summary.freedom and turns >= max(2, (y.size - 3) // 2) and np.abs(bends).max() > tolerance
    )
