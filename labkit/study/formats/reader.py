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
import math
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.errors import DataError
from labkit.study.formats.writer import DOCUMENT, REMARK, ROOT, columns_of, read_experiment
from labkit.study.rows import FIXED, MEASURED, PLACE, parameter_columns, tidy, unit_of
from labkit.study.store import check_archive, read_study
from labkit.text.files import DAMAGED, json_of, require_file, text_of

__all__ = ["read_data"]

Row = dict[str, Any]
#: a line of TaLPas: JSON with semicolons between its members
_TALPAS = re.compile(r'\s*\{\s*"parameters"\s*:\s*\{')
#: a number with a decimal comma; one with commas between thousands, or with any separators; one with its unit
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_GROUPS = re.compile(r"[+-]?\d[\d.,'’_\s]*(?:[eE][+-]?\d+)?")
_WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?\s*[a-zA-Zµ%][a-zA-Z/]{0,5}")
#: the first line of XML or HTML
_MARKUP = re.compile(r"<[?!A-Za-z][^,;\t]*")
_EXTRAP = re.compile(r"(PARAMETER|POINTS|REGION|METRIC|DATA)(\s|$)")


def read_data(
    path: str | os.PathLike[str], parameters: Sequence[str] | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read measurements; the format is found from the content.

    `path`: A saved study, an Extra-P file or a CSV file.
    `parameters`: The columns of a CSV file that hold parameters; by default its first column.
    Returns `data`: The rows of a study.
    Returns `notes`: The facts saved with them.
    Raises DataError: With the line where the file stops making sense.
    """
    name = os.fspath(path)
    _refuse_trace(Path(path), name)
    if os.path.isdir(path):
        raise DataError(
            f"{name!r} is a folder; give the file with the measurements", code="wrong-kind-of-file"
        )
    if not os.path.exists(path):
        raise DataError(f"there is no file {name!r}", code="missing-file")
    require_file(path, is_whole=False)
    if zipfile.is_zipfile(path):
        return _read_zip(path, name)
    text = text_of(Path(path))
    if not text.strip():
        raise DataError(f"{name!r} is empty", code="damaged-file")
    remarks: list[str] = []
    return _tidied(_parse(text, name, parameters, remarks), name, remarks)


def _refuse_trace(path: Path, name: str) -> None:
    """Refuse an OTF2 archive, or its anchor: what it holds is a run."""
    anchor = path / "traces.otf2" if os.path.isdir(path) else path
    if anchor.suffix == ".otf2" and os.path.isfile(anchor):
        raise DataError(
            f"{name!r} is an OTF2 archive, the trace of a run, and no measurements; "
            f"labkit.read_trace({name!r}) reads it",
            code="malformed-file",
        )


def _tidied(
    found: Iterator[Row], name: str, remarks: Sequence[str] = ()
) -> tuple[pd.DataFrame, dict[str, object]]:
    rows = list(found)
    if not rows:
        raise DataError(f"{name!r} holds no measurements", code="malformed-file")
    data = tidy(rows)
    for column in parameter_columns(data):
        if data[column].dtype.kind == "f" and _is_whole(data[column]):
            data[column] = data[column].astype("int64")
    notes: dict[str, object] = {"source": os.path.basename(name)}
    return data, notes | ({"remarks": list(remarks)} if remarks else {})


def _is_whole(values: pd.Series[float]) -> bool:
    """Whether numbers are whole, and small enough for a column of whole numbers."""
    return bool(((values % 1 == 0) & (values.abs() < 2.0**63)).all())


def _read_zip(path: str | os.PathLike[str], name: str) -> tuple[pd.DataFrame, dict[str, object]]:
    """Read a study; of an experiment of Extra-P the study in it, or what Extra-P itself has written."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, name)
            inside = set(archive.namelist())
            if DOCUMENT in inside and "study.json" not in inside:
                return _tidied(_experiment(archive, name), name)
    except DAMAGED as error:
        raise DataError(f"{name!r} cannot be unpacked: {error}", code="damaged-file") from error
    return read_study(path)


def _experiment(archive: zipfile.ZipFile, name: str) -> Iterator[Row]:
    for point, region, metric, values in read_experiment(archive, name):
        for repetition, value in enumerate(values):
            yield _row(point, metric, region, value, repetition)


def _parse(text: str, name: str, parameters: Sequence[str] | None, remarks: list[str]) -> Iterator[Row]:
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(
            f"{name!r} holds no measurements: every line of it is a comment or empty", code="malformed-file"
        )
    if lines[0].lstrip()[0] in "{[":
        return _json(text, name, remarks)
    if _MARKUP.fullmatch(lines[0].strip()):
        raise DataError(
            f"{name!r} is XML or HTML, and no measurements; give CSV, Extra-P's text or JSON, or a saved "
            "study (labkit.platform reads SimGrid's platform files)",
            code="wrong-kind-of-file",
        )
    if _EXTRAP.match(lines[0].strip()):
        return _extrap_text(text, name, remarks)
    return _csv(lines, name, parameters, remarks)


def _number(text: object, where: str) -> float:
    if isinstance(text, str) and not _is_number(text):
        raise _malformed(where, f"{text[:80]!r} is not a number{_spelling(text)}")
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise _malformed(where, f"{str(text)[:80]} is not a number")
    return float(text)


def _spelling(text: str) -> str:
    """Return how a number that is spelled in another way is written here; empty for anything else."""
    if _GROUPS.fullmatch(text):
        return ": write it with a decimal point and without separators of thousands, such as 1234.5"
    if _WITH_UNIT.fullmatch(text):
        return ": write the number alone; its unit belongs into the name of the metric, such as time_s"
    return ""


def _coordinate(text: object, where: str, parameter: str) -> float:
    """Read the value of a parameter."""
    value = _number(text, where)
    if not math.isfinite(value):
        raise _malformed(where, f"{parameter} is {value}; a parameter's value must be finite")
    return value


def _malformed(where: str, why: str) -> DataError:
    return DataError(f"{where}: {why}", code="malformed-line")


def _refuse_names(parameters: Sequence[str], where: str) -> None:
    """Refuse parameters that are called alike, or as a column that every study has."""
    for number, name in enumerate(parameters):
        if name in parameters[:number]:
            raise _malformed(where, f"the parameter {name!r} is named twice")
        if name in MEASURED:
            raise DataError(
                f"{where}: a parameter cannot be called {name!r}: labkit's tables have a column of that name "
                f"for something else (reserved: {', '.join(MEASURED)}); rename it",
                code="name-taken",
            )


def _row(point: Mapping[str, float], metric: str, phase: str, value: float, repetition: int) -> Row:
    metric = "value" if metric in ("", "<default>") else metric  # as Extra-P calls one without a name
    return {
        **point,
        "metric": metric,
        "phase": "" if phase == ROOT else phase,
        "value": value,
        "unit": unit_of(metric),
        "repetition": repetition,
    }


# ----------------------------------------------------------------------------- Extra-P's text format


def _extrap_text(text: str, name: str, remarks: list[str]) -> Iterator[Row]:
    """PARAMETER names; POINTS (coordinates) ...; then METRIC, REGION and a DATA line per point."""
    parameters: list[str] = []
    points: list[dict[str, float]] = []
    metric, region, at, where = "", "", 0, name
    own: Row | None = None
    measured: dict[tuple[str, str], int] = {}
    began = 0
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        where = f"{name}, line {number}"
        if line.startswith(REMARK):
            own = _constants(line.removeprefix(REMARK), where)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        field, *rest = line.split(None, 1)  # white space is any white space
        value = rest[0].strip() if rest else ""
        if field in ("PARAMETER", "POINTS"):
            if at or measured:
                raise _malformed(where, f"{field} after DATA; all parameters and points come first")
            _declare(field, value, parameters, points, where)
        elif field in ("METRIC", "REGION"):
            if points and at not in (0, len(points)):
                raise _malformed(where, f"{at} DATA lines before it, but {len(points)} points")
            if at:
                measured[metric, region] = began
            _refuse_unnamed(field, value, where)
            metric, region, at = (value, region, 0) if field == "METRIC" else (metric, value, 0)
        elif field == "DATA":
            if at >= len(points):
                many = f"more DATA lines than the {len(points)} points"
                raise _malformed(where, many if points else "DATA before POINTS, as in POINTS 2 4 8")
            if at == 0:
                began = number
                _refuse_again(measured, metric, region, where)
            if not value:
                remarks.append(f"line {number}: DATA without a value; the point has no measurement there")
            for repetition, item in enumerate(value.split()):
                row = _row(points[at], metric, region, _number(item, where), repetition)
                yield row if own is None else {**row, **own, **dict(columns_of(region))}
            at += 1
        else:
            raise _malformed(
                where, f"{field!r} is not a field; known: PARAMETER, POINTS, METRIC, REGION, DATA"
            )
    if at not in (0, len(points)):
        raise _malformed(where, f"the file ends after {at} DATA lines, but there are {len(points)} points")


def _declare(
    field: str, value: str, parameters: list[str], points: list[dict[str, float]], where: str
) -> None:
    """Add the names or the points of a line to those above it."""
    if field == "PARAMETER":
        if points:
            raise _malformed(where, "a PARAMETER after POINTS; all names come first")
        _refuse_unnamed(field, value, where)
        parameters += value.split()
        _refuse_names(parameters, where)
        return
    if not parameters:
        raise _malformed(where, "points before any PARAMETER; names come first: PARAMETER p")
    points += [_point(parameters, p, where) for p in _points(value, len(parameters), where)]
    _refuse_same_points(points, where)


def _refuse_unnamed(field: str, value: str, where: str) -> None:
    if not value:
        raise DataError(f"{where}: {field} without a name", code="missing-key")


def _refuse_same_points(points: Sequence[Mapping[str, float]], where: str) -> None:
    seen: set[tuple[float, ...]] = set()
    for point in points:
        key = tuple(point.values())
        if key in seen:
            at = ", ".join(f"{name}={value:g}" for name, value in point.items())
            raise _malformed(where, f"the point {at} is named twice; put its repetitions on one DATA line")
        seen.add(key)


def _refuse_again(measured: Mapping[tuple[str, str], int], metric: str, region: str, where: str) -> None:
    """Refuse data of a metric and a region that has some."""
    if (metric, region) in measured:
        raise _malformed(
            where,
            f"metric {metric!r} of region {region!r} has data already, from line "
            f"{measured[metric, region]} on; put the repetitions of a point on one DATA line",
        )


def _constants(text: str, where: str) -> Row:
    """Read what labkit noted about all rows."""
    try:
        constants = json_of(text)
    except ValueError as error:
        raise _malformed(where, f"the remark of labkit is damaged: {error}") from None
    if not isinstance(constants, dict):
        raise _malformed(where, "the remark of labkit is damaged: it holds no names and values")
    return {str(name): value for name, value in constants.items() if name not in MEASURED}


def _points(text: str, dimensions: int, where: str) -> list[list[str]]:
    """Cut the coordinates into points: what stands in one pair of parentheses, or a single number."""
    found: list[list[str]] = []
    depth = 0
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        depth += (word == "(") - (word == ")")
        if not 0 <= depth <= 2:
            raise _malformed(where, "parentheses of points do not match, or are nested too deeply")
        if word == "(" and depth == 1:
            found.append([])
        elif word not in "()":
            if depth:
                found[-1].append(word)
            else:
                found.append([word])
    if depth:
        raise _malformed(where, "a parenthesis of a point is not closed")
    if dimensions == 1:  # as Extra-P: parentheses mean nothing here
        return [[word] for point in found for word in point]
    return found


def _point(parameters: Sequence[str], values: Sequence[object], where: str) -> dict[str, float]:
    if not parameters:
        raise _malformed(where, "points before any PARAMETER")
    if len(values) != len(parameters):
        raise _malformed(
            where, f"a point has {len(values)} coordinates, but there are {len(parameters)} parameters"
        )
    return {p: _coordinate(v, where, p) for p, v in zip(parameters, values, strict=True)}


# ----------------------------------------------------------------------------- Extra-P's JSON formats


class _Left:
    """Keys of objects that are not read: notes of the tool that wrote the file, or misspelled."""

    def __init__(self, remarks: list[str]) -> None:
        self.remarks = remarks
        self.counts: dict[tuple[str, str], int] = {}
        self.empty = 0

    def note(self, item: Mapping[str, object], kind: str, known: Sequence[str]) -> None:
        """Note the keys of an object that are not read."""
        for key in item:
            if key not in known:
                self.counts[kind, key] = self.counts.get((kind, key), 0) + 1

    def note_empty(self, values: Sequence[object]) -> None:
        """Note a measurement that has no values."""
        self.empty += not values

    def report(self) -> None:
        """Remark each key once."""
        if self.empty:
            self.remarks.append(f"{self.empty} measurements hold no value")
        for (kind, key), count in self.counts.items():
            times = f" ({count} times)" if count > 1 else ""
            self.remarks.append(f"the key {key[:80]!r} of {kind} was left out{times}")


def _json(text: str, name: str, remarks: list[str]) -> Iterator[Row]:
    left = _Left(remarks)
    try:
        content = json_of(text)
    except json.JSONDecodeError as error:
        lines = [ln for ln in text.split("\n") if ln.strip()]
        if all(_TALPAS.match(ln) for ln in lines):
            return _json_lines("\n".join(map(_with_commas, text.split("\n"))), name, left)
        if len(lines) > 1 and all(ln.lstrip().startswith("{") for ln in lines):
            return _json_lines(text, name, left)
        raise DataError(
            f"{name}, line {error.lineno}: not JSON: {error.msg}", code="malformed-line"
        ) from None
    if isinstance(content, dict) and "value" in content and "measurements" not in content:
        return _json_lines(text, name, left)
    if not isinstance(content, dict) or "measurements" not in content or "parameters" not in content:
        raise DataError(
            f"{name}: a JSON file of measurements has the keys parameters and measurements",
            code="malformed-file",
        )
    read = _json_ids if "callpaths" in content else _json_nested
    try:
        return iter(list(read(content, name, left)))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DataError(
            f"{name}: the JSON does not have Extra-P's structure ({error!r})", code="malformed-file"
        ) from None


def _with_commas(line: str) -> str:
    """Return a line of TaLPas, whose semicolons between texts are JSON's commas."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', line)
    return "".join(part if number % 2 else part.replace(";", ",") for number, part in enumerate(parts))


def _list(item: Mapping[str, object], key: str) -> list[Any]:
    found = item[key]
    if not isinstance(found, list):
        raise TypeError(f"{key} must be a list, got {str(found)[:80]!r}")
    return found


def _names(found: Sequence[Any], what: str) -> list[str]:
    wrong = [one for one in found if not isinstance(one, str)]
    if wrong:
        raise TypeError(f"a name of {what} must be a text, got {str(wrong[0])[:80]!r}")
    return list(found)


def _numbered(
    seen: dict[tuple[object, ...], int], point: Mapping[str, float], region: str, metric: str
) -> int:
    """Return which repetition of a point the next value is."""
    key = (*sorted(point.items()), region, metric)
    seen[key] = seen.get(key, -1) + 1
    return seen[key]


def _json_nested(content: Mapping[str, Any], name: str, left: _Left) -> Iterator[Row]:
    own = _constants(json.dumps(content["labkit"]), name) if "labkit" in content else None
    left.note(content, "the file", ("parameters", "measurements", "labkit"))
    parameters = _names(_list(content, "parameters"), "parameters")
    _refuse_names(parameters, name)
    seen: dict[tuple[object, ...], int] = {}
    for region, metrics in content["measurements"].items():
        for metric, measurements in metrics.items():
            for measurement in measurements:
                left.note(measurement, "measurements", ("point", "values"))
                point = _point(parameters, _list(measurement, "point"), name)
                left.note_empty(measurement["values"])
                for value in _list(measurement, "values"):
                    repetition = _numbered(seen, point, region, metric)
                    row = _row(point, metric, region, _number(value, name), repetition)
                    yield row if own is None else {**row, **own, **dict(columns_of(region))}
    left.report()


_ID_KINDS = ("parameters", "callpaths", "metrics")


def _json_ids(content: Mapping[str, Any], name: str, left: _Left) -> Iterator[Row]:
    """Read the older format, whose parts refer to each other by number."""
    left.note(content, "the file", (*_ID_KINDS, "coordinates", "measurements"))
    names: dict[str, dict[Any, str]] = {}
    for kind in _ID_KINDS:
        for item in _list(content, kind):
            left.note(item, kind, ("id", "name"))
        names[kind] = {item["id"]: item["name"] for item in content[kind]}
        _names(list(names[kind].values()), kind)
        if len(names[kind]) < len(content[kind]):
            raise ValueError(f"two of {kind} have one id")
    _refuse_names(list(names["parameters"].values()), name)
    points = {}
    for one in _list(content, "coordinates"):
        left.note(one, "coordinates", ("id", "parameter_value_pairs"))
        found: dict[str, float] = {}
        for pair in _list(one, "parameter_value_pairs"):
            left.note(pair, "coordinates", ("parameter_id", "parameter_value"))
            parameter = names["parameters"][pair["parameter_id"]]
            if parameter in found:
                raise ValueError(f"coordinate {one['id']} has two values of {parameter}")
            found[parameter] = _coordinate(pair["parameter_value"], name, parameter)
        if len(found) < len(names["parameters"]):
            raise ValueError(f"coordinate {one['id']} has no value of some parameter")
        if one["id"] in points:
            raise ValueError("two of coordinates have one id")
        points[one["id"]] = found
    seen: dict[tuple[object, ...], int] = {}
    for m in _list(content, "measurements"):
        left.note(m, "measurements", ("id", "coordinate_id", "callpath_id", "metric_id", "value"))
        point = points[m["coordinate_id"]]
        region, metric = names["callpaths"][m["callpath_id"]], names["metrics"][m["metric_id"]]
        value = _number(m["value"], name)
        yield _row(point, metric, region, value, _numbered(seen, point, region, metric))
    left.report()


def _json_lines(text: str, name: str, left: _Left) -> Iterator[Row]:
    seen: dict[tuple[object, ...], int] = {}
    parameters: list[str] | None = None
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            item = json_of(line)
            kind = "parameters" if "parameters" in item else "params"  # TaLPas, Extra-P
            point = {str(k): _coordinate(v, where, str(k)) for k, v in item[kind].items()}
            values = item["value"] if isinstance(item["value"], list) else [item["value"]]
            own = {str(k): v for k, v in dict(item.get("labkit", {})).items() if k not in ("metric", "value")}
            region, metric = _names([item.get("callpath", ""), item.get("metric", "")], "callpath and metric")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _malformed(where, f"not a measurement with params and value ({error})") from None
        left.note(item, "measurements", (kind, "value", "callpath", "metric", "labkit"))
        if parameters is None:
            parameters = sorted(point)
            _refuse_names(parameters, where)
        if sorted(point) != parameters:
            raise _malformed(
                where,
                f"its parameters are {', '.join(sorted(point)) or 'none'}, but those of the lines "
                f"above are {', '.join(parameters) or 'none'}",
            )
        left.note_empty(values)
        for value in values:
            repetition = _numbered(seen, point, region, metric)
            row = _row(point, metric, region, _number(value, where), repetition)
            yield row | own
    left.report()


# ----------------------------------------------------------------------------- CSV


def _csv(lines: list[str], name: str, parameters: Sequence[str] | None, remarks: list[str]) -> Iterator[Row]:
    named = re.fullmatch(r"sep=(.)", lines[0].strip("\r\n"))  # as Excel writes it
    lines = lines[1:] if named and len(lines) > 1 else lines
    delimiter = named[1] if named else next((d for d in ("\t", ";", ",") if d in lines[0]), " ")
    reader = csv.reader(
        io.StringIO("\n".join(lines)), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    try:
        table = list(reader)
    except csv.Error as error:  # such as a cell of more than 128 KiB
        raise DataError(
            f"{name}, row {reader.line_num}: not a row of a CSV file ({error})", code="malformed-line"
        ) from None
    table = [[cell.strip() for cell in row if cell.strip() or delimiter != " "] for row in table]
    table = _with_points(table, delimiter, name, remarks)
    head, body = table[0], table[1:]
    if all(_is_number(cell) for cell in head):
        head, body = ["p", *(f"value{i}" if i > 1 else "value" for i in range(1, len(head)))], table
    if len(head) < 2:
        raise DataError(
            f"{name} is neither a saved study, nor an Extra-P file, nor a CSV file with two columns",
            code="malformed-file",
        )
    for number, row in enumerate(body, 2):
        if len(row) != len(head):
            are_numbers = delimiter == "," and len(row) > len(head) and all(map(_is_number, row))
            hint = "; if these are decimal commas, write points, or separate the columns by semicolons"
            raise DataError(
                f"{name}, row {number}: {len(row)} cells, but the header has {len(head)}"
                f"{hint if are_numbers else ''}",
                code="count-mismatch",
            )
    for column, cell in enumerate(head):
        if cell in head[:column]:
            raise DataError(
                f"{name}: columns {head.index(cell) + 1} and {column + 1} are both called {cell!r}; "
                "rename one",
                code="duplicate-name",
            )
        if not cell:
            raise DataError(f"{name}: column {column + 1} has no name in the header", code="missing-key")
    unknown = sorted(set(parameters or ()) - set(head))
    if unknown:
        raise DataError(
            f"{name} has no column {unknown[0]!r}; it has: {', '.join(head)}", code="unknown-name"
        )
    if "value" in head and "metric" in head:
        return _csv_long(head, body, name, remarks)
    chosen = list(parameters or head[:1])
    _refuse_names(chosen, name)
    return _csv_wide(head, body, name, chosen, remarks)


def _with_points(table: list[list[str]], delimiter: str, name: str, remarks: list[str]) -> list[list[str]]:
    """Return a table with decimal points where its numbers have decimal commas.

    Only columns of numbers are looked at. A comma before three digits may be either: the others decide.
    """
    is_long = {"value", "metric"} <= set(table[0])
    if is_long and delimiter == ",":
        return table  # of labkit itself: a text may be "2,3"
    is_headless = all(_is_number(cell) or _DECIMAL_COMMA.fullmatch(cell) for cell in table[0])
    body = table if is_headless else table[1:]
    found: dict[int, list[tuple[int, str]]] = {}
    for column in range(len(table[0])):
        cells = [
            (number, row[column]) for number, row in enumerate(body) if column < len(row) and row[column]
        ]
        commas = [one for one in cells if _has_comma(one[1])]
        if commas and all(_is_number(cell) or _has_comma(cell) for _, cell in cells):
            found[column] = commas
    every = [cell for cells in found.values() for _, cell in cells]
    if not every or (is_long and table[0].index("value") not in found):
        return table
    first = 1 if is_headless else 2
    column, (number, cell) = next((column, cells[0]) for column, cells in found.items())
    where = f"{name}, row {number + first}, column {table[0][column] if not is_headless else column + 1}"
    if all(_THOUSANDS.fullmatch(cell) for cell in every):
        raise _malformed(
            where,
            f"{cell!r} has a comma before three digits: a decimal comma or a separator of "
            "thousands? Write numbers with a decimal point and without separators of thousands",
        )
    if any(_is_number(cell) and "." in cell for row in body for cell in row):
        raise _malformed(where, f"{cell!r} has a decimal comma, but other numbers have points; use points")
    rows = [list(row) for row in body]
    for column, cells in found.items():
        for number, cell in cells:
            rows[number][column] = cell.replace(",", ".", 1)
    names = "" if is_headless else f" of {', '.join(repr(table[0][column]) for column in found)}"
    remarks.append(f"decimal commas{names} were read as decimal points")
    return rows if is_headless else [table[0], *rows]


def _has_comma(cell: str) -> bool:
    """Whether a text is a number with a decimal comma, or with commas between thousands."""
    return bool(_DECIMAL_COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell))


_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _csv_long(head: list[str], body: list[list[str]], name: str, remarks: list[str]) -> Iterator[Row]:
    """One measurement a row, as in a study's own table."""
    of_texts = (*FIXED, *PLACE, *MEASURED)
    others = [column for column in head if column not in of_texts]
    numeric = {c for c in others if any(_is_number(cells[head.index(c)]) for cells in body)}
    empty: dict[str, list[int]] = {}
    for number, cells in enumerate(body, 2):
        where = f"{name}, row {number}, column "
        row: Row = dict(zip(head, cells, strict=True))
        if not row["value"]:
            empty.setdefault("value", []).append(number)
            continue
        row["value"] = _number(row["value"], f"{where}value")
        if not row["metric"]:
            raise DataError(f"{where}metric: the name is missing", code="malformed-line")
        for column in numeric & {c for c in row if row[c]}:
            if _is_number(row[column]):
                row[column] = _coordinate(row[column], f"{where}{column}", column)
        for column in numeric:
            if row[column] == "":
                row[column] = math.nan
                empty.setdefault(column, []).append(number)
        if "repetition" in row:
            repetition = _number(row["repetition"], f"{where}repetition")
            if not repetition % 1 == 0 or not 0 <= repetition < 2.0**63:
                raise DataError(
                    f"{where}repetition: {row['repetition']!r} is not a whole number >= 0",
                    code="malformed-line",
                )
            row["repetition"] = int(repetition)
        if "is_valid" in row:
            truth = _TRUTHS.get(row["is_valid"].lower())
            if truth is None:
                raise DataError(
                    f"{where}is_valid: {row['is_valid']!r} is neither true nor false", code="malformed-line"
                )
            row["is_valid"] = truth
        yield row
    _remark_empty(empty, remarks)


def _remark_empty(empty: Mapping[str, Sequence[int]], remarks: list[str]) -> None:
    for metric, numbers in empty.items():
        rows = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        cells = "cell was" if len(numbers) == 1 else "cells were"
        remarks.append(f"{len(numbers)} empty {cells} left out of column {metric!r} (row {rows})")


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
        point = {p: _coordinate(row[p], f"{where}, column {p}", p) for p in parameters}
        key = tuple(point.values())
        seen[key] = seen.get(key, -1) + 1
        for metric in metrics:
            if row[metric]:
                value = _number(row[metric], f"{where}, column {metric}")
                yield _row(point, metric, "", value, seen[key])
            else:
                empty.setdefault(metric, []).append(number)
    _remark_empty(empty, remarks)


def _is_number(cell: str) -> bool:
    """Whether a text is a number as other tools write it; Python's 1_000 is not."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell
