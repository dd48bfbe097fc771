"""Algorithms under study: one folder a problem, one file an algorithm.

A folder, and a file in it, is there as an attribute, too, and imported when it is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Any

from labkit.errors import unknown_name

_MODULES = tuple(one.name for one in pkgutil.iter_modules(__path__) if not one.name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in _MODULES:
        raise unknown_name("labkit.algorithms", name, _MODULES)
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return list(_MODULES)


def _offer_files(problem: Any) -> None:
    """Let the files of a folder be its attributes."""
    files = [one.name for one in pkgutil.iter_modules(problem.__path__) if not one.name.startswith("_")]

    def get(name: str) -> Any:
        if name.startswith("__") or name not in files:
            raise unknown_name(problem.__name__, name, files)
        return importlib.import_module(f"{problem.__name__}.{name}")

    problem._MODULES, problem.__getattr__, problem.__dir__ = tuple(files), get, lambda: files


class _Problems(ModuleType):
    """The package of algorithms: each folder is made an attribute of it when it is imported, by whomever."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _MODULES and hasattr(value, "__path__"):
            _offer_files(value)


sys.modules[__name__].__class__ = _Problems
