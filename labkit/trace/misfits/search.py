"""Groups and single times of paired samples that are off, and how unlikely that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.trace.misfits.samples import KINDS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Finding", "search"]

Array = NDArray[np.float64]
#: what is off by less is not called off; a group needs so many members, and as many beside it
EFFECT, LEAST = np.log(1.2), 3
#: corrected for all groups that were tried
CHANCE = 1e-3
#: less likely is as good as impossible: there the seconds decide which is said first
CERTAIN = 1e-9
#: the whole of a kind is off from here on
WHOLE = np.log(1.5)
_GOOD, _QUARTER = 0.15, 0.25
_MOST, _TRIES, _NAMES = 4, 3, 4
#: a group matters if its times differ by this share of the predicted run
_MATTERS = 0.01
#: a single time is a stall if it is off by so many times the excess that one in ten reaches, and by this
#: share of the predicted run
_FAR, _SHARE = 10.0, 0.02


@dataclass(frozen=True)
class Finding:
    """Something that is not as predicted.

    Attributes
    ----------
    kind : str
        "computation", "message" or "collective".
    what : str
        "group", "stall" or "whole".
    by : str
        By what it was found, such as "rank", "link", "call and size"; "" of a whole kind.
    where : str
        Such as "rank 3", "link up 5", "Allreduce of 8 B".
    factor : float
        Measured by predicted time, the median of its members; of a stall NaN.
    excess_s : float
        Seconds that its members took longer than predicted, together; below 0: shorter.
    members : int
    chance : float
        How likely so much is if nothing is off there.
    begin_s, end_s : float
        When its members were, in the measured run.
    """

    kind: str
    what: str
    by: str
    where: str
    factor: float
    excess_s: float
    members: int
    chance: float
    begin_s: float
    end_s: float


def search(samples: pd.DataFrame, measured_s: float, predicted_s: float) -> list[Finding]:
    """Find what is off: what goes the way of the whole run first, there the least likely by chance.

    Parameters
    ----------
    samples : pandas.DataFrame
        See `labkit.trace.misfits.samples.paired`.
    measured_s, predicted_s : float
        The makespans.
    """
    found: list[Finding] = []
    for kind in KINDS:
        rows = samples[samples["kind"] == kind]
        if len(rows):
            found += _of_kind(kind, rows, predicted_s)
    is_slower = measured_s >= predicted_s
    return sorted(
        found,
        key=lambda one: ((one.excess_s >= 0) != is_slower, max(one.chance, CERTAIN), -abs(one.excess_s)),
    )


def _of_kind(kind: str, rows: pd.DataFrame, predicted_s: float) -> list[Finding]:
    measured, expected, at_s = (rows[name].to_numpy() for name in ("measured_s", "predicted_s", "at_s"))
    ratio = np.log(measured / expected)
    use = rows["is_grouped"].to_numpy()
    shift = np.zeros(len(rows))
    found: list[Finding] = []
    if use.sum() >= LEAST:
        found, shift[use] = _groups(kind, rows[use], ratio[use])
        found = [one for one in found if abs(one.excess_s) >= _MATTERS * predicted_s]
    excess = measured - expected * np.exp(shift)
    return found + _stalls(kind, rows["labels"].tolist(), excess, at_s, predicted_s)


def _groups(kind: str, rows: pd.DataFrame, ratio: Array) -> tuple[list[Finding], Array]:
    """Return the groups that are off, and by how much each sample is, as a logarithm."""
    measured, expected, at_s = (rows[name].to_numpy() for name in ("measured_s", "predicted_s", "at_s"))
    places = _places(KINDS[kind], rows["labels"].tolist())
    center = float(np.median(ratio))
    if abs(center) < EFFECT or np.mean(np.abs(ratio) < _GOOD) >= _QUARTER:
        center = min(max(center, -_GOOD), _GOOD)  # where the prediction is right for many, it is right
    left = ratio - center
    shift = np.full(len(ratio), center)
    found: list[Finding] = []

    def add(what: str, by: str, where: str, members: Any, size: float, chance: float) -> None:
        spent = float((measured[members] - expected[members]).sum())
        ends = at_s[members] + measured[members]
        found.append(Finding(
            kind, what, by, where, float(np.exp(size)), spent, len(members), chance,
            float(at_s[members].min()), float(ends.max()),
        ))  # fmt: skip

    if abs(center) >= WHOLE:
        chance = _sign_chance(ratio, np.sign(center))
        if chance < CHANCE:
            common = [(by, where) for (by, where), members in places.items() if len(members) == len(ratio)]
            by, where = common[-1] if common else ("", f"every {kind}")
            add("whole", by, where, np.arange(len(ratio)), center, chance)
    for _ in range(_MOST):
        best = _best(places, left, shift)
        if best is None:
            break
        (by, where), members, size, chance = best
        add("group", by, where, members, size + float(np.median(shift[members])), chance)
        left[members] -= size
        shift[members] += size
    return found, shift


def _places(columns: tuple[str, ...], labels: list[dict[str, list[str]]]) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], list[int]] = {}
    for column in columns:
        for at, one in enumerate(labels):
            for name in dict.fromkeys(one[column]):
                found.setdefault((column, name), []).append(at)
    # the same members under several names are one group, called by all of them
    distinct: dict[bytes, tuple[str, list[str], Any]] = {}
    for (column, name), members in found.items():
        own = np.array(members)
        distinct.setdefault(own.tobytes(), (column, [], own))[1].append(name)
    return {(column, _named(names)): own for column, names, own in distinct.values()}


def _named(names: list[str]) -> str:
    first, *more = dict.fromkeys(names)
    return f"{first} ({', '.join(more[:_NAMES])})" if more else first


def _best(
    places: dict[tuple[str, str], Any], left: Array, shift: Array
) -> tuple[tuple[str, str], Any, float, float] | None:
    """Return the group whose own shift explains most of what is off, if chance does not."""
    from scipy.stats import mannwhitneyu

    tried = []
    for key, members in places.items():
        if len(members) < LEAST or len(left) - len(members) < LEAST:
            continue
        own = left[members]
        size = float(np.median(own))
        gain = float(np.abs(own).sum() - np.abs(own - size).sum())
        whole = size + float(np.median(shift[members]))
        tried.append((gain, key, members, size, min(abs(size), abs(whole))))
    count = len(tried)
    tried = [one for one in tried if one[4] >= EFFECT]
    for _, key, members, size, _ in sorted(tried, key=lambda one: -one[0])[:_TRIES]:
        rest = np.ones(len(left), bool)
        rest[members] = False
        chance = min(1.0, count * float(mannwhitneyu(left[members], left[rest]).pvalue))
        if chance < CHANCE:
            return key, members, size, chance
    return None


def _sign_chance(ratio: Array, sign: float) -> float:
    from scipy.stats import binomtest

    beyond = int((ratio * sign > EFFECT).sum())
    return float(binomtest(beyond, len(ratio), 0.5, alternative="greater").pvalue)


def _stalls(kind: str, labels: Any, excess: Array, at_s: Array, predicted_s: float) -> list[Finding]:
    """Return single times far beyond all others, those of one place together."""
    usual = float(np.quantile(np.maximum(excess, 0.0), 0.9, method="lower"))
    limit = max(_FAR * usual, _SHARE * predicted_s)
    beyond = np.flatnonzero(excess > limit)
    if not len(beyond) or len(excess) < 10:
        return []
    above = excess[(excess > usual) & (excess <= limit)]
    tail = max(float((above - usual).mean()) if len(above) else 0.0, usual, 1e-3 * limit)
    by = {"computation": "rank", "message": "pair", "collective": "call and size"}[kind]
    places: dict[str, list[int]] = {}
    for at in beyond:
        places.setdefault(labels[at][by][0], []).append(int(at))
    found = []
    for where, members in places.items():
        spent = excess[members]
        largest = float(spent.max())
        chance = min(1.0, len(excess) * 0.1 * float(np.exp(-min((largest - usual) / tail, 690.0))))
        if chance < CHANCE:
            begin_s, end_s = float(at_s[members].min()), float((at_s[members] + spent).max())
            found.append(Finding(
                kind, "stall", by, where, float("nan"), float(spent.sum()), len(members), chance, begin_s,
                end_s,
            ))  # fmt: skip
    return found
