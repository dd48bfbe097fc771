"""Data frames in and out: long, as a study keeps its rows, and wide, with a column for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from labkit import html as markup
from labkit.errors import DataError
from labkit.study.rows import FIXED, MEASURED, PLACE, SEED, parameter_columns, unit_of

__all__ = ["rows_of_frame", "summary_html", "wide_frame"]

#: what may be missing in a wide frame
_KEPT = (*FIXED, *PLACE, SEED, "repetition", "is_valid")


def wide_frame(data: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each repetition of each point, and a column for each metric.

    A metric of a phase is ``metric:phase``. Metrics that were measured less often are NaN elsewhere.
    """
    points = [c for c in (*FIXED, *parameter_columns(data), *PLACE, SEED, "repetition") if c in data.columns]
    names = data["metric"].where(data["phase"] == "", data["metric"] + ":" + data["phase"])
    rows = data.assign(_name=names.astype(str))
    order = list(dict.fromkeys(rows["_name"]))
    first = rows.groupby([*points, "_name"], sort=False, dropna=False)["value"].first()
    wide = first.unstack("_name", sort=False)[order].reset_index()
    wide.columns.name = None
    return wide


def rows_of_frame(
    frame: Any, parameters: str | Sequence[str] | None = None, metrics: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a frame's measurements as rows of a study; see `labkit.Study.from_frame`."""
    data = _as_pandas(frame)
    data.columns = [str(column) for column in data.columns]
    if not len(data) or not len(data.columns):
        raise DataError("there are no measurements in this frame")
    if twice := [c for c in data.columns if list(data.columns).count(c) > 1]:
        raise DataError(f"two columns of this frame are called {twice[0]!r}")
    is_long = {"metric", "value"} <= set(data.columns) and metrics is None
    if is_long:
        rows = data[[c for c in data.columns if c in MEASURED or c in (*FIXED, *PLACE, SEED)]].copy()
        for name in _names(parameters, data) or [c for c in data.columns if c not in rows.columns]:
            rows[name] = data[name]
        for column in ("metric", "phase"):
            if column in rows:
                rows[column] = rows[column].fillna("").astype(str)
    else:
        rows = _long(data, _names(parameters, data), _names(metrics, data))
    rows["value"] = _numbers(rows["value"])
    return rows[rows["value"].notna()].reset_index(drop=True)


def _names(names: str | Sequence[str] | None, data: pd.DataFrame) -> list[str]:
    chosen = [names] if isinstance(names, str) else list(names or ())
    unknown = [name for name in chosen if name not in data.columns]
    if unknown:
        raise DataError(f"this frame has no column {unknown[0]!r}; it has: {', '.join(data.columns)}")
    return chosen


def _long(data: pd.DataFrame, parameters: list[str], metrics: list[str]) -> pd.DataFrame:
    """Turn a column for each metric into a row for each measurement."""
    free = [c for c in data.columns if c not in _KEPT]
    if not parameters and metrics:
        parameters = [c for c in free if c not in metrics]
    if not parameters:  # what is written by `wide_frame`, or by somebody who has measured a curve
        parameters = ["ranks"] if "ranks" in free else free[:1]
        parameters += [c for c in free if c not in parameters and not _is_metric(c)]
        if len(parameters) == len(free):
            parameters = parameters[:1]
    metrics = metrics or [c for c in free if c not in parameters]
    if not metrics:
        raise DataError(
            "this frame has no column that is a metric; name parameters and metrics: "
            f"parameters=[...], metrics=[...]; its columns: {', '.join(data.columns)}"
        )
    kept = [c for c in data.columns if c in _KEPT]
    if "repetition" not in kept:
        points = [*parameters, *(c for c in kept if c in FIXED)]
        data = data.assign(repetition=data.groupby(points, dropna=False).cumcount())
        kept.append("repetition")
    parts = []
    for name in metrics:
        metric, _, phase = name.partition(":")
        part = data[[*parameters, *kept]].copy()
        part["metric"], part["phase"], part["unit"] = metric, phase, unit_of(metric)
        part["value"] = data[name]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _is_metric(column: str) -> bool:
    """Whether a column's name is that of a metric: it tells its unit or its phase, or labkit counts it."""
    name = column.partition(":")[0]
    counted = ("messages", "rounds", "comparisons", "collectives")
    return ":" in column or bool(unit_of(name)) or name.removeprefix("rank_") in counted


def _as_pandas(frame: Any) -> pd.DataFrame:
    """Return a frame of pandas, polars, pyarrow or plain Python as one of pandas, a copy."""
    if isinstance(frame, pd.DataFrame):
        return frame.reset_index(drop=True).copy()
    try:
        if type(frame).__module__.partition(".")[0] == "polars":  # its own way to pandas needs pyarrow
            frame = frame.collect() if hasattr(frame, "collect") else frame
            return pd.DataFrame(frame.to_dict(as_series=False))
        if hasattr(frame, "to_pandas"):
            return pd.DataFrame(frame.to_pandas())
        if isinstance(frame, Mapping | Sequence) and not isinstance(frame, str | bytes):
            return pd.DataFrame(frame)
    except (TypeError, ValueError) as error:
        raise DataError(f"this is no table of measurements: {error}") from error
    raise DataError(
        "a study is made from a data frame (pandas, polars, pyarrow), a dict of columns or a list of rows; "
        f"got {type(frame).__name__}"
    )


def _numbers(values: pd.Series[Any]) -> pd.Series[Any]:
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = values[numbers.isna() & values.notna()]
    if len(wrong):
        raise DataError(f"row {wrong.index[0]}: the value {wrong.iloc[0]!r} is not a number")
    if np.isinf(numbers.astype(float)).any():
        raise DataError(f"row {int(np.flatnonzero(np.isinf(numbers.astype(float)))[0])}: a value is infinite")
    return numbers.astype(float)


def summary_html(rows: pd.DataFrame, parameters: list[str]) -> str:
    """Return the first quartile of each metric at each point, at most 40 rows."""
    data = rows[(rows["phase"] == "") | (rows["metric"] == "phase_s")]
    data = data.assign(what=data["phase"].where(data["phase"] != "", data["metric"]))
    units = dict(zip(data["what"], data["unit"], strict=True))
    varied = [n for n in parameters if data[n].nunique() > 1] or parameters[:1]
    points = data.groupby([*varied, "what"], sort=False)["value"].quantile(0.25).reset_index()
    wide = points.pivot_table("value", varied, "what", sort=False).head(40)
    body = [
        [
            *(str(v) for v in (index if isinstance(index, tuple) else (index,))),
            *(markup.quantity(v, units[w]) if v == v else "" for v, w in zip(row, wide, strict=True)),
        ]
        for index, row in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    heads = [*varied, *(str(c).removesuffix("_s") for c in wide.columns)]
    return markup.table([escape(h) for h in heads], body)
