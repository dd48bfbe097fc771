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
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labkit.errors import DataError
from labkit.plain import json_of, replace_file
from labkit.study.rows import FIXED, MEASURED, PLACE, SEED, parameter_columns
from labkit.study.store import study_files, write_zip

__all__ = ["DOCUMENT", "FORMATS", "REMARK", "ROOT", "Group", "export_study", "groups_of", "read_experiment"]

#: what Extra-P calls the whole program
ROOT = "<root>"

#: begins the comment that tells what is the same in all rows of a text file
REMARK = "# labkit "


@dataclass(frozen=True)
class Group:
    """The measurements of one metric in one call path: what Extra-P makes one model of.

    Attributes
    ----------
    path : str
        Columns that vary and hold no numbers, then the phase: ``on=star->exchange``; or `ROOT`.
    metric : str
    points : dict
        Values of the parameters to the repetitions' values.
    rows : DataFrame
        The same as rows.
    """

    path: str
    metric: str
    points: dict[tuple[float, ...], list[float]]
    rows: pd.DataFrame


def export_study(data: pd.DataFrame, notes: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a study for other programs; see `labkit.Study.export`."""
    target = Path(path)
    write = FORMATS.get(target.suffix.lower())
    if write is None:
        raise DataError(
            f"{os.fspath(path)!r}: the ending says the format: .txt, .json, .jsonl, .extra-p (Extra-P), .csv"
        )
    if not len(data):
        raise DataError("there are no measurements to write")
    return write(data, notes, target)


def groups_of(data: pd.DataFrame) -> tuple[list[str], list[Group]]:
    """Return the parameters that Extra-P models over, and the measurements of each of its models."""
    columns = parameter_columns(data)
    numeric = [c for c in columns if pd.api.types.is_numeric_dtype(data[c]) and data[c].notna().all()]
    parameters = [c for c in numeric if data[c].nunique() > 1] or numeric[:1]
    if not parameters:
        raise DataError("Extra-P's files need a parameter that is a number, such as ranks; there is none")
    names = [c for c in (*FIXED, *columns) if c not in parameters and data[c].nunique(dropna=False) > 1]
    groups = []
    for key, rows in data.groupby([*names, "phase", "metric"], sort=False, dropna=False):
        cells: Any = key  # of the columns, in their order
        *values, phase, metric = cells
        parts = [f"{n}={v}" for n, v in zip(names, values, strict=True) if not pd.isna(v) and v != ""]
        path = "->".join([*parts, *([str(phase)] if phase else [])]) or ROOT
        points: dict[tuple[float, ...], list[float]] = {}
        for point, value in zip(rows[parameters].to_numpy(float).tolist(), rows["value"], strict=True):
            points.setdefault(tuple(point), []).append(float(value))
        groups.append(Group(path, str(metric), points, rows))
    return parameters, groups


def _constants(data: pd.DataFrame, parameters: list[str]) -> dict[str, Any]:
    """Return what is the same in all rows, as plain data."""
    columns = [*FIXED, *PLACE, SEED, *parameter_columns(data)]
    columns = [c for c in columns if c in data and c not in parameters]
    same = {c: data[c].iloc[0] for c in columns if data[c].nunique(dropna=False) == 1}
    return {c: v.item() if hasattr(v, "item") else v for c, v in same.items() if not pd.isna(v) and v != ""}


def _number(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)


def _text(data: pd.DataFrame, notes: Mapping[str, Any], target: Path) -> Path:
    """Extra-P's text: all points first, then a line of data for each of them in every group."""
    parameters, groups = groups_of(data)
    if len(parameters) > 4:
        raise DataError(
            f"Extra-P's text has at most 4 parameters, and {len(parameters)} vary; write .jsonl or .extra-p"
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
                f"at {at}; write .jsonl or .extra-p instead"
            )
        lines += ["", f"REGION {group.path}", f"METRIC {_word(group.metric)}"]
        lines += ["DATA " + " ".join(repr(v) for v in group.points[point]) for point in points]
    return _write(target, "\n".join(lines) + "\n")


def _word(name: str) -> str:
    return "_".join(name.split()) or "value"


def _json(data: pd.DataFrame, notes: Mapping[str, Any], target: Path) -> Path:
    """Extra-P's JSON: points and values of each metric of each call path."""
    parameters, groups = groups_of(data)
    measurements: dict[str, dict[str, Any]] = {}
    for group in groups:
        measurements.setdefault(group.path, {})[group.metric] = [
            {"point": list(point), "values": values} for point, values in group.points.items()
        ]
    document = {
        "parameters": parameters, "measurements": measurements, "labkit": _constants(data, parameters),
    }  # fmt: skip
    return _write(target, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _json_lines(data: pd.DataFrame, notes: Mapping[str, Any], target: Path) -> Path:
    """Extra-P's JSON lines, a measurement each; the other columns beside those that it reads."""
    parameters, groups = groups_of(data)
    others = [c for c in data.columns if c not in (*parameters, "metric", "value")]
    lines = []
    for group in groups:
        columns = {c: group.rows[c].tolist() for c in (*parameters, *others, "value")}
        for at in range(len(group.rows)):
            cells = {c: columns[c][at] for c in others if not pd.isna(columns[c][at])}
            lines.append(json.dumps({
                "params": {c: columns[c][at] for c in parameters},
                "callpath": group.path, "metric": group.metric, "value": columns["value"][at],
                "labkit": cells,
            }, ensure_ascii=False))  # fmt: skip
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
    measurements: dict[str, dict[str, list[Any]]] = {}
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


def _facts(values: np.ndarray[Any, Any]) -> dict[str, float]:
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
            f"{name}: it is no experiment of Extra-P ({type(error).__name__}: {error})"
        ) from error
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, MemoryError) as error:
        raise DataError(f"{name}: it cannot be unpacked: {error}") from error


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


def _experiment(data: pd.DataFrame, notes: Mapping[str, Any], target: Path) -> Path:
    """Extra-P's experiment, which holds the study as well: both programs read it whole."""
    parameters, groups = groups_of(data)
    files = experiment_files(parameters, [(g.path, g.metric, g.points) for g in groups])
    return write_zip(target, files | study_files(data, notes), "the experiment")


def _csv(data: pd.DataFrame, notes: Mapping[str, Any], target: Path) -> Path:
    """One measurement a row."""
    return _write(target, data.to_csv(index=False, lineterminator="\n"))


def _write(target: Path, text: str) -> Path:
    try:
        return replace_file(target, text.encode())
    except OSError as error:
        raise DataError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


#: by the ending of the file's name
FORMATS: dict[str, Callable[[pd.DataFrame, Mapping[str, Any], Path], Path]] = {
    ".txt": _text, ".json": _json, ".jsonl": _json_lines, ".extra-p": _experiment, ".csv": _csv,
}  # fmt: skip


def columns_of(path: str) -> Iterator[tuple[str, str]]:
    """Yield what a call path that `groups_of` made says of the columns, then ("phase", the rest)."""
    parts = [] if path in ("", ROOT) else path.split("->")
    while parts and parts[0].partition("=")[1] and parts[0].partition("=")[0] not in MEASURED:
        name, _, value = parts.pop(0).partition("=")
        yield name, value
    yield "phase", "->".join(parts)
