"""Roots of collectives: which rank, or what is wrong with it."""

from __future__ import annotations

from typing import Any

from labkit.checks import echo
from labkit.comm.arguments import whole
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["check_root"]

_ERR_ROOT = 8


def check_root(root: Any, size: int) -> int:
    """Return a root as a whole number."""
    try:
        rank = whole(root)
    except TypeError:
        raise TypeError(f"root={echo(root)} is no rank: give a whole number, 0 to {size - 1}") from None
    if not 0 <= rank < size:
        raise MPIException(
            _ERR_ROOT, f"root={root} is not a rank of this communicator, which has ranks 0 to {size - 1}"
        )
    return rank
