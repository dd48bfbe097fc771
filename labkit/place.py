"""Hosts with limits on what real runs can show: a Binder session is one shared core."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.errors import MachineError

__all__ = ["PLACE_VARIABLE", "Place", "check_place", "describe_place", "find_place", "place_doubt"]

#: environment variable that names the place: binder, or none to switch its limits off
PLACE_VARIABLE = "LABKIT_PLACE"

#: what BinderHub, or the Kubernetes around it, sets in a session
_BINDER_VARIABLES = ("BINDER_SERVICE_HOST", "BINDER_LAUNCH_HOST")


@dataclass(frozen=True)
class Place:
    """A place with limits.

    Attributes
    ----------
    name : str
        What it is called.
    most_ranks : int
        Ranks of real MPI that it bears.
    cores : str
        What it has of them, in words.
    idle_minutes : float
        A session without activity ends after so long, and its files with it.
    """

    name: str
    most_ranks: int
    cores: str
    idle_minutes: float


#: one core at most, shared with other sessions; 1 GB of memory for sure and 2 GB at most
BINDER = Place("Binder", 4, "at most one core, shared with strangers", 10.0)

_PLACES = {BINDER.name: BINDER}


def find_place(environment: Mapping[str, str] | None = None) -> Place | None:
    """Find out whether this is a place with limits."""
    environment = os.environ if environment is None else environment
    named = environment.get(PLACE_VARIABLE, "").strip().lower()
    if named:
        return BINDER if named == "binder" else None
    return BINDER if any(environment.get(name) for name in _BINDER_VARIABLES) else None


def check_place(ranks: int, what: str = "ranks of real MPI") -> None:
    """Refuse more real processes than the place bears."""
    place = find_place()
    if place is not None and ranks > place.most_ranks:
        raise MachineError(
            f"{ranks:,} {what} are too many for {place.name}, which has {place.cores}: at most "
            f'{place.most_ranks} are started here; simulate the rest, for example with on="star:{ranks}", or '
            "download your work (labkit.save_work()) and run it where there are more cores"
        )


def describe_place() -> dict[str, str]:
    """Return the place as an entry of a run's `machine`: empty, or ``{"place": "Binder"}``."""
    place = find_place()
    return {} if place is None else {"place": place.name}


def place_doubt(name: str | None = None) -> str | None:
    """Say why wall-clock times of a place allow no verdict."""
    place = find_place() if name is None else _PLACES.get(name)
    if place is None:
        return None
    return (
        f"measured on {place.name}, which has {place.cores}: such wall-clock times allow no verdict; "
        "simulated times do, or run it on a machine of your own"
    )
