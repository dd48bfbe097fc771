"""Statements of guidelines: ``allgather(n) <= gather(n) + bcast(n p)``, read from text."""

from __future__ import annotations

import ast
import fnmatch
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from labkit.checks import echo
from labkit.errors import ExpectationError

__all__ = ["CATALOGUE", "Operation", "Statement", "catalogue", "read_statement"]

_NAME = re.compile(r"""\s*(?:(['"])(?P<quoted>.+?)\1|(?P<plain>[^\W\d][\w.\-]*))\s*""")

_FACTOR = re.compile(r"\s*(\d+(?:\.\d*)?)\s*\*?\s*(?=['\"]|[^\W\d])")

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Operation:
    """One operation of a statement.

    `size`, `ranks`: Its message size and its ranks as expressions in n and p.
    `factor`: How often it is called.
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

    `kind` ({"pattern", "special", "monotony", "split", "own"}): A composition of other operations; a more
        general operation; a longer message or more ranks; a message in pieces; a custom statement.
    `source`: Who states it.
    """

    left: Operation
    right: tuple[Operation, ...]
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

    `text`: ``left <= right + right``. Operations are names, in quotes where they hold blanks; behind a name
        may stand its message size and its ranks in brackets, in terms of n and p: ``bcast(n p)``, ``reduce(n,
        2p)``; before it how often it is called: ``4 bcast(n/4)``.
    `kind`, `source`: As in `Statement`.
    Raises ExpectationError: It cannot be read; the message says where.

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
        raise ExpectationError(
            f'a guideline is a text such as "allreduce <= reduce + bcast", got {echo(text)}',
            code="wrong-type",
        )
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


def _side(side: str, text: str) -> list[Operation]:
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
        calls.append(Operation(name["quoted"] or name["plain"], size, ranks, times))
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


# The catalogue of guidelines for MPI's collectives, with their sources.
#
# The size n is in bytes: what the root has (bcast), what each rank has (reductions, scans), or a block
# (gather,
# scatter, allgather, alltoall, and of reduce_scatter_block what a rank gets).
#
# References
# ----------
# .. [1] J. L. Träff, W. D. Gropp, R. Thakur: Self-consistent MPI performance guidelines. IEEE TPDS 21(5),
# 2010.
#    doi:10.1109/TPDS.2009.120
# .. [2] S. Hunold, A. Carpen-Amarie: Autotuning MPI collectives using performance guidelines. HPC Asia 2018.
#    doi:10.1145/3149457.3149461
# .. [3] S. Shudler et al.: Engineering algorithms for scalability through continuous validation of
# performance
#    expectations. IEEE TPDS 30(8), 2019. doi:10.1109/TPDS.2019.2896993

_TRAEFF, _HUNOLD = "Träff, Gropp, Thakur 2010", "Hunold, Carpen-Amarie 2018"

_BOTH = f"{_TRAEFF}; {_HUNOLD}"

#: kinds, and what each says
KINDS = {
    "pattern": "an operation takes no longer than a composition of others that does the same",
    "special": "an operation takes no longer than a more general one",
    "monotony": "a shorter message, or fewer ranks, take no longer",
    "split": "a message takes no longer than its pieces one after the other",
}

_PATTERNS = {
    "allgather <= gather + bcast(n p)": f"{_BOTH}; Shudler et al. 2019",
    "allreduce <= reduce + bcast": f"{_BOTH}; Shudler et al. 2019",
    "allreduce <= reduce_scatter_block(n/p) + allgather(n/p)": _BOTH,
    "allreduce <= reduce_scatter(n/p) + allgatherv(n/p)": _HUNOLD,
    "bcast <= scatter(n/p) + allgather(n/p)": _BOTH,
    "reduce <= reduce_scatter_block(n/p) + gather(n/p)": _BOTH,
    "reduce <= reduce_scatter(n/p) + gatherv(n/p)": _HUNOLD,
    "reduce_scatter_block <= reduce(n p) + scatter": _BOTH,
    "reduce_scatter <= reduce(n p) + scatterv": _HUNOLD,
    "scan <= exscan + reduce_local": _HUNOLD,
}

_SPECIALS = {
    "allgather <= alltoall": _BOTH,
    "allgather <= allreduce(n p)": _HUNOLD,
    "allgather <= allgatherv": _BOTH,
    "alltoall <= alltoallv": _BOTH,
    "bcast <= allgatherv_of_one": _HUNOLD,
    "gather <= allgather": _BOTH,
    "gather <= gatherv": _BOTH,
    "gather <= reduce(n p)": _HUNOLD,
    "reduce <= allreduce": _BOTH,
    "reduce_scatter_block <= reduce_scatter": _BOTH,
    "reduce_scatter_block <= allreduce(n p)": _HUNOLD,
    "scatter <= bcast(n p)": _BOTH,
    "scatter <= scatterv": _BOTH,
    "barrier <= allreduce(8)": "every rank of an allreduce has waited for all others",
}

_SIZED = (
    "allgather",
    "allreduce",
    "alltoall",
    "bcast",
    "exscan",
    "gather",
    "reduce",
    "reduce_scatter_block",
    "scan",
    "scatter",
)


def _catalogue() -> list[Statement]:
    found = [read_statement(text, "pattern", source) for text, source in _PATTERNS.items()]
    found += [read_statement(text, "special", source) for text, source in _SPECIALS.items()]
    for name in _SIZED:
        found.append(read_statement(f"{name} <= {name}(2n)", "monotony", _TRAEFF))
        found.append(read_statement(f"{name}(n) <= 4 {name}(n/4)", "split", _TRAEFF))
    for name in ("barrier", *_SIZED):
        found.append(read_statement(f"{name} <= {name}(n, 2p)", "monotony", _TRAEFF))
    return found


#: every guideline
CATALOGUE: tuple[Statement, ...] = tuple(_catalogue())


def catalogue(only: str | Statement | Iterable[str | Statement] | None = None) -> list[Statement]:
    """Return guidelines: all, those of some kinds or operations, or user-defined statements.

    `only`: Kinds (`KINDS`), operations (``"bcast"``, ``"all*"``: the left side), or statements with "<=".
    Raises ExpectationError: An unknown name; the message lists the known ones.

    Examples
    --------
    >>> [str(one) for one in catalogue("allreduce")][:2]
    ['allreduce <= reduce + bcast', 'allreduce <= reduce_scatter_block(n/p) + allgather(n/p)']
    """
    if only is None:
        return list(CATALOGUE)
    found: list[Statement] = []
    for word in [only] if isinstance(only, str | Statement) else only:
        if isinstance(word, Statement) or "<=" in str(word) or "≤" in str(word):
            same = [one for one in CATALOGUE if str(one) == str(read_statement(word))]
            found += same or [read_statement(word)]
            continue
        name = str(word).strip().lower()
        some = [one for one in CATALOGUE if name == one.kind or fnmatch.fnmatch(one.left.name, name)]
        if not some:
            names = ", ".join(dict.fromkeys(one.left.name for one in CATALOGUE))
            raise ExpectationError(
                f"no guideline is called {word!r}; there are kinds ({', '.join(KINDS)}), operations "
                f"({names}) "
                'and statements such as "allreduce <= reduce + bcast"',
                code="unknown-name",
            )
        found += some
    return list(dict.fromkeys(found))
