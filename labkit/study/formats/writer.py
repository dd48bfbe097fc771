"""Files for other programs: a study as Extra-P's text, JSON, JSON lines and experiment, and as CSV.

Extra-P's own files, ``.extra-p``: a zip of measurements in JSON and of raw values as NumPy's arrays.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labkit.checks import path_of
from labkit.errors import DataError
from labkit.study.rows import FIXED, MEASURED, PLACE, SEED, parameter_columns, unit_of
from labkit.study.store import study_files, write_zip
from labkit.text import html as markup
from labkit.text.files import DAMAGED, json_of, replace_file, writing

__all__ = [
    "DOCUMENT",
    "FORMATS",
    "REMARK",
    "ROOT",
    "MeasurementGroup",
    "export_study",
    "groups_of",
    "read_experiment",
    "rows_of_frame",
    "summary_html",
    "wide_frame",
]


#: what Extra-P calls the whole program
ROOT = "<root>"

#: begins the comment with the values that all rows of a text file share
REMARK = "# labkit "
#: in front of a phase whose name would be read as something else
_PHASE = "phase="


@dataclass(frozen=True)
class MeasurementGroup:
    """The measurements of one metric in one call path: what Extra-P makes one model of.

    `path`: Columns that vary and hold no numbers, then the phase: ``on=star->exchange``; or `ROOT`.
    `points`: Values of the parameters to the repetitions' values.
    `rows`: The same as rows.
    """

    path: str
    metric: str
    points: dict[tuple[float, ...], list[float]]
    rows: pd.DataFrame


def export_study(data: pd.DataFrame, notes: Mapping[str, object], path: str | os.PathLike[str]) -> Path:
    """Write a study for other programs; see `labkit.Study.export`."""
    target = path_of(path)
    write = FORMATS.get(target.suffix.lower())
    if write is None:
        raise DataError(
            f"{os.fspath(path)!r}: the ending sets the format: .txt, .json, .jsonl, .extra-p (Extra-P), .csv",
            code="unknown-format",
        )
    if not len(data):
        raise DataError("there are no measurements to write", code="no-data")
    return write(data, notes, target)


def groups_of(data: pd.DataFrame) -> tuple[list[str], list[MeasurementGroup]]:
    """Return the parameters that Extra-P models over, and the measurements of each of its models."""
    columns = parameter_columns(data)
    numeric = [c for c in columns if pd.api.types.is_numeric_dtype(data[c]) and data[c].notna().all()]
    parameters = [c for c in numeric if data[c].nunique() > 1] or numeric[:1]
    if not parameters:
        raise DataError(
            "Extra-P's files need a parameter that is a number, such as ranks; this study has none",
            code="no-data",
        )
    names = [c for c in (*FIXED, *columns) if c not in parameters and data[c].nunique(dropna=False) > 1]
    groups = []
    for key, rows in data.groupby([*names, "phase", "metric"], sort=False, dropna=False):
        cells: Any = key  # of the columns, in their order
        *values, phase, metric = cells
        parts = [f"{n}={v}" for n, v in zip(names, values, strict=True) if not pd.isna(v) and v != ""]
        path = "->".join([*parts, *([_component(str(phase))] if phase else [])]) or ROOT
        points: dict[tuple[float, ...], list[float]] = {}
        for point, value in zip(rows[parameters].to_numpy(float).tolist(), rows["value"], strict=True):
            points.setdefault(tuple(point), []).append(float(value))
        groups.append(MeasurementGroup(path, str(metric), points, rows))
    return parameters, groups


def _component(phase: str) -> str:
    """Return a phase as the last part of a call path, which is not read as a column's name and value."""
    return f"{_PHASE}{phase}" if "=" in phase.partition("->")[0] or phase == ROOT else phase


def _constants(data: pd.DataFrame, parameters: list[str]) -> dict[str, object]:
    """Return what is the same in all rows, as plain data."""
    columns = [*FIXED, *PLACE, SEED, *parameter_columns(data)]
    columns = [c for c in columns if c in data and c not in parameters]
    same = {c: data[c].iloc[0] for c in columns if data[c].nunique(dropna=False) == 1}
    return {c: v.item() if hasattr(v, "item") else v for c, v in same.items() if not pd.isna(v) and v != ""}


def _number(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)


def _text(data: pd.DataFrame, notes: Mapping[str, object], target: Path) -> Path:
    """Extra-P's text: all points first, then a line of data for each of them in every group."""
    parameters, groups = groups_of(data)
    if len(parameters) > 4:
        raise DataError(
            f"Extra-P's text has at most 4 parameters, and {len(parameters)} vary; write .jsonl or .extra-p",
            code="no-counterpart",
        )
    points = list(dict.fromkeys(point for group in groups for point in group.points))
    lines = [f"{REMARK}{json.dumps(_constants(data, parameters), ensure_ascii=False)}"]
    lines += [f"PARAMETER {_word(name)}" for name in parameters]
    shown = [" ".join(map(_number, point)) for point in points]
    lines.append("POINTS " + " ".join(f"({point})" if len(parameters) > 1 else point for point in shown))
    for group in groups:
        missing = [point for point in points if point not in group.points]
        if missing:
            at = ", ".join(f"{n}={_number(v)}" for n, v in zip(parameters, missing[0], strict=True))
            raise DataError(
                f"Extra-P's text needs a line for every point, and {group.metric} of {group.path} has none "
                f"at {at}; write .jsonl or .extra-p instead",
                code="no-data",
            )
        lines += ["", f"REGION {group.path}", f"METRIC {_word(group.metric)}"]
        lines += ["DATA " + " ".join(repr(v) for v in group.points[point]) for point in points]
    return _write(target, "\n".join(lines) + "\n")


def _word(name: str) -> str:
    return "_".join(name.split()) or "value"


def _json(data: pd.DataFrame, notes: Mapping[str, object], target: Path) -> Path:
    """Extra-P's JSON: points and values of each metric of each call path."""
    parameters, groups = groups_of(data)
    measurements: dict[str, dict[str, object]] = {}
    for group in groups:
        measurements.setdefault(group.path, {})[group.metric] = [
            {"point": list(point), "values": values} for point, values in group.points.items()
        ]
    document = {
        "parameters": parameters,
        "measurements": measurements,
        "labkit": _constants(data, parameters),
    }
    return _write(target, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _json_lines(data: pd.DataFrame, notes: Mapping[str, object], target: Path) -> Path:
    """Extra-P's JSON lines, a measurement each; with the other columns next to those that it reads."""
    parameters, groups = groups_of(data)
    others = [c for c in data.columns if c not in (*parameters, "metric", "value")]
    lines = []
    for group in groups:
        columns = {c: group.rows[c].tolist() for c in (*parameters, *others, "value")}
        for at in range(len(group.rows)):
            cells = {c: columns[c][at] for c in others if not pd.isna(columns[c][at])}
            lines.append(
                json.dumps(
                    {
                        "params": {c: columns[c][at] for c in parameters},
                        "callpath": group.path,
                        "metric": group.metric,
                        "value": columns["value"][at],
                        "labkit": cells,
                    },
                    ensure_ascii=False,
                )
            )
    return _write(target, "\n".join(lines) + "\n")


DOCUMENT = "experiment.json"

#: the version of Extra-P whose files these are
_VERSION = "4.2.1"

_VALUES, _INDEX = b"Extra-P VALUES\0\0", b"Extra-P INDEX\0\0\0"

_FACTS = ("median", "mean", "minimum", "maximum", "std", "repetitions")

Point = tuple[float, ...]


def experiment_files(
    parameters: Sequence[str], groups: Sequence[tuple[str, str, Mapping[Point, Sequence[float]]]]
) -> dict[str, bytes]:
    """Return the files of an experiment: name to content."""
    measurements: dict[str, dict[str, list[object]]] = {}
    values = io.BytesIO(_VALUES)
    values.seek(0, io.SEEK_END)
    places: list[int] = []
    for path, metric, points in groups:
        entries = measurements.setdefault(path, {}).setdefault(metric, [])
        for point, found in points.items():
            array = np.array(found, dtype=float)
            entries.append({"coordinate": list(point), **_facts(array), "values": [0, len(places)]})
            places.append(values.tell())
            np.lib.format.write_array(values, array)
    document = {"Extra-P": _VERSION, "parameters": list(parameters), "measurements": measurements}
    index = _INDEX + struct.pack(f"<{len(places) + 1}Q", len(places), *places)
    return {
        DOCUMENT: json.dumps(document, ensure_ascii=False).encode(),
        "values/0.vals": values.getvalue(),
        "values/0.indx": index,
    }


def _facts(values: NDArray[Any]) -> dict[str, float]:
    facts = (np.median(values), values.mean(), values.min(), values.max(), values.std(), values.size)
    return dict(zip(_FACTS, (float(one) for one in facts[:-1]), strict=False)) | {"repetitions": values.size}


def read_experiment(
    archive: zipfile.ZipFile, name: str
) -> Iterator[tuple[dict[str, float], str, str, list[float]]]:
    """Yield point, call path, metric and values of each measurement; the mean where it kept no values."""
    try:
        document = json_of(archive.read(DOCUMENT))
        parameters = [str(one) for one in document["parameters"]]
        chunks: dict[int, tuple[bytes, list[int]]] = {}
        for path, metrics in document["measurements"].items():
            for metric, entries in metrics.items():
                for entry in entries:
                    point = dict(zip(parameters, map(float, entry["coordinate"]), strict=True))
                    yield point, path, metric, _values(archive, entry, chunks)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, struct.error, EOFError) as error:
        raise DataError(
            f"{name}: it is no experiment of Extra-P ({type(error).__name__}: {error})", code="malformed-file"
        ) from error
    except DAMAGED as error:
        raise DataError(f"{name}: it cannot be unpacked: {error}", code="damaged-file") from error


def _values(
    archive: zipfile.ZipFile, entry: Mapping[str, Any], chunks: dict[int, tuple[bytes, list[int]]]
) -> list[float]:
    if entry.get("values") is None:
        return [float(entry["mean"])]
    chunk, number = entry["values"]
    if chunk not in chunks:
        index = archive.read(f"values/{int(chunk)}.indx")
        count = struct.unpack_from("<Q", index, len(_INDEX))[0]
        places = list(struct.unpack_from(f"<{count}Q", index, len(_INDEX) + 8))
        chunks[chunk] = archive.read(f"values/{int(chunk)}.vals"), places
    content, places = chunks[chunk]
    array = np.lib.format.read_array(io.BytesIO(content[places[number] :]), allow_pickle=False)
    return [float(value) for value in np.ravel(array)]


def _experiment(data: pd.DataFrame, notes: Mapping[str, object], target: Path) -> Path:
    """Return Extra-P's experiment, which contains the study as well: both programs read all of it."""
    parameters, groups = groups_of(data)
    files = experiment_files(parameters, [(g.path, g.metric, g.points) for g in groups])
    return write_zip(target, files | study_files(data, notes), "the experiment")


def _csv(data: pd.DataFrame, notes: Mapping[str, object], target: Path) -> Path:
    """One measurement a row."""
    return _write(target, data.to_csv(index=False, lineterminator="\n"))


def _write(target: Path, text: str) -> Path:
    with writing(target):
        return replace_file(target, text.encode())


#: by the ending of the file's name
FORMATS: dict[str, Callable[[pd.DataFrame, Mapping[str, Any], Path], Path]] = {
    ".txt": _text,
    ".json": _json,
    ".jsonl": _json_lines,
    ".extra-p": _experiment,
    ".csv": _csv,
}


def columns_of(path: str) -> Iterator[tuple[str, str]]:
    """Yield what a call path that `groups_of` made says of the columns, then ("phase", the rest)."""
    parts = [] if path in ("", ROOT) else path.split("->")
    while parts and parts[0].partition("=")[1] and parts[0].partition("=")[0] not in MEASURED:
        name, _, value = parts.pop(0).partition("=")
        yield name, value
    yield "phase", "->".join(parts).removeprefix(_PHASE)


# Data frames in and out: long, as a study keeps its rows, and wide, with a column for each metric.


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
    frame: object, parameters: str | Sequence[str] | None = None, metrics: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a frame's measurements as rows of a study; see `labkit.Study.from_frame`."""
    data = _as_pandas(frame)
    data.columns = [str(column) for column in data.columns]
    if not len(data) or not len(data.columns):
        raise DataError("there are no measurements in this frame", code="no-data")
    if twice := [c for c in data.columns if list(data.columns).count(c) > 1]:
        raise DataError(f"two columns of this frame are called {twice[0]!r}", code="duplicate-name")
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
        raise DataError(
            f"this frame has no column {unknown[0]!r}; it has: {', '.join(data.columns)}", code="unknown-name"
        )
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
            f"parameters=[...], metrics=[...]; its columns: {', '.join(data.columns)}",
            code="missing-key",
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
    """Whether a column's name is that of a metric: it has a unit or a phase, or labkit counts it."""
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
        raise DataError(f"this is no table of measurements: {error}", code="malformed-file") from error
    raise DataError(
        "a study is made from a data frame (pandas, polars, pyarrow), a dict of columns or a list of rows; "
        f"got {type(frame).__name__}",
        code="wrong-type",
    )


def _numbers(values: pd.Series[Any]) -> pd.Series[Any]:
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = values[numbers.isna() & values.notna()]
    if len(wrong):
        raise DataError(
            f"row {wrong.index[0]}: the value {wrong.iloc[0]!r} is not a number", code="wrong-type"
        )
    if np.isinf(numbers.astype(float)).any():
        raise DataError(
            f"row {int(np.flatnonzero(np.isinf(numbers.astype(float)))[0])}: a value is infinite",
            code="not-finite",
        )
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
