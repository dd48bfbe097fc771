"""Reads orders of growth as people write them: ``p^2 log p``, ``n/p * log2(n/p)``, ``k^3 2^k``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn, TypeAlias

from labkit.checks import echo
from labkit.errors import ExpectationError, nearest
from labkit.scaling.term import Term

__all__ = ["EXAMPLES", "Monomial", "Product", "meant", "parse"]


EXAMPLES = "1, log p, log^2 p, sqrt(p), p, p log2(p), p^2 log p, p^0.75/log p, n/p * log2(n/p), k^3 2^k"

_TOKEN = re.compile(
    r"(?P<based>\\?log(_(\{\d+\}|\d+)|[₀-₉]+))|(?P<number>(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?)|(?P<name>[^\W\d⁰¹²³⁴⁵⁶⁷⁸⁹][^\W⁰¹²³⁴⁵⁶⁷⁸⁹]*)|(?P<power>\*\*|\^)"
    r"|(?P<superscript>[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<times>[*·×⋅]|\\cdot|\\times)|(?P<latex>\\[a-zA-Z]+)|(?P<other>[-+/(){}√−])"
)
#: what LaTeX has between the parts of a formula
_SPACE = re.compile(r"\s|\\[,;:! ]|\\(left|right)(?![a-zA-Z])")
_FRACTION = r"\frac"
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_LOGS = {"log", "log2", "lg", "ld", "ln", "log10", "lb"}
_ROOTS = {"sqrt": Fraction(1, 2), "cbrt": Fraction(1, 3), "√": Fraction(1, 2)}
_LANDAU = {"O", "o", "Theta", "Θ", "θ"}
#: names that are not parameters, and what they mean
_WORDS = {
    "constant": "1",
    "const": "1",
    "linear": "p",
    "quadratic": "p^2",
    "cubic": "p^3",
    "logarithmic": "log p",
    "exponential": "2^p",
    "polylog": "log^2 p",
}
_LONGEST = 120
_LARGEST_EXPONENT, _FINEST = 64, 10_000


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: object) -> tuple[Product, ...]:
    """Read an order of growth."""
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ExpectationError(f"an expectation is text such as {EXAMPLES}; got {kind} {echo(text)}")
    if len(text) > _LONGEST:
        raise ExpectationError(f"an expectation has at most {_LONGEST} characters; this one has {len(text)}")
    return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[Product, ...]:
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokenize()
        self.next = 0
        self.is_exponent = False

    def _tokenize(self) -> list[_Token]:
        tokens, at = [], 0
        formula = re.fullmatch(r"\s*\$(.*)(\$)\s*", self.text)
        signs = () if formula is None else (formula.start(1) - 1, formula.start(2))
        while at < len(self.text):
            if at in signs:
                at += 1
                continue
            if space := _SPACE.match(self.text, at):
                at = space.end()
                continue
            found = _TOKEN.match(self.text, at)
            if not found:
                self.fail(at, f"cannot read {self.text[at]!r}")
            kind, word = str(found.lastgroup), found.group()
            if kind == "based":  # whatever the base, the growth is the same
                tokens.append(_Token("name", "log", at))
            elif kind == "latex":
                tokens.append(self._command(word, at))
            elif kind in ("other", "times"):
                word = {"{": "(", "}": ")"}.get(word, "*" if kind == "times" else word)
                tokens.append(_Token("symbol", word, at))
            else:
                tokens.append(_Token(kind, word, at))
            at = found.end()
            if kind == "number" and self.text[at : at + 1] in tuple(".0123456789"):
                self.fail(
                    at, f"a number has one decimal point; cannot read {echo(self.text[at - len(word) :])}"
                )
        return [*tokens, _Token("end", "", len(self.text))]

    def _command(self, word: str, at: int) -> _Token:
        """Read a command of LaTeX: a function's name, or a fraction."""
        if word != _FRACTION and word[1:] not in {*_LOGS, *_ROOTS}:
            self.fail(at, f"cannot read {word!r}; of LaTeX there are \\log, \\sqrt, \\frac and \\cdot")
        return _Token("name", word if word == _FRACTION else word[1:], at)

    def fail(self, at: int, why: str) -> NoReturn:
        """Raise the one error, with a caret under the place."""
        raise ExpectationError(
            f"expectation {self.text!r}, position {at + 1}: {why}\n    {self.text}\n    {' ' * at}^\n"
            f"Allowed are expressions such as {EXAMPLES}."
        )

    def ends(self, number: _Token) -> None:
        """Refuse another number that begins where one ends, as in 0.5.5."""
        after = self.token
        if after.kind == "number" and after.at == number.at + len(number.text):
            self.fail(after.at, f"'{number.text}{after.text}' is not a number")

    def bounded_number(self, number: _Token) -> None:
        if not is_bounded(number.text):
            self.fail(number.at, f"numbers lie between 1e-{MOST_DIGITS} and 1e{MOST_DIGITS}")

    def bounded(self, terms: tuple[Product, ...], at: int, k: Fraction = Fraction(1)) -> None:
        """Refuse products and powers of numbers beyond a float."""
        if not all(is_bounded_power(term.coefficient, k) for term in terms):
            self.fail(at, f"this is a number beyond 1e-{MOST_DIGITS} or 1e{MOST_DIGITS}")

    @property
    def token(self) -> _Token:
        return self.tokens[self.next]

    def take(self, *texts: str) -> bool:
        if self.token.kind == "symbol" and self.token.text in texts:
            self.next += 1
            return True
        return False

    def whole(self) -> tuple[Product, ...]:
        if self.token.kind == "end":
            self.fail(0, "it is empty")
        first, second = self.token, self.tokens[1]
        if first.text in ("Ω", "Ω", "ω", "Omega", "omega") and second.text == "(":
            self.fail(0, f"{first.text} is a lower bound, and expectations are upper bounds; write O(...)")
        if first.text in _LANDAU and second.text == "(":
            self.next = 1
            inner = self.group()
        else:
            inner = self.sum()
        if self.token.kind != "end":
            self.fail(self.token.at, f"cannot go on with {self.token.text!r} here")
        for product in inner:
            if product.coefficient <= 0:
                self.fail(0, "an order of growth needs positive coefficients")
        return inner

    def group(self) -> tuple[Product, ...]:
        at = self.token.at
        if not self.take("("):
            self.fail(at, "expected '('")
        inner = self.sum()
        if not self.take(")"):
            self.fail(self.token.at, "expected ')'")
        return inner

    def sum(self, may_subtract: bool = False) -> tuple[Product, ...]:
        terms: list[Product] = []
        sign = Fraction(-1 if may_subtract and self.take("-", "−") else 1)
        while True:
            terms += [Product(sign).times(p) for p in self.product()]
            if self.take("+"):
                sign = Fraction(1)
            elif self.token.text in ("-", "−") and self.token.kind == "symbol":
                if not may_subtract:
                    self.fail(self.token.at, "an order of growth has no minus: keep the terms that are added")
                self.next += 1
                sign = Fraction(-1)
            else:
                return tuple(terms)

    def product(self) -> tuple[Product, ...]:
        start = self.token.at
        result = self.factor()
        while True:
            self.bounded(result, start)
            if self.take("*", "·", "×", "⋅"):
                result = _multiply(result, self.factor())
            elif self.take("/"):
                at = self.token.at
                result = _multiply(result, self.raised(self.factor(), Fraction(-1), at))
            elif self.token.kind in ("number", "name") or self.token.text in ("(", "√"):
                result = _multiply(result, self.factor())
            else:
                return result

    def factor(self) -> tuple[Product, ...]:
        start = self.token
        if start.kind == "name" and start.text in _LOGS:
            return self.logarithm()
        base = self.atom()
        power = self.exponent()
        if power is None:
            return base
        constant = _number(power)
        if constant is None:
            return self.exponential(base, power, start.at)
        if start.kind == "number" and constant.denominator != 1 and constant < 0:
            return (Product(),)
        return self.raised(base, constant, start.at)

    def atom(self) -> tuple[Product, ...]:
        token = self.token
        if token.text == "(":
            return self.group()
        self.next += 1
        if token.kind == "number":
            self.ends(token)
            self.bounded_number(token)
            return (Product(exact(token.text) if self.is_exponent else Fraction(token.text)),)
        if token.text in _ROOTS:
            is_bare = token.text == "√" or self.token.kind in ("name", "number")
            inner = self.atom() if is_bare else self.group()
            return self.raised(inner, _ROOTS[token.text], token.at)
        if token.text == _FRACTION:
            above, at = self.group(), self.token.at
            return _multiply(above, self.raised(self.group(), Fraction(-1), at))
        if token.kind == "name":
            return (Product(powers=((self.symbol(token), Fraction(1)),)),)
        self.next -= 1
        self.fail(token.at, "expected a number, a parameter, a function or '('")

    def symbol(self, token: _Token) -> str:
        for word in ("log", "sqrt"):
            if word in token.text.lower():
                left, right = token.text.lower().split(word, 1)
                hint = f"{left} {word}({right.lstrip('2') or left or 'p'})".strip()
                self.fail(token.at, f"{token.text!r} is not a function; write {hint!r}, with spaces")
        if token.text.lower() in _WORDS:
            plain = _WORDS[token.text.lower()]
            self.fail(token.at, f"{token.text!r} is not an order of growth; write {plain!r}")
        if token.text.lower() in ("nan", "inf", "infinity"):
            self.fail(token.at, f"{token.text!r} is not an order of growth")
        if token.text == "exp":
            self.fail(token.at, "only powers of two are terms: e^p is 2^(1.443 p)")
        if self.token.text == "(" and (token.text in _LANDAU or len(token.text) > 1):
            known = ", ".join(FUNCTIONS)
            self.fail(
                token.at, f"the function {token.text!r} is not known{meant(token.text)}; known: {known}"
            )
        return token.text

    def exponent(self) -> tuple[Product, ...] | None:
        """Read an exponent after ^ or **, or as a superscript; None without one."""
        token = self.token
        if token.kind == "superscript":
            self.next += 1
            return (Product(Fraction(token.text.translate(_SUPERSCRIPT))),)
        if token.kind != "power":
            return None
        self.next += 1
        if self.token.text == "(":
            self.next += 1
            outside, self.is_exponent = self.is_exponent, True
            inner = self.sum(may_subtract=True)
            self.is_exponent = outside
            if not self.take(")"):
                self.fail(self.token.at, "expected ')'")
            return inner
        sign = Fraction(-1 if self.take("-", "−") else 1)
        value = self.token
        if value.kind == "number":
            self.next += 1
            self.ends(value)
            self.bounded_number(value)
            later = [t.kind for t in self.tokens[self.next + 1 : self.next + 3]]
            is_whole = value.text.isdigit()
            if (
                self.token.text == "/"
                and is_whole
                and later[:1] == ["number"]
                and later != ["number", "power"]
            ):
                after = self.tokens[self.next + 1].text
                asked = f"{value.text}/{after}"
                self.fail(token.at, f"'^{asked}' can be read in two ways; write ^({asked})")
            return (Product(sign * exact(value.text)),)
        return tuple(Product(sign).times(p) for p in self.atom())

    def check_exponent(self, k: Fraction, at: int) -> None:
        if abs(k) > _LARGEST_EXPONENT:
            self.fail(at, f"exponents go up to {_LARGEST_EXPONENT}")
        if k.denominator > _FINEST:
            self.fail(at, "exponents have at most four decimals, as in p^0.0625")

    def raised(self, base: tuple[Product, ...], k: Fraction, at: int) -> tuple[Product, ...]:
        """Return a sum to a power, in its order of growth."""
        self.check_exponent(k, at)
        self.bounded(base, at, k)
        self.refuse_zero(base, at)
        if len(base) == 1:
            return (base[0].power(k),)
        if k > 0:  # (a + b)^k grows as a^k + b^k
            return tuple(p.power(k) for p in base)
        return (self.leading(base, at).power(k),)

    def refuse_zero(self, terms: tuple[Product, ...], at: int) -> None:
        if any(product.coefficient == 0 for product in terms):
            self.fail(at, "0 is not an order of growth")

    def leading(self, terms: tuple[Product, ...], at: int) -> Product:
        if len(terms) == 1:
            return terms[0]
        self.refuse_zero(terms, at)
        if len(frozenset().union(*(p.symbols for p in terms))) > 1:
            self.fail(at, "a sum in several parameters cannot stand in a denominator or a logarithm")
        return max(terms, key=lambda p: p.term())

    def exponential(
        self, base: tuple[Product, ...], power: tuple[Product, ...], at: int
    ) -> tuple[Product, ...]:
        number = _number(base)
        if number is None or number <= 0:
            self.fail(at, "only a number may be raised to a parameter, as in 2^p")
        bits = binary_log(number)
        if bits is None:
            self.fail(at, f"only powers of two are terms: write {as_power_of_two(number)}")
        result = Product()
        for p in power:
            if p.is_number:
                continue
            if p.exponentials or p.logs or len(p.powers) != 1 or p.powers[0][1] != 1:
                self.fail(at, "an exponent must be a number times a parameter, as in 2^(p/2)")
            symbol = p.powers[0][0]
            self.check_exponent(bits * p.coefficient, at)
            result = result.times(Product(exponentials=monomial({symbol: bits * p.coefficient})))
        return (result,)

    def logarithm(self) -> tuple[Product, ...]:
        name = self.token
        self.next += 1
        power = self.exponent() or (Product(),)
        start = self.token
        if start.text == "(":
            argument = self.group()
            later = self.exponent()
            if later is not None:
                power = later
        elif start.kind in ("name", "number") or start.text == "√":
            argument = self.bare_argument(name)
        else:
            self.fail(start.at, f"{name.text} needs an argument, as in log p or log(n/p)")
        r = _number(power)
        if r is None:
            self.fail(name.at, "a logarithm's exponent must be a number, as in log^2 p")
        inner = self.log_of(self.leading(argument, start.at), start.at)
        return self.raised((inner,), r, name.at)

    def bare_argument(self, name: _Token) -> tuple[Product, ...]:
        """Read the argument of ``log p``, refusing what can be read in two ways."""
        start = self.token
        argument = self.factor() if start.text in _LOGS else self.atom()
        after, word = self.token, start.text
        if after.kind in ("power", "superscript"):
            self.fail(after.at, f"this can be read in two ways; write log^2 {word} or log({word}^2)")
        other = self.tokens[self.next + 1] if after.kind != "end" else after
        if after.text == "/" and other.kind == "name" and other.text not in {*_LOGS, *_ROOTS, word}:
            self.fail(
                after.at,
                f"'log {word}/{other.text}' can be read in two ways; "
                f"write log({word}/{other.text}) or (log {word})/{other.text}",
            )
        return argument

    def log_of(self, p: Product, at: int) -> Product:
        if p.coefficient <= 0:
            self.fail(at, "the logarithm of a number <= 0 does not exist")
        if p.is_number:
            return Product()
        if p.exponentials:
            if len(p.symbols) > 1 or p.exponentials[0][1] < 0:
                self.fail(at, "this logarithm is not an order of growth of one parameter")
            return Product(powers=((p.exponentials[0][0], Fraction(1)),))
        if not p.powers:
            self.fail(at, "a logarithm of a logarithm is not among the terms")
        if len(p.symbols) == 1:
            symbol, exponent = p.powers[0]
            if exponent < 0:
                self.fail(at, f"log(1/{symbol}) is negative")
            return Product(logs=((((symbol, Fraction(1)),), Fraction(1)),))
        if p.logs:
            self.fail(at, "a logarithm of a logarithm is not among the terms")
        return Product(logs=((p.powers, Fraction(1)),))


def _multiply(left: tuple[Product, ...], right: tuple[Product, ...]) -> tuple[Product, ...]:
    """Return the product of two sums, like summands merged."""
    merged: dict[Product, Fraction] = {}
    for a in left:
        for b in right:
            p = a.times(b)
            bare = Product(Fraction(1), p.powers, p.exponentials, p.logs)
            merged[bare] = merged.get(bare, Fraction(0)) + p.coefficient
    return tuple(Product(c, p.powers, p.exponentials, p.logs) for p, c in merged.items())


def _number(terms: tuple[Product, ...]) -> Fraction | None:
    if all(p.is_number for p in terms):
        return sum((p.coefficient for p in terms), Fraction(0))
    return None


# Exact numbers of expectations: exponents as fractions, thirds as they are printed, powers of two.


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
    """Describe how an exponential of another base is written."""
    return f"2^({_bits(value):.4g} x) for {float(value):g}^x"


# Products of powers, exponentials and logarithms of named quantities, with exact exponents.


#: symbols and their exponents, sorted by symbol: n/p is (("n", 1), ("p", -1))
Monomial: TypeAlias = tuple[tuple[str, Fraction], ...]


def monomial(powers: Mapping[str, Fraction]) -> Monomial:
    """Return the canonical form of a mapping from symbols to exponents."""
    return tuple(sorted((s, e) for s, e in powers.items() if e))


@dataclass(frozen=True)
class Product:
    """coefficient * prod s^q * 2^(sum e s) * prod log2(monomial)^r.

    `coefficient`: The number in front.
    `powers`, `exponentials`: Exponents q of each symbol, and e of 2^(e s).
    `logs`: Each logarithm's argument and its exponent r.
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


# The functions of the language, and which of them a name resembles.


FUNCTIONS = ("log", "log2", "sqrt", "cbrt")


def meant(word: str) -> str:
    """Suggest the function that a name resembles, as the end of a sentence, or an empty string.

    Examples
    --------
    >>> meant("lgo"), meant("n")
    ("; did you mean 'log'?", '')
    """
    return nearest(word, FUNCTIONS, 1)
