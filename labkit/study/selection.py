"""Picks the measurements of one curve out of a study, and binds an expectation's symbols to its columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import NDArray

from labkit.checks import echo, names_of
from labkit.errors import DataError, ExpectationError, nearest
from labkit.real.host_limits import place_doubt
from labkit.scaling import Expectation, Samples, Term, Verdict, read_expectation, read_samples
from labkit.scaling.parser import meant, parse
from labkit.scaling.verdict import deviation_for
from labkit.study.rows import FIXED, parameter_columns

__all__ = [
    "Curve",
    "NothingMeasured",
    "bind",
    "curves_in",
    "doubted",
    "expectations_of_phases",
    "metric_of",
    "pick",
    "pick_all",
    "pick_two",
    "rows_where",
    "unmeasured",
    "varied_pair",
]


#: what people call the time of a run
_TIMES = ("time", "time_s", "times", "seconds", "runtime", "duration", "elapsed")

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The measurements of one metric over one parameter.

    Attributes
    ----------
    samples : Samples
        The measurements.
    column, symbol : str
        The parameter's column, and its symbol in expectations (``p`` for ``ranks``).
    given : dict
        What the other parameters were: fixed numbers, or expressions in the symbol.
    metric, phase, unit : str
        What was measured.
    is_valid : bool
        Whether every measurement may be used for a verdict.
    left_out : str
        Which points were left out, and why; empty where none was.
    """

    samples: Samples
    column: str
    symbol: str
    given: dict[str, float | int | str]
    metric: str
    phase: str
    unit: str
    is_valid: bool
    left_out: str = ""


class NothingMeasured(DataError):
    """A curve that is 0 everywhere: no term grows, and no ratio can be formed."""

    code = "no-data"

    def __init__(self, curve: Curve) -> None:
        super().__init__(_nothing(curve))
        self.curve = curve


def pick(
    data: pd.DataFrame,
    metric: str | None = None,
    phase: str | None = None,
    parameter: str | None = None,
    where: Mapping[str, object] | None = None,
) -> Curve:
    """Pick one curve.

    `data`: A study's rows.
    `metric`: By default ``phase_s`` with a phase, else ``makespan_s``, else the only metric there is.
    `phase`: The phase.
    `parameter`: The column to go along; by default the only one that varies, or ``ranks``.
    `where`: Values other columns must have.
    Raises DataError: When the choice is empty or leaves more than one curve; the message lists what there is.
    Raises NothingMeasured: When all values are 0.
    """
    rows, metric, phase = _one(data, metric, phase, where)
    column = _parameter(rows, parameter)
    symbol = "p" if column == "ranks" else column
    given = _others(rows, column, symbol)
    units = rows["unit"].unique()
    rows, left_out = _without_zeros(rows, metric, column, symbol)
    unit = str(units[0]) if len(units) == 1 else ""
    is_valid = bool(rows["is_valid"].all())
    if not rows["value"].any():
        empty = Samples(rows[column].drop_duplicates().to_numpy(float), ())
        raise NothingMeasured(Curve(empty, column, symbol, given, metric, phase, unit, is_valid))
    samples = read_samples(rows[column].to_numpy(float), rows["value"].to_numpy(float))
    return Curve(samples, column, symbol, given, metric, phase, unit, is_valid, left_out)


def pick_all(
    data: pd.DataFrame,
    metric: str | None = None,
    phase: str | None = None,
    parameter: str | None = None,
    where: Mapping[str, object] | None = None,
) -> dict[str, Curve]:
    """Pick every curve that `pick` would have to choose from, by what distinguishes it from the others."""
    rows = rows_where(data, where)
    metric = metric_of(rows, metric, phase)
    rows, _ = _phase(rows[rows["metric"] == metric], metric, phase)
    column = _parameter(rows, parameter)
    own = [*FIXED, *(c for c in parameter_columns(rows) if c != column)]
    if _follows(rows, column, own):
        return {metric: pick(data, metric, phase, column, where)}  # weak scaling: n follows p
    return {
        ", ".join(f"{key}={value}" for key, value in curve.items()) or metric: pick(
            data, metric, phase, column, {**(where or {}), **curve}
        )
        for curve in curves_in(rows, [column])
    }


def _follows(rows: pd.DataFrame, column: str, others: Sequence[str]) -> bool:
    """Whether each value of a column comes with one value of every other one: then they are one curve."""
    if any(rows[c].nunique(dropna=False) > 1 for c in FIXED):
        return False
    return bool((rows.groupby(column)[list(others)].nunique(dropna=False) <= 1).all(axis=None))


def curves_in(rows: pd.DataFrame, along: Sequence[str]) -> list[dict[str, object]]:
    """Return labels of the curves along some columns; a single curve has an empty label."""
    columns = [*FIXED, *parameter_columns(rows)]
    names = [c for c in columns if c not in along and c in rows and rows[c].nunique(dropna=False) > 1]
    if not names:
        return [{}]
    each = rows[names].drop_duplicates().to_dict("records")
    return [{str(k): v.item() if hasattr(v, "item") else v for k, v in one.items()} for one in each]


def varied_pair(
    data: pd.DataFrame, expectation: str | Expectation, where: Mapping[str, object] | None
) -> tuple[str, str] | None:
    """Return the two columns that an expectation is in, where both vary; None of any other number."""
    if not isinstance(expectation, str):
        return None
    symbols = sorted(frozenset().union(*(p.symbols for p in parse(expectation))))
    rows = rows_where(data, where)
    columns = ["ranks" if s == "p" and "p" not in rows else s for s in symbols]
    varied = [c for c in columns if c in rows and rows[c].nunique() > 1]
    if len(varied) != 2 or len(symbols) != 2:
        return None
    pairs = rows[varied].drop_duplicates()
    is_line = len(pairs) <= max(pairs[c].nunique() for c in varied)  # one follows the other
    return None if is_line else (varied[0], varied[1])


def pick_two(
    data: pd.DataFrame,
    parameters: tuple[str, str],
    metric: str | None = None,
    phase: str | None = None,
    where: Mapping[str, object] | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray, tuple[str, str], str]:
    """Pick the measurements of one metric over two parameters.

    Returns: A row per measurement.
    Returns `symbols`: The parameters' symbols in expectations.
    Returns `unit`: Of the values.
    Raises DataError: When the choice is empty, leaves several surfaces, or a further parameter varies.
    """
    rows, _, _ = _one(data, metric, phase, where)
    names = names_of("parameters", parameters)
    if len(names) != 2 or names[0] == names[1]:
        raise DataError(
            f"a surface needs two different parameters; got {parameters!r}", code="duplicate-name"
        )
    columns = [_parameter(rows, name) for name in names]
    others = [c for c in parameter_columns(rows) if c not in columns and rows[c].nunique() > 1]
    if others:
        raise DataError(
            f"{others[0]} varies too; {_choose(others[0], rows[others[0]].unique())}", code="ambiguous"
        )
    symbols = ["p" if c == "ranks" else c for c in columns]
    x1, x2 = (rows[c].to_numpy(float) for c in columns)
    return x1, x2, rows["value"].to_numpy(float), (symbols[0], symbols[1]), str(rows["unit"].iloc[0])


def _one(
    data: pd.DataFrame, metric: str | None, phase: str | None, where: Mapping[str, object] | None
) -> tuple[pd.DataFrame, str, str]:
    """Return the rows of one metric and phase."""
    rows = rows_where(data, where)
    metric = metric_of(rows, metric, phase)
    rows = rows[rows["metric"] == metric]
    rows, phase = _phase(rows, metric, phase)
    for column in FIXED:
        values = rows[column].unique()
        if len(values) > 1:
            raise DataError(f"there are several curves; {_choose(column, values)}", code="ambiguous")
    return rows, metric, phase


def _nothing(curve: Curve) -> str:
    """Return the sentence that a curve is 0 everywhere, and what to do."""
    what = f"{curve.metric} of phase {curve.phase!r}" if curve.phase else curve.metric
    said = f"{what} is 0 at every {curve.symbol}: "
    if curve.unit != "s":
        return f"{said}there is nothing that grows"
    return (
        f"{said}no computing was charged, and no message took time; charge it with "
        'labkit.compute(seconds=...), or sweep with compute="measured"'
    )


def _without_zeros(rows: pd.DataFrame, metric: str, column: str, symbol: str) -> tuple[pd.DataFrame, str]:
    """Leave out the points at which nothing was measured, unless that is all of them."""
    zero = rows.loc[rows["value"] == 0, column].drop_duplicates()
    kept = rows[~rows[column].isin(zero)]
    if not len(zero) or not len(kept):
        return rows, ""
    where = ", ".join(f"{value:g}" for value in sorted(zero)[:6]) + (", ..." if len(zero) > 6 else "")
    return kept, f"{metric} is 0 at {symbol} = {where}, which is left out: relative errors need more than 0"


def expectations_of_phases(given: Mapping[str, str] | None, phases: Sequence[str]) -> dict[str, str]:
    """Return the expectations of a study's phases, by their names."""
    if not isinstance(given, Mapping | None):
        raise ExpectationError(
            "expectations are given by phase, as in {'exchange': 'p'}, and the whole run's as total='p'; "
            f"got {given!r}",
            code="wrong-type",
        )
    unknown = sorted(set(given or {}) - set(phases))
    if unknown:
        known = ", ".join(map(repr, phases)) or "none"
        raise ExpectationError(
            f"there is no phase {unknown[0]!r} in this study; phases: {known}", code="unknown-name"
        )
    return dict(given or {})


def rows_where(data: pd.DataFrame, where: Mapping[str, Any] | None) -> pd.DataFrame:
    """Return the rows whose columns have these values, or one of a list of them."""
    if not isinstance(where, Mapping | None):
        raise DataError(
            f"where has columns and their values, as in where={{'n': 1000}}; got {where!r}", code="wrong-type"
        )
    for column, value in (where or {}).items():
        if column not in data.columns:
            known = [str(name) for name in data.columns]
            raise DataError(
                f"there is no column {column!r}{nearest(str(column), known)}; there are: {', '.join(known)}",
                code="unknown-name",
            )
        is_several = isinstance(value, list | tuple | set | range)
        chosen = data[data[column].isin(list(value)) if is_several else data[column] == value]
        if not len(chosen):
            raise DataError(
                f"no row has {column} = {value!r}; there are: {_list(data[column].unique())}",
                code="unknown-name",
            )
        data = chosen
    return data


def metric_of(rows: pd.DataFrame, metric: str | None, phase: str | None = None) -> str:
    """Return the metric that is meant: by default the time, or the only one there is."""
    known = [str(m) for m in rows["metric"].unique()]
    if metric is None:
        wanted = "phase_s" if phase else "makespan_s"
        if wanted in known:
            return wanted
        if len(known) == 1:
            return known[0]
        raise DataError(f"there are several metrics; choose one: {_list(known)}", code="ambiguous")
    if phase and metric == "makespan_s" and "phase_s" in known:
        return "phase_s"
    if metric not in known:
        is_time = str(metric) in _TIMES and "makespan_s" in known
        hint = "; did you mean 'makespan_s'?" if is_time else nearest(str(metric), known)
        if metric in ("speedup", "efficiency"):
            hint = f", which is computed from makespan_s; labkit.plot.{metric}(study) draws it"
        raise DataError(
            f"there is no metric {metric!r}{hint}; there are: {_list(known)}", code="unknown-name"
        )
    return metric


def _phase(rows: pd.DataFrame, metric: str, phase: str | None) -> tuple[pd.DataFrame, str]:
    known = [str(v) for v in rows["phase"].unique()]
    if phase is None:
        if len(known) > 1 and "" in known:  # counted in all, and in each phase
            return rows[rows["phase"] == ""], ""
        if len(known) > 1:
            raise DataError(
                f"{metric} was measured for several phases; choose one: {_list(known)}", code="ambiguous"
            )
        return rows, known[0]
    if phase not in known:
        raise DataError(f"there is no phase {phase!r}; there are: {_list(known)}", code="unknown-name")
    return rows[rows["phase"] == phase], phase


def _parameter(rows: pd.DataFrame, parameter: str | None) -> str:
    columns = parameter_columns(rows)
    numeric = [c for c in columns if pd.api.types.is_numeric_dtype(rows[c])]
    if parameter is not None:
        if parameter == "p" and "p" not in columns and "ranks" in columns:
            parameter = "ranks"
        if parameter not in numeric:
            raise DataError(
                f"there is no numeric parameter {parameter!r}; there are: {_list(numeric)}",
                code="unknown-name",
            )
        return parameter
    varying = [c for c in numeric if rows[c].nunique() > 1]
    if "ranks" in varying or (not varying and "ranks" in numeric):
        return "ranks"
    if len(varying) == 1 or (not varying and len(numeric) == 1):
        return (varying or numeric)[0]
    what = "no numeric parameter" if not numeric else "several parameters vary"
    raise DataError(f"{what}; choose one with parameter=...: {_list(varying or columns)}", code="ambiguous")


def _choose(column: str, values: Any) -> str:
    """Describe how one value of a column is chosen, in Python and (on the command line)."""
    first = values[0].item() if isinstance(values[0], np.generic) else values[0]
    return (
        f"choose one value with where={{{column!r}: {first!r}}} (--where {column}={first}): {_list(values)}"
    )


def _others(rows: pd.DataFrame, column: str, symbol: str) -> dict[str, float | int | str]:
    """Return how the other parameters follow; refuse those that vary on their own."""
    given: dict[str, float | int | str] = {}
    for other in parameter_columns(rows):
        if other == column:
            continue
        pairs = rows[[column, other]].drop_duplicates()
        if pairs[other].nunique() == 1:
            if pd.api.types.is_numeric_dtype(pairs[other]) and float(pairs[other].iloc[0]) > 0:
                value = float(pairs[other].iloc[0])
                given[other] = int(value) if value.is_integer() else value
            continue
        if pairs[column].duplicated().any():
            numeric = pd.api.types.is_numeric_dtype(pairs[other])
            both = f"; or name both in an expectation, such as '{other} * {symbol}'" if numeric else ""
            raise DataError(
                f"{other} varies too; {_choose(other, rows[other].unique())}{both}", code="ambiguous"
            )
        law = _power_law(pairs[column].to_numpy(float), pairs[other].to_numpy(float), symbol)
        if law:
            given[other] = law
    return given


def _power_law(x: NDArray[Any], y: NDArray[Any], symbol: str) -> str | None:
    """Return y = c x^k as text when it holds exactly (weak scaling: n = 1000 * p)."""
    if (x <= 0).any() or (y <= 0).any():
        return None
    k = Fraction(math.log(y[-1] / y[0]) / math.log(x[-1] / x[0])).limit_denominator(6)
    c = y[0] / x[0] ** float(k)
    if not np.allclose(y, c * x ** float(k), rtol=1e-9):
        return None
    return f"{c:.12g} * {symbol}^({k})"


def _list(values: Any) -> str:
    shown = [repr(v.item() if hasattr(v, "item") else v) for v in list(values)[:12]]
    return ", ".join(shown) + (", ..." if len(values) > 12 else "")


def bind(expectation: str | Expectation, curve: Curve, given: object) -> Expectation:
    """Bind an expectation's symbols to the curve's parameter and to what the other columns were."""
    if isinstance(expectation, Expectation):
        return expectation
    if not isinstance(given, Mapping | None):
        raise ExpectationError(
            f"given is a mapping such as {{'n': '1000 * p'}}; got {echo(given)}", code="wrong-type"
        )
    given = {**curve.given, **(given or {})}
    symbols = frozenset().union(*(p.symbols for p in parse(expectation)))
    symbol = curve.symbol
    if curve.column in symbols:
        symbol = curve.column
    free = symbols - set(given) - {symbol}
    if free == {"p"}:  # what everybody calls the parameter, whatever its column is called
        symbol = "p"
    elif free:
        known = ", ".join(dict.fromkeys([symbol, curve.column, *map(str, given)]))
        word = min(free)
        raise ExpectationError(
            f"expectation {expectation!r}: {word!r} is not a parameter of this study{meant(word)}; "
            f"known: {known}. "
            'What does not grow at all is "1".'
        )
    return read_expectation(expectation, symbol, {k: v for k, v in given.items() if k != symbol})


def doubted(verdict: Verdict, machines: object) -> Verdict:
    """Give a verdict over measurements that are not valid the reason that their place is."""
    if not isinstance(machines, Mapping):
        return verdict
    places = {str(one["place"]) for one in machines.values() if isinstance(one, Mapping) and "place" in one}
    found = [doubt for doubt in map(place_doubt, sorted(places)) if doubt is not None]
    if not found:
        return verdict
    return replace(verdict, match="undecided", reasons=(*found, *verdict.reasons))


def unmeasured(
    nothing: NothingMeasured,
    expectation: str | Expectation,
    given: Mapping[str, float | int | str] | None,
    deviation: str | Term | None,
) -> Verdict:
    """Return the verdict over a curve that is 0 everywhere: undecided, as any bound would hold."""
    curve = nothing.curve
    e = bind(expectation, curve, given)
    return Verdict(
        "undecided",
        e,
        None,
        None,
        deviation_for(e.term, deviation),
        reasons=(str(nothing),),
        metric=curve.metric,
        unit=curve.unit,
        phase=curve.phase,
    )
