"""Was the machine quiet enough? What a reader of a calibration must be warned of."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd

from labkit.calibration.protocol import one

__all__ = ["Quality", "judge_quality"]

#: On a quiet machine, repetitions of the median size spread, and the whole drifts, by at most so much.
_SPREAD, _DRIFT = 0.05, 0.05
#: Involuntary context switches per second: a quiet rank has hardly any.
_SWITCHES_PER_S = 50.0
#: A tail this far above the median was not the network.
_TAIL, _TAIL_SHARE = 3.0, 0.05


@dataclass(frozen=True)
class Quality:
    """Figures of a measurement's noise.

    Attributes
    ----------
    spread : float
        Median over the sizes of the relative spread of their round trips.
    drift : float
        How much slower the second half of the rounds was, relative: median over the sizes.
    tail : float
        Share of round trips that took over three times their median.
    switches_per_s : float
        Involuntary context switches per second of measuring.
    load : float
        The host's load average when it began.
    warnings : list of str
        What these figures mean; empty on a quiet machine.
    """

    spread: float
    drift: float
    tail: float
    switches_per_s: float
    load: float
    warnings: list[str]


def judge_quality(
    data: pd.DataFrame, table: pd.DataFrame, switches: int, seconds: float, load: float | None, is_valid: bool
) -> Quality:
    """Judge the noise of a measurement.

    Parameters
    ----------
    data, table : pandas.DataFrame
        Raw measurements and their medians.
    switches : int
        Involuntary context switches of both ranks.
    seconds : float
        How long was measured.
    load : float or None
        Load average of the host before; None on a simulated machine, which nothing disturbs.
    is_valid : bool
        Whether the run counts as one rank per core.
    """
    trips = data[data["experiment"] == "pingpong"]
    middle = trips.groupby("bytes")["sender_s"].transform("median")
    tail = float((trips["sender_s"] > _TAIL * middle).mean())
    half = trips["round"] < trips["round"].max() / 2
    first = trips[half].groupby("bytes")["sender_s"].median()
    second = trips[~half].groupby("bytes")["sender_s"].median()
    drift = float((second / first - 1).median())
    spread = float(one(table, "pingpong")["spread"].median())
    rate = switches / seconds if load is not None and seconds > 0 else 0.0
    cores = _cores()
    warnings = []
    if not is_valid:
        warnings.append("more ranks than cores: the ranks shared cores, and the figures describe that")
    if load is not None and load > max(cores - 2, 0) + 0.5:
        warnings.append(
            f"the host was busy when it began (load average {load:.1f} on {cores} cores, and 2 ranks need 2)"
        )
    if rate > _SWITCHES_PER_S:
        warnings.append(f"ranks were interrupted {rate:.0f} times a second: others used their cores")
    if spread > _SPREAD:
        warnings.append(f"repetitions of the same message spread by {100 * spread:.0f} % (quiet: 5 %)")
    if tail > _TAIL_SHARE:
        warnings.append(f"{100 * tail:.0f} % of the round trips took over three times their median")
    if abs(drift) > _DRIFT:
        slower = "slower" if drift > 0 else "faster"
        warnings.append(f"the machine became {100 * abs(drift):.0f} % {slower} while it was measured")
    return Quality(spread, drift if np.isfinite(drift) else 0.0, tail, rate, load or 0.0, warnings)


def _cores() -> int:
    from labkit.real.cores import available_cores

    return available_cores()


def load_average() -> float | None:
    """Return the host's load average of the last minute; None where there is none."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
