"""Fits of measurements with the terms of a space: one data set with everything, or thousands in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labkit.errors import DataError
from labkit.scaling.changes import Segment, find_segments
from labkit.scaling.expectation import Expectation, Given, read_expectation
from labkit.scaling.leastsquares import Floats, fit_all
from labkit.scaling.model import Model, Part
from labkit.scaling.posterior import Belief, Data, weigh
from labkit.scaling.rivals import Rivals
from labkit.scaling.samples import Samples, Summary, read_samples, summarize
from labkit.scaling.search import Space, falls, search_for, settle
from labkit.scaling.selection import (
    ROUNDING,
    Rejection,
    choose,
    choose_weighted,
    explains_more,
    keep_near,
    keep_tested,
    lack_of_fit,
)
from labkit.scaling.sums import Pair, find_from_one, find_pairs, find_signed
from labkit.scaling.term import CONSTANT, Term

__all__ = ["Fitting", "Space", "fit", "fit_many", "fit_samples", "settle"]

#: with fewer values a sum of two terms fits anything that is not exact
_LEAST_FOR_SUMS = 7
#: how much closer a sum has to come than a term that is near enough already
_CLOSER = 10.0
#: how unlikely all sums of two terms must be until none is taken
_SUM_LEVEL = 0.05


class Fitting:
    """Everything that can be said of one data set without asking for an expectation's match.

    Attributes
    ----------
    search : Search
        The space over the values of the parameter.
    summary : Summary
        One value for each group of repetitions.
    fits : Fits
        Every term's curve.
    weights : ndarray or None
        The terms' weights, of data with repetitions that differ.
    """

    def __init__(
        self,
        samples: Samples,
        space: Space,
        e: Expectation | None,
        symbol: str,
        aggregate: str,
        unit: str = "",
    ) -> None:
        self.x, self.summary, self.unit = samples.x, samples.summary(aggregate), unit
        y = self.summary.points
        self.search = search_for(space, e, samples.x, bool(falls(samples.x, y[None])[0]), symbol)
        noisy = self.summary.is_noisy
        self.fits = fit_all(
            self.search.values, y[None], self.summary.counts if noisy else None, is_noisy=noisy
        )
        self.weights: Floats | None = None
        if noisy:
            spread = np.array([self.summary.spread])
            self.data = Data(self.search.values, y[None], self.summary.counts, spread)
            self.weights = weigh(self.data, self.fits, self.search.prior)[0]

    @cached_property
    def best(self) -> int:
        """Which term alone describes the data best."""
        if self.weights is not None:
            return int(choose_weighted(self.weights[None], self.fits)[0])
        return int(choose(self.fits, self.x.size, self.search.constant, self.search.expected)[0])

    def kept(self, tolerance: float = 0.02, level: float = 0.05) -> Rejection:
        """Return which terms the data do not reject."""
        if self.weights is not None:
            return keep_tested(self.summary, self.fits, self.weights, self.search.prior, level)
        return keep_near(self.fits, self.x.size, self.search.constant, tolerance, self.summary.freedom)

    def model(self, k: int) -> Model:
        """Return the model of one term."""
        s, noisy, summary = self.search, self.weights is not None, self.summary
        count = float(summary.counts.sum()) if noisy else float(self.x.size)
        return next(
            Model.each_of(
                self.fits, [k], s.constant, s.bases, s.log_scales, self.x, [summary.points], count,
                [self.belief if noisy else None], [None if noisy else self.rivals], self.unit,
            )
        )  # fmt: skip

    @cached_property
    def rivals(self) -> Rivals:
        """The curves that describe data without noise about as well, for intervals."""
        s = self.search
        return Rivals(s.bases, s.values, s.log_scales, s.constant, self.summary.points, self.fits)

    @cached_property
    def belief(self) -> Belief:
        """The weights of all curves, for intervals."""
        s = self.search
        return Belief(s.bases, s.log_scales, self.data, self.fits, s.prior)

    def law(self, tolerance: float = 0.02) -> Model | None:
        """Return the sum that describes the data where no single term does, or far better than any does."""
        y, n, nearest = self.summary.points, self.x.size, float(self.fits.worst[0].min())
        if self.weights is None and nearest <= 100 * ROUNDING:
            return None
        if self.weights is None:
            simple = np.array([_is_whole(t) for t in self.search.terms])
            exact = find_signed(self.search.values, y, self.search.constant, simple)
            if exact is not None:
                return self.sum_of(exact)
            if (settled := self._settling()) is not None:
                return settled
        kept = self.kept(tolerance).kept.any()
        if kept and self.weights is not None:
            return None
        return self._sum_or_from_one(tolerance, bool(kept), nearest if n else 0.0)

    def _settling(self) -> Model | None:
        """Return c - a / x where counts follow it to the last digit, as the blocks a ring sends do."""
        x, y = self.x, self.summary.points
        inverse = 1.0 / x - (1.0 / x).mean()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = float(inverse @ y / (inverse @ inverse))
            c = float(y.mean() - a * (1.0 / x).mean())
        error = np.abs(c + a / x - y) / y
        if not (a < 0 < c and error.max() <= 1e-11):
            return None
        falling = Term(0, -1, symbol=self.search.terms[0].symbol)
        return replace(
            self.model(self.search.constant), constant=float(c), belief=None, free=2,
            others=(Part(falling, falling, float(a), 0.0),), sse=float(error @ error), r2_adjusted=1.0,
            error=float(error.max()), cross_validation=float(error.max()),
        )  # fmt: skip

    def _sum_or_from_one(self, tolerance: float, is_kept: bool, nearest: float) -> Model | None:
        y, noisy = self.summary.points, self.weights is not None
        first = self.nearest_sum()
        if first is None:
            return None
        if noisy:
            p_value = lack_of_fit(self.summary, np.array([first.sse]), np.array([first.free]))[0]
            return self.sum_of(first) if y.size > _LEAST_FOR_SUMS - 2 and p_value > _SUM_LEVEL else None
        if first.worst > 100 * ROUNDING:
            limit = min(tolerance, nearest / _CLOSER) if is_kept else tolerance
            if y.size < _LEAST_FOR_SUMS or first.worst > limit:
                return None
        return self.sum_of(first)

    def nearest_sum(self) -> Pair | None:
        """Return the nearest sum of two terms, or a law such as p - 1 where no sum explains more."""
        first, short = next(iter(self.pairs), None), self.from_one
        if first is None or short is None:
            return first or short
        return first if explains_more(first.sse, first.free, short.sse, short.free, self.x.size) else short

    def segments(self, tolerance: float = 0.02) -> tuple[Segment, ...]:
        """Return the laws of the parts of the range, where several describe the data better than one."""
        noisy, y = self.summary.is_noisy, self.summary.points
        deviation = self.summary.deviation if noisy else tolerance / 4
        return find_segments(self.search.terms, self.search.values, self.x, y, self.summary.counts, deviation)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Sums of two terms, the best first."""
        y = self.summary.points
        return find_pairs(self.search.values, y, y, self._counts, self.search.constant)

    @cached_property
    def from_one(self) -> Pair | None:
        """The best law such as p - 1, which may be 0 on one rank."""
        s, y = self.search, self.summary.points
        bare = zip(s.terms, s.bases, strict=True)
        powers = [_is_whole(t) and t.logarithmic == 0 and isinstance(b, Term) for t, b in bare]
        return find_from_one(s.values, y, y, self._counts, np.where(powers, np.exp2(-s.log_scales), 0.0))

    @property
    def _counts(self) -> Floats:
        """How many measurements stand behind each point of a sum."""
        return self.summary.counts if self.weights is not None else np.ones_like(self.summary.points)

    def sum_of(self, pair: Pair) -> Model:
        """Return the model of a sum."""
        s, lead = self.search, pair.lead
        others: tuple[Part, ...] = ()
        if pair.l is not None:
            others = (Part(s.terms[pair.k], s.terms[pair.k], pair.a, float(s.log_scales[pair.k])),)
        n, y = self.x.size, self.summary.points
        flat = float(self.fits.sse[0, s.constant])
        free = max(n - pair.free, 1)
        base = self.model(lead) if np.isfinite(self.fits.sse[0, lead]) else self.model(s.constant)
        return replace(
            base, term=s.terms[lead], constant=pair.constant, others=others, belief=None, sse=pair.sse,
            r2_adjusted=1 - (pair.sse / free) / (flat / (n - 1)) if flat else None,
            error=pair.worst, cross_validation=float(np.sqrt(pair.sse / free)), free=pair.free, y=y,
            _basis=s.terms[lead], _scaled=pair.b if pair.l is not None else pair.a,
            _log_scale=float(s.log_scales[lead]),
        )  # fmt: skip


def _is_whole(term: Term) -> bool:
    return term > CONSTANT and not term.exponential and all(e.denominator == 1 and e >= 0 for e in term)


def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    space: Space = None,
    expectation: str | Expectation | None = None,
    parameter: str | None = None,
    given: Given | None = None,
    aggregate: str = "auto",
) -> Model:
    """Find the scaling model c + a f(x) of measurements, or a sum c + a f(x) + b g(x) where they carry it.

    Parameters
    ----------
    x : array_like, shape (m,)
        Values of the parameter, repeated where a measurement was.
    y : array_like, shape (m,) or (m, repetitions)
        The measurements, > 0.
    space : {"paper", "wide", "ruler", "joined"} or iterable of Term, optional
        The terms to choose from; "wide" (39 terms) by default, "joined" with an expectation.  For
        data that fall, the falling terms x^-q log^r x are added.
    expectation : str, optional
        An order of growth that the space is built around.
    parameter : str, optional
        The parameter's symbol; the expectation's, or "p".
    given : mapping, optional
        What the expectation's other symbols were (see `read_expectation`).
    aggregate : {"auto", "mean", "quartile", "min", "median"}
        What stands for the repetitions of one value; "auto" is the mean, which uses them best, or the
        first quartile where some lie far out.

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
    return fit_samples(read_samples(x, y), space=space, expectation=e, symbol=symbol, aggregate=aggregate)


def fit_samples(
    samples: Samples,
    *,
    space: Space = None,
    expectation: Expectation | None = None,
    symbol: str = "p",
    aggregate: str = "auto",
    unit: str = "",
) -> Model:
    """Fit grouped measurements; see `fit`."""
    samples.require()
    e = None if expectation is None else settle(expectation, samples.x, samples.aggregate(aggregate)[None])
    fitting = Fitting(samples, space, e, symbol, aggregate, unit)
    law = fitting.law()
    if law is not None:
        return law
    model, kept = fitting.model(fitting.best), fitting.kept()
    is_lawless = not kept.kept.any() and (not kept.is_statistical or kept.is_hopeless)
    return replace(model, is_nearest=True) if is_lawless else model


def fit_many(
    x: npt.ArrayLike,
    ys: npt.ArrayLike,
    *,
    space: Space = None,
    expectation: str | None = None,
    parameter: str = "p",
) -> list[Model]:
    """Fit many data sets measured at the same values with one term each, in one batch.

    Parameters
    ----------
    x : array_like, shape (n,)
        Distinct values of the parameter.
    ys : array_like, shape (s, n) or (s, n, repetitions)
        One data set a row; repetitions are used as `fit` does.
    space, expectation, parameter
        As in `fit`.

    Returns
    -------
    list of Model, length s
    """
    data = np.asarray(ys, dtype=float)
    if data.ndim not in (2, 3):
        raise DataError(f"ys must have shape (sets, values) or (sets, values, repetitions); got {data.shape}")
    repeated = data if data.ndim == 3 else data[..., None]
    if not (np.isfinite(data).all() and (data > 0).all()):
        raise DataError("every measurement must be a positive finite number")
    xs = np.asarray(x, dtype=float)
    if xs.ndim != 1 or xs.size != repeated.shape[1] or np.unique(xs).size != xs.size:
        raise DataError(f"x must hold the {repeated.shape[1]} distinct values the data sets were measured at")
    order = np.argsort(xs)
    xs, repeated = xs[order], repeated[:, order]
    if not (np.isfinite(xs).all() and (xs > 0).all()):
        raise DataError("every parameter must be a positive finite number")
    read_samples(xs, xs).require()
    e = None if expectation is None else read_expectation(expectation, parameter)
    return _fit_rows(xs, summarize(repeated), space, e, e.parameter if e else parameter)


def _fit_rows(
    x: Floats, summaries: Sequence[Summary], space: Space, e: Expectation | None, symbol: str
) -> list[Model]:
    """Fit each row, the rows that fall with the falling terms too, and those with noise by their weights."""
    models: dict[int, Model] = {}
    points = np.stack([s.points for s in summaries])
    falling, noisy = falls(x, points), np.array([s.is_noisy for s in summaries])
    worth = np.array([s.counts[0] for s in summaries])
    for direction, noise, weight in {
        (bool(a), bool(b), float(c)) for a, b, c in zip(falling, noisy, worth, strict=True)
    }:
        rows = np.flatnonzero((falling == direction) & (noisy == noise) & (worth == weight))
        search = search_for(space, e, x, direction, symbol)
        counts = summaries[int(rows[0])].counts
        bases, scales = search.bases, search.log_scales
        if noise:
            spread = np.array([summaries[int(i)].spread for i in rows])
            data = Data(search.values, points[rows], counts, spread)
            fits = fit_all(search.values, points[rows], counts, is_noisy=True)
            winners = choose_weighted(weigh(data, fits, search.prior), fits)
        else:
            fits = fit_all(search.values, points[rows])
            winners = choose(fits, x.size, search.constant, search.expected)
        count = float(counts.sum()) if noise else float(x.size)
        ys = [summaries[row].points for row in rows.tolist()]
        beliefs: list[Belief | None] = [None] * len(ys)
        rivals: list[Rivals | None] = [None] * len(ys)
        for i, y in enumerate(ys):
            if noise:
                beliefs[i] = Belief(bases, scales, data, fits, search.prior, i)
            else:
                rivals[i] = Rivals(bases, search.values, scales, search.constant, y, fits, i)
        found = Model.each_of(
            fits, winners.tolist(), search.constant, bases, scales, x, ys, count, beliefs, rivals
        )
        models.update(zip(rows.tolist(), found, strict=True))
    return [models[i] for i in range(len(summaries))]


def find_changes(x: npt.ArrayLike, y: npt.ArrayLike, *, aggregate: str = "auto") -> list[float]:
    """Return the values of the parameter at which the data change from one law to another.

    Parameters
    ----------
    x, y, aggregate
        As in `fit`; at least eight values of the parameter, four for each law.

    Returns
    -------
    list of float
        The first value of each further law; empty where one law, or a sum, describes all data, or where they
        bend all along.

    Examples
    --------
    >>> p = 2.0 ** np.arange(2, 14)
    >>> find_changes(p, np.where(p < 256, 1.0, 3 * (p / 256) ** 2))
    [256.0]
    """
    fitting = Fitting(read_samples(x, y), None, None, "p", aggregate)
    if fitting.kept().kept.any() or fitting.law() is not None:
        return []
    return [float(fitting.x[s.first]) for s in fitting.segments()[1:]]
