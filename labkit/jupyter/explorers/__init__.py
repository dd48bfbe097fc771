"""Interactive explorers, one call each: `topology`, `collective`, `model` and `sorting`.

In a notebook ``lk.explore.topology()``, or ``from labkit.jupyter import explorers``. Each returns a widget
with its controls as attributes: ``explorer.set(name=value)`` moves them from Python too.
"""

from typing import Any

from labkit.errors import unknown_name
from labkit.jupyter.explorers.collective_player import CollectivePlayer, collective
from labkit.jupyter.explorers.model_explorer import ModelExplorer, model
from labkit.jupyter.explorers.sorting_player import SortingPlayer, sorting
from labkit.jupyter.explorers.topology_explorer import TopologyExplorer, topology

__all__ = [
    "CollectivePlayer",
    "ModelExplorer",
    "SortingPlayer",
    "TopologyExplorer",
    "collective",
    "model",
    "sorting",
    "topology",
]

_VERBS = ("collective", "model", "sorting", "topology")


def __getattr__(name: str) -> Any:
    raise unknown_name("labkit.explore", name, _VERBS)


def __dir__() -> list[str]:
    return list(_VERBS)
