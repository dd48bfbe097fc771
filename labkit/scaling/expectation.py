"""An expectation: an order of growth, bound to the parameter that was varied."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from labkit.checks import echo
from labkit.errors import ExpectationError
from labkit.scaling.parser import Monomial, Product, meant, parse
from labkit.scaling.term import Term, decimal

#: what a fixed symbol is below
_MOST = 1e300

__all__ = ["Basis", "Expectation", "Given", "read_expectation", "read_term"]

#: what is known of the other symbols: a number, or how they follow the parameter ("1000 * p")
Given = Mapping[str, float | int | str]


class Basis(Protocol):
    """A function of the parameter that a model can be made of."""

    def log2(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return log2 of the values at x."""
        ...


@dataclass(frozen=True)
class Log:
    """(offset + slope log2 x)^exponent, a logarithm of coefficient * x^slope.

    `offset`: log2 of the coefficient; None when it is not known.
    `slope`, `exponent`: Exponents inside and outside.
    """

    offset: float | None
    slope: Fraction
    exponent: Fraction

    def text(self, symbol: str) -> str:
        """Return the logarithm as text."""
        inner = f"{2.0 ** (self.offset or 0.0):.4g}"
        if self.slope:
            power = Term(0, abs(self.slope)).text(symbol)
            inner += f"/{power}" if self.slope < 0 else f" {power}"
        outer = "" if self.exponent == 1 else f"^{decimal(self.exponent)}"
        return f"log{outer}({inner})"


@dataclass(frozen=True)
class Expectation:
    """An order of growth in one parameter.

    Attributes
    ----------
    text : str
        As the user wrote it.
    parameter : str
        The symbol that is varied.
    term : Term
        Its leading term.
    notes : tuple of str
        What was assumed of the other symbols.
    """

    text: str
    parameter: str
    term: Term
    notes: tuple[str, ...] = ()
    _logs: tuple[Log, ...] = field(default=(), repr=False)

    @property
    def is_exact_shape(self) -> bool:
        """Whether the curve differs from the bare term (logarithms with a known offset)."""
        return bool(self._logs)

    @property
    def has_unknown(self) -> bool:
        """Whether the n of a log(n/p) is not known."""
        return any(log.offset is None for log in self._logs)

    def with_offset(self, offset: float) -> Expectation:
        """Return the expectation with log2 n, the unknown of its logarithms, filled in."""
        logs = tuple(replace(log, offset=offset) if log.offset is None else log for log in self._logs)
        note = f"the fixed value in its logarithm was not given and is fitted: {2.0**offset:.3g}"
        return replace(self, _logs=logs, notes=(*self.notes, note))

    @property
    def shape_text(self) -> str:
        """The fitted function as text, the known offsets of its logarithms included."""
        if not self._logs:
            return str(self.term)
        logs = " ".join(log.text(self.parameter) for log in self._logs)
        rest = Term(self.term[0], self.term[1])
        if rest.is_falling:
            return f"{logs}/{rest.power(-1).text(self.parameter)}"
        return logs if rest.is_constant else f"{rest.text(self.parameter)} {logs}"

    def log2(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return log2 of the leading product's values, with the offsets of its logarithms."""
        if not self._logs:
            return self.term.log2(x)
        x = np.asarray(x, dtype=float)
        out = Term(self.term[0], self.term[1]).log2(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            for log in self._logs:
                inner = (log.offset or 0.0) + float(log.slope) * np.log2(x)
                out = out + float(log.exponent) * np.log2(np.maximum(inner, 0.0))
        return np.asarray(out, dtype=np.float64)

    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the leading product's values, without its coefficient."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp2(self.log2(x)), dtype=np.float64)

    def __str__(self) -> str:
        """Print the expectation in big-O notation."""
        return f"O({self.term})"


@dataclass(frozen=True)
class _Follows:
    """A symbol as coefficient * parameter^exponent; the coefficient may be unknown."""

    coefficient: float | None
    exponent: Fraction


def read_expectation(
    text: str | Expectation, parameter: str | None = None, given: Given | None = None
) -> Expectation:
    """Read an expectation and bind it to the parameter that was varied.

    Parameters
    ----------
    text : str or Expectation
        Such as ``"p log2(p)"`` or ``"n/p * log2(n/p)"``.
    parameter : str, optional
        The symbol that was varied; by default the only symbol there is, or ``p``.
    given : mapping, optional
        What the other symbols were: a number when held fixed, an expression such as ``"1000 * p"``
        when they followed the parameter.  A symbol not given counts as fixed at an unknown value.

    Returns
    -------
    Expectation
        Its leading term: with n fixed, p stays at most a power n^c, c < 1, so that log(n/p) is a
        constant in the order of growth; the fitted curve uses its exact values when n is given.

    Raises
    ------
    ExpectationError
        When the text cannot be read or the symbols leave the growth open.
    """
    if isinstance(text, Expectation):
        return text
    if not isinstance(given or {}, Mapping):
        raise ExpectationError(
            f"given is a mapping such as {{'n': '1000 * p'}}; got {echo(given)}", code="wrong-type"
        )
    if parameter is not None and not isinstance(parameter, str):
        raise ExpectationError(f"a parameter is a name such as 'p'; got {echo(parameter)}", code="wrong-type")
    products = parse(text)
    symbols = sorted(frozenset().union(*(p.symbols for p in products)))
    parameter = _varied(text, symbols, parameter, given or {})
    follows, notes = _follow(text, symbols, parameter, given or {})
    bound = [_bind(p, parameter, follows, text) for p in products]
    term, logs = max(bound, key=lambda pair: pair[0])
    return Expectation(text.strip(), parameter, term, notes, logs)


def read_term(text: str | Term, symbol: str) -> Term:
    """Read a single term in one parameter, such as a deviation limit."""
    if isinstance(text, Term):
        return text.named(symbol)
    return read_expectation(text, symbol).term.named(symbol)


def _varied(text: str, symbols: list[str], parameter: str | None, given: Given) -> str:
    free = [s for s in symbols if s not in given]
    if parameter is not None:
        if symbols and parameter not in symbols and free:
            name = parameter[:80]
            raise ExpectationError(
                f"expectation {text!r} is in {', '.join(symbols)}, but {name!r} was varied; write it in "
                f"{name!r}, or say how the others follow, as given={{{free[0]!r}: '1000 * {name}'}}"
            )
        return parameter
    if len(free) <= 1:
        return free[0] if free else "p"
    if "p" in free:
        return "p"
    if hint := next(filter(None, map(meant, free)), ""):
        raise ExpectationError(f"expectation {text!r} has the parameters {', '.join(free)}{hint}")
    raise ExpectationError(
        f"expectation {text!r} has the parameters {', '.join(free)}; say which was varied (parameter=...)",
        code="ambiguous",
    )


def _follow(
    text: str, symbols: list[str], parameter: str, given: Given
) -> tuple[dict[str, _Follows], tuple[str, ...]]:
    follows = {parameter: _Follows(1.0, Fraction(1))}
    notes = []
    for symbol in symbols:
        if symbol == parameter:
            continue
        if symbol not in given:
            follows[symbol] = _Follows(None, Fraction(0))
            notes.append(f"{symbol} is taken as fixed{meant(symbol)}")
            continue
        follows[symbol] = _read_given(symbol, given[symbol], parameter)
        notes.append(f"{symbol} = {given[symbol]}")
    return follows, tuple(notes)


def _read_given(symbol: str, value: float | int | str, parameter: str) -> _Follows:
    hint = f"give a positive number or a product such as '1000 * {parameter}'"
    if isinstance(value, (int, float, np.number)):
        if not 0 < value < _MOST:
            raise ExpectationError(f"{symbol} = {echo(value)} cannot be used; {hint}")
        return _Follows(float(value), Fraction(0))
    products = parse(value)
    p = products[0]
    if len(products) > 1 or p.exponentials or p.logs or not p.symbols <= {parameter}:
        raise ExpectationError(f"{symbol} = {echo(value)} cannot be used; {hint}")
    return _Follows(float(p.coefficient), p.powers[0][1] if p.powers else Fraction(0))


def _bind(
    product: Product, parameter: str, follows: Mapping[str, _Follows], text: str
) -> tuple[Term, tuple[Log, ...]]:
    """Return the product's term in the parameter, and its logarithms where they have offsets."""
    q = sum((e * follows[s].exponent for s, e in product.powers), Fraction(0))
    exponential = Fraction(0)
    for s, e in product.exponentials:
        if s == parameter:
            exponential += e
        elif follows[s].exponent:
            raise ExpectationError(
                f"expectation {text!r}: 2^{s} with {s} following {parameter} is not among the terms"
            )
    logs = [_bind_log(argument, exponent, follows) for argument, exponent in product.logs]
    r = sum((log.exponent for log in logs if log.slope > 0), Fraction(0))
    term = Term(exponential, q, r, symbol=parameter)
    varying = tuple(log for log in logs if log.slope)
    unknown = [log for log in varying if log.offset is None]
    if any(log.slope < 0 for log in unknown):
        if len(unknown) > 1:
            raise ExpectationError(
                f"expectation {text!r}: say what its fixed symbols were (given=...)", code="ambiguous"
            )
        return term, varying
    if unknown or not any(log.offset or log.slope < 0 for log in varying):
        return term, ()
    return term, varying


def _bind_log(argument: Monomial, exponent: Fraction, follows: Mapping[str, _Follows]) -> Log:
    slope = sum((e * follows[s].exponent for s, e in argument), Fraction(0))
    coefficients = [follows[s].coefficient for s, _ in argument]
    if any(c is None for c in coefficients):
        return Log(None, slope, exponent)
    offset = sum(float(e) * math.log2(c or 1.0) for (_, e), c in zip(argument, coefficients, strict=True))
    return Log(offset, slope, exponent)
