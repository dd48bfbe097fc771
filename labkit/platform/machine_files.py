"""The files of named machines (``datasets/machines``)."""

from __future__ import annotations

import functools
from pathlib import Path

from labkit.datasets import FOLDER

__all__ = ["folder", "names"]


def folder() -> Path:
    """Return the folder of the files."""
    return FOLDER / "machines"


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
