"""A report: what was measured, where in the program, on which rank."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.html import quantity
from labkit.nearest import nearest
from labkit.units import number_of_ranks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallPath", "Expression", "Metric", "Report"]


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


Values = NDArray[np.float64]


class Metric(NamedTuple):
    """Something measured.

    Attributes
    ----------
    name, label, unit, meaning : str
        The unit is ``"s"``, ``"B"`` or ``""`` of counts.
    above : str
        The metric that holds this one among others; "" of a whole.
    expression : Expression or None
        Of a derived metric.
    """

    name: str
    label: str
    unit: str
    meaning: str
    above: str = ""
    expression: Expression | None = None


class CallPath(NamedTuple):
    """A place in the call tree.

    Attributes
    ----------
    label : str
        A phase, or a call with its file and line.
    above : int
        Row of the one around it; -1 of the program.
    place : str
        Of a call, the functions that led to it, file and line; "" of a phase.
    call : str
        Its name; "" of a phase.
    """

    label: str
    above: int
    place: str = ""
    call: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """Metrics by call path and rank.

    Attributes
    ----------
    title : str
        What it is of.
    ranks : int
    metrics : list of Metric
        A whole stands before its parts.
    paths : list of CallPath
        The call tree from the program on; a path stands before those in it, which follow it at once.
    values : dict of str to array, shape (paths, ranks)
        Of every metric that is not derived: exclusive in the call tree, and with its parts.
    makespan_s : float
    machine : object
        The platform of a simulated run, None of others: a drawing of it, and the hosts.
    hosts : tuple of int
        The host of each rank; empty where it is not known.
    """

    title: str
    ranks: int
    metrics: list[Metric]
    paths: list[CallPath]
    values: dict[str, Values]
    makespan_s: float = float("nan")
    machine: Any = None
    hosts: tuple[int, ...] = ()
    is_difference: bool = field(default=False)

    @cached_property
    def _summed(self) -> dict[str, Values]:
        """Sums over the call tree, made when they are asked for."""
        return {}

    def metric(self, name: str) -> Metric:
        """Return a metric by its name.

        Raises
        ------
        DataError
            There is none of that name.
        """
        for one in self.metrics:
            if one.name == name:
                return one
        names = [one.name for one in self.metrics]
        raise DataError(f"the report has no metric {name!r}{nearest(name, names)}; it has {', '.join(names)}")

    def exclusive(self, name: str) -> Values:
        """Return what a metric is in each call path itself, by rank: shape (paths, ranks)."""
        return self._table(name, False)

    def inclusive(self, name: str) -> Values:
        """Return what a metric is in each call path and those in it, by rank: shape (paths, ranks)."""
        return self._table(name, True)

    def by_path(self, name: str, ranks: Sequence[int] | None = None, *, inclusive: bool = True) -> Values:
        """Sum a metric up over ranks (default: all), for each call path; a derived one is reckoned after."""
        rows = slice(None) if ranks is None else np.asarray(ranks, np.int64)
        return self._reckoned(name, lambda one: self._table(one, inclusive)[:, rows].sum(axis=1))

    def by_rank(self, name: str, path: int = 0, *, inclusive: bool = True) -> Values:
        """Return a metric of each rank in one call path."""
        return self._reckoned(name, lambda one: self._table(one, inclusive)[path])

    def total(
        self, name: str, path: int = 0, ranks: Sequence[int] | None = None, *, inclusive: bool = True
    ) -> float:
        """Return a metric of one call path over ranks (default: all)."""
        return float(self.by_path(name, ranks, inclusive=inclusive)[path])

    def _table(self, name: str, inclusive: bool) -> Values:
        metric = self.metric(name)
        if metric.expression is not None:
            return metric.expression.value(
                {one: self._table(one, inclusive) for one in metric.expression.names}
            )
        if not inclusive:
            return self.values[name]
        if name not in self._summed:
            sums = self.values[name].copy()
            for row in range(len(self.paths) - 1, 0, -1):
                sums[self.paths[row].above] += sums[row]
            self._summed[name] = sums
        return self._summed[name]

    def _reckoned(self, name: str, of: Any) -> Values:
        metric = self.metric(name)
        if metric.expression is None:
            return np.asarray(of(name), np.float64)
        return metric.expression.value({one: self._reckoned(one, of) for one in metric.expression.names})

    def with_metric(self, name: str, expression: str, *, unit: str = "", meaning: str = "") -> Report:
        """Add a derived metric: an expression of others, reckoned after these are summed up.

        Parameters
        ----------
        name : str
            New.
        expression : str
            Names of metrics and numbers with ``+ - * / **``, brackets, ``min``, ``max``, ``abs``, ``sqrt``; a
            division by zero gives 0. ``"bytes / messages"`` is the mean size, of a rank as of the program.
        unit, meaning : str
            As they are shown.

        Raises
        ------
        DataError
            The name is taken, or the expression is none.
        """
        if any(one.name == name for one in self.metrics):
            raise DataError(f"the report has a metric {name!r} already; take another name")
        if not name.isidentifier():
            raise DataError(f"a metric's name is letters, digits and _, not a digit first; got {name!r}")
        parsed = Expression.parse(expression)
        for one in parsed.names:
            self.metric(one)
        added = Metric(name, name.replace("_", " "), unit, meaning or expression, "", parsed)
        return replace(self, metrics=[*self.metrics, added])

    def per_rank(self) -> Report:
        """Return the mean over the ranks, as a report of one rank: what runs of other sizes compare with."""
        values = {name: table.mean(axis=1, keepdims=True) for name, table in self.values.items()}
        title = f"{self.title}, mean of its ranks"
        return replace(self, title=title, ranks=1, values=values, machine=None, hosts=())

    def key(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return what is the same for a call path in every report: labels and places from the program on."""
        found = []
        while row > 0:
            path = self.paths[row]
            found.append((path.label, path.place))
            row = path.above
        return tuple(reversed(found))

    def path(self, label: str) -> int:
        """Return the row of the first call path whose label, or whose chain of labels, it is.

        Parameters
        ----------
        label : str
            As in ``"solve"``, ``"solve > exchange"``, ``"allreduce"`` or ``"allreduce (prog.py:12)"``.

        Raises
        ------
        DataError
            There is none.
        """
        for row, path in enumerate(self.paths):
            if label in (path.label, path.call, self.chain(row)):
                return row
        known = [self.chain(row) for row in range(len(self.paths))]
        shown = "; ".join(known[:12]) + ("; ..." if len(known) > 12 else "")
        raise DataError(f"the report has no call path {label!r}{nearest(label, known)}; it has {shown}")

    def chain(self, row: int) -> str:
        """Return the labels from the first phase on; of the program itself its own."""
        return " > ".join(label for label, _ in self.key(row)) or self.paths[row].label

    def frame(self) -> pd.DataFrame:
        """Return all of it as a data frame: path, rank, and a column for each metric, exclusive."""
        import pandas as pd

        rows = len(self.paths)
        columns: dict[str, Any] = {
            "path": np.repeat([self.chain(row) for row in range(rows)], self.ranks),
            "rank": np.tile(np.arange(self.ranks), rows),
        }
        columns |= {metric.name: self.exclusive(metric.name).ravel() for metric in self.metrics}
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        lines = [
            f"{self.title}: {len(self.paths)} call path{'s' if len(self.paths) != 1 else ''}, "
            f"{number_of_ranks(self.ranks)}"
        ]
        for metric in self.metrics:
            depth, above = 0, metric.above
            while above:
                depth, above = depth + 1, self.metric(above).above
            text = (
                quantity(self.total(metric.name), metric.unit, 3)
                if metric.unit
                else (f"{self.total(metric.name):,.6g}")
            )
            lines.append(f"  {'  ' * depth}{metric.label}: {text}")
        return "\n".join(lines)
