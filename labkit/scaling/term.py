"""Terms of growth: 2^(e x) * x^q * log2(x)^r as exact triples of exponents."""

from __future__ import annotations

from fractions import Fraction
from html import escape
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["CONSTANT", "Number", "Term", "decimal"]

Number: TypeAlias = int | float | str | Fraction


def _fraction(value: Number) -> Fraction:
    if type(value) is Fraction:
        return value
    if isinstance(value, float):
        value = Fraction(value).limit_denominator(10_000)
    return Fraction(value)


class Term(tuple[Fraction, Fraction, Fraction]):
    """One term of growth, the triple (exponential, polynomial, logarithmic) of exact exponents.

    ``Term(e, q, r)`` stands for ``2^(e x) * x^q * log2(x)^r``.  It is a tuple: it compares
    lexicographically, which is the order of asymptotic growth, equals the plain tuple of its
    exponents, and can be a key.  The symbol only matters for printing.

    Parameters
    ----------
    exponential, polynomial, logarithmic : int, float, str or Fraction
        The exponents; floats are taken to the nearest fraction with denominator <= 10000.
    symbol : str
        The name of the parameter in print.

    Examples
    --------
    >>> str(Term(0, 1, 1)), str(Term(0, "3/4", -1)), Term(0, 1, 1) > Term(0, 1, 0)
    ('p log p', 'p^0.75/log p', True)
    """

    symbol: str

    def __new__(
        cls, exponential: Number = 0, polynomial: Number = 0, logarithmic: Number = 0, symbol: str = "p"
    ) -> Term:
        """Build the triple."""
        exponents = (_fraction(exponential), _fraction(polynomial), _fraction(logarithmic))
        self = super().__new__(cls, exponents)
        self.symbol = symbol
        return self

    def __getnewargs__(self) -> tuple[Fraction, Fraction, Fraction, str]:
        """Copy and pickle with the symbol."""
        return (*self, self.symbol)

    @property
    def exponential(self) -> Fraction:
        """The e of 2^(e x)."""
        return self[0]

    @property
    def polynomial(self) -> Fraction:
        """The q of x^q."""
        return self[1]

    @property
    def logarithmic(self) -> Fraction:
        """The r of log2(x)^r."""
        return self[2]

    @property
    def growth_class(self) -> int:
        """1, 2 or 3: logarithmic (constants too), polynomial or exponential."""
        return 3 if self[0] else 2 if self[1] else 1

    @property
    def is_constant(self) -> bool:
        """Whether this is the term 1."""
        return not any(self)

    @property
    def is_falling(self) -> bool:
        """Whether the term tends to 0 for large x."""
        return self < CONSTANT

    def named(self, symbol: str) -> Term:
        """Return the same term printed with another symbol."""
        return Term(*self, symbol=symbol)

    def times(self, other: Term) -> Term:
        """Return the product of two terms."""
        return Term(self[0] + other[0], self[1] + other[1], self[2] + other[2], self.symbol)

    def over(self, other: Term) -> Term:
        """Return the quotient of two terms."""
        return Term(self[0] - other[0], self[1] - other[1], self[2] - other[2], self.symbol)

    def power(self, exponent: Number) -> Term:
        """Return the term to a rational power."""
        k = _fraction(exponent)
        return Term(self[0] * k, self[1] * k, self[2] * k, self.symbol)

    def log2(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the binary logarithm of the term's values, which cannot overflow.

        Parameters
        ----------
        x : array_like
            Values of the parameter, > 0; > 1 where the term has a logarithm.

        Returns
        -------
        ndarray
            Same shape; -inf where a positive power of log2(1) makes the value 0.
        """
        x = np.asarray(x, dtype=float)
        out = np.zeros_like(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self[0]:
                out = out + float(self[0]) * x
            if self[1]:
                out = out + float(self[1]) * np.log2(x)
            if self[2]:
                out = out + float(self[2]) * np.log2(np.log2(x))
        return out

    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the values of the term at x (inf where they exceed the range of doubles)."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp2(self.log2(x)), dtype=np.float64)

    def __str__(self) -> str:
        """Print in the notation of the literature; the parser of expectations reads it back."""
        return self.text(self.symbol)

    def __repr__(self) -> str:
        """Print as code."""
        return f"Term({', '.join(str(e) for e in self)}: {self})"

    def text(self, symbol: str = "p") -> str:
        """Return the term as text, such as ``p^0.75 log p``, ``1/log p`` or ``1``."""
        return _join(*_factors(self, symbol, _power_text), " ")

    def pretty(self, symbol: str | None = None) -> str:
        """Return the term as text with raised digits, such as ``p² log p``, ``√p`` or ``p^0.75``."""
        symbol = self.symbol if symbol is None else symbol
        return _join(*_factors(self, symbol, _power_pretty), " ")

    def html(self, symbol: str | None = None) -> str:
        """Return the term as HTML with superscripts."""
        symbol = escape(self.symbol if symbol is None else symbol)
        return _join(*_factors(self, f"<i>{symbol}</i>", _power_html), "&nbsp;")


_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def decimal(value: Fraction) -> str:
    """Return an exponent in short: 0.75, 0.67 for two thirds, 1.375, else 3/7."""
    if value.denominator == 3:
        return f"{float(value):.2f}"
    scaled = value * 10_000
    if scaled.denominator == 1:
        return f"{float(value):g}"
    return f"{value.numerator}/{value.denominator}"


def _power_text(base: str, exponent: Fraction) -> str:
    if exponent == 1:
        return base
    if exponent == Fraction(1, 2) and base != "log":
        return f"sqrt({base})"
    digits = decimal(exponent)
    return f"{base}^({digits})" if "/" in digits else f"{base}^{digits}"


def _power_pretty(base: str, exponent: Fraction) -> str:
    if exponent == Fraction(1, 2) and base != "log":
        return f"√{base}"
    if exponent.denominator == 1 and exponent != 1:
        return base + str(exponent).translate(_RAISED)
    return _power_text(base, exponent)


def _power_html(base: str, exponent: Fraction) -> str:
    if exponent == 1:
        return base
    if exponent == Fraction(1, 2) and base != "log":
        return f"√{base}"
    return f"{base}<sup>{decimal(exponent).replace('-', '−')}</sup>"


class _Power(Protocol):
    def __call__(self, base: str, exponent: Fraction) -> str: ...


def _exponential(e: Fraction, symbol: str, power: _Power) -> str:
    inner = f"{symbol}/{e.denominator}" if e.numerator == 1 else f"{decimal(e)} {symbol}"
    inner = symbol if e == 1 else inner
    if power is _power_html:
        return f"2<sup>{inner}</sup>"
    return f"2^{inner}" if inner == symbol else f"2^({inner})"


def _factors(term: Term, symbol: str, write: _Power) -> tuple[list[str], list[str]]:
    """Return the factors above and below the fraction bar."""
    above: list[str] = []
    below: list[str] = []
    e, q, r = term
    is_alone = sum(1 for x in term if x) == 1
    if is_alone and q < 0 and q != -1:
        return [write(symbol, q)], []
    if q:
        (above if q > 0 else below).append(write(symbol, abs(q)))
    if e:
        (above if e > 0 else below).append(_exponential(abs(e), symbol, write))
    if r:
        (above if r > 0 else below).append(f"{write('log', abs(r))} {symbol}")
    return above, below


def _join(above: list[str], below: list[str], space: str) -> str:
    top = space.join(above) or "1"
    if not below:
        return top
    if len(above) == 1 and above[0].startswith("log"):
        top = f"({top})"
    return f"{top}/{below[0]}" if len(below) == 1 else f"{top}/({space.join(below)})"


#: the term 1
CONSTANT = Term()
