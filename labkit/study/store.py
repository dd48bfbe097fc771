"""Saved studies, as `labkit.Study.save` writes them: a zip of one table (CSV) and one manifest (JSON).

::

    data.csv     the rows, as in study.data
    study.json   format, version, number of rows, the kind of each column (int, float, bool, text), and the
                 notes: machines and network models with their numbers, the seed, what the counts are,
                 options of the sweep, points that failed, remarks

The file is written under a temporary name and then moved, so that a full disk or an interrupt leaves the
old file as it was.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.checks import path_of
from labkit.errors import DataError
from labkit.text.files import DAMAGED, json_of, replace_file, require_file

__all__ = [
    "FORMAT",
    "check_archive",
    "check_table",
    "read_study",
    "study_files",
    "study_of",
    "write_study",
    "write_zip",
]

FORMAT = "labkit-study"

VERSION = 1

_KINDS = {"i": "int", "u": "int", "f": "float", "b": "bool"}


def write_study(path: str | os.PathLike[str], data: pd.DataFrame, notes: Mapping[str, object]) -> Path:
    """Write a study.

    `path`: The file; an older one is replaced only when the new one is complete.
    `data`: The rows.
    `notes`: JSON-able facts that go with them.
    Raises DataError: When the file cannot be written, or is named as a table.
    """
    if path_of(path).name.lower().endswith((".csv", ".tsv", ".xlsx")):
        raise DataError(
            f"save writes a study for labkit.load, which is no table, got {os.fspath(path)!r}; "
            'write study.save("x.study"), or a table by study.export("x.csv")',
            code="unknown-format",
        )
    return write_zip(path, study_files(data, notes), "the study")


def study_files(data: pd.DataFrame, notes: Mapping[str, object]) -> dict[str, bytes]:
    """Return the files of a saved study: name to content."""
    kinds = {str(c): _KINDS.get(data[c].dtype.kind, "text") for c in data.columns}
    manifest = {"format": FORMAT, "version": VERSION, "columns": kinds, "rows": len(data), **notes}
    return {
        "study.json": json.dumps(manifest, indent=1, ensure_ascii=False, default=str).encode(),
        "data.csv": data.to_csv(index=False, lineterminator="\n").encode(),
    }


def write_zip(path: str | os.PathLike[str], files: Mapping[str, bytes], what: str) -> Path:
    """Write files as one zip, in their order; the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # a fixed time stamp
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    try:
        return replace_file(path, buffer.getvalue())
    except (OSError, ValueError) as error:  # no name of a file: it has a zero byte
        kept = "; the old file is as it was" if os.path.exists(path) else ""
        raise DataError(
            f"cannot save {what} to {os.fspath(path)!r}: {getattr(error, 'strerror', None) or error}{kept}",
            code="unwritable-file",
        ) from error


# Limits of what is read from others: no zip that is small only when packed, no table that fills memory.

#: of all files in a zip together, unpacked
MOST_TABLE_BYTES = 128 << 20

#: of a table: each takes some hundred bytes of memory while it is read
MOST_CELLS = 5_000_000


def check_archive(archive: zipfile.ZipFile, name: str, most: int = MOST_TABLE_BYTES) -> None:
    """Refuse a zip that would be large unpacked; no more is unpacked than its table of contents says."""
    total = sum(info.file_size for info in archive.infolist())
    if total > most:
        raise DataError(
            f"{name!r} is refused: unpacked it would have {total:,} B, over {most:,} B", code="too-large"
        )


def check_table(content: bytes, name: str) -> None:
    """Refuse a table (CSV) that would take far more memory than its text."""
    cells = content.count(b",") + content.count(b"\n") + content.count(b"\r")
    if cells > MOST_CELLS:
        raise DataError(
            f"{name!r} is refused: its table has {cells:,} cells, over {MOST_CELLS:,}", code="too-large"
        )


def read_study(path: str | os.PathLike[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a study written by `write_study`: its rows and its notes."""
    name = str(path)
    require_file(path, is_whole=False)
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, name)
            files = {one: archive.read(one) for one in ("study.json", "data.csv")}
    except KeyError:
        raise DataError(
            f"{name!r} is a zip file, but not a saved study (no study.json in it)", code="malformed-file"
        ) from None
    except DAMAGED as error:
        raise DataError(
            f"{name!r} cannot be read as a saved study: {error}", code="unreadable-file"
        ) from error
    return study_of(files, name)


def study_of(files: Mapping[str, bytes], name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a study from its `study_files`; `name` is for messages; raises as `read_study`."""
    check_table(files["data.csv"], name)
    check_table(files["study.json"], name)  # its lists have commas, too
    try:
        manifest, table = json_of(files["study.json"]), files["data.csv"].decode("utf-8")
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name!r} cannot be read as a saved study: {error}", code="unreadable-file"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{name!r} is not a saved study", code="malformed-file")
    if manifest.get("version") != VERSION:
        raise DataError(
            f"{name!r} has version {manifest.get('version')!r} of the format; this labkit reads {VERSION}",
            code="unsupported-version",
        )
    try:
        data = _parse(table, dict(manifest["columns"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name!r} is damaged: {error}", code="damaged-file") from error
    if len(data) != manifest.get("rows"):
        raise DataError(
            f"{name!r} is damaged: {len(data)} rows, {manifest.get('rows')} expected", code="damaged-file"
        )
    notes = {k: v for k, v in manifest.items() if k not in ("format", "version", "columns", "rows")}
    return data, notes


def _parse(table: str, kinds: dict[str, str]) -> pd.DataFrame:
    raw = pd.read_csv(io.StringIO(table), dtype=str, keep_default_na=False)
    if list(raw.columns) != list(kinds):
        raise ValueError("its table does not have the columns of its manifest")
    for column, kind in kinds.items():
        if kind == "int":
            raw[column] = raw[column].astype("int64")
        elif kind == "float":
            raw[column] = [float(v) if v else float("nan") for v in raw[column]]
        elif kind == "bool":
            if not raw[column].isin(["True", "False"]).all():
                raise ValueError(f"column {column!r} is not true or false everywhere")
            raw[column] = raw[column] == "True"
    return raw
