"""Verdicts: the growth of measurements compared with an expectation, or with that of other operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from labkit.checks import echo
from labkit.errors import DataError
from labkit.scaling.changes import fit_bend
from labkit.scaling.description import PLAUSIBLE, TOLERANCE, Description, check_tolerance
from labkit.scaling.expectation import Expectation, Given, read_expectation
from labkit.scaling.family import ROUNDING, Candidate
from labkit.scaling.leastsquares import basis_values
from labkit.scaling.model import Model
from labkit.scaling.samples import LEAST_VALUES, Samples, Summary, read_samples
from labkit.scaling.search import Space, settle
from labkit.scaling.term import CONSTANT, Term
from labkit.scaling.verdict import Deviation, Verdict, deviation_for, growth, instead, outcome
from labkit.text.html import number, quantity

__all__ = ["Guideline", "check_guideline", "describe_data", "judge", "judge_samples"]

#: weight of growth beyond the limit from which on there is an alarm, and up to which the expectation holds
_ALARM, _HOLDS = 0.85, 0.3
#: mean distance of the candidates' matches from an exact one (0; approximate 1, bound 2) where a match
#: changes
_EXACT, _BOUND = 0.5, 1.5
#: noisy data that rise or fall by more are not called exactly constant
_NOT_CONSTANT = 0.2
#: what falls to a level whose share of the last value is larger is not said to fall exactly as expected
_HALF = 0.5
#: the numbers that a curve with a bend has, the values it needs, and the share of the limits by which it
#: misses points where another model describes them
_NUMBERS_OF_BEND, _LEAST_FOR_BEND, _CLEARLY = 4, 7, 0.2
_STEPS = {"exact": 0, "approximate": 1, "bound": 2, "none": 2}


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
    tolerance: float = TOLERANCE,
    level: float = 0.05,
    metric: str = "",
    unit: str = "",
    phase: str = "",
) -> Verdict:
    """Judge measurements against an expectation in big-O notation.

    The data are described first, whatever is expected (see `labkit.fit`).  The growth G of that model is
    compared with the expectation E by exact exponents, never at a finite x: exact when they are equal,
    approximate
    when E/D <= G <= E*D, bound when it is slower, none when it is faster.  Where other models describe the
    data
    about as well and disagree, the match is one step more careful: an exact match becomes approximate, an
    alarm
    undecided. The verdict is undecided, too, when the measurements are not valid for one, and for fewer than
    five
    values.

    Parameters
    ----------
    x, y : array_like
        As in `fit`, of the shapes that it takes.
    expectation : str
        Such as ``"p log2(p)"``; of a sum the leading term counts.
    deviation : str or Term, optional
        The limit D; sqrt x by default, "strict" for E's leading exponent halved.
    space, parameter, given, aggregate : optional
        As in `fit`.
    is_valid : bool
        Whether the measurements may be used for a verdict.
    tolerance : float
        How far a model may miss a point that it describes, relative to it; repetitions that scatter more
        allow more. 0 for counts, which are exact.
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
    tolerance: float = TOLERANCE,
    level: float = 0.05,
    names: tuple[str, str, str] = ("", "", ""),
) -> Verdict:
    """Judge grouped measurements against a bound expectation; see `judge`."""
    tolerance = check_tolerance(tolerance)
    if not (isinstance(level, (int, float, np.number)) and 0 <= level < 1):
        raise DataError(
            f"level is a share from 0 to below 1, such as 0.05; got {echo(level)}", code="out-of-range"
        )
    limit = deviation_for(e.term, deviation)
    about: dict[str, Any] = dict(zip(("metric", "unit", "phase"), names, strict=True))
    x, summary = samples.x, samples.summary(aggregate)
    about |= {"aggregate": summary.aggregate, "samples": samples, "tolerance": tolerance}
    e = settle(e, x, summary.points[None])
    if x.size < LEAST_VALUES:
        return Verdict(
            "undecided", e, None, None, limit, reasons=(samples.too_few(),), notes=e.notes, **about
        )
    found = Description(samples, space, e.parameter, aggregate, about["unit"], tolerance, level, e)
    judged = _Judged(found, e, limit)
    reasons = list(judged.doubts)
    if not is_valid:
        reasons.insert(0, "these measurements are marked as not valid for a verdict (see the runs' notes)")
    return Verdict(
        match="undecided" if reasons else judged.match,
        expectation=e,
        model=found.model,
        divergence=found.model.term.over(e.term).named(e.parameter),
        deviation=limit,
        plausible=tuple(found.model_of(c) for c in judged.plausible),
        reference=judged.reference,
        reasons=tuple(reasons),
        notes=(*e.notes, *judged.notes),
        test=found.test,
        seen=judged.seen,
        compared=judged.compared,
        exception=judged.exception,
        hidden=judged.hidden,
        **about,
    )


class _Judged:
    """What a description says of an expectation."""

    def __init__(self, found: Description, e: Expectation, limit: Deviation) -> None:
        self.found, self.e, self.limit = found, e, limit
        self._kinds: dict[int, str] = {}
        self.doubts: list[str] = []
        self.notes: list[str] = []
        self.compared, self.exception = "", ""
        self.seen = "" if found.is_described and not found.model.before else self._seen()
        self.match = self._kind(found.model.term)
        self.plausible = found.plausible if found.is_described and not found.model.before else ()
        self.hidden: float | None = None
        if found.model.before is not None:
            self._of_pieces()
        elif found.exception is not None:
            self._of_the_others()
        elif not found.is_described and (
            scatters(found.summary, found.family.tolerance) or self._leads_astray()
        ):
            self._of_trend()
        else:
            self._of_weights()
        if not found.is_described:
            self.match = "approximate" if self.match == "exact" else self.match
        elif found.model.term.is_falling and found.model.level >= _HALF:
            is_between = self.match == "bound" and self._kind(CONSTANT) != "bound"
            self.match = "approximate" if self.match == "exact" or is_between else self.match
        grows = e.term > max(found.model.term, CONSTANT)
        if self.match == "none" and not self.doubts and (since := self._bends_at()):
            p, last = e.parameter, number(found.x[-1])
            self.doubts.append(
                f"two pieces of {e.term.pretty(p)}, the second from about {p} = {number(since, 3)} on, "
                f"describe the data {'better' if found.is_described else 'within the tolerance'}; "
                f"measure beyond {p} = {last}"
            )
        if self.match == "bound" and found.is_described and not self.doubts and grows:
            self.hidden = found.hidden_share(e)

    def _kind(self, term: Term) -> str:
        """Return the match of a term; candidates share the terms of the space, which outlive this object."""
        if id(term) not in self._kinds:
            self._kinds[id(term)] = outcome(term, self.e.term, self.limit.term)
        return self._kinds[id(term)]

    @property
    def reference(self) -> Model | None:
        """The expectation's own form c + a E, where it can be fitted."""
        own = self.found.layout.expected
        chosen = next(
            (c for c in self.found.family.candidates if own is not None and c.terms == (own,)), None
        )
        if self.e.term.is_constant and chosen is None:
            chosen = next((c for c in self.found.family.candidates if not c.terms), None)
        return self.found.model_of(chosen) if chosen else self.found.own_form(self.e)

    def _of_weights(self) -> None:
        """Compare the model's match with those of all models that describe the data about as well."""
        shares = dict.fromkeys(_STEPS, 0.0)
        for c, share in self.found.weighted:
            shares[self._kind(c.lead)] += share
        faster, distance = shares["none"], sum(_STEPS[k] * w for k, w in shares.items())
        expected = any(c.lead == self.e.term for c in self.plausible) or self._is_as_likely()
        if self.match == "none" and (faster < _ALARM or expected):
            goes = "a fall" if self.e.term.is_falling else "growth"
            within = "the expectation" if expected else f"{goes} within the limit {self.limit}"
            self.doubts.append(f"{within} describes the data as well; measure a wider range")
        elif self.match == "none" and (allowed := self._allowed_at_end):
            (p, x), y = (self.e.parameter, self.found.x), self.found.summary.points
            self.seen = self._seen()
            self.doubts.append(
                f"from {p} = {number(x[-2])} to {number(x[-1])} it changes by a factor of "
                f"{y[-1] / y[-2]:.3g}, and the limit allows {allowed:.3g}; measure more values"
            )
        elif self.match == "none" and self._rests_on_last():
            p, last = self.e.parameter, number(self.found.x[-1])
            self.doubts.append(
                f"the expectation describes the values before {p} = {last} as well; measure beyond it"
            )
        elif self.match != "none" and faster > _HOLDS:
            other = self._likeliest("none")
            self.doubts.append(f"faster growth, {other}, describes the data as well; measure a wider range")
        elif self.match == "exact" and self._may_rise():
            self.match = "approximate"
        elif self.match == "exact" and distance >= _EXACT and self.found.model.error > 100 * ROUNDING:
            other = self._likeliest("none", "bound", "approximate")
            self.match = "approximate"
            self.notes.append(f"{other} describes the data about as well")
        elif self.match == "bound" and distance < _BOUND:
            self.match = "approximate"
            self.notes.append(f"{self._likeliest('exact', 'approximate')} describes the data about as well")

    def _bends_at(self) -> float:
        """Return where c + a E turns into a steeper c' + a' E, where that is the better curve; else 0.

        As where messages leave a cache or a protocol: the growth is E on either side of the bend.
        """
        x, y, model = self.found.x, self.found.summary.points, self.found.model
        values = basis_values([self.e], x)[0][0]
        if x.size < _LEAST_FOR_BEND or self.e.term <= CONSTANT:
            return 0.0
        if not (np.isfinite(values).all() and (np.diff(values) > 0).all()):
            return 0.0
        counts = self.found.summary.counts
        near = self.found.family.limits * (_CLEARLY if self.found.is_described else 1.0)
        found = fit_bend(values, y, counts, near)
        if found is None:
            return 0.0
        bend, best = found
        since = float(np.interp(bend, values, x))
        if not self.found.is_described:
            return since
        n, own = x.size, counts @ (model.predict(x) / y - 1) ** 2
        floor = n * (100 * ROUNDING) ** 2
        gain = n * np.log((own + floor) / (best + floor))
        return since if gain > (_NUMBERS_OF_BEND - model.free - 1) * np.log(n) else 0.0

    def _is_as_likely(self) -> bool:
        """Whether the expectation is not rejected where it counts beforehand as the plainest term does."""
        layout, shares = self.found.layout, self.found.weighted
        best = next(share for c, share in shares if c.lead == self.found.best.lead)
        for c, share in shares:
            if c.lead == self.e.term and c.miss <= 1:
                place = c.terms[-1] if c.terms else layout.constant
                prior = float(layout.prior[place] / layout.prior.max())
                share /= prior if self.found.summary.is_noisy else float(np.exp(layout.log_priors[place]))
                return share >= PLAUSIBLE * best
        return False

    @property
    def _allowed_at_end(self) -> float:
        """Factor that the limit allows between the last two values, where the data stay within it; else 0.

        Only for a sum through few values: it has two numbers for each term, the growth and the coefficient.
        Through as many single measurements it goes whatever they are, and its fastest term may only follow
        a bend of the others.
        """
        model, y = self.found.model, self.found.summary.points
        if self.found.summary.freedom or y.size > 2 * (len(model.others) + 1) + 1 or not model.others:
            return 0.0
        (before, last), limit = y[-2:] - y.min(), self.limit.term.log2(self.found.x[-2:])
        allowed = 2.0 ** float(np.diff(self.e.log2(self.found.x[-2:]) + limit)[0])
        return allowed if 1 <= allowed < np.inf and 0 < last <= before * allowed else 0.0

    def _rests_on_last(self) -> bool:
        """Whether c + a E, through the single measurements before the last, misses the last one alone."""
        x, y, model = self.found.x, self.found.summary.points, self.found.model
        error = max(model.error, 2 * float(np.sqrt(model.sse / max(x.size - model.free, 1))))
        values = basis_values([self.e], x)[0][0]
        if self.found.summary.freedom or model.error <= 100 * ROUNDING or not np.isfinite(values).all():
            return False
        columns = np.stack([np.ones(x.size), values], axis=1) / y[:, None]
        numbers = np.linalg.lstsq(columns[:-1], np.ones(x.size - 1), rcond=None)[0]
        off = columns @ numbers - 1
        if numbers[1] < 0 or (self.e.term.is_falling and numbers[0] > _HALF * y[-2]):  # a level is no fall
            return False
        return bool(np.abs(off[:-1]).max() <= error and off[-1] < -error)

    def _may_rise(self) -> bool:
        """Whether noise alone hides a rise or fall of what is called constant; noted where it does."""
        y, model = self.found.summary.points, self.found.model
        change = float(y[-1] / y[0]) - 1
        if not (
            model.term.is_constant
            and not model.others
            and self.found.summary.is_noisy
            and abs(change) > _NOT_CONSTANT
        ):
            return False
        self.notes.append(
            f"the data {'rise' if change > 0 else 'fall'} by {abs(change):.0%}, as noise alone could; "
            "measure more repetitions"
        )
        return True

    def _likeliest(self, *kinds: str) -> Term:
        found: Candidate = next(c for c, _ in self.found.weighted if self._kind(c.lead) in kinds)
        return found.lead

    def _of_pieces(self) -> None:
        """Judge by the last piece, which one point alone does not show."""
        since = self.found.model.since
        assert since is not None
        if not (self.found.x[-2] < since and self._is_steep_at_last()) and self.match == "exact":
            self.match = "approximate"

    def _of_the_others(self) -> None:
        """Judge by the curve of all values but an outlier; the last one may be the first of another curve."""
        assert self.found.exception is not None
        self.seen, (self.exception, model) = "", self.found.exception
        off = (
            np.abs(model.predict(self.found.x) / self.found.summary.points - 1) > self.found.family.tolerance
        )
        if off[-1] and off.sum() == 1:
            self._is_steep_at_last()

    def _is_steep_at_last(self) -> bool:
        """Whether the last value rises more steeply than expected, which is a doubt."""
        model, p = self.found.model, self.e.parameter
        before, last = self.e.log2(model.x[-2:])
        rise = float(np.log2(model.y[-1] / model.y[-2] / (1 + self.found.family.tolerance)))
        if not (np.isfinite(before) and rise > last - before) or self.match == "none":
            return False
        self.doubts.append(
            f"one value does not show how it grows from there; measure beyond {p} = {number(model.x[-1])}"
        )
        return True

    def _seen(self) -> str:
        f = self.found
        noise = f.summary.deviation / float(np.sqrt(f.summary.counts.mean())) if f.summary.is_noisy else 0.0
        step = max(f.family.tolerance, 3 * float(np.sqrt(2)) * noise)  # a step is between two points
        return describe_data(f.x, f.summary.points, f.model, self.e.parameter, step)

    def _leads_astray(self) -> bool:
        """Whether the nearest curve misses half of the change, grows in a fall, or lies across E."""
        y, term = self.found.summary.points, self.found.model.term
        (first, last), change = self.found.model.predict(self.found.x[[0, -1]]), y[-1] / y[0]
        if not 0 < first * change <= 2 * last <= 4 * first * change:
            return True
        if term > CONSTANT and y[-1] < y[0] and y[-1] <= (1 + self.found.family.tolerance) * y.min():
            return True
        slope, half = self._power(self._ratio)
        return slope + half < 0 if term > self.e.term else term < self.e.term and slope - half > 0

    @property
    def _ratio(self) -> Floats:
        """Logarithm of the data over the expectation."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log2(self.found.summary.points) - self.e.log2(self.found.x))

    def _power(self, logarithm: Floats) -> tuple[float, float]:
        """Return the power of p that a logarithm follows and half its interval of 95 %, or nan.

        Without the first value where the expectation is 0 there, as log p is at p = 1.
        """
        x = self.found.x[int(not np.isfinite(logarithm).all()) :]
        logarithm = logarithm[-x.size :]
        if not np.isfinite(logarithm).all():
            return np.nan, np.nan
        (slope, _), covariance = np.polyfit(np.log2(x), logarithm, 1, cov=True)
        return float(slope), float(stdtrit(x.size - 2, 0.975) * np.sqrt(covariance[0, 0]))

    def _of_trend(self) -> None:
        """Judge data that no model follows by the power of p that their ratio to the expectation follows."""
        own, width = self._power(np.log2(self.found.summary.points))
        like, p = f"like {self.e.parameter}^{own:.2f}" if round(abs(own), 2) else "constant", self.e.parameter
        between = " and ".join(f"{p}^{round(e, 2) + 0.0:.2f}" for e in (own - width, own + width))
        self.seen += f", on the whole about {like} (between {between})"
        slope, half = self._power(self._ratio)
        limit, _ = self._power(np.asarray(self.limit.term.log2(self.found.x)))
        steepens = self._steepens_beyond(limit)
        if steepens:
            self.compared = f"ever faster than {Term.pretty(self.e.term)}"
        elif np.isfinite(slope):
            self.compared = self._compared(slope, half, own, width)
        if slope - half > limit or steepens:
            self.match = "none"
        elif slope + half <= limit:
            self.match = "bound" if slope + half < -limit else "approximate"
        else:
            self.doubts.append(self._more())

    def _steepens_beyond(self, limit: float) -> bool:
        """Whether the ratio to the expectation rises ever more steeply, at last by more than the limit."""
        powers = np.diff(self._ratio) / np.diff(np.log2(self.found.x))
        powers = powers[int(not np.isfinite(powers).all()) :]  # log p is 0 at p = 1
        late = powers[-min(powers.size // 2, 3) :]
        return bool(np.isfinite(powers).all() and (np.diff(powers) > 0).all() and (late > limit).all())

    def _compared(self, slope: float, half: float, own: float, width: float) -> str:
        """Compare data like p^(own +- width), over the expectation like p^(slope +- half), with it."""
        e = self.e.term
        if abs(slope) <= half:
            return "as expected"
        if own < -width and e.is_falling:
            return f"{'slower' if slope > 0 else 'faster'} than {Term.pretty(e)}"
        if own > width and not (e.is_falling or e.is_constant):
            return f"{'faster' if slope > 0 else 'slower'} than {Term.pretty(e)}"
        return instead(slope > 0, e, Term.pretty)

    def _more(self) -> str:
        if self.found.summary.freedom:
            return "measure more repetitions"
        return "measure repetitions to distinguish noise from growth"


# Sentences about the shape of data that change, jump, or follow no model.


Floats = npt.NDArray[np.float64]

#: local power of p below which data level off
_FLAT = 0.1
#: how far the slopes of two pieces may differ, relative to the first, that only their height tells apart
_SAME_SLOPE = 0.1


def describe_data(x: Floats, y: Floats, model: Model | None, symbol: str, tolerance: float) -> str:
    """Return what the data do over the range, as a clause that follows "it".

    `x`, `y` (ndarray, shape (n,)): The points.
    `model`: What describes them: only its pieces are reported if it has several.
    `symbol`: The name of the parameter.
    `tolerance`: Relative steps below this count as none.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([32.0, 64, 128, 256, 512])
    >>> describe(p, np.array([0.1406, 0.2032, 0.2338, 0.2490, 0.2570]), None, "p", 0.02)
    'rises by 83 % and levels off'
    """
    if model is not None and model.before is not None:
        return _pieces(model, symbol)
    slopes = np.diff(np.log(y)) / np.diff(np.log(x))
    change = y[-1] / y[0] - 1
    whole = _course(y, tolerance)
    if whole == "rises":
        return f"rises by {_percent(change)}{_bend(slopes)}"
    if whole == "falls":
        return f"falls by {_fall(change)}{_bend(-slopes)}"
    if whole:
        return whole
    for at in (int(np.argmin(y)), int(np.argmax(y)), _flat_head(y, tolerance), _flat_tail(y, tolerance)):
        if 0 < at < y.size - 1:
            before, after = _course(y[: at + 1], tolerance), _course(y[at:], tolerance)
            if before and after and before.split()[0] != after.split()[0]:
                return f"{before} up to {symbol} = {number(x[at])} and {after} from there on"
    return "goes up and down"


def _pieces(model: Model, symbol: str) -> str:
    """Return the pieces of a model that changes, or the step that it takes."""
    last = model
    assert last.before is not None
    assert last.since is not None
    own, ends = replace(last, before=None), last.x[[0, -1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = own.predict(ends) / last.before.predict(ends)
    if last.before.before is None and np.isclose(
        factors[0], factors[1], rtol=1e-6
    ):  # one curve and its multiple
        factor = float(factors[1])
        first = "levels off" if last.others else growth(last.term, Term.pretty)
        drop = f"drops to {_percent(factor)}" if factor >= 0.1 else f"drops by {_fall(factor - 1)}"
        jump = f"jumps by a factor of {number(factor, 2)}" if factor > 1 else drop
        return f"{first} and {jump} at {symbol} = {number(last.since)}"
    head, slope = last.before, last.coefficient
    if head.before is None and head.term == last.term and head.coefficient > 0 < slope:
        times, since = slope / head.coefficient, f"from {symbol} = {number(last.since)} on"
        shift = last.constant - head.constant
        if abs(times - 1) < _SAME_SLOPE and shift:
            size = quantity(abs(shift), model.unit, 2)
            is_at = f"is {size} {'higher' if shift > 0 else 'lower'} {since}"
            return f"{growth(last.term, Term.pretty)} and {is_at}"
        steep = f"{number(times, 2)} times as steeply" if times > 1 else f"at {_percent(times)} of the slope"
        return f"{growth(last.term, Term.pretty)}, {steep} {since}"
    pieces: list[Model] = []
    one: Model | None = model
    while one is not None:
        pieces.insert(0, one)
        one = one.before
    terms = [f"{'constant' if m.term.is_constant else m.term.pretty(symbol)}" for m in pieces]
    places = " and ".join(f"{symbol} = {number(m.since)}" for m in pieces[1:] if m.since is not None)
    return f"changes at {places}: {', then '.join(terms)}"


def _course(y: Floats, tolerance: float) -> str:
    """Return the trend of a stretch, if there is a single one; steps within the tolerance do not count."""
    steps, change = np.diff(y) / y[:-1], y[-1] / y[0] - 1
    if (steps >= -tolerance).all() and change > tolerance:
        return "rises"
    if (steps <= tolerance).all() and change < -tolerance:
        return "falls"
    spread = float(np.ptp(y) / y.min())  # both ways from the first point
    return f"stays within {_percent(spread)}" if spread <= 2 * tolerance else ""


def _flat_head(y: Floats, tolerance: float) -> int:
    """Return the last place up to which the data stay about the same."""
    spread = np.maximum.accumulate(y) / np.minimum.accumulate(y) - 1
    return int(np.count_nonzero(spread <= 2 * tolerance)) - 1


def _flat_tail(y: Floats, tolerance: float) -> int:
    return y.size - 1 - _flat_head(y[::-1], tolerance)


def _bend(slopes: Floats) -> str:
    half = slopes.size // 2
    early, late = float(slopes[:half].mean()), float(slopes[-half:].mean())
    if late < 0.5 * early:
        return " and levels off" if slopes[-1] < _FLAT else ", more slowly towards the end"
    return ", faster towards the end" if late > 1.3 * early else ""


def _percent(change: float) -> str:
    return f"{100 * change:.0f} %" if change < 4 else f"a factor of {float(f'{change + 1:.3g}'):,.10g}"


def _fall(change: float) -> str:
    """Return a change below 0 without its sign, one by more than 90 % as a factor."""
    return _percent(-change if change >= -0.9 else -change / (1 + change))


def scatters(summary: Summary, tolerance: float) -> bool:
    """Return whether data go to and fro, as single measurements with noise do."""
    y = summary.points
    steps = np.diff(y) / y[:-1]
    if (steps > 2 * tolerance).any() and (steps < -2 * tolerance).any():
        return True
    bends = np.diff(np.log(y), 2)
    turns = np.count_nonzero(np.diff(np.sign(bends)))
    return bool(
        not summary.freedom and turns >= max(2, (y.size - 3) // 2) and np.abs(bends).max() > tolerance
    )


@dataclass(frozen=True)
class Guideline:
    """The outcome of left <= right_1 + right_2 + ...

    Attributes
    ----------
    left, right : Term
        The leading terms; of a sum the largest leads.
    is_violated : bool
        Whether a violation is predicted: left grows faster than right.  It says nothing of the
        match of either side with its own expectation, nor of the range that was measured.
    """

    left: Term
    right: Term
    is_violated: bool

    def __str__(self) -> str:
        """Print the rule and its outcome."""
        sign = "> (violation predicted)" if self.is_violated else "<="
        return f"O({self.left}) {sign} O({self.right})"


def check_guideline(left: Model | Term, right: Iterable[Model | Term]) -> Guideline:
    """Check a rule such as Allreduce <= Reduce + Bcast on models.

    Parameters
    ----------
    left : Model or Term
        The operation.
    right : iterable of Model or Term
        The operations that together do the same, one or more.

    Returns
    -------
    Guideline
        The leading terms of both sides, and whether the left one grows faster.

    Raises
    ------
    DataError
        Nothing is on the right.

    References
    ----------
    Shudler et al., IEEE TPDS 30(8), 2019, sections 2.1 and 3.1.
    """
    lead = _term(left)
    others = [_term(one) for one in right]
    if not others:
        raise DataError(
            "a guideline needs what the operation could be replaced by: check_guideline(left, [right])",
            code="missing-key",
        )
    return Guideline(lead, max(others), lead > max(others))


def _term(side: Model | Term) -> Term:
    return side.term if isinstance(side, Model) else side
