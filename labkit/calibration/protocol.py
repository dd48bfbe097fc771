"""Robust statistics of repeated measurements, and the message protocol that they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labkit.calibration.experiments import Row

__all__ = ["COLUMNS", "STATISTICS", "Threshold", "frame", "medians", "thresholds"]

#: columns of the raw measurements
COLUMNS = ("experiment", "bytes", "round", "sender_s", "receiver_s", "late_s")

#: What may stand for repetitions, as quantiles: the minimum for a host on which others work as well.
STATISTICS = {"median": 0.5, "quartile": 0.25, "min": 0.0}

_Floats = NDArray[np.float64]


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

    Parameters
    ----------
    data : pandas.DataFrame
        Raw measurements.
    statistic : str
        What stands for the repetitions, of `STATISTICS`.

    Returns
    -------
    pandas.DataFrame
        Columns experiment, bytes, sender_s, receiver_s, late_s (its median always), spread (relative, of the
        sender's time: 1.4826 times the median deviation from the median), repeats.
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

    Parameters
    ----------
    table : pandas.DataFrame
        Of `medians`, with the experiments late, early and pingpong.

    Returns
    -------
    (Threshold, Threshold)
        Detached senders, early transfers.
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
