"""Explorers: pictures with controls, one call each.

    topology    a machine: routes, links, diameter, bisection, and what makes links hot
    collective  a collective, round by round: who sends what to whom, and what each rank then holds
    schedule    the same of a custom schedule, or of a synthesized one
    sorting     a parallel sort, phase by phase: keys, splitters, exchanges, balance
    messages    a recorded run, message by message
    waits       where the time of a run went: metrics, call paths, machine
    model       measurements to be dragged, and what becomes of the verdict
    vary        a function's figure, drawn again whenever a slider is moved

In a notebook ``lk.explore.topology()``. Each returns a widget with its controls as attributes:
``explorer.set(name=value)`` moves them from Python too. Each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from labkit.errors import unknown_name
from labkit.plot.subject import asks_for_its_subject

if TYPE_CHECKING:
    from labkit.jupyter.explorers.collective_player import CollectivePlayer as CollectivePlayer
    from labkit.jupyter.explorers.collective_player import SchedulePlayer as SchedulePlayer
    from labkit.jupyter.explorers.collective_player import collective as collective
    from labkit.jupyter.explorers.collective_player import schedule as schedule
    from labkit.jupyter.explorers.messages_player import MessagePlayer as MessagePlayer
    from labkit.jupyter.explorers.messages_player import messages as messages
    from labkit.jupyter.explorers.model_explorer import ModelExplorer as ModelExplorer
    from labkit.jupyter.explorers.model_explorer import model as model
    from labkit.jupyter.explorers.sorting_player import SortingPlayer as SortingPlayer
    from labkit.jupyter.explorers.sorting_player import sorting as sorting
    from labkit.jupyter.explorers.topology_explorer import TopologyExplorer as TopologyExplorer
    from labkit.jupyter.explorers.topology_explorer import topology as topology
    from labkit.jupyter.explorers.vary_explorer import Varied as Varied
    from labkit.jupyter.explorers.vary_explorer import vary as vary
    from labkit.jupyter.explorers.waits_explorer import WaitsExplorer as WaitsExplorer
    from labkit.jupyter.explorers.waits_explorer import waits as waits

_HOMES = {
    "collective": "collective_player",
    "CollectivePlayer": "collective_player",
    "messages": "messages_player",
    "MessagePlayer": "messages_player",
    "model": "model_explorer",
    "ModelExplorer": "model_explorer",
    "schedule": "collective_player",
    "SchedulePlayer": "collective_player",
    "sorting": "sorting_player",
    "SortingPlayer": "sorting_player",
    "topology": "topology_explorer",
    "TopologyExplorer": "topology_explorer",
    "vary": "vary_explorer",
    "Varied": "vary_explorer",
    "waits": "waits_explorer",
    "WaitsExplorer": "waits_explorer",
}
_VERBS = ("collective", "messages", "model", "schedule", "sorting", "topology", "vary", "waits")

__all__ = [
    "CollectivePlayer",
    "MessagePlayer",
    "ModelExplorer",
    "SchedulePlayer",
    "SortingPlayer",
    "TopologyExplorer",
    "Varied",
    "WaitsExplorer",
    "collective",
    "messages",
    "model",
    "schedule",
    "sorting",
    "topology",
    "vary",
    "waits",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        is_collective = name in importlib.import_module("labkit.schedule").PROBLEMS
        instead = {name: f'labkit.explore.collective("{name}")'} if is_collective else {}
        raise unknown_name("labkit.explore", name, _VERBS, instead)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    value = asks_for_its_subject(value, f"labkit.explore.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(_VERBS)
