"""Fits measurements with the terms of a space, and judges them against an expectation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import DataError, ExpectationError
from labkit.scaling.deviation import Deviation, deviation_for, match
from labkit.scaling.expectation import Basis, Expectation, Given, read_expectation
from labkit.scaling.leastsquares import Fits, Floats, basis_values, fit_all
from labkit.scaling.model import Model
from labkit.scaling.samples import LEAST_VALUES, Samples, read_samples
from labkit.scaling.selection import Rejection, choose, rejection
from labkit.scaling.space import space_for
from labkit.scaling.term import CONSTANT, Term
from labkit.scaling.verdict import Verdict

__all__ = ["Space", "fit", "fit_many", "fit_samples", "judge", "judge_samples"]

Space = str | Iterable[Term] | None

#: a best curve that misses a point by more than this describes nothing
_HOPELESS = 0.5


@dataclass(frozen=True)
class _Search:
    """A space laid out over the values of the parameter."""

    terms: tuple[Term, ...]
    bases: tuple[Basis, ...]
    values: Floats
    log_scales: Floats
    constant: int
    expected: int | None


@lru_cache(maxsize=256)
def _named_space(
    space: str | tuple[Term, ...] | None, expectation: Term | None, falls: bool, symbol: str
) -> tuple[Term, ...]:
    return tuple(t.named(symbol) for t in space_for(space, expectation, falls=falls))


def _hashable(space: Space) -> str | tuple[Term, ...] | None:
    if space is None or isinstance(space, str):
        return space
    try:
        return tuple(Term(*t) for t in space)
    except (TypeError, ValueError) as error:
        raise ExpectationError(f"a search space is a name or a list of terms or triples: {error}") from None


def _search(space: Space, expectation: Expectation | None, x: Floats, falls: bool, symbol: str) -> _Search:
    term = expectation.term if expectation else None
    terms = _named_space(_hashable(space), term, falls, symbol)
    bases: list[Basis] = list(terms)
    if expectation is not None and expectation.is_exact_shape:
        bases[terms.index(expectation.term)] = expectation
    values, log_scales = basis_values(bases, x)
    expected = terms.index(expectation.term) if expectation else None
    return _Search(terms, tuple(bases), values, log_scales, terms.index(CONSTANT), expected)


def _settle(e: Expectation, x: Floats, points: Floats) -> Expectation:
    """Fit the one unknown an expectation may have, the n of log(n/p) when n was fixed but not told."""
    if not e.has_unknown:
        return e
    choices = [e.with_offset(float(np.log2(x.max())) + k / 4) for k in range(1, 161)]
    values, _ = basis_values(choices, x)
    errors = fit_all(values, points).sse.sum(axis=0)
    return choices[int(np.argmin(errors))]


def _falls(x: Floats, y: Floats) -> npt.NDArray[np.bool_]:
    """Return for each data set whether it falls over the range (its slope in logarithms)."""
    lx = np.log2(x) - np.log2(x).mean()
    return np.asarray(np.log2(y) @ lx < 0)


def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    space: Space = None,
    expectation: str | Expectation | None = None,
    parameter: str | None = None,
    given: Given | None = None,
    aggregate: str = "quartile",
) -> Model:
    """Find the scaling model c + a f(x) of measurements.

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
    aggregate : {"quartile", "min", "median", "mean"}
        What stands for the repetitions of one value.

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
    aggregate: str = "quartile",
    unit: str = "",
) -> Model:
    """Fit grouped measurements; see `fit`."""
    samples.require()
    points = samples.aggregate(aggregate)[None]
    e = None if expectation is None else _settle(expectation, samples.x, points)
    return replace(_fit_rows(samples.x, points, space, e, symbol)[0], unit=unit)


def fit_many(
    x: npt.ArrayLike,
    ys: npt.ArrayLike,
    *,
    space: Space = None,
    expectation: str | None = None,
    parameter: str = "p",
) -> list[Model]:
    """Fit many data sets measured at the same values, in one batch.

    Parameters
    ----------
    x : array_like, shape (n,)
        Distinct values of the parameter.
    ys : array_like, shape (s, n) or (s, n, repetitions)
        One data set a row; repetitions are replaced by their first quartile.
    space, expectation, parameter
        As in `fit`.

    Returns
    -------
    list of Model, length s
    """
    data = np.asarray(ys, dtype=float)
    if data.ndim not in (2, 3):
        raise DataError(f"ys must have shape (sets, values) or (sets, values, repetitions); got {data.shape}")
    points = np.percentile(data, 25, axis=2) if data.ndim == 3 else data
    xs = np.asarray(x, dtype=float)
    if xs.ndim != 1 or xs.size != points.shape[1] or np.unique(xs).size != xs.size:
        raise DataError(f"x must hold the {points.shape[1]} distinct values the data sets were measured at")
    order = np.argsort(xs)
    xs, points = xs[order], points[:, order]
    if not (np.isfinite(points).all() and (points > 0).all() and np.isfinite(xs).all() and (xs > 0).all()):
        raise DataError("every parameter and measurement must be a positive finite number")
    read_samples(xs, xs).require()
    e = None if expectation is None else read_expectation(expectation, parameter)
    return _fit_rows(xs, points, space, e, e.parameter if e else parameter)


def _fit_rows(x: Floats, points: Floats, space: Space, e: Expectation | None, symbol: str) -> list[Model]:
    """Fit each row, the rows that fall with the falling terms too."""
    models: list[Model | None] = [None] * len(points)
    falls = _falls(x, points)
    for direction in (False, True):
        rows = np.flatnonzero(falls == direction)
        if not rows.size:
            continue
        search = _search(space, e, x, direction, symbol)
        fits = fit_all(search.values, points[rows])
        winners = choose(fits, x.size, search.constant, search.expected)
        for i, row in enumerate(rows):
            models[row] = _model(search, fits, i, int(winners[i]), x, points[row])
    return [m for m in models if m is not None]


def _model(search: _Search, fits: Fits, row: int, k: int, x: Floats, y: Floats) -> Model:
    return Model.from_fits(fits, row, k, search.constant, search.bases[k], search.log_scales[k], x, y)


def judge(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    expectation: str | Expectation,
    *,
    deviation: str | Term | None = None,
    space: Space = None,
    parameter: str | None = None,
    given: Given | None = None,
    aggregate: str = "quartile",
    is_valid: bool = True,
    tolerance: float = 0.02,
    level: float = 0.05,
    metric: str = "",
    unit: str = "",
    phase: str = "",
) -> Verdict:
    """Judge measurements against an expectation in big-O notation.

    The best model G of the space is compared with the expectation E by exact exponents, never at a
    finite x: exact when they are equal, approximate when E/D <= G <= E*D, none otherwise.  The
    verdict is undecided when

    * the data are marked as not valid for a verdict (times of an oversubscribed machine);
    * fewer than five values of the parameter were measured;
    * G lies beyond the limits but the data do not reject E itself;
    * even G misses a point by half of its value: no single term describes the data.

    Parameters
    ----------
    x, y, space, parameter, given, aggregate
        As in `fit`; the space is by default the expectation's ruler joined with "wide".
    expectation : str
        Such as ``"p log2(p)"``; of a sum the leading term counts.
    deviation : str or Term, optional
        The limit D; sqrt x by default, "strict" for E's leading exponent halved.
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
    aggregate: str = "quartile",
    is_valid: bool = True,
    tolerance: float = 0.02,
    level: float = 0.05,
    names: tuple[str, str, str] = ("", "", ""),
) -> Verdict:
    """Judge grouped measurements against a bound expectation; see `judge`."""
    limit = deviation_for(e.term, deviation)
    about: dict[str, Any] = dict(zip(("metric", "unit", "phase"), names, strict=True))
    about |= {"aggregate": aggregate, "samples": samples}
    x, points = samples.x, samples.aggregate(aggregate)
    e = _settle(e, x, points[None])
    search = _search(space, e, x, bool(_falls(x, points[None])[0]), e.parameter)
    if x.size < LEAST_VALUES:
        return Verdict(
            "undecided", e, None, None, limit, reasons=(samples.too_few(),), notes=e.notes, **about
        )
    fits = fit_all(search.values, points[None])
    best = int(choose(fits, x.size, search.constant, search.expected)[0])
    kept = rejection(samples, search.values, fits, search.constant, level=level, tolerance=tolerance)
    model = replace(_model(search, fits, 0, best, x, points), unit=about["unit"])
    plausible = _plausible(search, fits, kept, x, points)
    found = match(model.term, e.term, limit.term)
    reasons = _doubts(found, model, any(m.term == e.term for m in plausible), is_valid, limit)
    return Verdict(
        match="undecided" if reasons else found,
        expectation=e,
        model=model,
        divergence=model.term.over(e.term).named(e.parameter),
        deviation=limit,
        plausible=plausible,
        reference=_reference(search, fits, x, points),
        reasons=tuple(reasons),
        notes=(*e.notes, *_remarks(found, model, plausible, kept, tolerance)),
        test=kept.test,
        **about,
    )


def _reference(search: _Search, fits: Fits, x: Floats, y: Floats) -> Model | None:
    """Return the expectation's own fit, where it has one."""
    if search.expected is None or not np.isfinite(fits.press[0, search.expected]):
        return None
    return _model(search, fits, 0, search.expected, x, y)


def _plausible(search: _Search, fits: Fits, kept: Rejection, x: Floats, y: Floats) -> tuple[Model, ...]:
    order: Sequence[int] = [int(k) for k in np.argsort(fits.press[0], kind="stable") if kept.kept[k]]
    return tuple(_model(search, fits, 0, k, x, y) for k in order if np.isfinite(fits.press[0, k]))


def _doubts(found: str, model: Model, is_plausible: bool, is_valid: bool, limit: Deviation) -> list[str]:
    """Return why the data do not allow a verdict."""
    doubts = []
    if not is_valid:
        doubts.append("these measurements are marked as not valid for a verdict (see the runs' notes)")
    if model.error > _HOPELESS:
        doubts.append(f"no single term describes the data: the best one misses a point by {model.error:.0%}")
    elif found == "none" and is_plausible:
        doubts.append(
            f"the model lies beyond the limit {limit}, yet the data do not reject the expectation; "
            "measure a wider range"
        )
    return doubts


def _remarks(
    found: str, model: Model, plausible: tuple[Model, ...], kept: Rejection, tolerance: float
) -> list[str]:
    remarks = []
    if not plausible:
        remarks.append(
            f"the data reject every single term; the best misses a point by {model.error:.1%}: expect "
            "several terms, or a change of behaviour inside the range"
        )
    elif found == "none" or kept.is_statistical:
        pass
    elif model.error > tolerance:
        remarks.append(f"the best model misses a point by {model.error:.1%}")
    return remarks
