"""MPI libraries' names of the algorithms, as tables (``datasets/selectors/*_names.toml``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from labkit.datasets import FOLDER
from labkit.errors import DataError, MachineError

__all__ = [
    "LIBRARIES",
    "environment_of",
    "library_names",
    "names_table",
    "notes_of",
    "settings_of",
    "untuned",
]

#: name -> what sentences call it
LIBRARIES = {"ompi": "Open MPI", "mpich": "MPICH", "pgmpi": "PGMPITuneLib", "smpi": "SMPI"}


@cache
def names_table(library: str) -> dict[str, Any]:
    """Return a library's table: operation to what the file says of it."""
    if library not in LIBRARIES:
        raise DataError(
            f"library must be one of: {', '.join(LIBRARIES)}; got {library!r}", code="unknown-name"
        )
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
            f"{LIBRARIES[library]}'s {operation} cannot be tuned; it has rules for {', '.join(table)}",
            code="no-counterpart",
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


# The library's own algorithms, forced by its switches: MCA parameters of Open MPI, variables of MPICH.

#: a setting of labkit's -> what Open MPI's parameter of an algorithm is called
_SETTINGS = {"segment_bytes": "segmentsize", "chains": "chain_fanout"}


def environment_of(forced: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the environment that makes the library take these algorithms.

    Examples
    --------
    >>> environment_of({"allreduce": "ring"}, "openmpi")["OMPI_MCA_coll_tuned_allreduce_algorithm"]
    '4'
    >>> environment_of({"allreduce": "ring"}, "mpich")["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"]
    'ring'
    """
    if not forced:
        return {}
    if kind == "mpich":
        return _of_mpich(forced)
    if kind != "openmpi":
        raise MachineError(
            "library:... forces algorithms by the switches of Open MPI or MPICH, and this is another MPI; "
            "take labkit's own (allreduce=ring), or choose one of the two with LABKIT_MPI",
            code="unsupported",
        )
    found = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_priority": "100"}
    table = names_table("ompi")
    for operation, name in forced.items():
        base, settings = settings_of(name)
        numbers = table.get(operation, {}).get("algorithms", {})
        if base not in numbers:
            raise _no_switch("ompi", operation, base, numbers)
        found[f"coll_tuned_{operation}_algorithm"] = str(numbers[base])
        for key, value in settings.items():
            if key not in _SETTINGS:
                raise MachineError(
                    f"{LIBRARIES['ompi']}'s {operation} has no switch for {key}; there are "
                    f"{', '.join(_SETTINGS)}",
                    code="no-counterpart",
                )
            found[f"coll_tuned_{operation}_algorithm_{_SETTINGS[key]}"] = str(value)
    return {f"OMPI_MCA_{key}": value for key, value in found.items()}


def _no_switch(library: str, operation: str, name: str, known: Iterable[str]) -> MachineError:
    names = ", ".join(known)
    has = f"it has {names}" if names else f"it has switches for {', '.join(names_table(library))}"
    return MachineError(
        f"{LIBRARIES[library]} has no switch for {operation}={name}; {has}", code="no-counterpart"
    )


def _of_mpich(forced: Mapping[str, str]) -> dict[str, str]:
    found = {"MPIR_CVAR_DEVICE_COLLECTIVES": "none", "MPIR_CVAR_COLLECTIVE_FALLBACK": "print"}
    table = names_table("mpich")
    for operation, name in forced.items():
        functions = {ours: function for function, ours in reversed(table.get(operation, {}).items())}
        if name not in functions:
            raise _no_switch("mpich", operation, name, reversed(functions))
        function = functions[name].split()[0]  # without its further parameters
        value = re.sub(r"^MPIR_[A-Z][a-z_]*?_(intra|allcomm)_", "", function)
        found[f"MPIR_CVAR_{operation.upper()}_INTRA_ALGORITHM"] = value
    return found


def notes_of(forced: Mapping[str, str]) -> list[str]:
    """Return as sentences what was forced."""
    return [
        f"{operation} takes the library's own {name}, by its switch" for operation, name in forced.items()
    ]
