"""Profiles: options of a site's Slurm in a TOML file, a table a profile.

``[default]`` holds what every job needs (account, modules, the shared folder); the other tables build on it::

    [default]
    account = "project42"
    folder = "/scratch/$USER/labkit"
    modules = ["python/3.11", "openmpi/5.0"]
    mpi = "system"

    [debug]
    partition = "debug"
    time = "0:10:00"
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.plain import text_of, toml_of

__all__ = ["profile_file", "profile_options"]


def profile_file() -> Path:
    """Return where the profiles are by default: ``~/.config/labkit/slurm.toml``."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "labkit" / "slurm.toml"


def profile_options(profile: str) -> dict[str, Any]:
    """Read the options of a profile."""
    path, name = _split(profile)
    if path is None:
        path = profile_file()
        if not path.is_file() and not name:
            return {}
    if not path.is_file():
        hint = f"write a table [{name}] there" if name else "give the path of a profile file"
        raise MachineError(f"slurm profile {profile!r}: there is no file {str(path)!r}; {hint}")
    tables = _read(path)
    if name and name not in tables:
        known = ", ".join(tables) or "none"
        raise MachineError(f"slurm profile {name!r} is not in {str(path)!r}; its tables are: {known}")
    return {**tables.get("default", {}), **tables.get(name or "default", {})}


def _split(profile: str) -> tuple[Path | None, str]:
    """Tell a path, with a name behind it or not, from a name."""
    head, sign, tail = profile.rpartition(":")
    if sign and head.endswith(".toml"):
        return Path(head).expanduser(), tail
    if profile.endswith(".toml") or os.sep in profile:
        return Path(profile).expanduser(), ""
    return None, profile


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = toml_of(text_of(path, MachineError))
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"the slurm profiles in {str(path)!r} cannot be read: {error}") from error
    loose = [name for name, table in tables.items() if not isinstance(table, dict)]
    if loose:
        raise MachineError(
            f"{str(path)!r}: {loose[0]!r} stands outside of a table; put [default] (or a profile's name) "
            "above it"
        )
    return tables
