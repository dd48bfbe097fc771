"""A test whether a file belongs to Python or to an installed package: another interpreter has it, too."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

__all__ = ["is_installed"]


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    path = os.path.abspath(file)
    if {"site-packages", "dist-packages"} & set(Path(path).parts):
        return True
    return any(path.startswith(folder + os.sep) for folder in _standard_folders())


def _standard_folders() -> set[str]:
    return {os.path.abspath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")}
