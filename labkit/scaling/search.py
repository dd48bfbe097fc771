"""The search for a term: a space laid out over the measured values of the parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from labkit.errors import ExpectationError
from labkit.scaling.expectation import Basis, Expectation
from labkit.scaling.leastsquares import Floats, basis_values, fit_all
from labkit.scaling.posterior import prior_of
from labkit.scaling.space import space_for
from labkit.scaling.term import CONSTANT, Term

__all__ = ["Search", "Space", "falls", "search_for", "settle"]

Space = str | Iterable[Term] | None


@dataclass(frozen=True, eq=False)
class Search:
    """A space laid out over the values of the parameter."""

    terms: tuple[Term, ...]
    bases: tuple[Basis, ...]
    values: Floats
    log_scales: Floats
    constant: int
    expected: int | None

    @cached_property
    def prior(self) -> Floats:
        """How likely each term is beforehand."""
        return prior_of(self.terms, self.expected)


@lru_cache(maxsize=256)
def _named_space(
    space: str | tuple[Term, ...] | None, expectation: Term | None, with_falling: bool, symbol: str
) -> tuple[Term, ...]:
    return tuple(t.named(symbol) for t in space_for(space, expectation, falls=with_falling))


def _hashable(space: Space) -> str | tuple[Term, ...] | None:
    if space is None or isinstance(space, str):
        return space
    try:
        return tuple(Term(*t) for t in space)
    except (TypeError, ValueError) as error:
        raise ExpectationError(f"a search space is a name or a list of terms or triples: {error}") from None


def search_for(
    space: Space, expectation: Expectation | None, x: Floats, with_falling: bool, symbol: str
) -> Search:
    """Lay a space out over the values of the parameter, the falling terms with it where the data fall."""
    return _laid_out(_hashable(space), expectation, tuple(x.tolist()), with_falling, symbol)


@lru_cache(maxsize=64)
def _laid_out(
    space: str | tuple[Term, ...] | None,
    expectation: Expectation | None,
    places: tuple[float, ...],
    with_falling: bool,
    symbol: str,
) -> Search:
    term, x = expectation.term if expectation else None, np.array(places)
    terms = _named_space(space, term, with_falling, symbol)
    bases: list[Basis] = list(terms)
    if expectation is not None and expectation.is_exact_shape:
        bases[terms.index(expectation.term)] = expectation
    values, log_scales = basis_values(bases, x)
    expected = terms.index(expectation.term) if expectation else None
    for k, t in enumerate(terms):  # log^2 p / p^0.25 rises up to p = 2^8: no model of data there
        if t.is_falling and k != expected and not values[k, -1] < values[k, 0]:
            values[k] = np.nan
    values.flags.writeable = log_scales.flags.writeable = False  # the layout is kept for the next data set
    return Search(terms, tuple(bases), values, log_scales, terms.index(CONSTANT), expected)


def settle(e: Expectation, x: Floats, points: Floats) -> Expectation:
    """Fit the one unknown an expectation may have, the n of log(n/p) when n was fixed but not told."""
    if not e.has_unknown:
        return e
    choices = [e.with_offset(float(np.log2(x.max())) + k / 4) for k in range(1, 161)]
    values, _ = basis_values(choices, x)
    errors = fit_all(values, points).sse.sum(axis=0)
    return choices[int(np.argmin(errors))]


def falls(x: Floats, y: Floats) -> npt.NDArray[np.bool_]:
    """Return for each data set whether it falls over the range (its slope in logarithms)."""
    lx = np.log2(x) - np.log2(x).mean()
    return np.asarray(np.log2(y) @ lx < 0)
