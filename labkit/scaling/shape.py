"""The shape of data that no single law describes, in words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labkit.html import number
from labkit.scaling.changes import Segment

__all__ = ["describe", "scatters"]

Floats = npt.NDArray[np.float64]


def describe(x: Floats, y: Floats, segments: tuple[Segment, ...], symbol: str, tolerance: float) -> str:
    """Return what the data do over the range, as a clause that follows "it".

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        The points.
    segments : tuple of Segment
        From `labkit.scaling.changes.find_segments`; fewer than two are no change.
    symbol : str
        The name of the parameter.
    tolerance : float
        Relative steps below this count as none.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([32.0, 64, 128, 256, 512])
    >>> describe(p, np.array([0.1406, 0.2032, 0.2338, 0.2490, 0.2570]), (), "p", 0.02)
    'rises by 83 % and levels off'
    """
    if len(segments) > 1:
        laws = [f"{'constant' if s.term.is_constant else s.term.pretty(symbol)}" for s in segments]
        places = " and ".join(f"{symbol} = {number(x[s.first])}" for s in segments[1:])
        return f"changes at {places}: {', then '.join(laws)}"
    slopes = np.diff(np.log(y)) / np.diff(np.log(x))
    steps = np.diff(y) / y[:-1]
    change = y[-1] / y[0] - 1
    if (steps >= -tolerance).all() and change > tolerance:
        return f"rises by {_percent(change)}{_bend(slopes)}"
    if (steps <= tolerance).all() and change < -tolerance:
        return f"falls by {_percent(-change)}{_bend(-slopes)}"
    if abs(change) <= tolerance and (np.abs(steps) <= tolerance).all():
        return f"stays within {_percent(float(np.ptp(y) / y.min()))}"
    low, high = int(np.argmin(y)), int(np.argmax(y))
    if (steps[:low] <= tolerance).all() and (steps[low:] >= -tolerance).all():
        return f"falls up to {symbol} = {number(x[low])} and rises from there on"
    if (steps[:high] >= -tolerance).all() and (steps[high:] <= tolerance).all():
        return f"rises up to {symbol} = {number(x[high])} and falls from there on"
    return "goes up and down"


def _bend(slopes: Floats) -> str:
    half = slopes.size // 2
    early, late = float(slopes[:half].mean()), float(slopes[-half:].mean())
    if late < 0.5 * early:
        return " and levels off"
    return " and does so faster towards the end" if late > 1.3 * early else ""


def _percent(change: float) -> str:
    return f"{100 * change:.0f} %" if change < 4 else f"a factor of {float(f'{change + 1:.3g}'):,.10g}"


def scatters(y: Floats, tolerance: float) -> bool:
    """Return whether single measurements go to and fro as noise does: no shape can be read from them."""
    turns = np.diff(np.sign(np.diff(np.log(y), 2)))
    bends = np.abs(np.diff(np.log(y), 2))
    return bool(np.count_nonzero(turns) >= max(2, (y.size - 3) // 2) and bends.max() > tolerance)
