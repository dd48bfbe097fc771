"""Extra-P's own files, ``.extra-p``: a zip of measurements in JSON and of raw values as NumPy's arrays."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.plain import json_of

__all__ = ["DOCUMENT", "experiment_files", "read_experiment"]

DOCUMENT = "experiment.json"
#: the version of Extra-P whose files these are
_VERSION = "4.2.1"
_VALUES, _INDEX = b"Extra-P VALUES\0\0", b"Extra-P INDEX\0\0\0"
_FACTS = ("median", "mean", "minimum", "maximum", "std", "repetitions")

Point = tuple[float, ...]


def experiment_files(
    parameters: Sequence[str], groups: Sequence[tuple[str, str, Mapping[Point, Sequence[float]]]]
) -> dict[str, bytes]:
    """Return the files of an experiment: name to content.

    Parameters
    ----------
    parameters : sequence of str
    groups : sequence of (str, str, mapping)
        Call path, metric, and the values at each point.
    """
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
    """Yield point, call path, metric and values of each measurement; the mean where it kept no values.

    Raises
    ------
    DataError
        It is not what Extra-P writes.
    """
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
