"""Products of powers, exponentials and logarithms of named quantities, with exact exponents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from labkit.scaling.term import Term

__all__ = ["Monomial", "Product", "monomial"]

#: symbols and their exponents, sorted by symbol: n/p is (("n", 1), ("p", -1))
Monomial: TypeAlias = tuple[tuple[str, Fraction], ...]


def monomial(powers: Mapping[str, Fraction]) -> Monomial:
    """Return the canonical form of a mapping from symbols to exponents."""
    return tuple(sorted((s, e) for s, e in powers.items() if e))


@dataclass(frozen=True)
class Product:
    """coefficient * prod s^q * 2^(sum e s) * prod log2(monomial)^r.

    Attributes
    ----------
    coefficient : Fraction
        The number in front.
    powers, exponentials : Monomial
        Exponents q of each symbol, and e of 2^(e s).
    logs : tuple of (Monomial, Fraction)
        Each logarithm's argument and its exponent r.
    """

    coefficient: Fraction = Fraction(1)
    powers: Monomial = ()
    exponentials: Monomial = ()
    logs: tuple[tuple[Monomial, Fraction], ...] = field(default=())

    @property
    def symbols(self) -> frozenset[str]:
        """Every symbol that occurs."""
        names = {s for s, _ in (*self.powers, *self.exponentials)}
        names.update(s for argument, _ in self.logs for s, _ in argument)
        return frozenset(names)

    @property
    def is_number(self) -> bool:
        """Whether no symbol is left."""
        return not (self.powers or self.exponentials or self.logs)

    def times(self, other: Product) -> Product:
        """Return the product with another one."""
        return Product(
            self.coefficient * other.coefficient,
            _add(self.powers, other.powers),
            _add(self.exponentials, other.exponentials),
            _add_logs(self.logs, other.logs),
        )

    def power(self, k: Fraction) -> Product:
        """Return the product to a rational power (a coefficient's root is rounded: it never matters)."""
        if k.denominator == 1:
            coefficient = Fraction(self.coefficient) ** k.numerator
        else:
            coefficient = Fraction(float(self.coefficient) ** float(k))
        return Product(
            coefficient,
            tuple((s, e * k) for s, e in self.powers if k),
            tuple((s, e * k) for s, e in self.exponentials if k),
            tuple((a, r * k) for a, r in self.logs if k),
        )

    def term(self) -> Term:
        """Return the triple of exponents; only for at most one symbol and logarithms that grow."""
        (symbol,) = self.symbols or {"p"}
        q = sum((e for _, e in self.powers), Fraction(0))
        e = sum((e for _, e in self.exponentials), Fraction(0))
        r = sum((r for _, r in self.logs), Fraction(0))
        return Term(e, q, r, symbol=symbol)


def _add(left: Iterable[tuple[str, Fraction]], right: Iterable[tuple[str, Fraction]]) -> Monomial:
    total: dict[str, Fraction] = dict(left)
    for symbol, exponent in right:
        total[symbol] = total.get(symbol, Fraction(0)) + exponent
    return monomial(total)


def _add_logs(
    left: Iterable[tuple[Monomial, Fraction]], right: Iterable[tuple[Monomial, Fraction]]
) -> tuple[tuple[Monomial, Fraction], ...]:
    total: dict[Monomial, Fraction] = dict(left)
    for argument, exponent in right:
        total[argument] = total.get(argument, Fraction(0)) + exponent
    return tuple(sorted((a, r) for a, r in total.items() if r))
