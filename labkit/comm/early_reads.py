"""Reads of a buffer that a call is still writing: found in the source of a checked run's program.

Python has no event for a read of an array. Between a call that receives into a named buffer and the call
that completes it, both in one function, the statements that are certainly executed are searched for one
that reads the name. Statements that depend on a condition, a loop or another function are left out, so that
only reads that have happened are reported.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType

from labkit.comm.place import Place
from labkit.comm.surface import NAMED

__all__ = ["early_read"]

#: attributes of an array that say nothing of its elements
_SHAPE = frozenset(("shape", "size", "ndim", "dtype", "nbytes", "itemsize", "strides", "flags", "fill"))
#: functions that read the elements of an argument
_READERS = frozenset(
    (
        "print",
        "float",
        "int",
        "complex",
        "bool",
        "sum",
        "min",
        "max",
        "list",
        "tuple",
        "sorted",
        "str",
        "repr",
    )
)
_SENDS = frozenset(
    [name for name, row in NAMED.items() if row.parameters and row.parameters[0].role in ("read", "object")]
    + ["Put", "Rput", "Accumulate", "Raccumulate"]
)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_Block = list[ast.stmt]


def early_read(begin: Place, end: Place, method: str, parameter: str, position: int) -> int | None:
    """Return the line that reads a call's buffer between the call and its completion; None if none does.

    Parameters
    ----------
    begin, end : Place
        Where the call was made, and where it is completed.
    method, parameter, position : str, str, int
        The method, and its parameter that the buffer is given as.
    """
    if begin.code is None or begin.code is not end.code:
        return None
    return _early_read(begin.code, begin.line, end.line, method, parameter, position)


@lru_cache(maxsize=1024)
def _early_read(
    code: CodeType, begin: int, end: int, method: str, parameter: str, position: int
) -> int | None:
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    first, last = _path(tree.body, begin), _path(tree.body, end)
    depth = 0
    while depth < min(len(first), len(last)) - 1 and first[depth] == last[depth]:
        depth += 1
    if not first or not last or first[depth][0] is not last[depth][0] or first[depth][1] >= last[depth][1]:
        return None
    buffer = _buffer(first[-1][0][first[-1][1]], method, parameter, position)
    if buffer is None:
        return None
    stored = "Store()".join(buffer.rsplit("Load()", 1))
    statements = [one for block, at in reversed(first[depth + 1 :]) for one in block[at + 1 :]]
    block, at = first[depth]
    statements += block[at + 1 : last[depth][1]]
    statements += [one for inner, place in last[depth + 1 :] for one in inner[:place]]
    for statement in statements:
        if any(isinstance(node, _LEAVES) for node in ast.walk(statement)):
            return None
        for node in _executed(statement):
            if _reads(node, buffer):
                return int(getattr(node, "lineno", statement.lineno))
            if ast.dump(node) == stored:  # from here on it is another array
                return None
    return None


def _path(body: _Block, line: int) -> list[tuple[_Block, int]]:
    """Return the blocks around the statement on a line, each with the place of the statement in it."""
    found: list[tuple[_Block, int]] = []
    blocks = [body]
    while blocks:
        block = blocks.pop()
        for at, statement in enumerate(block):
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                found.append((block, at))
                blocks = [
                    value
                    for part in [
                        statement,
                        *getattr(statement, "handlers", []),
                        *getattr(statement, "cases", []),
                    ]
                    for _, value in ast.iter_fields(part)
                    if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
                ]
                break
    return found


def _buffer(statement: ast.stmt, method: str, parameter: str, position: int) -> str | None:
    """Return the name that a call's buffer has, as `ast.dump` writes it; None if it has none."""
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
    ]
    if len(calls) != 1:
        return None
    given: ast.expr | None = calls[0].args[position] if position < len(calls[0].args) else None
    given = next((one.value for one in calls[0].keywords if one.arg == parameter), given)
    if isinstance(given, ast.List | ast.Tuple) and given.elts:
        given = given.elts[0]
    return ast.dump(given) if isinstance(given, ast.Name | ast.Attribute) else None


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement's parts that are executed whenever the statement is."""
    parts: Sequence[ast.AST]
    match node:
        case ast.If(test=part) | ast.While(test=part) | ast.IfExp(test=part):
            parts = [part]
        case ast.For(iter=part) | ast.Match(subject=part):
            parts = [part]
        case ast.Try(body=body):
            parts = list(body[:1])
        case ast.BoolOp(values=values):
            parts = values[:1]
        case ast.Lambda() | ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            parts = []
        case _:
            parts = list(ast.iter_child_nodes(node))
    yield node
    for inner in parts:
        yield from _executed(inner)


def _reads(node: ast.AST, buffer: str) -> bool:
    """Whether an expression reads elements of the buffer itself, and does not only pass it on."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Load()) | ast.FormattedValue(value=value):
            operands: list[ast.expr] = [value]
        case ast.Attribute(value=value, attr=name):
            operands = [] if name in _SHAPE or name.startswith("_") else [value]
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.Compare(left=left, comparators=others, ops=ops):
            is_value = not any(isinstance(one, ast.Is | ast.IsNot) for one in ops)
            operands = [left, *others] if is_value else []
        case ast.UnaryOp(operand=value) | ast.For(iter=value) | ast.comprehension(iter=value):
            operands = [value]
        case ast.Call(func=ast.Name(id=name), args=args):
            operands = args if name in _READERS else []
        case ast.Call(func=ast.Attribute(attr=name), args=args):
            operands = args[:1] if name in _SENDS else []
        case _:
            operands = []
    return any(ast.dump(one) == buffer for one in operands)
