"""The simulated machine: ranks over the engine, isolated from each other, and how a run can end."""

import importlib
from types import ModuleType

from labkit.moved import current_name

__all__: list[str] = []


def __getattr__(name: str) -> ModuleType:
    """Find what once was here, such as ``labkit.sim.models``, with a warning."""
    old = f"{__name__}.{name}"
    if current_name(old) == old:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(old)
