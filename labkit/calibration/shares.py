"""Link sharing between flows: SMPI's weight S, measured with a third rank farther away.

In SMPI's sharing a flow counts with the weight ``w = lat + sum over its links of S / bw``, and where flows
meet their rates are as ``1 / w``: S says how much a long route loses against a short one (Velho et al., "On
the validity of flow-level TCP network models for grid and cloud simulations", 2013). Between two hosts all
routes are alike, so a third one is needed: its messages and a neighbour's meet at one receiver.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from labkit.calibration.fit import ENVELOPE_BYTES, Fit, Shares
from labkit.calibration.protocol import STATISTICS
from labkit.errors import DataError

__all__ = ["NEAR_LINKS", "checked_links", "fit_shares"]

#: Links between two hosts of a star.
NEAR_LINKS = 2
#: How many times its own uncertainty a longer latency must be before it is believed.
_SURE = 2.0
#: Ratios that differ by less are alike.
_ALIKE = 1.05
#: The largest share that is believed: one that is done before the other begins did not meet it.
_MOST = 0.99


def checked_links(far_links: object) -> int:
    """Return the number of links of a far route, or refuse it."""
    if isinstance(far_links, bool) or not isinstance(far_links, int) or far_links <= NEAR_LINKS:
        raise DataError(
            f"far_links counts the links between rank 0 and the far rank 2: more than {NEAR_LINKS}, "
            f"got {far_links!r}"
        )
    return far_links


def fit_shares(data: pd.DataFrame, fit: Fit, far_links: int, statistic: str = "median") -> Shares:
    """Find S and the far route's latency.

    Parameters
    ----------
    data : pandas.DataFrame
        Raw measurements with the experiments near, far and share.
    fit : Fit
        Of the two near ranks.
    far_links : int
        Links of the far rank's route.
    statistic : str
        What stands for the repetitions of the round trips.

    Raises
    ------
    DataError
        Nothing of the kind was measured, or the far route is no longer than the near one.
    """
    checked_links(far_links)
    rows = data[data["experiment"] == "share"]
    if rows.empty or not {"near", "far"} <= set(data["experiment"]):
        raise DataError("no shares were measured: the experiments near, far and share are missing")
    near, far = rows["sender_s"].to_numpy(float), rows["receiver_s"].to_numpy(float)
    # Whoever is done first had its share until then; the other had the link for itself afterwards.
    first, last = np.minimum(near, far), np.maximum(near, far)
    quicker = np.clip(last / (2 * first), 0.5, _MOST)
    ratios = np.where(near <= far, quicker / (1 - quicker), (1 - quicker) / quicker)
    ratio = float(np.median(ratios))
    latency = _longer(data, fit, statistic)
    weight, notes = _weight(ratio, fit, far_links, latency)
    return Shares(far_links, ratio, latency, weight, notes)


def _longer(data: pd.DataFrame, fit: Fit, statistic: str) -> float:
    """Find by how much the far route's latency is longer: small messages, the model's factor taken off."""
    times = data[data["experiment"].isin(["near", "far"])].groupby(["experiment", "bytes"])["sender_s"]
    summed = times.quantile(STATISTICS[statistic]).unstack("experiment")
    above, factor = np.asarray(fit.model.latency_factor, float).T
    at = factor[np.searchsorted(above, summed.index.to_numpy(float) + ENVELOPE_BYTES, side="left") - 1]
    more = (summed["far"] - summed["near"]).to_numpy(float) / at
    middle = float(np.median(more))
    doubt = 1.2533 * 1.4826 * float(np.median(np.abs(more - middle))) / np.sqrt(len(more))
    return middle if middle > _SURE * doubt else 0.0


def _weight(ratio: float, fit: Fit, far_links: int, longer_s: float) -> tuple[float, list[str]]:
    """Solve (lat + longer + far_links S / bw) = ratio (lat + 2 S / bw) for S."""
    lat, bandwidth = fit.latency_s, fit.bandwidth_bytes_per_s
    assumed = fit.model.weight_s_bytes
    by_latency, by_links = 1 + longer_s / lat, far_links / NEAR_LINKS
    low, high = min(by_latency, by_links), max(by_latency, by_links)
    if high < _ALIKE * low:
        return assumed, [
            f"the far route is {by_latency:.2f} times as long in time and {by_links:.2f} times in links: "
            "then a near rank gets as many times more whatever S is; S stays as assumed"
        ]
    if not low < ratio < high:
        edge = by_links if abs(ratio - by_links) < abs(ratio - by_latency) else by_latency
        weight = assumed if edge == by_links else 0.0
        said = f"S = {weight:g} B" + (", as assumed" if weight else "")
        is_near = edge / _ALIKE < ratio < edge * _ALIKE
        note = (
            f"a near rank got {ratio:.2f} times as much as a far one, and the model can only say "
            f"{by_latency:.2f} (by latencies alone) to {by_links:.2f} times (by links): {said}"
        )
        return weight, [] if is_near and not weight else [note]
    return bandwidth * lat * (ratio - by_latency) / (far_links - NEAR_LINKS * ratio), []
