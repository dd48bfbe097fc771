"""The files of named machines (``datasets/machines``)."""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any

__all__ = ["folder", "names"]


def folder() -> Any:
    """Return the folder of the files."""
    return importlib.resources.files("labkit.datasets") / "machines"


@functools.cache
def names() -> tuple[str, ...]:
    """List the named machines.

    Examples
    --------
    >>> names()
    ('graphene', 'jugene', 'juqueen', 'juropa', 'lichtenberg', 'piz-daint', 'tibidabo')
    """
    files = (file.name for file in folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))
