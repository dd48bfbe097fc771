"""Statements of guidelines: ``allgather(n) <= gather(n) + bcast(n p)``, read from text."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from labkit.errors import ExpectationError

__all__ = ["Call", "Statement", "read_statement"]

_NAME = re.compile(r"""\s*(?:(['"])(?P<quoted>.+?)\1|(?P<plain>[^\W\d][\w.\-]*))\s*""")
_FACTOR = re.compile(r"\s*(\d+(?:\.\d*)?)\s*\*?\s*(?=['\"]|[^\W\d])")
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One operation of a statement.

    Attributes
    ----------
    name : str
    size, ranks : str
        Its message size and its ranks as expressions in n and p.
    factor : float
        How often it is called.
    """

    name: str
    size: str = "n"
    ranks: str = "p"
    factor: float = 1.0

    def at(self, n: float, p: int) -> tuple[float, int]:
        """Return size and ranks at a place."""
        values = {"n": float(n), "p": float(p)}
        return _value(self.size, values), round(_value(self.ranks, values))

    def __str__(self) -> str:
        arguments = ", ".join(one for one in (self.size, self.ranks if self.ranks != "p" else "") if one)
        is_plain = self.size == "n" and self.ranks == "p"
        name = self.name if _NAME.fullmatch(self.name) else repr(self.name)
        times = "" if self.factor == 1 else f"{self.factor:g} "
        return f"{times}{name}" + ("" if is_plain else f"({arguments})")


@dataclass(frozen=True)
class Statement:
    """A guideline: the left side takes no longer than the calls of the right side one after the other.

    Attributes
    ----------
    left : Call
    right : tuple of Call
    kind : {"pattern", "special", "monotony", "split", "own"}
        A composition of other operations; a more general operation; a longer message or more ranks; a message
        in pieces; a statement of one's own.
    source : str
        Who states it.
    """

    left: Call
    right: tuple[Call, ...]
    kind: str = "own"
    source: str = ""

    @cached_property
    def names(self) -> list[str]:
        """The operations, each once, the left one first."""
        return list(dict.fromkeys([self.left.name, *(call.name for call in self.right)]))

    def __str__(self) -> str:
        return f"{self.left} <= {' + '.join(map(str, self.right))}"


def read_statement(text: str | Statement, kind: str = "own", source: str = "") -> Statement:
    """Read a guideline.

    Parameters
    ----------
    text : str
        ``left <= right + right``. Operations are names, in quotes where they hold blanks; behind a name may
        stand its message size and its ranks in brackets, in terms of n and p: ``bcast(n p)``,
        ``reduce(n, 2p)``; before it how often it is called: ``4 bcast(n/4)``.
    kind, source : str
        As in `Statement`.

    Raises
    ------
    ExpectationError
        It cannot be read; the message says where.

    Examples
    --------
    >>> str(read_statement("Allgather <= gather + bcast(n p)"))
    'Allgather <= gather + bcast(n p)'
    >>> read_statement("bcast(n) <= 4 bcast(n/4)").right[0].at(100, 8)
    (25.0, 8)
    """
    if isinstance(text, Statement):
        return text
    if not isinstance(text, str):
        raise ExpectationError(f'a guideline is a text such as "allreduce <= reduce + bcast", got {text!r}')
    sides = re.split(r"<=|≤", text)
    if len(sides) != 2:
        raise ExpectationError(
            f'guideline {text!r}: two sides with "<=" between them are needed, such as "allreduce <= '
            'reduce + bcast"'
        )
    left, right = (_side(side, text) for side in sides)
    if len(left) != 1 or left[0].factor != 1:
        raise ExpectationError(f"guideline {text!r}: the left side is one operation, called once")
    return Statement(left[0], tuple(right), kind, source)


def _side(side: str, text: str) -> list[Call]:
    calls, rest = [], side
    while True:
        factor = _FACTOR.match(rest)
        rest = rest[factor.end() :] if factor else rest
        name = _NAME.match(rest)
        if name is None:
            found = rest.strip()[:20]
            raise ExpectationError(
                f"guideline {text!r}: an operation's name is missing "
                f"{f'before {found!r}' if found else 'there'}; put names with blanks into quotes"
            )
        rest = rest[name.end() :]
        size, ranks = "n", "p"
        if rest.startswith("("):
            inner, rest = _bracket(rest, text)
            parts = [part.strip() for part in inner.split(",")]
            if len(parts) > 2 or not parts[0]:
                raise ExpectationError(f"guideline {text!r}: in brackets stand a size, or a size and ranks")
            size, ranks = parts[0], parts[1] if len(parts) == 2 else "p"
            for one in (size, ranks):
                _checked(one, text)
        times = float(factor[1]) if factor else 1.0
        if not times > 0:
            raise ExpectationError(f"guideline {text!r}: an operation is called more than 0 times")
        calls.append(Call(name["quoted"] or name["plain"], size, ranks, times))
        if not rest.strip():
            return calls
        if not rest.strip().startswith("+"):
            raise ExpectationError(f"guideline {text!r}: {rest.strip()[:20]!r} cannot be read; join with +")
        rest = rest.strip()[1:]


def _bracket(rest: str, text: str) -> tuple[str, str]:
    depth = 0
    for index, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return rest[1:index], rest[index + 1 :].lstrip()
    raise ExpectationError(f"guideline {text!r}: a bracket is not closed")


def _checked(expression: str, text: str) -> None:
    try:
        value = _value(expression, {"n": 1024.0, "p": 8.0})
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise ExpectationError(
            f"guideline {text!r}: {expression!r} is no size; use numbers, n, p and + - * /, such as n/p"
        ) from error
    if not (math.isfinite(value) and value >= 0):
        raise ExpectationError(f"guideline {text!r}: the size {expression!r} is not at least 0")


def _value(expression: str, values: Mapping[str, float]) -> float:
    spelled = re.sub(r"(?<=[\w)])\s+(?=[\w(])", "*", expression.strip())  # n p
    spelled = re.sub(r"(?<=\d)(?=[np(])", "*", spelled)  # 2n
    return _computed(ast.parse(spelled, mode="eval").body, values)


def _computed(node: ast.expr, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_computed(node.left, values), _computed(node.right, values))
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value is not True:
        return float(node.value)
    if isinstance(node, ast.Name):
        return values[node.id]
    raise ValueError(ast.dump(node))
