"""Analytic models: predictions by formulas, to be compared with runs and fits.

Nothing here runs or simulates anything. `labkit.scaling` fits growth to measurements; these are the models of
the literature, with their parameters in seconds and bytes, and models derived from a machine and from the
stated costs of its collectives.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from labkit.models.loggp import LogGP
from labkit.models.speedup import Amdahl, Gustafson, isoefficiency, karp_flatt

if TYPE_CHECKING:
    from labkit.models.derived import FoundMapping, LinkLoads, collective, congestion, message, search_mapping
    from labkit.models.hierarchy import (
        CommunicationModel,
        P,
        S,
        asymptotic,
        bounded,
        dominant,
        exact,
        maximum,
    )


__all__ = [
    "Amdahl", "CommunicationModel", "FoundMapping", "Gustafson", "LinkLoads", "LogGP", "P", "S", "asymptotic",
    "bounded", "collective", "congestion", "dominant", "exact", "isoefficiency", "karp_flatt", "maximum",
    "message", "search_mapping",
]  # fmt: skip

#: loaded when they are used: they need SymPy
_LAZY = {
    **dict.fromkeys(
        ("FoundMapping", "LinkLoads", "collective", "congestion", "message", "search_mapping"), "derived"
    ),
    **dict.fromkeys(
        ("CommunicationModel", "P", "S", "asymptotic", "bounded", "dominant", "exact", "maximum"), "hierarchy"
    ),
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(f"labkit.models.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
