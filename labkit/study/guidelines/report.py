"""The report on guidelines: which holds, which is violated where and by how much, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from labkit.study.guidelines.statement import Statement
from labkit.study.reporting.rules import listed
from labkit.text import html as markup
from labkit.text.units import format_bytes

__all__ = [
    "GuidelineComparison",
    "GuidelineOutcome",
    "GuidelineReport",
    "Setting",
    "SideTimes",
    "compare_all",
]

_MARKS = {"held": "✓", "violated": "✗", "undecided": "?"}


@dataclass(frozen=True)
class Setting:
    """Where a guideline was looked at: ranks, message size (None where it has none), and other parameters."""

    ranks: int | None = None
    n: float | None = None
    others: str = ""

    def __str__(self) -> str:
        parts = [f"{self.ranks} ranks"] if self.ranks is not None else []
        parts += [format_bytes(self.n)] if self.n is not None else []
        return ", ".join([*parts, *([self.others] if self.others else [])]) or "the only place"


# Evidence for and against guidelines: repeated times compared by rank tests, corrected for their number.

Floats = npt.NDArray[np.float64]

#: of each family of tests the chance of a single false verdict
LEVEL = 0.05

#: a side that takes longer by less is not said to violate
MARGIN = 0.05


@dataclass(frozen=True)
class SideTimes:
    """The repetitions of one side at one place.

    `launches`: The times, by launch; one array where there was one launch, or none is known.
    `is_exact`: Whether a value says it all: simulated and deterministic.
    """

    launches: tuple[Floats, ...]
    is_exact: bool = False

    @property
    def values(self) -> Floats:
        """All times."""
        return np.concatenate(self.launches)

    @classmethod
    def of(cls, values: Sequence[float] | Floats, is_exact: bool = False) -> SideTimes:
        """Return the sample of one launch."""
        return cls((np.asarray(values, np.float64),), is_exact)

    @classmethod
    def sum(cls, parts: Sequence[tuple[float, SideTimes]], seed: int = 0) -> SideTimes:
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
class GuidelineComparison:
    """What is found at one place.

    `left_s`, `right_s`: The medians of both sides.
    `word` ({"held", "violated", "undecided"})
    `p_violated`, `p_held`: Of the rank tests, after the correction; None where values are exact.
    `why`: What is open.
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
    pairs: Sequence[tuple[SideTimes, SideTimes]], margin: float = MARGIN, level: float = LEVEL
) -> list[GuidelineComparison]:
    """Compare pairs of sides, whether the left one is longer than the right one by more than a margin.

    Each pair is tested twice by the rank test of Mann and Whitney, against the right side times
    ``1 + margin``: whether the left one is longer (then the guideline is violated) and whether it is shorter
    (then it holds). Both families of p-values are corrected by Holm's method for all pairs, so that the
    chance of a single false "violated" among all of them, and that of a single false "held", are at most
    `level` each. Where several launches disagree about the side, or neither test rejects, it stays
    undecided. Exact values are compared directly.

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


def _p_values(pairs: Sequence[tuple[SideTimes, SideTimes]], margin: float, side: str) -> list[float]:
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
    left: SideTimes, right: SideTimes, margin: float, level: float, p: tuple[float, float] | None
) -> GuidelineComparison:
    a, b = float(np.median(left.values)), float(np.median(right.values))
    if p is None:
        return GuidelineComparison(a, b, "violated" if a > (1 + margin) * b else "held")
    word = "violated" if p[0] <= level else "held" if p[1] <= level else "undecided"
    why = ""
    if word == "undecided":
        fewest = min(left.values.size, right.values.size)
        why = f"{fewest} repetitions do not decide it after the correction for the number of tests"
    elif len(left.launches) > 1 and not _agree(left, right, margin, word):
        word, why = "undecided", "the launches disagree"
    return GuidelineComparison(a, b, word, *p, why)


def _agree(left: SideTimes, right: SideTimes, margin: float, word: str) -> bool:
    """Whether every launch shows the same."""
    longer = [
        bool(np.median(a) > (1 + margin) * np.median(b))
        for a, b in zip(left.launches, right.launches, strict=False)
        if a.size and b.size
    ]
    return all(longer) if word == "violated" else not any(longer)


@dataclass(frozen=True)
class GuidelineOutcome:
    """What became of one guideline.

    `predicted`: What models say of larger places; empty where none were asked.
    `is_predicted_violated`: Whether the models predict a violation at larger places.
    `missing`: What was not measured, as text.
    `algorithms`: What carried out the left side, by place, on a simulated machine.
    """

    statement: Statement
    places: list[tuple[Setting, GuidelineComparison]] = field(default_factory=list)
    predicted: str = ""
    is_predicted_violated: bool = False
    missing: list[str] = field(default_factory=list)
    algorithms: dict[Setting, str] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """Violated where a place is, held where all are, else undecided."""
        words = {one.word for _, one in self.places}
        if "violated" in words:
            return "violated"
        return "held" if words == {"held"} else "undecided"

    def of(self, word: str) -> list[tuple[Setting, GuidelineComparison]]:
        """Return the places with a verdict."""
        return [(place, one) for place, one in self.places if one.word == word]

    @property
    def worst(self) -> tuple[Setting, GuidelineComparison] | None:
        """The place with the largest factor, among the violated ones if there are."""
        some = self.of("violated") or self.places
        return max(some, key=lambda one: one[1].factor, default=None)

    def sentence(self) -> str:
        """Return it as a sentence."""
        if not self.places:
            return f"undecided: {listed(self.missing, 3) or 'nothing was measured'}"
        place, worst = self.worst  # type: ignore[misc]
        some, count = self.of(self.word), len(self.places)
        text = f"{self.word} at {len(some)} of {count} place{'s' if count > 1 else ''}"
        if self.word == "violated":
            where = listed([str(p) for p, _ in some], 4)
            at = f", at {place}" if len(some) > 1 else ""
            text += f" ({where}): the left side takes up to {worst.factor:.3g} times as long{at}"
        elif self.word == "held":
            text += f": the left side takes at most {worst.factor:.3g} times as long"
        else:
            text += f" (such as {some[0][0]}): {some[0][1].why}"
        return text + (f"; {self.predicted}" if self.predicted else "")

    def todo(self) -> str:
        """Return what to do, as text."""
        if self.word == "undecided":
            return "measure more repetitions, or fewer guidelines at a time" if self.places else ""
        if self.word == "held":
            return ""
        place, worst = self.worst  # type: ignore[misc]
        left, right = self.statement.left, self.statement.right
        gain = f"{worst.factor:.3g} times faster at {place}"
        with_ = f"; {left.name} took {self.algorithms[place]}" if place in self.algorithms else ""
        if self.statement.kind == "monotony" and right[0].ranks == left.ranks:
            return f"pad the message, or fix the switch point of the algorithms: {gain}{with_}"
        if self.statement.kind == "monotony":
            return (
                f"more ranks do it in less time: another algorithm at this number of ranks is {gain}{with_}"
            )
        if self.statement.kind == "split":
            return f"send it in {right[0].factor:g} pieces, or take a pipelined algorithm: {gain}{with_}"
        calls = " then ".join(str(call) for call in right)
        return f"call {calls} instead, or tune {left.name}: {gain}{with_}"


class GuidelineReport:
    """Guidelines and what became of them; goes through its `GuidelineOutcome` objects.

    `about`: Where and how was measured.
    `notes`: Caveats.
    """

    def __init__(
        self, outcomes: Sequence[GuidelineOutcome], about: str = "", notes: Sequence[str] = ()
    ) -> None:
        self.outcomes, self.about, self.notes = list(outcomes), about, list(notes)

    def __iter__(self) -> Iterator[GuidelineOutcome]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __bool__(self) -> bool:
        """Whether no guideline is violated and none is predicted to be."""
        return not any(one.word == "violated" or one.is_predicted_violated for one in self.outcomes)

    def of(self, word: str) -> list[GuidelineOutcome]:
        """Return the outcomes with a verdict: held, violated, undecided."""
        return [one for one in self.outcomes if one.word == word]

    @property
    def word(self) -> str:
        """The overall verdict: violated where one is, held where all are, else undecided."""
        words = {one.word for one in self.outcomes}
        if "violated" in words:
            return "violated"
        return "held" if words == {"held"} else "undecided"

    @property
    def frame(self) -> pd.DataFrame:
        """A row per guideline and place: both sides' medians, their factor, the verdict and the p-values."""
        rows = [
            {
                "guideline": str(one.statement),
                "kind": one.statement.kind,
                "ranks": place.ranks,
                "n": place.n,
                "others": place.others,
                "left_s": found.left_s,
                "right_s": found.right_s,
                "factor": found.factor,
                "word": found.word,
                "p_violated": found.p_violated,
                "p_held": found.p_held,
            }
            for one in self.outcomes
            for place, found in one.places
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "word": self.word,
            "about": self.about,
            "notes": self.notes,
            "guidelines": [
                {
                    "guideline": str(one.statement),
                    "kind": one.statement.kind,
                    "source": one.statement.source,
                    "word": one.word,
                    "sentence": one.sentence(),
                    "todo": one.todo(),
                    "is_predicted_violated": one.is_predicted_violated,
                    "missing": one.missing,
                    "places": [
                        {"ranks": p.ranks, "n": p.n, "others": p.others, **vars(c), "factor": c.factor}
                        for p, c in one.places
                    ],
                }
                for one in self.outcomes
            ],
        }

    def headline(self) -> str:
        """Count them in a line."""
        held, violated, undecided = (len(self.of(word)) for word in _MARKS)
        some = f"{len(self)} guideline{'s' if len(self) != 1 else ''}"
        text = f"{some}: {held} held, {violated} violated, {undecided} undecided"
        predicted = sum(one.is_predicted_violated for one in self.outcomes)
        text += f"; {predicted} predicted to be violated" if predicted else ""
        return f"{text}{f' ({self.about})' if self.about else ''}."

    def __str__(self) -> str:
        lines = [self.headline(), *(f"note: {note}" for note in self.notes)]
        order = sorted(self.outcomes, key=lambda one: ("violated", "undecided", "held").index(one.word))
        for one in order:
            lines.append(f"{_MARKS[one.word]} {one.statement}")
            lines.append(f"    {one.sentence()}")
            if one.todo():
                lines.append(f"    -> {one.todo()}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{_MARKS[one.word]}&nbsp;{one.word}",
                f"<code>{escape(str(one.statement))}</code>",
                escape(one.sentence()) + (f"<br><em>{escape(one.todo())}</em>" if one.todo() else ""),
            )
            for one in self.outcomes
        ]
        return markup.titled_block(escape(self.headline()), markup.table(("", "guideline", "found"), rows))
