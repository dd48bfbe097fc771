"""The fit of a network model to robust statistics of round trips: overheads, factors, link.

What is fitted is the simulator's own account of a message of n bytes. A detached one costs its sender os(n),
the wire lat * latfactor + (n + 16) / (bw * bwfactor), and its receiver or(n); one that waits for its receiver
costs the wire only. So os and or are measured where they stand alone, taken off half of a round trip, and the
rest is cut into straight pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labkit.calibration.experiments import Row
from labkit.errors import DataError
from labkit.machines.models import NetworkModel, get
from labkit.machines.quantities import format_bandwidth, format_time

__all__ = [
    "COLUMNS",
    "ENVELOPE_BYTES",
    "MIN_POINTS",
    "STATISTICS",
    "Fit",
    "Piece",
    "Piecewise",
    "Shares",
    "Threshold",
    "fit_network",
    "fit_pieces",
    "frame",
    "medians",
    "one",
]


#: What every message carries in addition to its payload in the simulator's model.
ENVELOPE_BYTES = 16

#: The wire keeps at least this part of half a round trip, whatever the overheads seem to be.
_LEAST_WIRE = 0.05

#: Sizes whose spreads are looked at together: one spread of a few repetitions says little.
_NEIGHBORS = 9

#: Sizes that measure the bandwidth of a saturated link.
_LARGE = 0.25

_Cost = tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Shares:
    """Measurements of a third, farther rank.

    Attributes
    ----------
    far_links : int
        Links of the far rank's route; the near one's has 2.
    ratio : float
        What the near rank's messages got where both met, over what the far one's got.
    latency_s : float
        How much longer the far route's latency is, in seconds (0: no measurable difference).
    weight_s_bytes : float
        S, in bytes: at least 0.
    notes : list of str
        What the model's form cannot express.
    """

    far_links: int
    ratio: float
    latency_s: float
    weight_s_bytes: float
    notes: list[str]


# Segmented regression: straight pieces with jumps, their number and their places found from the data.
#
# For every stretch of consecutive points the best straight line is known in closed form, so dynamic
# programming finds the best division into K pieces for every K together [1]_. A penalised criterion chooses
# K:
# BIC with four parameters a piece (intercept, slope, and a place that is free to fit the noise and so counts
# twice). Errors are relative: a message of a microsecond counts as much as one of a second. Points far off
# their piece are weighted down (Tukey's bisquare) and the search is repeated.
#
# .. [1] Bai, Perron: Computation and analysis of multiple structural change models. Journal of Applied
#    Econometrics 18, 2003, doi:10.1002/jae.659.

_Floats = NDArray[np.float64]

#: Fewest points of a piece: two fix a line, the others bear witness.
MIN_POINTS = 4

#: Intercept, slope and place; a place counts twice (with three, noise is cut in 7 % of all fits).
_PARAMETERS = 4

_REWEIGHTINGS = 3

#: Bisquare: residuals beyond this many standard deviations count nothing.
_BISQUARE = 4.685


@dataclass(frozen=True)
class Piece:
    """One straight piece: `intercept` + `slope` * x for x in (`above`, next piece's `above`].

    Attributes
    ----------
    first_x, last_x : float
        The outermost points it was fitted to.
    above : float
        Where it begins: between the last point of the piece before and `first_x` (0 for the first piece).
    intercept, slope : float
        The line.
    points : int
        How many points it was fitted to.
    """

    first_x: float
    last_x: float
    above: float
    intercept: float
    slope: float
    points: int


@dataclass(frozen=True)
class Piecewise:
    """A function made of straight pieces.

    Attributes
    ----------
    pieces : tuple of Piece
        In ascending order.
    relative_error : float
        Root of the mean squared relative residual, outliers weighted down.
    """

    pieces: tuple[Piece, ...]
    relative_error: float

    @property
    def breakpoints(self) -> list[tuple[float, float]]:
        """The bracket of each breakpoint: last point before it, first point behind it."""
        return [(a.last_x, b.first_x) for a, b in zip(self.pieces, self.pieces[1:], strict=False)]

    def scaled(self, factor: float) -> Piecewise:
        """Return the function times a factor."""
        pieces = (
            replace(piece, intercept=factor * piece.intercept, slope=factor * piece.slope)
            for piece in self.pieces
        )
        return replace(self, pieces=tuple(pieces))

    def __call__(self, x: ArrayLike) -> _Floats:
        """Evaluate it; below the first piece the first one holds, beyond the last the last."""
        values = np.asarray(x, float)
        starts = np.array([piece.above for piece in self.pieces[1:]])
        index = np.searchsorted(starts, values, side="left")
        intercepts = np.array([piece.intercept for piece in self.pieces])
        slopes = np.array([piece.slope for piece in self.pieces])
        return np.asarray(intercepts[index] + slopes[index] * values, float)


def fit_pieces(
    x: ArrayLike,
    y: ArrayLike,
    *,
    max_pieces: int = 12,
    tolerance: float = 1e-3,
    min_intercept: float = 0.0,
    min_slope: float = 0.0,
    noise: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> Piecewise:
    """Fit a piecewise straight function; neither the places of the breaks nor their number are given.

    Parameters
    ----------
    x : array_like, shape (n,)
        Abscissae (message sizes), finite; sorted if they are not, equal ones are averaged.
    y : array_like, shape (n,)
        Positive values (times).
    max_pieces : int
        Most pieces tried.
    tolerance : float
        Relative deviation that is not worth a break; also what keeps noiseless data from being cut to bits.
    min_intercept, min_slope : float
        No piece has less.
    noise : array_like, shape (n,), optional
        Relative noise of each y: a residual counts by how many times the noise it is, so that short messages,
        which repeat badly, do not hide what long ones show. Only ratios matter; default: all alike.
    scale : array_like, shape (n,), optional
        What relative errors are relative to; default: y.

    Raises
    ------
    DataError
        Fewer than `MIN_POINTS` different abscissae, or values that are not positive and finite.

    Examples
    --------
    >>> sizes = np.arange(1.0, 41.0)
    >>> fit = fit_pieces(sizes, np.where(sizes <= 20, 5 + sizes, 100 + 2 * sizes))
    >>> [(round(piece.intercept, 6), round(piece.slope, 6)) for piece in fit.pieces], fit.breakpoints
    ([(5.0, 1.0), (100.0, 2.0)], [(20.0, 21.0)])
    """
    xs, ys, scales = _checked(x, y, scale, noise)
    bounds = (min_intercept, min_slope)
    weights = scales**-2
    cuts = _best_cuts(xs, ys, weights, bounds, max_pieces, tolerance)
    for _ in range(_REWEIGHTINGS):
        relative = _residuals(xs, ys, weights, bounds, cuts) / scales
        trust = _bisquare(relative, tolerance)
        again = _best_cuts(xs, ys, weights * trust, bounds, max_pieces, tolerance)
        is_settled, cuts = again == cuts, again
        if is_settled:
            break
    trust = _bisquare(_residuals(xs, ys, weights, bounds, cuts) / scales, tolerance)
    pieces = _pieces(xs, ys, weights * trust, bounds, cuts)
    left = (ys - Piecewise(pieces, 0.0)(xs)) / scales
    return Piecewise(pieces, float(np.sqrt(np.sum(trust * left**2) / np.sum(trust))))


def _checked(
    x: ArrayLike, y: ArrayLike, scale: ArrayLike | None, noise: ArrayLike | None
) -> tuple[_Floats, _Floats, _Floats]:
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    if xs.ndim != 1 or xs.shape != ys.shape:
        raise DataError(
            f"x and y must be two rows of equal length, got shapes {xs.shape} and {ys.shape}",
            code="count-mismatch",
        )
    if not (np.all(np.isfinite(xs)) and np.all(np.isfinite(ys)) and np.all(ys > 0)):
        raise DataError(
            "x must be finite, y finite and positive; leave out what was not measured",
            code="not-finite",
        )
    scales = ys if scale is None else np.asarray(scale, float)
    factors = np.ones_like(ys) if noise is None else np.asarray(noise, float)
    for name, values in (("scale", scales), ("noise", factors)):
        if values.shape != ys.shape or not np.all(values > 0):
            raise DataError(f"{name} must be {len(ys)} positive numbers")
    scales = scales * factors / np.min(factors)
    places, index, counts = np.unique(xs, return_inverse=True, return_counts=True)
    if len(places) < MIN_POINTS:
        raise DataError(
            f"a piecewise fit needs at least {MIN_POINTS} different x, got {len(places)}",
            code="not-enough-data",
        )
    means = [np.bincount(index, values) / counts for values in (ys, scales)]
    return places, means[0], means[1]


def _line(sums: Sequence[_Floats], bounds: tuple[float, float]) -> tuple[_Floats, _Floats, _Floats]:
    """Weighted least squares of many stretches together, from their moments, within the bounds.

    Returns intercepts, slopes and residual sums of squares.
    """
    w, wx, wy, wxx, wxy, wyy = sums
    low_a, low_b = bounds
    spread = w * wxx - wx * wx
    is_degenerate = spread <= 1e-14 * w * wxx
    b = np.where(is_degenerate, low_b, (w * wxy - wx * wy) / np.where(is_degenerate, 1.0, spread))
    a = (wy - b * wx) / w
    flat = np.maximum(low_a, (wy - low_b * wx) / w)
    steep = np.maximum(low_b, (wxy - low_a * wx) / np.where(wxx > 0, wxx, 1.0))

    def rss(a: _Floats, b: _Floats) -> _Floats:
        return np.asarray(wyy - 2 * a * wy - 2 * b * wxy + a * a * w + 2 * a * b * wx + b * b * wxx)

    # The best point of a convex bowl within two bounds: inside, or on one of the two edges.
    is_inside = (a >= low_a) & (b >= low_b)
    on_flat, on_steep = rss(flat, np.full_like(w, low_b)), rss(np.full_like(w, low_a), steep)
    is_flat = on_flat <= on_steep
    a = np.where(is_inside, a, np.where(is_flat, flat, low_a))
    b = np.where(is_inside, b, np.where(is_flat, low_b, steep))
    return a, b, np.maximum(rss(a, b), 0.0)


def _moments(x: _Floats, y: _Floats, w: _Floats) -> tuple[_Floats, ...]:
    return w, w * x, w * y, w * x * x, w * x * y, w * y * y


def _best_cuts(
    x: _Floats, y: _Floats, w: _Floats, bounds: tuple[float, float], max_pieces: int, tolerance: float
) -> tuple[int, ...]:
    """Choose the division: the index at which each piece begins."""
    n = len(x)
    cost = np.full((n, n + 1), np.inf)  # of the stretch [i, j)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(n - MIN_POINTS + 1):
            sums = [np.cumsum(m[i:]) for m in _moments(x, y, np.maximum(w, 1e-30))]
            cost[i, i + MIN_POINTS :] = _line(sums, bounds)[2][MIN_POINTS - 1 :]
    most = max(1, min(max_pieces, n // MIN_POINTS))
    total, origin = [cost[0]], [np.zeros(n + 1, int)]
    for _ in range(1, most):
        through = total[-1][:n, None] + cost
        origin.append(np.argmin(through, axis=0))
        total.append(np.min(through, axis=0))
    scores = [
        n * np.log(rss[n] / n + tolerance**2) + _PARAMETERS * (k + 1) * np.log(n)
        for k, rss in enumerate(total)
    ]
    cuts, end = [], n
    for k in range(int(np.argmin(scores)), -1, -1):
        end = int(origin[k][end])
        cuts.append(end)
    return tuple(reversed(cuts))


def _stretches(n: int, cuts: tuple[int, ...]) -> list[slice]:
    return [slice(a, b) for a, b in zip(cuts, (*cuts[1:], n), strict=True)]


def _pieces(
    x: _Floats, y: _Floats, w: _Floats, bounds: tuple[float, float], cuts: tuple[int, ...]
) -> tuple[Piece, ...]:
    pieces = []
    for stretch in _stretches(len(x), cuts):
        sums = [np.array([np.sum(m[stretch])]) for m in _moments(x, y, np.maximum(w, 1e-30))]
        a, b, _ = _line(sums, bounds)
        begin = float(x[stretch.start])
        above = 0.0 if stretch.start == 0 else _between(float(x[stretch.start - 1]), begin)
        last = float(x[stretch.stop - 1])
        pieces.append(Piece(begin, last, above, float(a[0]), float(b[0]), stretch.stop - stretch.start))
    return tuple(pieces)


def _between(last: float, first: float) -> float:
    """Place a break in its bracket: at a power of two if there is one, as programs choose them."""
    power = 2.0 ** np.floor(np.log2(first)) if first >= 1 else 0.0
    if last <= power < first:
        return float(power)
    return float(np.floor(np.sqrt(max(last, 1.0) * first))) if first - last > 1 else last


def _residuals(
    x: _Floats, y: _Floats, w: _Floats, bounds: tuple[float, float], cuts: tuple[int, ...]
) -> _Floats:
    """Residuals of the points, each from its own piece."""
    out = np.empty_like(x)
    for stretch, piece in zip(_stretches(len(x), cuts), _pieces(x, y, w, bounds, cuts), strict=True):
        out[stretch] = y[stretch] - piece.intercept - piece.slope * x[stretch]
    return out


def _bisquare(relative: _Floats, tolerance: float) -> _Floats:
    """Weights of the points, from 1 (on the line) to 0 (an outlier)."""
    spread = max(1.4826 * float(np.median(np.abs(relative))), tolerance)
    return np.asarray(np.clip(1 - (relative / (_BISQUARE * spread)) ** 2, 0.0, 1.0) ** 2)


@dataclass(frozen=True)
class Fit:
    """A fitted machine.

    Attributes
    ----------
    model : NetworkModel
        The network model.
    latency_s : float
        One way, both links of a star together, in seconds.
    bandwidth_bytes_per_s : float
        Of a link, per direction (of both directions together, if `sharing` is shared).
    sharing : str
        ``splitduplex`` (each direction has its own) or ``shared``.
    detached, eager : Threshold
        See `thresholds`.
    curves : dict of str to Piecewise
        The fitted functions: send, isend, recv (of the payload) and wire (of payload and envelope).
    notes : list of str
        What could not be fitted, and what was done.
    shares : Shares or None
        Weights of flows, measured with a third, farther rank; None: SMPI's are assumed.
    """

    model: NetworkModel
    latency_s: float
    bandwidth_bytes_per_s: float
    sharing: str
    detached: Threshold
    eager: Threshold
    curves: dict[str, Piecewise] = field(repr=False)
    notes: list[str] = field(default_factory=list)
    shares: Shares | None = None

    @property
    def spec(self) -> str:
        """The options of a star of this link, as a specification spells them."""
        shared = "" if self.sharing == "splitduplex" else f",sharing={self.sharing}"
        bandwidth, latency = format_bandwidth(self.bandwidth_bytes_per_s), format_time(self.latency_s / 2)
        return f"bw={bandwidth},lat={latency}{shared}"


def fit_network(table: pd.DataFrame, name: str, tolerance: float = 1e-3) -> Fit:
    """Fit the model to medians.

    Parameters
    ----------
    table : pandas.DataFrame
        Of `medians`.
    name : str
        What to call the model.
    tolerance : float
        Relative deviation that is not worth a break.

    Raises
    ------
    DataError
        Too few sizes.
    """
    trip = one(table, "pingpong")
    if len(trip) < MIN_POINTS:
        raise DataError(
            f"a calibration needs at least {MIN_POINTS} sizes of pingpong, got {len(trip)}",
            code="not-enough-data",
        )
    notes: list[str] = []
    detached, eager = thresholds(table)
    curves = _overheads(table, detached, trip, tolerance)
    wire = _wire(trip, curves, detached, notes)
    sizes = trip.index.to_numpy(float) + ENVELOPE_BYTES
    curves["wire"] = fit_pieces(
        sizes,
        wire,
        tolerance=tolerance,
        noise=_noise(trip, tolerance),
        scale=trip["sender_s"].to_numpy(float),
        min_intercept=1e-3 * float(wire[0]),
        min_slope=1e-3 * float(wire[-1]) / float(sizes[-1]),
    )
    bandwidth = _bandwidth(table, curves["wire"])
    sharing, is_crossing = _directions(table, trip)
    latency = curves["wire"].pieces[0].intercept
    model = _model(name, curves, latency, bandwidth, is_crossing, detached, eager)
    return Fit(model, latency, bandwidth, sharing, detached, eager, curves, notes)


def _overheads(
    table: pd.DataFrame, detached: Threshold, trip: pd.DataFrame, tolerance: float
) -> dict[str, Piecewise]:
    """Fit os, ois and or; what is negligible compared with a round trip is left out."""
    limit = np.inf if detached.below_bytes is None else detached.below_bytes
    sources = {
        "send": one(table, "late")["sender_s"],
        "isend": one(table, "isend")["sender_s"],
        "recv": one(table, "early")["receiver_s"],
    }
    found = {}
    for name, times in sources.items():
        beside = trip["sender_s"].reindex(times.index)
        kept = times if name == "isend" else times[times.index < limit]
        is_something = (kept > tolerance * beside.loc[kept.index]) & (kept > 0)
        if is_something.sum() < max(MIN_POINTS, 0.5 * len(kept)):
            continue
        kept = kept[kept > 0]
        found[name] = fit_pieces(kept.index.to_numpy(float), kept.to_numpy(float), tolerance=10 * tolerance)
    return found


def _wire(trip: pd.DataFrame, curves: dict[str, Piecewise], detached: Threshold, notes: list[str]) -> _Floats:
    """Take the overheads off half a round trip; overheads that leave nothing are cut down first.

    On real machines they may: a send that is timed alone meets cold caches, and part of it overlaps with the
    transfer. Half a round trip is then what is kept, since every prediction is made of it.
    """
    sizes, total = trip.index.to_numpy(float), trip["sender_s"].to_numpy(float)
    limit = np.inf if detached.below_bytes is None else detached.below_bytes
    both = [name for name in ("send", "recv") if name in curves]
    spent = np.where(sizes < limit, sum((curves[name](sizes) for name in both), np.zeros_like(sizes)), 0.0)
    with np.errstate(divide="ignore"):
        # A few sizes may be off: the overheads give way to the others.
        part = float(np.quantile((1 - _LEAST_WIRE) * total / spent, 0.1)) if both else 1.0
    if part < 1:
        for name in both:
            curves[name] = curves[name].scaled(part)
        spent = part * spent
        notes.append(
            "a send and a receive, each timed alone, take longer than a message's whole way: both overheads "
            f"were cut to {100 * part:.0f} % of what was measured, so that half a round trip is met"
        )
    return np.asarray(np.maximum(total - spent, _LEAST_WIRE * total), float)


def _noise(rows: pd.DataFrame, tolerance: float) -> _Floats:
    """Return the relative noise of each size's median: a running median over its neighbors' spreads."""
    one_median = 1.2533 * rows["spread"] / np.sqrt(rows["repeats"])
    smooth = one_median.rolling(_NEIGHBORS, center=True, min_periods=1).median().to_numpy(float)
    return np.asarray(np.hypot(smooth, tolerance), float)


def _bandwidth(table: pd.DataFrame, wire: Piecewise) -> float:
    """Find what a saturated link carries: never less than a single message gets."""
    burst = one(table, "window")["sender_s"]
    best = 1.0 / wire.pieces[-1].slope
    if len(burst):
        large = burst[burst.index >= _LARGE * burst.index.max()]
        rates = (large.index.to_numpy(float) + ENVELOPE_BYTES) / large.to_numpy(float)
        best = max(best, float(np.median(rates)))
    return best


def _directions(table: pd.DataFrame, trip: pd.DataFrame) -> tuple[str, bool]:
    """Judge whether both directions share a link: an exchange then takes twice a one-way message.

    Whether messages one way load the other way is seen on two pairs of ranks if there are any; within one
    pair acknowledgements may travel with the messages.
    """
    slower = _ratio(one(table, "exchange")["sender_s"], trip["sender_s"])
    if slower is None:
        return "splitduplex", True
    apart = _ratio(one(table, "opposed")["sender_s"], one(table, "alone")["sender_s"])
    crossing = slower if apart is None else apart
    return ("shared" if slower > 1.5 else "splitduplex"), bool(crossing > 1.025 and slower <= 1.5)


def _ratio(times: pd.Series, others: pd.Series) -> float | None:
    """Return the median ratio over the large sizes; None where none was measured."""
    ratio = (times / others.reindex(times.index)).dropna()
    large = ratio[ratio.index >= _LARGE * ratio.index.max()]
    return float(large.median()) if len(large) else None


def _costs(curve: Piecewise | None, limit: int | None, rest: tuple[float, float] | None) -> _Cost:
    """Write a fitted overhead as rows of (threshold, a, b)."""
    if curve is None:
        return ()
    rows = [(int(piece.above), piece.intercept, piece.slope) for piece in curve.pieces]
    if limit is not None and rest is not None and limit > 0:
        # A section begins strictly above its threshold.
        rows = [row for row in rows if row[0] < limit - 1] + [(limit - 1, *rest)]
    return tuple(rows)


def _model(
    name: str,
    curves: dict[str, Piecewise],
    latency: float,
    bandwidth: float,
    is_crossing: bool,
    detached: Threshold,
    eager: Threshold,
) -> NetworkModel:
    wire, limit = curves["wire"], detached.below_bytes
    most = int(wire.pieces[-1].last_x)
    below = most + 1 if limit is None else limit
    early = below if eager.below_bytes is None else min(eager.below_bytes, below)
    return NetworkModel(
        name=name,
        title="calibrated by ping-pong, late and early receivers, bursts and exchanges",
        source="",
        weight_s_bytes=get("smpi").weight_s_bytes,
        latency_factor=tuple((piece.above, piece.intercept / latency) for piece in wire.pieces),
        bandwidth_factor=tuple((piece.above, 1.0 / (piece.slope * bandwidth)) for piece in wire.pieces),
        tcp_gamma_bytes=get("smpi").tcp_gamma_bytes,
        cross_traffic=is_crossing,
        detached_below_bytes=below,
        eager_below_bytes=early,
        send_overhead=_costs(curves.get("send"), limit, (0.0, 0.0)),
        isend_overhead=_costs(curves.get("isend"), None, None),
        recv_overhead=_costs(curves.get("recv"), limit, (0.0, 0.0)),
    )


# Robust statistics of repeated measurements, and the message protocol that they show.


#: columns of the raw measurements
COLUMNS = ("experiment", "bytes", "round", "sender_s", "receiver_s", "late_s")

#: What may stand for repetitions, as quantiles: the minimum for a host on which others work as well.
STATISTICS = {"median": 0.5, "quartile": 0.25, "min": 0.0}


@dataclass(frozen=True)
class Threshold:
    """A size at which the protocol changes.

    Attributes
    ----------
    below_bytes : int or None
        Payloads below it behave the one way, from it on the other; None when the whole range is below.
    bracket : tuple of int
        Largest size seen on the one side, smallest on the other; the change lies in between.
    doubtful : int
        Sizes that were seen on the wrong side.
    """

    below_bytes: int | None
    bracket: tuple[int, int]
    doubtful: int = 0


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Make a table of raw measurements."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def medians(data: pd.DataFrame, statistic: str = "median") -> pd.DataFrame:
    """Sum up the repetitions of each experiment and size.

    `data`: Raw measurements.
    `statistic`: What stands for the repetitions, of `STATISTICS`.
    Returns: Columns experiment, bytes, sender_s, receiver_s, late_s (its median always), spread (relative, of
        the sender's time: 1.4826 times the median deviation from the median), repeats.
    """

    def spread(values: pd.Series) -> float:
        middle = float(values.median())
        return 1.4826 * float((values - middle).abs().median()) / middle if middle > 0 else 0.0

    groups = data.groupby(["experiment", "bytes"], sort=True)
    table = groups[["sender_s", "receiver_s"]].quantile(STATISTICS[statistic])
    table["late_s"] = groups["late_s"].median()
    table["spread"] = groups["sender_s"].apply(spread)
    table["repeats"] = groups.size()
    return table.reset_index()


def one(table: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return one experiment's rows, by size."""
    return table[table["experiment"] == experiment].set_index("bytes").sort_index()


def thresholds(table: pd.DataFrame) -> tuple[Threshold, Threshold]:
    """Find where senders begin to wait, and where transfers begin to wait, for the receiver.

    A detached sender is back before its late receiver comes; others come back after it. If a message was
    transferred early, a late receiver gets it in the time of the same Wait after an early Irecv; if not, its
    Recv takes a transfer longer.

    `table`: Of `medians`, with the experiments late, early and pingpong.
    Returns: Detached senders, early transfers.
    """
    late, early, trip = one(table, "late"), one(table, "early"), one(table, "pingpong")
    sizes = late.index.intersection(early.index).intersection(trip.index)
    late, early, trip = late.loc[sizes], early.loc[sizes], trip.loc[sizes]
    is_detached = (late["sender_s"] < 0.5 * late["late_s"]).to_numpy()
    detached = _step(sizes.to_numpy(), is_detached)
    wire = trip["sender_s"] - late["sender_s"] - early["receiver_s"]
    extra = late["receiver_s"] - early["receiver_s"]
    is_early = is_detached & (wire > 0).to_numpy() & (extra < 0.5 * wire).to_numpy()
    eager = _step(sizes.to_numpy(), is_early)
    return detached, eager


def _step(sizes: NDArray[np.int64], is_below: NDArray[np.bool_]) -> Threshold:
    """Find the step from True to False that contradicts the fewest sizes."""
    wrong = np.concatenate([[0], np.cumsum(~is_below)]) + np.concatenate(
        [np.cumsum(is_below[::-1])[::-1], [0]]
    )
    cut = int(np.argmin(wrong))  # sizes[:cut] are below
    doubtful = int(wrong[cut])
    if cut == 0:
        return Threshold(0, (0, int(sizes[0])), doubtful)
    if cut == len(sizes):
        return Threshold(None, (int(sizes[-1]), int(sizes[-1])), doubtful)
    last, first = int(sizes[cut - 1]), int(sizes[cut])
    power = 2 ** int(np.floor(np.log2(first)))
    # Programs switch at powers of two: the first size of the new kind, if it can be one.
    below = (
        power if last < power <= first else (first if first - last == 1 else int((last * first) ** 0.5) + 1)
    )
    return Threshold(min(below, first), (last, first), doubtful)
