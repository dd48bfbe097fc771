"""The description of measurements: the likeliest member of the family of models, whatever is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.checks import echo
from labkit.errors import DataError
from labkit.scaling.changes import Segment, find_bend, find_segments
from labkit.scaling.expectation import Expectation, Given, read_expectation
from labkit.scaling.family import ROUNDING, SEEN_TWICE, Candidate, Family, lost, solve
from labkit.scaling.leastsquares import Fits, Floats, basis_values, fit_all, lines_with_factor
from labkit.scaling.model import Model, Part
from labkit.scaling.posterior import Belief, Data, choose_weighted, keep_tested, weigh
from labkit.scaling.samples import LEAST_VALUES, Samples, Summary, read_samples, summarize
from labkit.scaling.search import Space, Terms, falls, lay_out, settle
from labkit.scaling.term import Term
from labkit.text.html import number

__all__ = [
    "PLAUSIBLE",
    "TOLERANCE",
    "Description",
    "check_tolerance",
    "find_changes",
    "fit",
    "fit_many",
    "fit_samples",
]

#: how far a model may miss a point, where repetitions do not say more
TOLERANCE = 0.05
#: logarithm of how much likelier an expectation's own form must be than the whole family to be the
#: description
_FOREIGN = 3.0
#: logarithm of how much likelier several segments must be than one model
_SEGMENTS = 3.0
#: share of the likeliest model's weight from which on a model of single measurements counts as not rejected
PLAUSIBLE = 0.05
#: curves in an interval: those that miss the points at most this many times as far as the best does
_AS_GOOD = 3.0
#: a step is the last resort: this many points on both of its sides, or the last point alone, and its least
#: change
_BESIDE, _STEP = 2, 0.2
#: the least number of values that scatter, and the share of the tolerance by which a step may miss them; how
#: many times farther than two levels a smooth curve misses them; the share of its level that a curve with a
#: step reaches where it levels off
_FOR_CLEAN, _CLEAN, _LEVELS, _LEVELED = 7, 0.1, 4.0, 0.9
#: times the interval of a hidden share is halved
_HALVINGS = 12
#: an exception is off the curve of the other values by at least this share; where it does not stand out
#: of its neighbors, the others miss the curve by at most this share of the tolerance
_OFF, _TIGHT = 0.01, 0.2
#: of noisy data, what a term gains that meets all aggregates to the last digit
_TO_THE_DIGIT = 50.0
#: models with less of the weight than this, compared with the likeliest, take no part
_NO_WEIGHT = 1e-9
#: logarithm of how much likelier a constant of 0 or more is in noisy data, beyond what is in the weights
_POSITIVE = 1.5


def check_tolerance(tolerance: float) -> float:
    """Refuse what is no relative error."""
    if not (isinstance(tolerance, (int, float, np.number)) and 0 <= tolerance < 1):
        raise DataError(
            f"tolerance is a share from 0 to below 1, such as 0.05; got {echo(tolerance)}",
            code="out-of-range",
        )
    return float(tolerance)


class Description:
    """What describes one data set.

    `samples`: The measurements.
    `space`: None for the family.
    `symbol`: The parameter in print.
    `aggregate`: What stands for repetitions.
    `unit`: Of the measurements.
    `tolerance`: How far a model may miss a point.
    `level`: The level of the test of repeated measurements.
    `expectation`: Its own form is tried, too; it becomes the description only where nothing of the family
        comes near it.
    """

    def __init__(
        self,
        samples: Samples,
        space: Space = None,
        symbol: str = "p",
        aggregate: str = "auto",
        unit: str = "",
        tolerance: float = TOLERANCE,
        level: float = 0.05,
        expectation: Expectation | None = None,
    ) -> None:
        self.x, self.summary, self.unit, self.level = samples.x, samples.summary(aggregate), unit, level
        self.layout: Terms = lay_out(space, self.x, self.summary.points, symbol, expectation)
        self.family = Family(self.layout, self.summary, tolerance)

    @cached_property
    def weighted(self) -> list[tuple[Candidate, float]]:
        """Every candidate of some weight with its share of it, the likeliest first."""
        found = self._with_beliefs() if self.summary.is_noisy else self.family.candidates
        found = [c for c in found if c.evidence > found[0].evidence + np.log(_NO_WEIGHT)]
        evidence = np.array([c.evidence for c in found])
        shares = np.exp(evidence - evidence.max())
        return list(zip(found, (shares / shares.sum()).tolist(), strict=True))

    @cached_property
    def _fits(self) -> Fits:
        """Every c + a f with c >= 0, of noisy data by their weights."""
        return fit_all(self._positive, self.summary.points[None], self.summary.counts, is_noisy=True)

    @cached_property
    def _positive(self) -> Floats:
        """The functions that c >= 0 and a > 0 make a model of, those that fall only where the data do."""
        hidden = ~self._is_usual
        if self.layout.expected is not None:
            hidden[self.layout.expected] = False
        return np.where(hidden[:, None], np.nan, self.layout.values)

    @cached_property
    def _is_usual(self) -> npt.NDArray[np.bool_]:
        """Which functions take part whatever is expected, those that fall only where the data do."""
        usual = np.ones(len(self.layout.terms), dtype=bool)
        if not falls(self.x, self.summary.points[None])[0]:
            usual &= ~self.layout.is_falling
        usual[self.layout.foreign] = False
        return usual

    @cached_property
    def _data(self) -> Data:
        spread = np.array([self.summary.spread])
        return Data(self._positive, self.summary.points[None], self.summary.counts, spread)

    @cached_property
    def _posterior(self) -> Floats:
        """The weights of the terms of noisy data with c >= 0, integrated over the curves of each."""
        return np.asarray(weigh(self._data, self._fits, self.layout.prior)[0])

    def _with_beliefs(self) -> list[Candidate]:
        """Replace the candidates c + a f, c >= 0, of noisy data by those of the integrated weights."""
        fits, weights, family = self._fits, self._posterior, self.family
        known = [
            int(k) for k in np.argsort(-weights) if weights[k] > _NO_WEIGHT and np.isfinite(fits.sse[0, k])
        ]
        if not known:
            return family.candidates
        usual = self._is_usual
        first, price = next((k for k in known if usual[k]), known[0]), float(np.log(self.layout.usable.size))
        anchor = (
            float(family.log_likelihood(fits.press[0, first], 2))
            - price
            - float(np.log(weights[first]))
            + _POSITIVE
        )
        out = [c for c in family.candidates if not self._is_positive_line(c)]
        for k in known:
            is_flat = k == self.layout.constant
            miss = float(fits.worst[0, k] / family.limits.max())
            evidence = anchor + float(np.log(weights[k]) - lost(np.asarray(miss)))
            evidence += _TO_THE_DIGIT if fits.worst[0, k] <= ROUNDING else 0.0
            numbers = () if is_flat else (float(fits.coefficient[0, k]),)
            out.append(
                Candidate(
                    () if is_flat else (k,),
                    numbers,
                    float(fits.constant[0, k]),
                    self.layout.terms[k],
                    float(fits.worst[0, k]),
                    float(fits.sse[0, k]),
                    float(fits.press[0, k]),
                    miss,
                    1 + len(numbers),
                    evidence,
                )
            )
        return sorted(out, key=lambda c: (-c.evidence, c.terms))

    def _is_positive_line(self, c: Candidate) -> bool:
        """Whether a candidate is c + a f with c >= 0 and a > 0, which the weights of noisy data are of."""
        return len(c.terms) <= 1 and c.constant >= 0 and min(c.numbers, default=1.0) > 0

    @cached_property
    def best(self) -> Candidate:
        """The likeliest model; the expectation's own form only where the family holds nothing like it."""
        found = [c for c, _ in self.weighted]
        own = [c for c in found if self._is_foreign(c)]
        rest = [c for c in found if not self._is_foreign(c)]
        if own and (not rest or own[0].evidence > rest[0].evidence + _FOREIGN):
            return own[0]
        return rest[0]

    def _is_foreign(self, c: Candidate) -> bool:
        return self.layout.is_foreign and c.terms == (self.layout.expected,)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The parts of the range with a term each, where they describe the data better than any one model."""
        summary, family = self.summary, self.family
        deviation = summary.deviation if summary.is_noisy else max(family.tolerance / 10, 1e-4)
        values = self.layout.values.copy()
        values[self.layout.foreign] = np.nan
        found = find_segments(self.layout.terms, values, self.x, summary.points, summary.counts, deviation)
        if len(found) < 2:
            near = float(family.limits.max())
            if self.best.error <= near or self.x.size < _FOR_CLEAN:
                return ()
            return find_bend(self.layout.terms, values, summary.points, _TIGHT * near)
        misses = [self._piece(s) for s in found]
        sse = sum(m.sse for m in misses)
        free, choices = 3 * len(found) - 1, len(self.layout.usable)
        price = len(found) * float(np.log(choices)) + (len(found) - 1) * float(np.log(self.x.size))
        evidence = family.log_likelihood(sse, free) - price
        is_near = (
            max(
                m.error / float(family.limits[s.first : s.last + 1].max())
                for m, s in zip(misses, found, strict=True)
            )
            <= 1
        )
        return found if is_near and evidence > self.best.evidence + _SEGMENTS else ()

    def _piece(self, s: Segment) -> Model:
        """Return the model of one segment: its term, or a constant where that does as well."""
        some, constant = slice(s.first, s.last + 1), self.layout.terms[self.layout.constant]
        x, y = self.x[some], self.summary.points[some]
        counts = self.summary.counts[some] if self.summary.is_noisy else np.ones(x.size)

        def fitted(term: Term) -> tuple[float, Model]:
            part = Part(term, term, 1.0, 0.0 if term.is_constant else float(np.max(term.log2(x))))
            columns = np.stack([np.ones(x.size)] if term.is_constant else [np.ones(x.size), part(x)], axis=1)
            numbers = np.linalg.lstsq(columns / y[:, None], np.ones(x.size), rcond=None)[0]
            off, free = columns @ numbers / y - 1, columns.shape[1]
            sse = float((counts * off**2).sum())
            evidence = -(x.size - free) / 2 * float(np.log(sse + ROUNDING**2))
            return evidence, Model(
                term, float(numbers[0]), None, float(np.abs(off).max()), float(np.sqrt((off**2).mean())), x,
                y, sse, free, term, float(numbers[1]) if free > 1 else 0.0, part.log_scale, self.unit,
            ).leveled()  # fmt: skip

        (flat, level), (own, curve) = fitted(constant), fitted(s.term)
        return level if flat >= own - np.log(self.layout.usable.size) else curve

    @cached_property
    def is_described(self) -> bool:
        """Whether a model describes the data within the tolerance."""
        return bool(self.segments) or self.best.miss <= 1 or self.step is not None

    @cached_property
    def step(self) -> Model | None:
        """The model c + a f, times a factor from one value on.

        It is the last resort where no smooth one meets the data, but for two levels, which are seen as such
        where they miss the points by much less.
        """
        n, y, is_met = self.x.size, self.summary.points, self.best.miss <= 1
        if self.segments or n < LEAST_VALUES or self.best.error <= 100 * ROUNDING:
            return None
        off = self.best.error / float(self.family.limits.max())
        scatters = is_met and off > 1 and n >= _FOR_CLEAN
        places = np.array([j for j in range(_BESIDE, n) if n - j >= _BESIDE or j == n - 1])
        jumps = np.where(y[places] > y[places - 1], 1, -1)
        functions = self.layout.usable[: None if scatters or not is_met else 0]
        near, least = (np.full((places.size, 1 + functions.size), v) for v in (1.0, _STEP))
        least[:, 0] = min(2 * self.family.tolerance or _STEP, _STEP)
        if is_met:
            near[:, 0] = min(off / _LEVELS, 1.0)
            near[:, 1:] = _CLEAN if scatters else 0.0
            near[places == n - 1, 1:] = 0.0
        found = self._with_factor(functions, np.arange(n) >= places[:, None], jumps, least, near)
        if found is None:
            return None
        i, factor, before = found
        return replace(before.times(factor), before=before, since=float(self.x[places[i]]))

    @cached_property
    def exception(self) -> tuple[str, Model] | None:
        """Why no model describes the data, as text, and the curve of the rest.

        One value is an outlier, or a class of values (powers of two, multiples of 2, 4 or 8, every second
        one) is off the curve of the others by a factor.
        """
        n, x, p = self.x.size, self.x, self.layout.terms[0].symbol
        if self.is_described or n <= LEAST_VALUES:
            return None
        classes: dict[str, npt.NDArray[np.bool_]] = {}
        if (x == np.rint(x)).all():
            classes["is a power of two"] = np.exp2(np.rint(np.log2(x))) == x
            classes |= {f"is a multiple of {2**k}": x % 2**k == 0 for k in (1, 2, 3)}
        classes = {name: c for name, c in classes.items() if _BESIDE < np.count_nonzero(c) < n - _BESIDE}
        every_second = np.arange(n) % 2 == 1
        masks = np.array([*classes.values(), every_second, *np.eye(n, dtype=bool)])
        y = self.summary.points
        up, down = np.diff(y) > 0, np.diff(y) < 0
        peaks = np.concatenate([[False], (up[:-1] & down[1:]) | (down[:-1] & up[1:]), [False]])
        stands_out = np.concatenate([np.repeat(up.any() and down.any(), len(masks) - n), peaks])
        near = np.where(stands_out, 1.0, _TIGHT)  # what goes one way is off only by a curve that is met
        least = max(2 * self.family.tolerance, _OFF)
        found = self._with_factor(self.layout.usable, masks, np.zeros(len(masks)), least, near[:, None])
        if found is None:
            return None
        i, factor, model = found
        off = float((np.abs(model.predict(x) / self.summary.points - 1)).max())
        model, times = replace(model, error=off, is_nearest=True), f"{factor:.3g} times"
        if i < len(classes):
            return f"where {p} {list(classes)[i]}, it is {times} the curve of the others", model
        values = ", ".join(number(v) for v in x[masks[i]][:3])
        if i == len(classes):
            return f"every second value ({p} = {values}, ...) is {times} the curve of the others", model
        return f"the value at {p} = {values} is an outlier, {times} the curve of the others", model

    def _with_factor(
        self,
        functions: npt.NDArray[np.int64],
        masks: npt.NDArray[np.bool_],
        jumps: npt.NDArray[Any],
        least: float | Floats,
        near: Floats,
    ) -> tuple[int, float, Model] | None:
        """Fit the constant and c + a f of functions, times a factor where a mask, shape (masks, n), is set.

        Return the mask, the factor and the curve that are likeliest of those that miss no point by more than
        `near` times what models may: a factor above 1 where the jump is 1, below it where it is -1, and at
        least so far from 1.  The last two may differ by mask and function, the constant first.
        """
        y = self.summary.points
        terms = np.array([self.layout.constant, *functions])
        f, is_flat = self.layout.values[terms], terms == self.layout.constant
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            c, a, factor = lines_with_factor(masks, f, y, is_flat)
            u = np.where(masks[:, None, :], factor[..., None], 1.0) / y
            off = u * (c[..., None] + a[..., None] * f) - 1
            miss = np.nan_to_num((np.abs(off) / self.family.limits).max(axis=2), nan=np.inf)
        falls = self.layout.is_falling[terms]
        with np.errstate(over="ignore", invalid="ignore"):
            good = (miss <= near) & (np.abs(factor - 1) > least) & (c + a * f[:, 0] > 0)
            good &= ~self.layout.is_exponential[terms] | (a * f[:, -2] > SEEN_TWICE * (c + a * f[:, -2]))
            good &= (jumps[:, None] == 0) | ((jumps[:, None] > 0) == (factor > 1))
            levels = self.layout.may_level[terms] & (c + a * f[:, -1] >= _LEVELED * c)
            good &= is_flat | np.where(falls, (c > 0) & ((a > 0) | levels), a > 0)
        price = np.where(is_flat, 0.0, np.log(1 + functions.size) - self.layout.log_priors[terms])
        if not good.any():
            return None
        evidence = self.family.log_likelihood((off * off).sum(axis=2), 4) - price
        evidence -= np.where(is_flat, 0.0, self.family.hidden(np.abs(a) * self.layout.heights[terms]))
        evidence = np.where(good, evidence, -np.inf)
        i, k = np.unravel_index(int(np.argmax(evidence)), evidence.shape)
        curve = self._line_model(int(terms[k]), float(c[i, k]), float(a[i, k]), off[i, k])
        return int(i), float(factor[i, k]), curve

    def _line_model(self, k: int, constant: float, scaled: float, off: Floats) -> Model:
        """Return c + a f, which misses the points, once stepped, by `off`."""
        s, sse = self.layout, float((off * off).sum())
        levels = s.is_falling[k] and scaled < 0
        is_flat = k == s.constant
        part = Part(s.terms[k], s.bases[k], scaled, float(s.log_scales[k]))
        lead = Part(s.terms[s.constant], s.bases[s.constant], 0.0, 0.0) if levels or is_flat else part
        return Model(
            lead.term,
            constant,
            self._r2(sse, 3),
            float(np.abs(off).max()),
            float(np.sqrt((off * off).mean())),
            self.x,
            self.summary.points,
            sse,
            3,
            lead.basis,
            lead.scaled,
            lead.log_scale,
            self.unit,
            (part,) if levels else (),
        ).leveled()

    @cached_property
    def model(self) -> Model:
        """The description as a model; the nearest curve where none describes the data."""
        if self.segments:
            before: Model | None = None
            for s in self.segments:
                piece = self._piece(s)
                before = replace(
                    piece,
                    before=before,
                    since=float(self.x[s.first]) if before else None,
                    x=self.x,
                    y=self.summary.points,
                    error=max(piece.error, before.error if before else 0.0),
                )
            assert before is not None
            return before
        if self.step is not None:
            return self.step
        if self.exception is not None:
            return self.exception[1]
        return replace(self.model_of(self.best), is_nearest=not self.is_described)

    def model_of(self, c: Candidate) -> Model:
        """Return the model of a candidate."""
        s, n, noisy = self.layout, self.x.size, self.summary.is_noisy
        if noisy and self._is_positive_line(c):  # errors relative to the curve
            k = c.terms[0] if c.terms else s.constant
            if np.isfinite(self._fits.sse[0, k]):
                line = next(
                    Model.each_of(
                        self._fits,
                        [k],
                        s.constant,
                        s.bases,
                        s.log_scales,
                        self.x,
                        [self.summary.points],
                        float(self.summary.counts.sum()),
                        [self.belief],
                        self.unit,
                    )
                )
                return line.leveled()
        parts = [
            Part(s.terms[k], s.bases[k], a, float(s.log_scales[k]))
            for k, a in zip(c.terms, c.numbers, strict=True)
        ]
        levels = bool(parts) and c.lead.is_constant
        lead = None if levels or not parts else parts.pop()
        return Model(
            c.lead.named(s.terms[0].symbol),
            c.constant,
            self._r2(c.sse, c.free),
            c.error,
            float(np.sqrt(c.press / (self.summary.counts.sum() if noisy else n))),
            self.x,
            self.summary.points,
            c.sse,
            c.free,
            lead.basis if lead else s.bases[s.constant],
            lead.scaled if lead else 0.0,
            lead.log_scale if lead else 0.0,
            self.unit,
            tuple(parts),
            None,
            None if noisy else self,
        )

    def own_form(self, e: Expectation) -> Model | None:
        """Return c + a E fitted to the data; None where a has the wrong sign."""
        y = self.summary.points
        values, log_scales = basis_values([e], self.x)
        if not np.isfinite(values).all():
            return None
        columns = np.stack([np.ones(self.x.size), values[0]], axis=1) / y[:, None]
        (c, a), *_ = np.linalg.lstsq(columns, np.ones(self.x.size), rcond=None)
        if c < 0 and e.term.is_falling:
            c, a = 0.0, float(columns[:, 1] @ np.ones(self.x.size) / (columns[:, 1] @ columns[:, 1]))
        off = columns @ np.array([c, a]) - 1
        if a <= 0:
            return None
        sse = float(off @ off)
        return Model(
            e.term, float(c), self._r2(sse, 2), float(np.abs(off).max()), float(np.sqrt((off**2).mean())),
            self.x, y, sse, 2, e, float(a), float(log_scales[0]), self.unit,
        )  # fmt: skip

    def hidden_share(self, e: Expectation) -> float | None:
        """Return the largest share of the last value that b E may have without being seen.

        The rest of the data, c + a f, is fitted by every term f, one that falls only where the description
        does: it may miss the points three times as far as the description, or by a tenth of the tolerance.
        None where no such curve describes them.
        """
        y, tolerance = self.summary.points, self.family.tolerance
        limits = np.minimum(self.family.limits, max(_AS_GOOD * self.best.error, tolerance / 10))
        falls = np.bool_(
            any(
                self.layout.is_falling[k] and a > 0
                for k, a in zip(self.best.terms, self.best.numbers, strict=True)
            )
        )
        with np.errstate(over="ignore", under="ignore"):
            grown = np.exp2(e.log2(self.x) - float(np.max(e.log2(self.x[-1:]))))
        usable = self.layout.usable
        ones = np.ones((len(usable), self.x.size))
        designs = np.stack([ones / y, self.layout.values[usable] / y], axis=2)

        def is_hidden(share: float) -> bool:
            rest = 1 - share * y[-1] * grown / y
            numbers, error, _ = solve(designs, rest)
            with np.errstate(invalid="ignore"):
                grows, goes_down = numbers[:, 1] >= 0, self.layout.is_falling[usable]
                sensible = np.where(goes_down, np.where(grows, falls, self.layout.may_level[usable]), grows)
                is_above = ~falls | (numbers[:, 0] >= -limits[-1] * y[-1])  # 0 in the end, but for errors
                near = (np.abs(error) <= limits).all(axis=1) & sensible & is_above
            return bool(near.any())

        low, high = 0.0, 1.0
        if is_hidden(high):
            return high
        if not is_hidden(low):
            return None
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if is_hidden(middle) else (low, middle)
        return high

    def _r2(self, sse: float, free: int) -> float | None:
        """Return the adjusted R2 of relative errors; None of a constant."""
        flat, n = self._flat_sse, self.x.size
        return None if free < 2 or flat == 0 else 1 - (sse / max(n - free, 1)) / (flat / (n - 1))

    @cached_property
    def _flat_sse(self) -> float:
        """Squared relative errors of the constant."""
        y, counts = (
            self.summary.points,
            self.summary.counts if self.summary.is_noisy else np.ones(self.x.size),
        )
        u = y.min() / y
        off = 1 - u * float((counts * u).sum() / (counts * u * u).sum())
        return float((counts * off**2).sum())

    @cached_property
    def belief(self) -> Belief:
        """The weights of all curves of noisy data, for intervals."""
        s = self.layout
        return Belief(s.bases, s.log_scales, self._data, self._fits, s.prior)

    def curves(self, x: npt.ArrayLike, deviation: float) -> Floats:
        """Return the values at x of all candidates that describe single measurements about as well.

        `x`: Values of the parameter.
        `deviation`: The root mean square of the relative errors of the model they compete with.
        Returns: ndarray, shape (curves, *x.shape).
        """
        at, limit, n = np.asarray(x, dtype=float), _AS_GOOD * max(deviation, ROUNDING), self.x.size
        found = [
            self.family.curve(c, at)
            for c in self.family.candidates
            if np.sqrt(c.sse / max(n - c.free, 1)) <= limit and (c.terms or self.best.terms == ())
        ]
        return np.array(found).reshape(len(found), *at.shape)

    @cached_property
    def _kept(self) -> npt.NDArray[np.bool_]:
        """Which terms with c >= 0 repeated measurements do not reject."""
        return keep_tested(self.summary, self._fits, self._posterior, self.layout.prior, self.level)

    @cached_property
    def plausible(self) -> tuple[Candidate, ...]:
        """The best candidate of each growth that the data do not reject, the likeliest first."""
        best, out, is_noisy = self.best, {self.best.lead: self.best}, self.summary.is_noisy
        if is_noisy:
            kept = {int(k) for k in np.flatnonzero(self._kept)}
            for c, _ in self.weighted:
                place = c.terms[0] if c.terms else self.layout.constant
                if self._is_positive_line(c) and place in kept:
                    out.setdefault(c.lead, c)
        leads = {id(c.lead): c.lead for c, _ in self.weighted}  # few objects, and a comparison takes long
        same = {at for at, lead in leads.items() if lead == best.lead}
        top = max(w for c, w in self.weighted if id(c.lead) in same)
        for c, w in self.weighted:
            if c.miss <= 1 and w >= PLAUSIBLE * top and not (is_noisy and self._is_positive_line(c)):
                out.setdefault(c.lead, c)
        return tuple(out.values())

    @property
    def test(self) -> str:
        """How the data were compared with the models, as a phrase."""
        percent = f"{100 * self.family.tolerance:.3g} %"
        if self.summary.is_noisy:
            test = f"lack of fit and likelihood at {100 * self.level:g} %, from the repetitions"
            return f"{test}; tolerance {percent}"
        far, scatter = max(c.error for c in self.plausible), ""
        if self.best.miss <= 1 and far > self.family.tolerance and not self.segments:
            percent, scatter = (
                f"{np.ceil(1000 * far) / 10:.3g} %",
                ", as far as measurements made once scatter",
            )
        likely = f"at least {100 * PLAUSIBLE:g} % as likely as the best"
        return f"every point within {percent} of the curve{scatter}, and {likely}"


def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    space: Space = None,
    expectation: str | Expectation | None = None,
    parameter: str | None = None,
    given: Given | None = None,
    aggregate: str = "auto",
    tolerance: float = TOLERANCE,
) -> Model:
    """Find the scaling model of measurements.

    The model is the likeliest member of the family c + a f(x) + b g(x), c of either sign, by leave-one-out
    errors and parsimony: one term before two before three; a level c - a/x^q; several segments, or a step,
    where no
    smooth member describes the data.  It is positive from the smallest measured value to 64 times the
    largest.

    Parameters
    ----------
    x : array_like, shape (m,)
        Values of the parameter, repeated where a measurement was.
    y : array_like, shape (m,) or (m, repetitions)
        The measurements, > 0.
    space : {"paper", "wide", "ruler", "joined"} or iterable of Term, optional
        The terms to choose from; by default the 39 terms of "wide", falling ones, and steeper and exponential
        ones where the data rise so fast.
    expectation : str, optional
        An order of growth whose own form is tried as well.
    parameter : str, optional
        The parameter's symbol; the expectation's, or "p".
    given : mapping, optional
        What the expectation's other symbols were (see `read_expectation`).
    aggregate : {"auto", "mean", "quartile", "min", "median"}
        What stands for the repetitions of one value; "auto" is the mean, which uses them best, or the
        first quartile where some lie far out.
    tolerance : float
        How far a model may miss a point that it describes, relative to it; repetitions that scatter more
        allow more. 0 for counts, which are exact.

    Returns
    -------
    Model

    Raises
    ------
    DataError
        For unusable data or fewer than five values of the parameter.
    ExpectationError
        For an expectation or a space that cannot be read.

    Examples
    --------
    >>> p = [2, 4, 8, 16, 32, 64]
    >>> print(fit(p, [3 + 2 * v for v in p]))
    O(p)
    """
    e = None if expectation is None else read_expectation(expectation, parameter, given)
    symbol = e.parameter if e else parameter or "p"
    return fit_samples(
        read_samples(x, y),
        space=space,
        expectation=e,
        symbol=symbol,
        aggregate=aggregate,
        tolerance=tolerance,
    )


def fit_samples(
    samples: Samples,
    *,
    space: Space = None,
    expectation: Expectation | None = None,
    symbol: str = "p",
    aggregate: str = "auto",
    unit: str = "",
    tolerance: float = TOLERANCE,
) -> Model:
    """Fit grouped measurements; see `fit`."""
    samples.require()
    tolerance = check_tolerance(tolerance)
    e = None if expectation is None else settle(expectation, samples.x, samples.aggregate(aggregate)[None])
    return Description(samples, space, symbol, aggregate, unit, tolerance, expectation=e).model


def fit_many(
    x: npt.ArrayLike,
    ys: npt.ArrayLike,
    *,
    space: Space = None,
    expectation: str | None = None,
    parameter: str = "p",
) -> list[Model]:
    """Fit many data sets measured at the same values: those with noise with one term each, in one batch.

    Parameters
    ----------
    x : array_like, shape (n,)
        Distinct values of the parameter.
    ys : array_like, shape (s, n) or (s, n, repetitions)
        One data set a row; repetitions are used as `fit` does.
    space, expectation, parameter
        As in `fit`; "wide" by default where there is noise.

    Returns
    -------
    list of Model, length s
    """
    data = np.asarray(ys, dtype=float)
    if data.ndim not in (2, 3):
        raise DataError(
            f"ys must have shape (sets, values) or (sets, values, repetitions); got {data.shape}",
            code="count-mismatch",
        )
    repeated = data if data.ndim == 3 else data[..., None]
    if not (np.isfinite(data).all() and (data > 0).all()):
        raise DataError("every measurement must be a positive finite number", code="not-finite")
    xs = np.asarray(x, dtype=float)
    if xs.ndim != 1 or xs.size != repeated.shape[1] or np.unique(xs).size != xs.size:
        raise DataError(
            f"x must hold the {repeated.shape[1]} distinct values the data sets were measured at",
            code="count-mismatch",
        )
    order = np.argsort(xs)
    xs, repeated = xs[order], repeated[:, order]
    if not (np.isfinite(xs).all() and (xs > 0).all()):
        raise DataError("every parameter must be a positive finite number", code="not-finite")
    read_samples(xs, xs).require()
    e = None if expectation is None else read_expectation(expectation, parameter)
    symbol, summaries = e.parameter if e else parameter, summarize(repeated)
    ordered = np.sort(repeated, axis=2)
    copied = (ordered[..., 1:] == ordered[..., :-1]).any(axis=2).all(axis=1)
    for i in np.flatnonzero(copied).tolist():
        summaries[i] = Samples(xs, tuple(repeated[i])).summary()  # entered more than once
    noisy = [i for i, one in enumerate(summaries) if one.is_noisy]
    models = (
        dict(
            zip(noisy, _fit_noisy(xs, [summaries[i] for i in noisy], space or "wide", e, symbol), strict=True)
        )
        if noisy
        else {}
    )
    for i in set(range(len(summaries))) - set(noisy):
        models[i] = Description(Samples(xs, tuple(repeated[i])), space, symbol, expectation=e).model
    return [models[i] for i in range(len(summaries))]


def _fit_noisy(
    x: Floats, summaries: Sequence[Summary], space: Space, e: Expectation | None, symbol: str
) -> list[Model]:
    """Fit one term to each row by the weights of all, rows of one direction and size together."""
    models: dict[int, Model] = {}
    points, worth = np.stack([s.points for s in summaries]), np.array([s.counts[0] for s in summaries])
    falling = falls(x, points)
    for direction, weight in {(bool(a), float(b)) for a, b in zip(falling, worth, strict=True)}:
        rows = np.flatnonzero((falling == direction) & (worth == weight))
        layout, counts = lay_out(space, x, points[rows[0]], symbol, e), summaries[int(rows[0])].counts
        data = Data(layout.values, points[rows], counts, np.array([summaries[int(i)].spread for i in rows]))
        fits = fit_all(layout.values, points[rows], counts, is_noisy=True)
        winners = choose_weighted(weigh(data, fits, layout.prior), fits)
        beliefs = [
            Belief(layout.bases, layout.log_scales, data, fits, layout.prior, i) for i in range(len(rows))
        ]
        found = Model.each_of(
            fits,
            winners.tolist(),
            layout.constant,
            layout.bases,
            layout.log_scales,
            x,
            list(points[rows]),
            float(counts.sum()),
            beliefs,
        )
        models.update(zip(rows.tolist(), found, strict=True))
    return [models[i] for i in range(len(summaries))]


def find_changes(x: npt.ArrayLike, y: npt.ArrayLike, *, aggregate: str = "auto") -> list[float]:
    """Return the values of the parameter at which the data change from one model to another.

    Parameters
    ----------
    x, y, aggregate
        As in `fit`; at least eight values of the parameter, four for each segment.

    Returns
    -------
    list of float
        The first value of each further segment; empty where one model describes all data.

    Examples
    --------
    >>> p = 2.0 ** np.arange(2, 14)
    >>> find_changes(p, np.where(p < 256, 1.0, 3 * (p / 256) ** 2))
    [256.0]
    """
    found = Description(read_samples(x, y), aggregate=aggregate)
    return [float(found.x[s.first]) for s in found.segments[1:]]
