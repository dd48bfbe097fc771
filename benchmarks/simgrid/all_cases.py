"""Every case that labkit and SimGrid are compared on."""

from __future__ import annotations

from cases import Case, collectives, mixes, point_to_point
from cores_cases import cores_cases
from matrix_cases import matrix_cases
from model_cases import model_cases
from topology_cases import topology_cases

__all__ = ["all_cases"]


def all_cases() -> list[Case]:
    """Return all of them; no two have the same name."""
    cases = [*point_to_point(), *mixes(), *collectives(), *topology_cases(), *matrix_cases(), *model_cases()]
    cases += cores_cases()
    assert len({case.name for case in cases}) == len(cases)
    return cases
