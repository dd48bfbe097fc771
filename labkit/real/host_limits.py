"""Limits of hosts for real runs: a Binder session has one shared core."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.errors import MachineError

__all__ = ["PLACE_VARIABLE", "LimitedHost", "check_place", "describe_place", "find_place", "place_doubt"]

#: environment variable that names the host: binder, or none to turn its limits off
PLACE_VARIABLE = "LABKIT_PLACE"

#: what BinderHub, or the Kubernetes around it, sets in a session
_BINDER_VARIABLES = ("BINDER_SERVICE_HOST", "BINDER_LAUNCH_HOST")


@dataclass(frozen=True)
class LimitedHost:
    """A host with limits: its name, and the largest number of ranks of real MPI.

    `cores` describes its cores in a message; after `idle_minutes` without activity a session ends and its
    files are lost.
    """

    name: str
    most_ranks: int
    cores: str
    idle_minutes: float


#: one core at most, shared with other sessions; 1 GB of memory for sure and 2 GB at most
BINDER = LimitedHost("Binder", 4, "at most one core, shared with other sessions", 10.0)

_PLACES = {BINDER.name: BINDER}


def find_place(environment: Mapping[str, str] | None = None) -> LimitedHost | None:
    """Return the limits of this host, or None."""
    environment = os.environ if environment is None else environment
    named = environment.get(PLACE_VARIABLE, "").strip().lower()
    if named:
        return BINDER if named == "binder" else None
    return BINDER if any(environment.get(name) for name in _BINDER_VARIABLES) else None


def check_place(ranks: int, what: str = "ranks of real MPI") -> None:
    """Refuse more real processes than the host supports."""
    place = find_place()
    if place is not None and ranks > place.most_ranks:
        raise MachineError(
            f"{ranks:,} {what} are too many for {place.name}, which has {place.cores}: at most "
            f'{place.most_ranks} are started here; simulate more, for example with on="star:{ranks}", or '
            "download your work (labkit.save_work()) and run it where there are more cores",
            code="too-many-ranks",
        )


def describe_place() -> dict[str, str]:
    """Return the host as an entry of a run's `machine`: empty, or ``{"place": "Binder"}``."""
    place = find_place()
    return {} if place is None else {"place": place.name}


def place_doubt(name: str | None = None) -> str | None:
    """Return why wall-clock times of a limited host allow no verdict, or None."""
    place = find_place() if name is None else _PLACES.get(name)
    if place is None:
        return None
    return (
        f"measured on {place.name}, which has {place.cores}: such wall-clock times allow no verdict; "
        "use simulated times, or run it on another machine"
    )
