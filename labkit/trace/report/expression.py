"""Expressions of derived metrics: arithmetic on names, nothing else."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["Expression"]

_MOST = 500
_ALLOWED = "names of metrics and numbers with + - * / **, brackets, min, max, abs and sqrt"


def _over(a: Any, b: Any) -> Any:
    """Divide; by zero it is 0: where nothing was counted there is no ratio."""
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    return np.divide(a, b, out=np.zeros(b.shape), where=b != 0)


_BINARY: dict[type, Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: _over, ast.Pow: np.power
}  # fmt: skip
_CALLS: dict[str, tuple[Any, int]] = {
    "min": (np.minimum, 2), "max": (np.maximum, 2), "abs": (np.abs, 1), "sqrt": (np.sqrt, 1)
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """An expression that has been read.

    Attributes
    ----------
    text : str
    names : tuple of str
        The metrics in it, each once.

    Examples
    --------
    >>> Expression.parse("bytes / messages").names
    ('bytes', 'messages')
    >>> Expression.parse("2 * a - b").value({"a": np.array([3.0]), "b": np.array([1.0])})
    array([5.])
    """

    text: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read an expression.

        Raises
        ------
        DataError
            It is none; it says what stands in the way.
        """
        if not isinstance(text, str) or len(text) > _MOST:
            raise DataError(f"an expression is a text of at most {_MOST} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise DataError(f"not an expression: {text!r} ({error}); write {_ALLOWED}") from None
        names: dict[str, None] = {}
        _check(tree, names, text)
        if not names:
            raise DataError(f"the expression {text!r} names no metric")
        return cls(text.strip(), tuple(names))

    def value(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Reckon it, entry by entry."""
        with np.errstate(all="ignore"):
            found = _value(ast.parse(self.text, mode="eval").body, values)
        return np.nan_to_num(np.asarray(found, np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)


def _check(node: ast.expr, names: dict[str, None], text: str) -> None:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left, names, text)
        _check(node.right, names, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        _check(node.operand, names, text)
    elif isinstance(node, ast.Name):
        names[node.id] = None
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        pass
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS
        and not node.keywords and len(node.args) == _CALLS[node.func.id][1]
    ):  # fmt: skip
        for one in node.args:
            _check(one, names, text)
    else:
        part = ast.get_source_segment(text.strip(), node) or text
        raise DataError(f"{part!r} in the expression {text!r} is not allowed; write {_ALLOWED}")


def _value(node: ast.expr, values: Mapping[str, NDArray[np.float64]]) -> Any:
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, values)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _CALLS[node.func.id][0](*(_value(one, values) for one in node.args))
