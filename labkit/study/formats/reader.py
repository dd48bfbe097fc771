"""The reader of measurements: saved studies, bundles, Extra-P's files, and tables.

The content says which it is, not the name: a saved study or a bundle; Extra-P's experiments (``.extra-p``),
text, JSON (both forms) or JSON lines; else a table with a header, its columns apart by tabulators,
semicolons, commas or spaces. Lines that begin with ``#`` are remarks.

A table with the columns metric and value has a row for each measurement, and what else it has is as in
`study.data`::

    ranks,metric,value,unit
    4,makespan_s,0.5,s
    8,makespan_s,0.9,s

Any other has a column for each metric, behind those of the parameters; one column of parameters, unless
``labkit.load(file, parameters=["p", "n"])`` says more. Rows of the same point are repetitions::

    p time_s
    4 0.5
    8 0.9

Extra-P's text names parameters and points once; each line of data has the repetitions of one point::

    PARAMETER p
    POINTS 4 8 16
    REGION sort
    METRIC time
    DATA 1.0 1.1
    DATA 2.0 2.1
    DATA 4.0 4.1

and JSON lines have an object for each measurement::

    {"params": {"p": 4}, "callpath": "sort", "metric": "time", "value": 1.0}
    {"params": {"p": 8}, "callpath": "sort", "metric": "time", "value": 2.0}
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.errors import DataError
from labkit.plain import json_of, require_file, text_of
from labkit.study.formats.writer import DOCUMENT, REMARK, ROOT, columns_of, read_experiment
from labkit.study.rows import FIXED, MEASURED, parameter_columns, tidy, unit_of
from labkit.study.store import check_archive, read_study

__all__ = ["read_data"]

Row = dict[str, Any]
#: a line of TaLPas: JSON with semicolons between its members
_TALPAS = re.compile(r'\s*\{\s*"parameters"\s*:\s*\{')
_EXTRAP = re.compile(r"(PARAMETER|POINTS|REGION|METRIC|DATA)(\s|$)")


def read_data(
    path: str | os.PathLike[str], parameters: Sequence[str] | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read measurements; the format is found from the content.

    Parameters
    ----------
    path : path
        A saved study, an Extra-P file or a CSV file.
    parameters : sequence of str, optional
        The columns of a CSV file that hold parameters; by default its first column.

    Returns
    -------
    data : DataFrame
        The rows of a study.
    notes : dict
        The facts saved with them.

    Raises
    ------
    DataError
        With the line where the file stops making sense.
    """
    name = os.fspath(path)
    _refuse_trace(Path(path), name)
    if os.path.isdir(path):
        raise DataError(f"{name!r} is a folder; give the file with the measurements")
    if not os.path.exists(path):
        raise DataError(f"there is no file {name!r}")
    require_file(path, is_whole=False)
    if zipfile.is_zipfile(path):
        return _read_zip(path, name)
    text = text_of(Path(path))
    if not text.strip():
        raise DataError(f"{name!r} is empty")
    remarks: list[str] = []
    return _tidied(_parse(text, name, parameters, remarks), name, remarks)


def _refuse_trace(path: Path, name: str) -> None:
    """Refuse an OTF2 archive, or its anchor: what it holds is a run."""
    anchor = path / "traces.otf2" if path.is_dir() else path
    if anchor.suffix == ".otf2" and anchor.is_file():
        raise DataError(
            f"{name!r} is an OTF2 archive, the trace of a run, and no measurements; "
            f"labkit.read_trace({name!r}) reads it"
        )


def _tidied(
    found: Iterator[Row], name: str, remarks: Sequence[str] = ()
) -> tuple[pd.DataFrame, dict[str, Any]]:
    rows = list(found)
    if not rows:
        raise DataError(f"{name!r} holds no measurements")
    data = tidy(rows)
    for column in parameter_columns(data):
        if data[column].dtype.kind == "f" and _is_whole(data[column]):
            data[column] = data[column].astype("int64")
    notes: dict[str, Any] = {"source": os.path.basename(name)}
    return data, notes | ({"remarks": list(remarks)} if remarks else {})


def _is_whole(values: pd.Series[float]) -> bool:
    """Whether numbers are whole, and small enough for a column of whole numbers."""
    return bool(((values % 1 == 0) & (values.abs() < 2.0**63)).all())


def _read_zip(path: str | os.PathLike[str], name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a study; of an experiment of Extra-P the study in it, or what Extra-P itself has written."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, name)
            inside = set(archive.namelist())
            if DOCUMENT in inside and "study.json" not in inside:
                return _tidied(_experiment(archive, name), name)
    except (OSError, zipfile.BadZipFile, RuntimeError, ValueError, EOFError) as error:
        raise DataError(f"{name!r} cannot be unpacked: {error}") from error
    return read_study(path)


def _experiment(archive: zipfile.ZipFile, name: str) -> Iterator[Row]:
    for point, region, metric, values in read_experiment(archive, name):
        for repetition, value in enumerate(values):
            yield _row(point, metric, region, value, repetition)


def _parse(text: str, name: str, parameters: Sequence[str] | None, remarks: list[str]) -> Iterator[Row]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise DataError(f"{name!r} holds no measurements: every line of it is a comment or empty")
    if text.lstrip()[0] in "{[":
        return _json(text, name)
    if _EXTRAP.match(lines[0].strip()):
        return _extrap_text(text, name)
    return _csv(lines, name, parameters, remarks)


def _number(text: Any, where: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{where}: {text!r} is not a number") from None


def _row(point: Mapping[str, float], metric: str, phase: str, value: float, repetition: int) -> Row:
    metric = "value" if metric in ("", "<default>") else metric  # as Extra-P calls one without a name
    return {
        **point, "metric": metric, "phase": "" if phase == ROOT else phase, "value": value,
        "unit": unit_of(metric), "repetition": repetition,
    }  # fmt: skip


# ----------------------------------------------------------------------------- Extra-P's text format


def _extrap_text(text: str, name: str) -> Iterator[Row]:
    """PARAMETER names; POINTS (coordinates) ...; then METRIC, REGION and a DATA line per point."""
    parameters: list[str] = []
    points: list[dict[str, float]] = []
    metric, region, at, where = "", "", 0, name
    own: Row | None = None
    measured: dict[tuple[str, str], int] = {}
    began = 0
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}, line {number}"
        if line.startswith(REMARK):
            own = _constants(line.removeprefix(REMARK), where)
        if not line.strip() or line.startswith("#"):
            continue
        field, *rest = line.split(None, 1)  # white space is any white space
        value = rest[0].strip() if rest else ""
        if field == "PARAMETER":
            parameters += value.split()
        elif field == "POINTS":
            if not parameters:
                raise DataError(f"{where}: points before any PARAMETER; names come first: PARAMETER p")
            points += [_point(parameters, p, where) for p in _points(value, len(parameters))]
        elif field in ("METRIC", "REGION"):
            if points and at not in (0, len(points)):
                raise DataError(f"{where}: {at} DATA lines before it, but {len(points)} points")
            if at:
                measured[metric, region] = began
            metric, region, at = (value, region, 0) if field == "METRIC" else (metric, value, 0)
        elif field == "DATA":
            if at >= len(points):
                raise DataError(f"{where}: more DATA lines than the {len(points)} points")
            if at == 0:
                began = number
                _refuse_again(measured, metric, region, where)
            for repetition, item in enumerate(value.split()):
                row = _row(points[at], metric, region, _number(item, where), repetition)
                yield row if own is None else {**row, **own, **dict(columns_of(region))}
            at += 1
        else:
            raise DataError(
                f"{where}: {field!r} is not a field; known: PARAMETER, POINTS, METRIC, REGION, DATA"
            )
    if at not in (0, len(points)):
        raise DataError(f"{where}: the file ends after {at} DATA lines, but there are {len(points)} points")


def _refuse_again(measured: Mapping[tuple[str, str], int], metric: str, region: str, where: str) -> None:
    """Refuse data of a metric and a region that has some."""
    if (metric, region) in measured:
        raise DataError(
            f"{where}: metric {metric!r} of region {region!r} has data already, from line "
            f"{measured[metric, region]} on; put the repetitions of a point on one DATA line"
        )


def _constants(text: str, where: str) -> Row:
    """Read what labkit noted about all rows."""
    try:
        constants = json_of(text)
    except ValueError as error:
        raise DataError(f"{where}: the remark of labkit is damaged: {error}") from None
    if not isinstance(constants, dict):
        raise DataError(f"{where}: the remark of labkit is damaged: it holds no names and values")
    return {str(name): value for name, value in constants.items() if name not in MEASURED}


def _points(text: str, dimensions: int) -> list[list[str]]:
    if dimensions == 1 or "(" not in text:
        return [[v] for v in text.replace("(", " ").replace(")", " ").split()]
    flat = text.replace("(", " ( ").replace(")", " ) ")
    numbers = flat.replace("(", " ").replace(")", " ").split()
    return [numbers[i : i + dimensions] for i in range(0, len(numbers), dimensions)]


def _point(parameters: Sequence[str], values: Sequence[Any], where: str) -> dict[str, float]:
    if not parameters:
        raise DataError(f"{where}: points before any PARAMETER")
    if len(values) != len(parameters):
        raise DataError(
            f"{where}: a point has {len(values)} coordinates, but there are {len(parameters)} parameters"
        )
    return {p: _number(v, where) for p, v in zip(parameters, values, strict=True)}


# ----------------------------------------------------------------------------- Extra-P's JSON formats


def _json(text: str, name: str) -> Iterator[Row]:
    try:
        content = json_of(text)
    except json.JSONDecodeError as error:
        lines = [ln for ln in text.splitlines() if ln.strip()]
        if all(_TALPAS.match(ln) for ln in lines):
            return _json_lines("\n".join(map(_with_commas, text.splitlines())), name)
        if len(lines) > 1 and all(ln.lstrip().startswith("{") for ln in lines):
            return _json_lines(text, name)
        raise DataError(f"{name}, line {error.lineno}: not JSON: {error.msg}") from None
    if isinstance(content, dict) and "value" in content and "measurements" not in content:
        return _json_lines(text, name)
    if not isinstance(content, dict) or "measurements" not in content or "parameters" not in content:
        raise DataError(f"{name}: a JSON file of measurements has the keys parameters and measurements")
    try:
        return iter(list(_json_ids(content) if "callpaths" in content else _json_nested(content, name)))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DataError(f"{name}: the JSON does not have Extra-P's structure ({error!r})") from None


def _with_commas(line: str) -> str:
    """Return a line of TaLPas, whose semicolons between texts are JSON's commas."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', line)
    return "".join(part if number % 2 else part.replace(";", ",") for number, part in enumerate(parts))


def _json_nested(content: Mapping[str, Any], name: str) -> Iterator[Row]:
    own = _constants(json.dumps(content["labkit"]), name) if "labkit" in content else None
    for region, metrics in content["measurements"].items():
        for metric, measurements in metrics.items():
            for measurement in measurements:
                point = _point(content["parameters"], measurement["point"], name)
                for repetition, value in enumerate(measurement["values"]):
                    row = _row(point, metric, region, _number(value, name), repetition)
                    yield row if own is None else {**row, **own, **dict(columns_of(region))}


def _json_ids(content: Mapping[str, Any]) -> Iterator[Row]:
    """Read the older format, whose parts refer to each other by number."""
    names = {}
    for kind in ("parameters", "callpaths", "metrics"):
        names[kind] = {item["id"]: item["name"] for item in content[kind]}
        if len(names[kind]) < len(content[kind]):
            raise ValueError(f"two of {kind} have one id")
    points = {
        c["id"]: {
            names["parameters"][pair["parameter_id"]]: float(pair["parameter_value"])
            for pair in c["parameter_value_pairs"]
        }
        for c in content["coordinates"]
    }
    seen: dict[tuple[Any, ...], int] = {}
    for m in content["measurements"]:
        key = (m["coordinate_id"], m["callpath_id"], m["metric_id"])
        seen[key] = seen.get(key, -1) + 1
        region, metric = names["callpaths"][key[1]], names["metrics"][key[2]]
        yield _row(points[key[0]], metric, region, float(m["value"]), seen[key])


def _json_lines(text: str, name: str) -> Iterator[Row]:
    seen: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            item = json_of(line)
            params = item["parameters"] if "parameters" in item else item["params"]  # TaLPas, Extra-P
            point = {str(k): _number(v, where) for k, v in params.items()}
            values = item["value"] if isinstance(item["value"], list) else [item["value"]]
            own = {str(k): v for k, v in dict(item.get("labkit", {})).items() if k not in ("metric", "value")}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{where}: not a measurement with params and value ({error})") from None
        region, metric = str(item.get("callpath", "")), str(item.get("metric", ""))
        for value in values:
            key = (*point.values(), region, metric)
            seen[key] = seen.get(key, -1) + 1
            row = _row(point, metric, region, _number(value, where), seen[key])
            yield row | own


# ----------------------------------------------------------------------------- CSV


def _csv(lines: list[str], name: str, parameters: Sequence[str] | None, remarks: list[str]) -> Iterator[Row]:
    delimiter = next((d for d in ("\t", ";", ",") if d in lines[0]), " ")
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, skipinitialspace=True)
    try:
        table = list(reader)
    except csv.Error as error:  # such as a cell of more than 128 KiB
        raise DataError(f"{name}, row {reader.line_num}: not a row of a CSV file ({error})") from None
    table = [[cell.strip() for cell in row if cell.strip() or delimiter != " "] for row in table]
    head, body = table[0], table[1:]
    if all(_is_number(cell) for cell in head):
        head, body = ["p", *(f"value{i}" if i > 1 else "value" for i in range(1, len(head)))], table
    if len(head) < 2:
        raise DataError(
            f"{name} is neither a saved study, nor an Extra-P file, nor a CSV file with two columns"
        )
    for number, row in enumerate(body, 2):
        if len(row) != len(head):
            raise DataError(f"{name}, row {number}: {len(row)} cells, but the header has {len(head)}")
    for column, cell in enumerate(head):
        if cell in head[:column]:
            raise DataError(
                f"{name}: columns {head.index(cell) + 1} and {column + 1} are both called {cell!r}; "
                "rename one"
            )
        if not cell:
            raise DataError(f"{name}: column {column + 1} has no name in the header")
    unknown = sorted(set(parameters or ()) - set(head))
    if unknown:
        raise DataError(f"{name} has no column {unknown[0]!r}; it has: {', '.join(head)}")
    if "value" in head and "metric" in head:
        return _csv_long(head, body, name)
    return _csv_wide(head, body, name, list(parameters or head[:1]), remarks)


def _csv_long(head: list[str], body: list[list[str]], name: str) -> Iterator[Row]:
    """One measurement a row, as in a study's own table."""
    for number, cells in enumerate(body, 2):
        row: Row = dict(zip(head, cells, strict=True))
        row["value"] = _number(row["value"], f"{name}, row {number}, column value")
        for column in row:
            if column not in FIXED and column not in MEASURED and _is_number(row[column]):
                row[column] = float(row[column])
        if "repetition" in row:
            where = f"{name}, row {number}, column repetition"
            repetition = _number(row["repetition"], where)
            if not repetition % 1 == 0 or abs(repetition) >= 2.0**63:
                raise DataError(f"{where}: {row['repetition']!r} is not a whole number")
            row["repetition"] = int(repetition)
        if "is_valid" in row:
            row["is_valid"] = str(row["is_valid"]).lower() not in ("false", "0", "no")
        yield row


def _csv_wide(
    head: list[str], body: list[list[str]], name: str, parameters: list[str], remarks: list[str]
) -> Iterator[Row]:
    """A column for each parameter, then a column for each metric; what is left out is remarked."""
    table = [dict(zip(head, cells, strict=True)) for cells in body]
    metrics = [c for c in head if c not in parameters]
    for metric in [*metrics] if len(metrics) > 1 else ():
        if not any(_is_number(row[metric]) for row in table):
            metrics.remove(metric)
            remarks.append(f"column {metric!r} holds no numbers and was left out")
    empty: dict[str, list[int]] = {}
    seen: dict[tuple[float, ...], int] = {}
    for number, row in enumerate(table, 2):
        where = f"{name}, row {number}"
        point = {p: _number(row[p], f"{where}, column {p}") for p in parameters}
        key = tuple(point.values())
        seen[key] = seen.get(key, -1) + 1
        for metric in metrics:
            if row[metric]:
                value = _number(row[metric], f"{where}, column {metric}")
                yield _row(point, metric, "", value, seen[key])
            else:
                empty.setdefault(metric, []).append(number)
    for metric, numbers in empty.items():
        rows = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        cells = "cell was" if len(numbers) == 1 else "cells were"
        remarks.append(f"{len(numbers)} empty {cells} left out of column {metric!r} (row {rows})")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
