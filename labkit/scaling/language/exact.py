"""Exact numbers of expectations: exponents as fractions, thirds as they are printed, powers of two."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

__all__ = ["MOST_DIGITS", "as_power_of_two", "binary_log", "exact", "is_bounded", "is_bounded_power"]

#: numbers lie between 10^-300 and 10^300, so that each is a float, also where two of them are added
MOST_DIGITS, _MOST_BITS = 300, 997
#: two printed digits of a third are a third, as the literature prints p^0.67
_THIRDS = {"33": Fraction(1, 3), "66": Fraction(2, 3), "67": Fraction(2, 3)}
_REPEATED = re.compile(r"(\d*)\.(33|66|67|3{3,}|6{2,}7?)")


def is_bounded(digits: str) -> bool:
    """Whether a number as written is within bounds, before it is made: 1e999999999 has a billion digits."""
    try:
        value = Decimal(digits)
    except InvalidOperation:  # an exponent that not even Decimal has
        return False
    return not value or abs(value.adjusted()) <= MOST_DIGITS


def is_bounded_power(value: Fraction, power: Fraction = Fraction(1)) -> bool:
    """Whether a number to a power is within bounds, before it is made."""
    return not value or abs(power * Fraction(_bits(abs(value)))) <= _MOST_BITS


def exact(digits: str) -> Fraction:
    """Return an exponent exactly; 0.33 and 0.67 are thirds."""
    repeated = _REPEATED.fullmatch(digits)
    if not repeated:
        return Fraction(digits)
    whole, part = repeated.groups()
    return Fraction(whole or 0) + _THIRDS.get(part, Fraction(round(3 * float("0." + part)), 3))


def binary_log(value: Fraction) -> Fraction | None:
    """Return the logarithm of a power of two, or None."""
    for number, sign in ((value, 1), (1 / value, -1)):
        if number.denominator == 1 and number.numerator & (number.numerator - 1) == 0:
            return Fraction(sign * (number.numerator.bit_length() - 1))
    return None


def _bits(value: Fraction) -> float:
    return math.log2(value.numerator) - math.log2(value.denominator)  # also of numbers beyond a float


def as_power_of_two(value: Fraction) -> str:
    """Say how an exponential of another base is written."""
    return f"2^({_bits(value):.4g} x) for {float(value):g}^x"
