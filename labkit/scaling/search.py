"""The search space of one data set: functions laid out over the measured values of the parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from labkit.checks import echo
from labkit.errors import ExpectationError
from labkit.scaling.expectation import Basis, Expectation
from labkit.scaling.leastsquares import Floats, basis_values, fit_all
from labkit.scaling.posterior import prior_of
from labkit.scaling.term import CONSTANT, Term

__all__ = [
    "BEYOND",
    "PAPER",
    "WIDE",
    "Space",
    "Terms",
    "falling",
    "falls",
    "family",
    "lay_out",
    "ruler",
    "settle",
    "space_for",
]


Bools = npt.NDArray[np.bool_]

Space = str | Iterable[Term] | None

#: models must stay positive up to this many times the largest value
BEYOND = 64
#: local powers of p at the end from which on steeper terms are tried, and how much it must rise for
#: exponentials
_STEEP_FROM, _EXPONENTIAL_FROM, _RISE = 1.8, 2.2, 1.4
#: the share by which the upper half of the range must rise for steeper terms next to a large constant
_VISIBLE = 0.2


#: logarithms of how much less likely a term is beforehand: a second logarithm; a power of no whole exponent,
#: with and without a logarithm; a falling term; a steep or an exponential one
_SECOND_LOG, _BROKEN, _BROKEN_LOG, _FALLING, _RARE = 2.0, 0.7, 2.3, 0.7, 1.0


@dataclass(frozen=True, eq=False)
class Terms:
    """Functions over the values of the parameter, in the order of growth.

    `bases`: The functions: terms, and an expectation whose shape is not a bare term.
    `x` (ndarray, shape (n,)): Values of the parameter.
    `expected`: Which function is the expectation's.
    `is_foreign`: Whether only the expectation brought it: the family does not hold it.
    `favors_expected`: Whether the space was chosen by name, for the expectation; the family favors none.
    """

    bases: tuple[Basis, ...]
    x: Floats = field(repr=False)
    expected: int | None = None
    is_foreign: bool = False
    favors_expected: bool = False

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The growth of each function."""
        return tuple(_term_of(b) for b in self.bases)

    @cached_property
    def _laid_out(self) -> tuple[Floats, Floats]:
        values, log_scales = basis_values(self.bases, self.x)
        for k, t in enumerate(self.terms):  # log^2 p / p^0.25 rises up to p = 2^8: no model of data there
            if t.is_falling and k != self.expected and not values[k, -1] < values[k, 0]:
                values[k] = np.nan
        values.flags.writeable = log_scales.flags.writeable = False  # kept for the next data set
        return values, log_scales

    @property
    def values(self) -> Floats:
        """The functions at the points, scaled to a maximum of 1, shape (k, n); nan where it takes no part."""
        return self._laid_out[0]

    @property
    def log_scales(self) -> Floats:
        """log2 of the scales, shape (k,)."""
        return self._laid_out[1]

    @cached_property
    def constant(self) -> int:
        """Which function is 1."""
        return next(k for k, b in enumerate(self.bases) if isinstance(b, Term) and b.is_constant)

    @cached_property
    def usable(self) -> npt.NDArray[np.int64]:
        """The functions of the family other than 1 that take part: a foreign one stands for itself alone."""
        finite: Bools = np.asarray(np.isfinite(self.values).all(axis=1))
        finite[self.constant] = False
        finite[self.foreign] = False
        return np.flatnonzero(finite)

    @cached_property
    def foreign(self) -> npt.NDArray[np.int64]:
        """The function that only the expectation brought, shape (0,) or (1,)."""
        return np.array([self.expected] if self.is_foreign else [], dtype=np.int64)

    @cached_property
    def pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All pairs of usable functions, as places in `usable`, the slower first."""
        first, second = np.triu_indices(len(self.usable), 1)
        return first.astype(np.int64), second.astype(np.int64)

    @cached_property
    def is_falling(self) -> Bools:
        """Which functions fall, shape (k,)."""
        return np.array([t.is_falling for t in self.terms])

    @cached_property
    def is_exponential(self) -> Bools:
        """Which are exponentials, or powers times them, shape (k,)."""
        return np.array([bool(t.exponential) for t in self.terms])

    @cached_property
    def may_level(self) -> Bools:
        """Which may be subtracted from a constant, as in c - a/p, which levels off at c."""
        return np.array([t.is_falling and not t.logarithmic and not t.exponential for t in self.terms])

    @cached_property
    def is_simple(self) -> Bools:
        """Terms that may have a lower term below 0, as counts such as p^2 - p do."""
        whole = [all(e.denominator == 1 and e >= 0 for e in t) for t in self.terms]
        return np.array(
            [w and t > CONSTANT and not t.exponential for w, t in zip(whole, self.terms, strict=True)]
        )

    @cached_property
    def far(self) -> Floats:
        """The functions inside and beyond the range, where every model must be positive, shape (k, g)."""
        inside = np.geomspace(self.x[0], self.x[-1], 12)
        at = np.concatenate([inside, self.x[-1] * np.exp2(np.arange(1, np.log2(BEYOND) + 1))])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            logs = np.stack([np.asarray(b.log2(at)) for b in self.bases]) - self.log_scales[:, None]
            return np.nan_to_num(np.exp2(np.minimum(logs, 1000.0)))

    @cached_property
    def log_priors(self) -> Floats:
        """The logarithm of how likely each function is beforehand, without noise."""
        return np.array([_log_prior(t) for t in self.terms])

    @cached_property
    def heights(self) -> Floats:
        """How much each function changes over the range."""
        return np.asarray(np.ptp(self.values, axis=1))

    @cached_property
    def prior(self) -> Floats:
        """How likely each term is beforehand, of noisy data."""
        return prior_of(self.terms, self.expected if self.favors_expected else None)


def _log_prior(term: Term) -> float:
    """Return the logarithm of how likely a term is beforehand, 0 for the plainest."""
    out = -_SECOND_LOG if abs(term.logarithmic) > 1 else 0.0
    if term.polynomial.denominator > 2 or (term.polynomial.denominator == 2 and term.logarithmic):
        out -= _BROKEN_LOG if term.logarithmic else _BROKEN
    if term.is_falling:
        out -= _FALLING
    if term.polynomial > 2 or term.exponential:
        out -= _RARE
    if term.exponential.denominator > 1:
        out -= _BROKEN_LOG
    return out


def _term_of(basis: Basis) -> Term:
    return basis.term if isinstance(basis, Expectation) else basis  # type: ignore[return-value]


def _hashable(space: Space) -> str | tuple[Term, ...] | None:
    if space is None or isinstance(space, str):
        return space
    try:
        return tuple(Term(*t) for t in space)
    except (TypeError, ValueError) as error:
        raise ExpectationError(f"a search space is a name or a list of terms or triples: {error}") from None


def lay_out(space: Space, x: Floats, y: Floats, symbol: str, expectation: Expectation | None = None) -> Terms:
    """Return the search space of data.

    `space`: Of `labkit.scaling.fit`; None is the family, chosen by the data alone.
    `x`, `y` (ndarray, shape (n,)): The data.
    `symbol`: The parameter in print.
    `expectation`: Its own form takes part; a space built from it needs it.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        powers = np.diff(np.log(y)) / np.diff(np.log(x))
    is_steep = bool(powers[-1] > _STEEP_FROM) or _outgrows_square(x, y)
    is_exponential = bool(powers[-1] > max(_EXPONENTIAL_FROM, _RISE * powers[0]))
    kind = (bool(falls(x, y[None])[0]), is_steep, is_exponential)
    return _layout(_hashable(space), expectation, tuple(x.tolist()), kind, symbol)


def _outgrows_square(x: Floats, y: Floats) -> bool:
    """Return whether data bend up more than c + a x^2 does, which a large constant hides from the power."""
    (first, middle, last), square = y[[0, y.size // 2, -1]], np.square(x[[0, y.size // 2, -1]] / x[-1])
    early, late = (middle - first) / middle, (last - middle) / middle
    return bool(late > _VISIBLE and late > _RISE * early * (1 - square[1]) / (square[1] - square[0]))


@lru_cache(maxsize=512)
def _terms_of(
    space: str | tuple[Term, ...] | None, expected: Term | None, kind: tuple[bool, bool, bool], symbol: str
) -> tuple[tuple[Term, ...], bool]:
    """Return the terms with the expected one, and whether it had to be added to the family."""
    if space is not None:
        return tuple(t.named(symbol) for t in space_for(space, expected, falls=kind[0])), False
    terms = family(falls=kind[0], is_steep=kind[1], is_exponential=kind[2])
    is_foreign = expected is not None and expected not in terms
    every = tuple(sorted({*terms, Term(*expected)})) if expected is not None else terms
    return tuple(t.named(symbol) for t in every), is_foreign


@lru_cache(maxsize=128)
def _layout(
    space: str | tuple[Term, ...] | None,
    expectation: Expectation | None,
    places: tuple[float, ...],
    kind: tuple[bool, bool, bool],
    symbol: str,
) -> Terms:
    term = expectation.term if expectation else None
    terms, is_foreign = _terms_of(space, term, kind, symbol)
    bases: list[Basis] = list(terms)
    expected = terms.index(expectation.term) if expectation else None
    if expectation is not None and expectation.is_exact_shape:
        if space is None and not is_foreign:  # the bare term stays in the family
            assert expected is not None
            bases.insert(expected + 1, expectation)
            expected, is_foreign = expected + 1, True
        else:
            bases[terms.index(expectation.term)] = expectation
    return Terms(tuple(bases), np.array(places), expected, is_foreign, space is not None)


def settle(e: Expectation, x: Floats, points: Floats) -> Expectation:
    """Fit the one unknown an expectation may have, the n of log(n/p) when n was fixed but not given."""
    if not e.has_unknown:
        return e
    choices = [e.with_offset(float(np.log2(x.max())) + k / 4) for k in range(1, 161)]
    values, _ = basis_values(choices, x)
    errors = fit_all(values, points).sse.sum(axis=0)
    return choices[int(np.argmin(errors))]


def falls(x: Floats, y: Floats) -> Bools:
    """Return for each data set whether it falls over the range (its slope in logarithms)."""
    lx = np.log2(x) - np.log2(x).mean()
    return np.asarray(np.log2(y) @ lx < 0)


# Search spaces: the sets of terms a model is chosen from.


_STEPS = 2  # times a ruler's intervals are halved


def _grid(logs: Iterable[int]) -> tuple[Term, ...]:
    exponents = {Fraction(k, 4) for k in range(9)} | {Fraction(k, 3) for k in range(7)}
    return tuple(sorted(Term(0, q, r) for q in exponents for r in logs))


#: {0 and the multiples of 1/4 and 1/3 up to 2} x {log^0, log^1}: 26 terms, the default of the literature
PAPER = _grid((0, 1))
#: the same with log^2: 39 terms
WIDE = _grid((0, 1, 2))


#: x^-q: what is left of a level that data rise or fall to
LEVELS = tuple(sorted(Term(0, -t.polynomial) for t in PAPER if t.polynomial and not t.logarithmic))
#: beyond p^2, for data that rise as steeply
_STEEP = tuple(Term(0, Fraction(q, 4), r) for q in (9, 10, 11, 12, 14, 16) for r in (0, 1))
#: 2^(e x) x^q, for data whose power rises with x
_EXPONENTIAL = tuple(Term(Fraction(e, 4), q) for e in (2, 3, 4, 5, 6, 8, 12) for q in range(5))


def family(*, falls: bool = False, is_steep: bool = False, is_exponential: bool = False) -> tuple[Term, ...]:
    """Return the terms that models are made of, for data of this kind; "wide" is in all of them."""
    terms = {*WIDE, *LEVELS, *(falling() if falls else ())}
    return tuple(sorted({*terms, *(_STEEP if is_steep else ()), *(_EXPONENTIAL if is_exponential else ())}))


def paper() -> tuple[Term, ...]:
    """Return the default space of Shudler et al. (TPDS 2019, section 3.1.3): 26 terms."""
    return PAPER


def wide() -> tuple[Term, ...]:
    """Return the default space with log^2 added: 39 terms."""
    return WIDE


def falling(terms: Iterable[Term] = WIDE) -> tuple[Term, ...]:
    """Return the falling mirror images x^-q log^r x of terms, for strong scaling."""
    return tuple(sorted(Term(0, -t.polynomial, t.logarithmic) for t in terms if t.polynomial))


def ruler(expectation: Term) -> tuple[Term, ...]:
    """Return the space an expectation E spans, like ticks on a ruler (ibid., section 2.3).

    The large ticks are the exponents between 1 and E^2 in E's own class, halved twice; each is
    multiplied by powers of the next lower class; what exceeds E^2 is left out.

    Parameters
    ----------
    expectation : Term
        E's leading term. For logarithms and constants, whose own ruler would hold only powers of
        the logarithm, the default space is used.

    Returns
    -------
    tuple of Term
        Sorted; E = p gives 17 terms, E = p log p gives 27. E is always among them.
    """
    e, q, r = expectation
    if expectation.growth_class == 1:
        return tuple(sorted({*PAPER, expectation}))
    if expectation.growth_class == 2:
        terms = {Term(0, tick, low) for tick in _ticks(q) for low in _lower(r)}
    else:
        terms = {Term(tick, low, log) for tick in _ticks(e) for low in _lower(q) for log in {Fraction(0), r}}
    edge = expectation.power(2)
    low_end, high_end = min(CONSTANT, edge), max(CONSTANT, edge)
    inside = {t for t in terms if low_end <= t <= high_end}
    return tuple(sorted({*inside, CONSTANT, expectation}))


def _ticks(leading: Fraction) -> set[Fraction]:
    """Return 0, the leading exponent and its double, with the intervals halved."""
    ticks = [Fraction(0), leading, 2 * leading]
    for _ in range(_STEPS):
        middles = [(a + b) / 2 for a, b in pairwise(ticks)]
        ticks = sorted({*ticks, *middles}, key=lambda t: abs(t))
    return set(ticks)


def _lower(exponent: Fraction) -> set[Fraction]:
    """Return the exponents of the next lower class: 0, 1 and E's own with its two neighbors."""
    lowest = min(Fraction(0), exponent)
    candidates = {Fraction(0), Fraction(1), exponent - 1, exponent, exponent + 1}
    return {c for c in candidates if c >= lowest}


def space_for(
    space: str | Iterable[Term] | None, expectation: Term | None, *, falls: bool = False
) -> tuple[Term, ...]:
    """Return the terms to choose from.

    Parameters
    ----------
    space : {"paper", "wide", "ruler", "joined"} or iterable of Term, optional
        By default "joined", the expectation's ruler with the wide space, or "wide" without an
        expectation.  An expectation is always added to its space.
    expectation : Term, optional
        E's leading term.
    falls : bool
        Whether the data fall: their mirror images are then added to a named space.

    Raises
    ------
    ExpectationError
        For a name that is not known, or a ruler without an expectation.
    """
    if space is None:
        space = "wide" if expectation is None else "joined"
    if not isinstance(space, str):
        chosen = {Term(*t) for t in space}
        falls = False
    elif space in ("ruler", "joined"):
        if expectation is None:
            raise ExpectationError(f'space "{space}" is built from an expectation, and none is given')
        chosen = set(ruler(expectation)) | (set(WIDE) if space == "joined" else set())
        falls = falls and space == "joined"
    elif space in ("paper", "wide"):
        chosen = set(PAPER if space == "paper" else WIDE)
    else:
        raise ExpectationError(
            f'search space {echo(space)} is not known; known: "paper", "wide", "ruler", "joined", '
            "or a list of terms"
        )
    if falls or (expectation is not None and expectation.is_falling and space != "ruler"):
        chosen |= set(falling(t for t in chosen if t.polynomial > 0 and not t.exponential))
    if expectation is not None:
        chosen.add(Term(*expectation))
    return tuple(sorted(chosen | {CONSTANT}))
