"""MAFIA on points with clusters planted in k dimensions, as in section 4: n = 10^5, d = 20, m = 3."""

from __future__ import annotations

from typing import Any
from unittest import mock

from labkit.algorithms.mafia import mafia as functions
from labkit.datasets.subspaces import planted
from labkit.local.costs import charge
from labkit.program.context import count

__all__ = ["program"]


def program(comm: Any, k: int = 5, n: int = 100_000, gen: str = "right") -> None:
    """Find the clusters; each of the four functions is a phase, and counts its steps."""
    points = planted(comm.rank, comm.size, n=n, d=20, clusters=3, k=k).points
    with mock.patch.object(functions, "gen", _VARIANTS[gen]):
        functions.mafia(comm, points)


def _looks_at_all_parts(comm: Any, units: Any, dimension_of: Any) -> Any:
    """Look at all parts of each unit, not only those of one dimension less: 3^k steps in all."""
    steps = len(units) << units.shape[1]
    charge("merge", 2, steps, 2)
    count("gen_steps", steps)
    return _right_gen(comm, units, dimension_of)


_right_gen = functions.gen
_VARIANTS = {"right": _right_gen, "all parts": _looks_at_all_parts}
