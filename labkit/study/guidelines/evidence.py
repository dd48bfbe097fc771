"""Evidence for and against guidelines: repeated times compared by rank tests, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Comparison", "Sample", "compare_all"]

Floats = npt.NDArray[np.float64]

#: of each family of tests the chance of a single false word
LEVEL = 0.05
#: a side that takes longer by less is not said to violate
MARGIN = 0.05


@dataclass(frozen=True)
class Sample:
    """The repetitions of one side at one place.

    Attributes
    ----------
    launches : tuple of ndarray
        The times, by launch; one array where there was one launch, or none is known.
    is_exact : bool
        Whether a value says it all: simulated and deterministic.
    """

    launches: tuple[Floats, ...]
    is_exact: bool = False

    @property
    def values(self) -> Floats:
        """All times."""
        return np.concatenate(self.launches)

    @classmethod
    def of(cls, values: Sequence[float] | Floats, is_exact: bool = False) -> Sample:
        """Return the sample of one launch."""
        return cls((np.asarray(values, np.float64),), is_exact)

    @classmethod
    def sum(cls, parts: Sequence[tuple[float, Sample]], seed: int = 0) -> Sample:
        """Return the sample of a sum of independent parts: each time of a part is used once, at random."""
        if len(parts) == 1:
            factor, only = parts[0]
            return cls(tuple(factor * one for one in only.launches), only.is_exact)
        rng = np.random.default_rng(seed)
        launches = []
        for several in zip(*(part.launches for _, part in parts), strict=False):
            size = min(one.size for one in several)
            drawn = [rng.permutation(one)[:size] for one in several]
            factors = [factor for factor, _ in parts]
            launches.append(np.sum([f * one for f, one in zip(factors, drawn, strict=True)], axis=0))
        return cls(tuple(launches), all(part.is_exact for _, part in parts))


@dataclass(frozen=True)
class Comparison:
    """What is found at one place.

    Attributes
    ----------
    left_s, right_s : float
        The medians of both sides.
    word : {"held", "violated", "undecided"}
    p_violated, p_held : float or None
        Of the rank tests, after the correction; None where values are exact.
    why : str
        What is open.
    """

    left_s: float
    right_s: float
    word: str
    p_violated: float | None = None
    p_held: float | None = None
    why: str = ""

    @property
    def factor(self) -> float:
        """How many times longer the left side takes."""
        return self.left_s / self.right_s if self.right_s > 0 else float("inf")


def compare_all(
    pairs: Sequence[tuple[Sample, Sample]], margin: float = MARGIN, level: float = LEVEL
) -> list[Comparison]:
    """Compare pairs of sides, whether the left one is longer than the right one by more than a margin.

    Each pair is tested twice by the rank test of Mann and Whitney, against the right side times
    ``1 + margin``: whether the left one is longer (then the guideline is violated) and whether it is shorter
    (then it holds). Both families of p-values are corrected by Holm's method for all pairs, so that the
    chance of a single false "violated" among all of them, and that of a single false "held", are at most
    `level` each. Where several launches disagree about the side, or neither test rejects, it stays
    undecided. Exact values are compared as they are.

    Parameters
    ----------
    pairs : list of (Sample, Sample)
    margin, level : float

    References
    ----------
    .. [1] H. B. Mann, D. R. Whitney: On a test of whether one of two random variables is stochastically
       larger than the other. Annals of Mathematical Statistics 18(1), 1947. doi:10.1214/aoms/1177730491
    .. [2] S. Holm: A simple sequentially rejective multiple test procedure. Scandinavian Journal of
       Statistics 6(2), 1979.
    """
    tested = [k for k, (left, right) in enumerate(pairs) if not (left.is_exact and right.is_exact)]
    some = [pairs[k] for k in tested]
    greater, less = (_holm(_p_values(some, margin, side)) for side in ("greater", "less"))
    corrected = {k: (g, s) for k, g, s in zip(tested, greater, less, strict=True)}
    return [_compared(left, right, margin, level, corrected.get(k)) for k, (left, right) in enumerate(pairs)]


def _p_values(pairs: Sequence[tuple[Sample, Sample]], margin: float, side: str) -> list[float]:
    """Return the p-value of each pair; those of the same sizes are computed together."""
    from scipy.stats import mannwhitneyu

    groups: dict[tuple[int, int], list[int]] = {}
    for k, (left, right) in enumerate(pairs):
        groups.setdefault((left.values.size, right.values.size), []).append(k)
    found = np.ones(len(pairs))
    for members in groups.values():
        lefts = np.stack([pairs[k][0].values for k in members])
        rights = (1 + margin) * np.stack([pairs[k][1].values for k in members])
        found[members] = mannwhitneyu(lefts, rights, alternative=side, axis=1).pvalue
    return [float(v) for v in found]


def _holm(values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number."""
    order = np.argsort(values)
    corrected, most = np.ones(len(values)), 0.0
    for rank, index in enumerate(order):
        most = max(most, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = most
    return [float(v) for v in corrected]


def _compared(
    left: Sample, right: Sample, margin: float, level: float, p: tuple[float, float] | None
) -> Comparison:
    a, b = float(np.median(left.values)), float(np.median(right.values))
    if p is None:
        return Comparison(a, b, "violated" if a > (1 + margin) * b else "held")
    word = "violated" if p[0] <= level else "held" if p[1] <= level else "undecided"
    why = ""
    if word == "undecided":
        fewest = min(left.values.size, right.values.size)
        why = f"{fewest} repetitions do not decide it after the correction for the number of tests"
    elif len(left.launches) > 1 and not _agree(left, right, margin, word):
        word, why = "undecided", "the launches disagree"
    return Comparison(a, b, word, *p, why)


def _agree(left: Sample, right: Sample, margin: float, word: str) -> bool:
    """Whether every launch shows the same."""
    longer = [
        bool(np.median(a) > (1 + margin) * np.median(b))
        for a, b in zip(left.launches, right.launches, strict=False)
        if a.size and b.size
    ]
    return all(longer) if word == "violated" else not any(longer)
