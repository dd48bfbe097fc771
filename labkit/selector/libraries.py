"""MPI libraries' names of the algorithms, as tables (``datasets/selectors/*_names.toml``)."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from labkit.datasets import FOLDER
from labkit.errors import DataError

__all__ = ["LIBRARIES", "library_names", "names_table", "settings_of", "untuned"]

#: name -> what sentences call it
LIBRARIES = {"ompi": "Open MPI", "mpich": "MPICH", "pgmpi": "PGMPITuneLib", "smpi": "SMPI"}


@cache
def names_table(library: str) -> dict[str, Any]:
    """Return a library's table: operation to what the file says of it."""
    if library not in LIBRARIES:
        raise DataError(f"library must be one of: {', '.join(LIBRARIES)}; got {library!r}")
    path = FOLDER / "selectors" / f"{library}_names.toml"
    table: dict[str, object] = tomllib.loads(path.read_text("utf-8"))
    return {operation: entry for operation, entry in table.items() if operation not in ("missing", "rest")}


@cache
def untuned(library: str) -> dict[str, list[str]]:
    """Return what a file of rules says of operations that it does not tune: operation to functions."""
    path = FOLDER / "selectors" / f"{library}_names.toml"
    rest: dict[str, list[str]] = tomllib.loads(path.read_text("utf-8"))["rest"]
    return rest


def library_names(library: str, operation: str) -> list[str]:
    """Return those of labkit's algorithms of an operation that an MPI library has.

    Examples
    --------
    >>> library_names("ompi", "scatter")
    ['linear', 'binomial']
    """
    table = names_table(library)
    if operation not in table:
        raise DataError(
            f"{LIBRARIES[library]}'s {operation} cannot be tuned; it has rules for {', '.join(table)}"
        )
    entry = table[operation]
    if library == "ompi":
        return list(entry["algorithms"])
    if library == "pgmpi":
        return [*entry["algorithms"], *entry["own"]]
    return list(dict.fromkeys(entry.values()))


def settings_of(name: str) -> tuple[str, dict[str, int]]:
    """Return an algorithm's name and its settings.

    Examples
    --------
    >>> settings_of("chain:chains=2:segment_bytes=8192")
    ('chain', {'chains': 2, 'segment_bytes': 8192})
    """
    base, *words = name.split(":")
    return base, {key: int(value) for key, _, value in (word.partition("=") for word in words)}
