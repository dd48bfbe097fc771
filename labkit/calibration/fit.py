"""The fit of a network model to robust figures: overheads, factors, link.

What is fitted is the simulator's own account of a message of n bytes. A detached one costs its sender os(n),
the wire lat * latfactor + (n + 16) / (bw * bwfactor), and its receiver or(n); one that waits for its receiver
costs the wire only. So os and or are measured where they stand alone, taken off half of a round trip, and the
rest is cut into straight pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labkit.calibration.protocol import Threshold, one, thresholds
from labkit.calibration.segmented import MIN_POINTS, Piecewise, fit_pieces
from labkit.errors import DataError
from labkit.platform.models import NetworkModel, get

__all__ = ["ENVELOPE_BYTES", "Fit", "Shares", "fit_network"]

#: What every message carries besides its payload in the simulator's model.
ENVELOPE_BYTES = 16
#: The wire keeps at least this part of half a round trip, whatever the overheads seem to be.
_LEAST_WIRE = 0.05
#: Sizes whose spreads are looked at together: one spread of a few repetitions says little.
_NEIGHBOURS = 9
#: Sizes that tell what a saturated link carries.
_LARGE = 0.25

_Floats = NDArray[np.float64]
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
        How much longer the far route's latency is, in seconds (0: no longer than can be told).
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
        See `labkit.calibration.protocol.thresholds`.
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
        from labkit.platform.quantities import format_bandwidth, format_time

        shared = "" if self.sharing == "splitduplex" else f",sharing={self.sharing}"
        bandwidth, latency = format_bandwidth(self.bandwidth_bytes_per_s), format_time(self.latency_s / 2)
        return f"bw={bandwidth},lat={latency}{shared}"


def fit_network(table: pd.DataFrame, name: str, tolerance: float = 1e-3) -> Fit:
    """Fit the model to medians.

    Parameters
    ----------
    table : pandas.DataFrame
        Of `labkit.calibration.protocol.medians`.
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
        raise DataError(f"a calibration needs at least {MIN_POINTS} sizes of pingpong, got {len(trip)}")
    notes: list[str] = []
    detached, eager = thresholds(table)
    curves = _overheads(table, detached, trip, tolerance)
    wire = _wire(trip, curves, detached, notes)
    sizes = trip.index.to_numpy(float) + ENVELOPE_BYTES
    curves["wire"] = fit_pieces(
        sizes, wire, tolerance=tolerance, noise=_noise(trip, tolerance),
        scale=trip["sender_s"].to_numpy(float),
        min_intercept=1e-3 * float(wire[0]), min_slope=1e-3 * float(wire[-1]) / float(sizes[-1]),
    )  # fmt: skip
    bandwidth = _bandwidth(table, curves["wire"])
    sharing, is_crossing = _directions(table, trip)
    latency = curves["wire"].pieces[0].intercept
    model = _model(name, curves, latency, bandwidth, is_crossing, detached, eager)
    return Fit(model, latency, bandwidth, sharing, detached, eager, curves, notes)


def _overheads(
    table: pd.DataFrame, detached: Threshold, trip: pd.DataFrame, tolerance: float
) -> dict[str, Piecewise]:
    """Fit os, ois and or; what is nothing beside a round trip is left out."""
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
    """Return the relative noise of each size's median: a running median over its neighbours' spreads."""
    one_median = 1.2533 * rows["spread"] / np.sqrt(rows["repeats"])
    smooth = one_median.rolling(_NEIGHBOURS, center=True, min_periods=1).median().to_numpy(float)
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

    Returns
    -------
    (str, bool)
        The links' sharing, and whether a transfer loads the way back (by 5 %, the model's only other value).
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
