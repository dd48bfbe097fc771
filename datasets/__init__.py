"""Inputs, real data, machine descriptions, calibrations and recorded measurements.

A module of it is there as an attribute, too, and imported when it is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

from labkit.errors import unknown_name

#: the folder of the files
FOLDER = Path(__file__).parent
_MODULES = tuple(one.name for one in pkgutil.iter_modules(__path__))


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in _MODULES:
        raise unknown_name("labkit.datasets", name, _MODULES)
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return list(_MODULES)
