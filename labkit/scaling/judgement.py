"""Verdicts: measurements judged against an expectation, never against their own test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.checks import echo
from labkit.errors import DataError
from labkit.html import number
from labkit.scaling.changes import Segment
from labkit.scaling.deviation import Deviation, deviation_for, outcome
from labkit.scaling.drift import Drift, drift_of
from labkit.scaling.expectation import Expectation, Given, read_expectation
from labkit.scaling.fits import Fitting, Space, fit, fit_many, fit_samples, settle
from labkit.scaling.model import Model
from labkit.scaling.rivals import RIVAL
from labkit.scaling.samples import LEAST_VALUES, Samples, read_samples
from labkit.scaling.selection import Rejection, lack_of_fit
from labkit.scaling.shape import describe, scatters
from labkit.scaling.sums import Pair
from labkit.scaling.term import Term
from labkit.scaling.verdict import Verdict
from labkit.scaling.words import leads

__all__ = ["Space", "fit", "fit_many", "fit_samples", "judge", "judge_samples"]

#: weight of an alarm from which on a verdict that gives none is open, and one below which an alarm is
_ALARM_OPEN, _ALARM_SURE = 0.25, 0.95
#: data that rise or fall by more are not called constant
_NOT_CONSTANT = 0.2
#: p-value above which a sum is as good as the best, and leading terms in a list
_OPEN, _LISTED = 0.05, 3


def judge(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    expectation: str | Expectation,
    *,
    deviation: str | Term | None = None,
    space: Space = None,
    parameter: str | None = None,
    given: Given | None = None,
    aggregate: str = "auto",
    is_valid: bool = True,
    tolerance: float = 0.02,
    level: float = 0.05,
    metric: str = "",
    unit: str = "",
    phase: str = "",
) -> Verdict:
    """Judge measurements against an expectation in big-O notation.

    The best model G of the space is compared with the expectation E by exact exponents, never at a
    finite x: exact when they are equal, approximate when E/D <= G <= E*D, bound when it is slower, none when
    it is faster.  Where no law, or several sums that differ in the end, describe the data, the drift of y/E
    over the range decides: whether it keeps to D or leaves it.  The verdict is undecided when

    * the data are marked as not valid for a verdict (times of an oversubscribed machine);
    * fewer than five values of the parameter were measured;
    * the models that the data do not reject disagree about the alarm, and the range does not tell;
    * every law that describes the data leaves the limit, but only beyond the measurements.

    Parameters
    ----------
    x, y : array_like
        As in `fit`, of the shapes that it takes.
    expectation : str
        Such as ``"p log2(p)"``; of a sum the leading term counts.
    deviation : str or Term, optional
        The limit D; sqrt x by default, "strict" for E's leading exponent halved.
    space, parameter, given, aggregate : optional
        As in `fit`; the space is by default the expectation's ruler joined with "wide".
    is_valid : bool
        Whether the measurements may be used for a verdict.
    tolerance : float
        Deterministic data have no scatter to test against: a term is kept when its curve meets
        every point within this relative error.
    level : float
        The level of the lack-of-fit test where there are repetitions.
    metric, unit, phase : str
        What was measured, for print.

    Returns
    -------
    Verdict

    Raises
    ------
    DataError, ExpectationError
        For input that cannot be used.

    References
    ----------
    S. Shudler et al., "Engineering Algorithms for Scalability through Continuous Validation of
    Performance Expectations", IEEE TPDS 30(8), 2019, doi:10.1109/TPDS.2019.2896993.
    """
    return judge_samples(
        read_samples(x, y),
        read_expectation(expectation, parameter, given),
        deviation=deviation,
        space=space,
        aggregate=aggregate,
        is_valid=is_valid,
        tolerance=tolerance,
        level=level,
        names=(metric, unit, phase),
    )


def judge_samples(
    samples: Samples,
    e: Expectation,
    *,
    deviation: str | Term | None = None,
    space: Space = None,
    aggregate: str = "auto",
    is_valid: bool = True,
    tolerance: float = 0.02,
    level: float = 0.05,
    names: tuple[str, str, str] = ("", "", ""),
) -> Verdict:
    """Judge grouped measurements against a bound expectation; see `judge`."""
    for name, value in (("tolerance", tolerance), ("level", level)):
        if not (isinstance(value, (int, float, np.number)) and 0 <= value < 1):
            raise DataError(f"{name} is a share from 0 to below 1, such as 0.02; got {echo(value)}")
    limit = deviation_for(e.term, deviation)
    about: dict[str, Any] = dict(zip(("metric", "unit", "phase"), names, strict=True))
    x, summary = samples.x, samples.summary(aggregate)
    about |= {"aggregate": summary.aggregate, "samples": samples}
    e = settle(e, x, summary.points[None])
    if x.size < LEAST_VALUES:
        return Verdict(
            "undecided", e, None, None, limit, reasons=(samples.too_few(),), notes=e.notes, **about
        )
    found = _Findings(
        Fitting(samples, space, e, e.parameter, aggregate, about["unit"]), e, limit, tolerance, level
    )
    reasons = list(found.doubts)
    if not is_valid:
        reasons.insert(0, "these measurements are marked as not valid for a verdict (see the runs' notes)")
    return Verdict(
        match="undecided" if reasons else found.match,
        expectation=e,
        model=found.model,
        divergence=None if found.seen else found.model.term.over(e.term).named(e.parameter),
        deviation=limit,
        plausible=found.plausible,
        reference=found.reference,
        reasons=tuple(reasons),
        notes=(*e.notes, *found.notes),
        test=found.kept.test,
        seen=found.seen,
        drift=found.drift,
        **about,
    )


class _Findings:
    """What one data set says of an expectation."""

    def __init__(
        self, fitting: Fitting, e: Expectation, limit: Deviation, tolerance: float, level: float
    ) -> None:
        self.fitting, self.e, self.limit, self.tolerance = fitting, e, limit, tolerance
        self.kept: Rejection = fitting.kept(tolerance, level)
        self.doubts: list[str] = []
        self.notes: list[str] = []
        self.seen = ""
        self.drift: Drift | None = None
        law = fitting.law(tolerance)
        self.model = law or fitting.model(self._best())
        self.plausible: tuple[Model, ...] = (law,) if law else self._plausible()
        self.match = outcome(self.model.term, e.term, limit.term)
        if law is not None:
            self._ask_sums()
        elif self.plausible:
            self._ask_terms()
        else:
            self._without_law()

    @property
    def points(self) -> npt.NDArray[np.float64]:
        return self.fitting.summary.points

    def kind(self, term: Term) -> str:
        return outcome(term, self.e.term, self.limit.term)

    def _ranks(self) -> npt.NDArray[np.float64]:
        """Return a number for each term, the smaller the better."""
        weights = self.fitting.weights
        return self.fitting.fits.press[0] if weights is None else -weights

    def _best(self) -> int:
        best = self.fitting.best
        if self.kept.kept[best] or not self.kept.kept.any():
            return best
        return int(np.argmin(np.where(self.kept.kept, self._ranks(), np.inf)))

    def _plausible(self) -> tuple[Model, ...]:
        usable = self.kept.kept & np.isfinite(self.fitting.fits.press[0])
        order = [int(k) for k in np.argsort(self._ranks(), kind="stable") if usable[k]]
        best = self._best()
        order.sort(key=lambda k: k != best)
        return tuple(self.fitting.model(k) for k in order)

    @property
    def reference(self) -> Model | None:
        """The expectation's own fit, where it has one."""
        k, fits = self.fitting.search.expected, self.fitting.fits
        return self.fitting.model(k) if k is not None and np.isfinite(fits.press[0, k]) else None

    def _ask_terms(self) -> None:
        """Compare what the kept terms say of the alarm."""
        kept, search = self.kept.kept, self.fitting.search
        kinds = np.array([self.kind(t) for t in search.terms])
        weights = self.fitting.weights
        if weights is None:
            errors = np.sqrt(self.fitting.fits.press[0])
            rival = kept & (errors <= RIVAL * max(float(errors[kept].min()), 1e-9))
            weights = rival.astype(float)
            is_split = bool((kinds[rival] == "none").any() and (kinds[rival] != "none").any())
            share = 0.5 if is_split else float(self.match == "none")
        else:
            share = float(weights[kept & (kinds == "none")].sum() / weights[kept].sum())
        expected = search.expected is not None and bool(kept[search.expected])
        limit = self.limit
        if self.match == "none" and (expected or share < _ALARM_SURE):
            others = "the expectation" if expected else "some terms within it"
            why = f"the data do not reject {others}"
            self.doubts.append(f"the model lies beyond the limit {limit}, yet {why}; measure a wider range")
        elif self.match != "none" and share > _ALARM_OPEN:
            faster = [t for t, k, one in zip(search.terms, kept, kinds, strict=True) if k and one == "none"]
            nearest = max(faster, key=self._weight)
            self.doubts.append(
                f"the data do not reject faster growth either, such as {nearest}; measure a wider range or "
                "more repetitions"
            )
        elif self.match == "bound" and expected:
            self.notes.append(
                f"whether the bound is tight is open: the data do not reject {self.e.term} itself"
            )
        y = self.points
        change = float(y[-1] / y[0])
        if self.model.term.is_constant and not 1 / (1 + _NOT_CONSTANT) <= change <= 1 + _NOT_CONSTANT:
            verb = "rise" if change > 1 else "fall"
            self.doubts.append(
                f"the data {verb} by {abs(change - 1):.0%}, as noise alone could; measure more repetitions"
            )

    def _weight(self, term: Term) -> float:
        return -float(self._ranks()[self.fitting.search.terms.index(term)])

    def _ask_sums(self) -> None:
        """Compare what the sums that fit as well say of the alarm; where they differ, the range decides."""
        if self.model.error <= 1e-9:
            return
        f = self.fitting
        rivals = self._rivals()
        terms = [f.search.terms[q.lead] for q in rivals]
        others = [t for t in terms if (self.kind(t) == "none") != (self.match == "none")]
        takeover, last = self.model.takeover, float(f.x[-1])
        if others:
            leading = tuple(dict.fromkeys([self.model.term, *terms]))
            doubt = (
                f"no single term describes the data, and sums led by {self.model.term} or by {others[0]} "
                "both do; measure a wider range"
            )
        elif self.match == "none" and takeover is not None and takeover.at > last:
            leading = (self.model.term,)
            doubt = (
                f"the summand that is faster than promised leads only beyond the measurements, which end at "
                f"{self.e.parameter} = {number(last)}; measure farther"
            )
        else:
            return
        self._ask_range(rivals, leading, doubt)

    def _rivals(self) -> list[Pair]:
        """Return the sums that describe the data about as well as the best does."""
        f = self.fitting
        if f.weights is None:
            return [q for q in f.pairs if q.sse <= RIVAL**2 * self.model.sse]
        sse, free = np.array([q.sse for q in f.pairs]), np.array([q.free for q in f.pairs])
        return [q for q, p in zip(f.pairs, lack_of_fit(f.summary, sse, free), strict=True) if p > _OPEN]

    def _ask_range(self, rivals: list[Pair], leading: tuple[Term, ...], doubt: str) -> None:
        """Judge by the range where sums that differ in the end describe it equally well."""
        f, drift = self.fitting, self._drift()
        kind = drift.kind if drift is not None else "open"
        admitted = self._admitted(rivals)
        near = [q for q in admitted if self._kind_of(q) in ("exact", "approximate")]
        if kind == "open" or (kind != "none" and all(self._kind_of(q) == "none" for q in admitted)):
            self.doubts.append(doubt)
            return
        listed = ", ".join(map(str, leading[:_LISTED]))
        self.drift = drift
        if kind == "within" and near:
            self.match, models = "approximate", [f.sum_of(q) for q in near]
            self.plausible, self.model = tuple(_one_each(models)), models[0]
            self.notes.append(
                f"sums led by {listed} describe the data equally well: which of them leads beyond the "
                "measurements is open"
            )
            return
        self.match, self.plausible, self.seen = "none" if kind == "none" else "bound", (), self._seen(())
        self.notes.append(f"sums led by {listed} describe the data equally well; none of them is the law")
        self._forget_if_slower()

    def _forget_if_slower(self) -> None:
        """Say only that no step is faster than the expectation, where none is."""
        if self.drift is not None and self.drift.never_faster:
            self.drift = None

    def _admitted(self, rivals: list[Pair]) -> list[Pair]:
        """Return the sums that the data do not reject, those led by the expectation first."""
        f, found = self.fitting, self.fitting.nearest_sum()
        near = rivals if f.weights is not None else [q for q in f.pairs if q.worst <= self.tolerance]
        if found is not None and found.l is None:
            near = [found, *near]
        return sorted(near, key=lambda q: q.lead != f.search.expected)

    def _kind_of(self, pair: Pair) -> str:
        return self.kind(self.fitting.search.terms[pair.lead])

    @property
    def _noise(self) -> float:
        """The relative standard deviation of a point; 0 where it is not known."""
        summary = self.fitting.summary
        return summary.deviation / float(np.sqrt(summary.counts.mean())) if summary.is_noisy else 0.0

    def _seen(self, segments: tuple[Segment, ...]) -> str:
        step = max(self.tolerance, 3 * float(np.sqrt(2)) * self._noise)  # a step is between two points
        return describe(self.fitting.x, self.points, segments, self.e.parameter, step)

    def _drift(self, start: int = 0) -> Drift | None:
        x, y = self.fitting.x, self.points
        step = max(self.tolerance, 3 * float(np.sqrt(2)) * self._noise)  # a step is between two points
        return drift_of(x, y, self.e(x), self.limit.term, step, self._noise, start)

    def _without_law(self) -> None:
        """Say what is seen where every term is rejected, and whether the bound holds all the same."""
        f, y = self.fitting, self.points
        segments = f.segments(self.tolerance)
        self.seen, self.model = self._seen(segments), replace(self.model, is_nearest=True)
        last = segments[-1] if len(segments) > 1 else None
        drift = self._drift(last.first if last else 0)
        kind = drift.kind if drift is not None else "open"
        if last is not None and self.kind(last.term) == "none":
            kind = "none"
        self.drift, self.match = drift, "none" if kind == "none" else "bound"
        self._forget_if_slower()
        rises = y[-1] > (1 + max(_NOT_CONSTANT, 3 * self._noise)) * y[0]
        if self.kept.is_statistical and not self.kept.is_hopeless and last is None:
            self.doubts.append(
                f"the test rejects every single term, though not by much: it {self.seen}; measure more "
                "repetitions"
            )
        elif self.e.term.is_constant and rises and not self._is_scattered(segments):
            self.match, self.drift = "none", None
        elif kind == "open":
            self.doubts.append(self._why_open(segments))
        led = [p for p in f.pairs if p.l == f.search.expected and p.worst <= self.tolerance]
        if led:  # with few points many sums fit: no verdict, yet worth knowing
            model = f.sum_of(led[0])
            self.notes.append(
                f"{model.term} may be hidden by a slower term: {model.in_unit(f.unit)} meets every point "
                f"within {model.error:.2%}{leads(model)}; measure at more values to tell"
            )
        self.notes.append(
            f"the data reject every single term; the nearest, {self.model.term}, misses a point by "
            f"{self.model.error:.1%}"
        )

    def _is_scattered(self, segments: tuple[Segment, ...]) -> bool:
        single = self.fitting.summary.freedom == 0 and len(segments) < 2
        return single and scatters(self.points, self.tolerance)

    def _why_open(self, segments: tuple[Segment, ...]) -> str:
        if self._is_scattered(segments):
            return (
                f"no single term describes the data: it {self.seen}, and the nearest misses a point by "
                f"{self.model.error:.0%}; measure repetitions to tell noise from a law"
            )
        return (
            f"no single term describes the data: it {self.seen}, and whether that keeps to the limit "
            f"{self.limit} in the end is open; measure farther"
        )


def _one_each(models: list[Model]) -> list[Model]:
    """Return the first model of each leading term."""
    return list({m.term: m for m in reversed(models)}.values())[::-1]
